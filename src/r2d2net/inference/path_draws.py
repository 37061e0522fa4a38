"""The posterior of a linear path fitted first: stored draws of A, each with a fresh draw of f from q.

y = A_k x + f_w(x) + e,      k uniform over the stored draws,   w_j ~ N(mu_j, s_j^2),   e ~ N(0, sigma_k^2)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import CheckpointError, Shown, Value
from r2d2net.inference.base import Draws, DrawSource, part
from r2d2net.inference.path_parts import Parts
from r2d2net.likelihoods.base import Noise
from r2d2net.model import BayesianModel, Tensors


class PathState(NamedTuple):
    """What the draws are made of.

    Attributes:
        step: Number of epochs, an int64 scalar on the CPU.
        path: Draws of A, (draws, weights of A).
        mean: Means of the weights of f, (weights of f,).
        deviation: Their standard deviations.
        fixed: Deterministic parameters.
        buffers: Buffers by name.
        noise: Noise variance of each draw of A, (draws, outputs).
    """

    step: Tensor
    path: Tensor
    mean: Tensor
    deviation: Tensor
    fixed: Tensor
    buffers: Tensors
    noise: Noise


class PathDraws(DrawSource[PathState]):
    """Draws of A and of f, independent of each other.

    Args:
        model: The model.
        parts: Its two parts.
        state: What the draws are made of.
    """

    def __init__(self, model: BayesianModel[Any], parts: Parts, state: PathState) -> None:
        super().__init__(model, state)
        self.parts = parts

    @classmethod
    def read(cls, model: BayesianModel[Any], parts: Parts, saved: Tensors) -> PathDraws:
        """Rebuild the source from the tensors of a file.

        Args:
            model: The model.
            parts: Its two parts.
            saved: Tensors by name.

        Returns:
            The source.

        Raises:
            CheckpointError: If the tensors are of another model or algorithm.
        """
        fix = "it was made for another net or algorithm"
        try:
            step, path, mean, deviation, fixed = (saved[k] for k in ("step", "path", "mean", "deviation", "fixed"))
            variance = saved["noise/variance"]
        except KeyError as error:
            raise CheckpointError(f"the saved run lacks {error}", fix=fix) from error
        width = parts.beside.size
        sizes = {"path": (path, (len(path), model.size - width)), "mean": (mean, (width,))}
        sizes |= {"deviation": (deviation, (width,)), "fixed": (fixed, (model.fixed_size,))}
        for name, (tensor, shape) in sizes.items():
            if tuple(tensor.shape) != shape or tensor.dtype != model.dtype:
                held = Shown(f"{tuple(tensor.shape)} {tensor.dtype}")
                raise CheckpointError((f"the saved run holds {name!r} as ", Value(held)), fix=fix)
        buffers, own = part(saved, "buffers/"), model.buffers()
        if {k: v.shape for k, v in buffers.items()} != {k: v.shape for k, v in own.items()}:
            raise CheckpointError("the saved run's buffers are not those of this net", fix=fix)
        device = model.device
        path, mean, deviation, fixed, variance = (t.to(device) for t in (path, mean, deviation, fixed, variance))
        buffers = {name: buffers[name].to(device) for name in own}
        return cls(model, parts, PathState(step, path, mean, deviation, fixed, buffers, {"variance": variance}))

    def draws(self, n: int, generator: torch.Generator | None = None, at_once: int | None = None) -> Iterator[Draws]:
        """Draw f from q, and take draws of A evenly spaced over those stored, from a random offset."""
        state, total = self.state, len(self.state.path)
        offset = torch.rand((), generator=generator, device=state.path.device).double().cpu()
        index = ((torch.arange(n, dtype=torch.float64) + offset) * (total / n)).long().clamp(max=total - 1)
        for chunk in index.to(state.path.device).split(n if at_once is None else at_once):
            beside = torch.empty(len(chunk), len(state.mean), dtype=state.mean.dtype, device=state.mean.device)
            beside.normal_(generator=generator).mul_(state.deviation).add_(state.mean)
            drawn = Draws.sharing(self.parts.join(state.path[chunk], beside), state.fixed, state.buffers, {})
            yield drawn._replace(noise={name: tensor[chunk] for name, tensor in state.noise.items()})

    def center(self) -> Draws:
        state = self.state
        weights = self.parts.join(state.path.mean(0, keepdim=True), state.mean[None])
        noise = {name: tensor.mean(0) for name, tensor in state.noise.items()}
        return Draws.sharing(weights, state.fixed, state.buffers, noise)
