"""Monte Carlo dropout (Gal and Ghahramani, 2016): training with dropped inputs of layers, as inference over weights.

    q(W) = M diag(z),    z_i = b_i / (1 - rate),  b_i ~ Bernoulli(1 - rate)    one for each input unit or channel i

So E W = M, and a draw of the posterior is a draw of weights: one mask for all rows, where ordinary Monte Carlo dropout
drops anew for each. What is predicted for a single row has the same law in both.

minimise per datum    -E_z[log p(y | x, M diag(z))] + (temperature / N) sum_j c_j M_j^2 / (2 (1 - rate)).

The last term is -E_q[log p(W)] of normal priors with precisions c, since E w^2 = M^2 / (1 - rate). The authors' mask
is b and their penalty (1 - rate) c M^2 / 2: the same, as their M is ours / (1 - rate). The entropy of q does not depend
on M. In training every row has masks of its own at plain Linear and Conv layers; other layers, and tied weights, have
one mask a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from r2d2net.errors import Argument, ParameterError, require
from r2d2net.frozen_parts import copy_sharing
from r2d2net.inference.base import Draws
from r2d2net.inference.descent import Training, require_share
from r2d2net.inference.layer_inputs import InputAxis, input_axes, plain_layers
from r2d2net.inference.point import Point, PointDraw, PointState
from r2d2net.inference.scale_updates import Known
from r2d2net.model import BayesianModel, Tensors


@dataclass(frozen=True, kw_only=True)
class MCDropout(Training):
    """Monte Carlo dropout; the other arguments are those of `Training`, the priors those of `MAP`.

    Dropped are the inputs of Linear, convolutional, recurrent and attention layers whose weights have a prior. Other
    weights are points, as in MAP: embeddings, which have no inputs to drop, and parameters outside torch's layers.
    Dropout layers that the network has itself drop in training and not in prediction, as with every algorithm.

    Args:
        rate: Probability with which an input is dropped.
        inputs: Whether the network's own inputs are dropped too: those of the first layer that it lists.
    """

    suits_every_prior = False

    rate: float = 0.2
    inputs: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_share("rate", self.rate, "use a number between 0 and 1, such as 0.2", ends=False)
        require(isinstance(self.inputs, bool), "inputs", self.inputs, "use True or False")

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> Dropout:
        return Dropout(self, model, n=n, steps=steps)


class Dropout(Point):
    """Monte Carlo dropout bound to a model."""

    def __init__(self, settings: MCDropout, model: BayesianModel[Any], *, n: int, steps: int) -> None:
        super().__init__(settings, model, n=n, steps=steps)
        self.dropped = input_axes(model, first=settings.inputs)
        if not self.dropped:
            if input_axes(model, first=True):
                raise ParameterError(
                    "has nothing to drop but the network's inputs",
                    argument="algorithm",
                    value=MCDropout,
                    fix=("use ", Argument("inputs", True)),
                )
            kinds = "Linear, convolutional, recurrent or attention"
            fix = f"give weights of a {kinds} layer a prior, or use MAP"
            raise ParameterError("has nothing to drop", argument="algorithm", value=MCDropout, fix=fix)
        self.rate = settings.rate
        self.inflation = torch.ones_like(model.he_scale())  # E z^2
        for weight in self.dropped:
            weight.slot.of(self.inflation).fill_(1 / (1 - settings.rate))
        self._generator: torch.Generator | None = None
        self._masks: dict[tuple[nn.Module, tuple[int, ...]], Tensor] = {}  # of the forward pass under way
        self._net = copy_sharing(model.net, model.frozen)
        plain = plain_layers(self._net)
        for weight in self.dropped:
            if weight.slot.name in plain:
                plain[weight.slot.name].register_forward_pre_hook(self._drop_input)
        self._on_weights = [weight for weight in self.dropped if weight.slot.name not in plain]

    # --- training

    def forward(self, parameters: Tensors, buffers: Tensors, x: Any, generator: torch.Generator) -> Tensor:
        """Compute the output with one mask for each row in plain layers and one for the batch in all others."""
        named = dict(parameters)
        for weight in self._on_weights:
            mask = weight.on_weights(dropout_mask(self.inflation, self.rate, generator, 1, weight.units))[0]
            named[weight.slot.name] = named[weight.slot.name] * mask
        self._generator = generator
        self._masks.clear()
        self.model.train(self._net)
        output = self.model.call(self._net, {**named, **buffers}, x)
        self._masks.clear()
        return output

    def _drop_input(self, layer: Any, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Drop inputs of a plain layer (a hook); positions of a row share their mask, as they share W."""
        x, *others = arguments
        shape = [1] * x.dim()
        channels = x.dim() + 1 - layer.weight.dim()
        shape[channels], shape[0] = x.shape[channels], x.shape[0]
        key = layer, tuple(shape)
        if key not in self._masks:  # a layer that is used twice in a pass has one W
            self._masks[key] = dropout_mask(self.inflation, self.rate, self._generator, *shape)
        return x * self._masks[key].to(x.dtype), *others

    def refresh_scales(self, state: PointState, generator: torch.Generator) -> None:
        """Refresh the scales given E w^2 = M^2 E z^2, and the precision of the penalty on M."""
        known = Known(state.mean * self.inflation.sqrt())
        self.scales.refresh(state.scales, state.precision, known, generator)
        state.precision.mul_(self.inflation)

    def source(self, state: PointState) -> DroppedWeights:
        return DroppedWeights(self.model, state, self.dropped, self.rate)


class DroppedWeights(PointDraw):
    """Networks with randomly dropped inputs of layers, one mask for all rows."""

    def __init__(self, model: BayesianModel[Any], state: PointState, dropped: Sequence[InputAxis], rate: float) -> None:
        super().__init__(model, state)
        self.dropped, self.rate = dropped, rate

    def draws(self, n: int, generator: torch.Generator | None = None, at_once: int | None = None) -> Iterator[Draws]:
        state, size = self.state, n if at_once is None else at_once
        for start in range(0, n, size):
            count = min(size, n - start)
            weights = state.mean.repeat(count, 1)
            for weight in self.dropped:
                mask = dropout_mask(weights, self.rate, generator, count, weight.units)
                weight.slot.of(weights).mul_(weight.on_weights(mask))
            yield Draws.sharing(weights, state.fixed, state.buffers, state.noise)

    @property
    def available(self) -> int | None:
        return None


def dropout_mask(like: Tensor, rate: float, generator: torch.Generator | None, *shape: int) -> Tensor:
    """Draw z: zero with probability ``rate``, else 1 / (1 - rate)."""
    mask = torch.empty(shape, dtype=like.dtype, device=like.device)
    return mask.bernoulli_(1 - rate, generator=generator).div_(1 - rate)
