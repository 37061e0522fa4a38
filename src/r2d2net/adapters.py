"""Low-rank adapters of a pretrained network (LoRA; Hu et al., 2022), whose shrinkage decides which layers change.

    y = W x + b + (scale / rank) U D x,      D: (rank, inputs) as torch makes it,  U: (outputs, rank) zero

W and b are frozen. Where U or D is zero the layer is the pretrained one, so a prior that shrinks to zero keeps it
unless the data say otherwise.

    net = rn.adapters.lora(pretrained, rank=4, train=["head.*"])
    posterior = rn.fit(rn.BayesianModel(net, likelihood=...), data)
    rn.adapters.changes(posterior)            # how much each layer changed
    plain = rn.adapters.merged(net, next(posterior.state_dicts(1)))
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from r2d2net.errors import ParameterError, Value, require, require_whole
from r2d2net.frozen_parts import copy_sharing
from r2d2net.model import require_module
from r2d2net.posterior import Posterior

__all__ = ["AdaptedLinear", "Change", "changes", "lora", "merged"]


class AdaptedLinear(nn.Module):
    """A frozen linear layer with a low-rank adapter beside it.

    Args:
        base: The layer.
        rank: Rank of the adapter.
        scale: Factor of the adapter's output, divided by the rank.
    """

    def __init__(self, base: nn.Linear, rank: int, scale: float) -> None:
        super().__init__()
        place: dict[str, Any] = {"device": base.weight.device, "dtype": base.weight.dtype}
        if base.weight.dtype not in (torch.float32, torch.float64):
            place["dtype"] = torch.float32
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False, **place)
        self.up = nn.Linear(rank, base.out_features, bias=False, **place)
        nn.init.zeros_(self.up.weight)
        self.factor = scale / rank
        self.in_features, self.out_features = base.in_features, base.out_features

    def forward(self, x: Tensor) -> Tensor:
        change = self.up(self.down(x.to(self.down.weight.dtype)))
        return self.base(x) + (self.factor * change).to(x.dtype)

    @property
    def change(self) -> Tensor:
        """What the adapter adds to the weights."""
        return self.factor * (self.up.weight @ self.down.weight)

    @property
    def weight(self) -> Tensor:
        """The weights with the adapter, which fused code of torch reads past the layer."""
        return self.base.weight + self.change.to(self.base.weight.dtype)

    @property
    def bias(self) -> Tensor | None:
        """The bias, which has no adapter."""
        return self.base.bias


class Change(NamedTuple):
    """How much the weights of a layer changed: the norm of the change over that of the pretrained weights.

    Attributes:
        mean: Posterior mean.
        low, high: Ends of the central 90% interval.
    """

    mean: float
    low: float
    high: float


def lora(
    net: nn.Module,
    rank: int = 4,
    *,
    layers: str | Sequence[str] = "*",
    train: str | Sequence[str] = (),
    scale: float | None = None,
) -> nn.Module:
    """Copy a network with adapters on its linear layers; everything else is frozen, and shares the network's memory.

    Args:
        net: The pretrained network, which is not changed.
        rank: Rank of the adapters.
        layers: Patterns of the names of linear layers that get adapters; all by default, but for those that ``train``
            names.
        train: Patterns of the names of parameters that are learnt as they are, such as those of a new head.
        scale: LoRA's alpha, by which outputs of adapters are multiplied and which is divided by the rank; the rank by
            default, for a factor of 1.

    Returns:
        The network with adapters, equal to the given one until it is trained.

    Raises:
        ParameterError: If a pattern matches nothing, or an argument is out of range.

    Example:
        >>> net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
        >>> [name for name, p in lora(net, 2, train="2.*").named_parameters() if p.requires_grad]
        ['0.down.weight', '0.up.weight', '2.weight', '2.bias']
    """
    require_module(net)
    require_whole("rank", rank)
    factor = float(rank) if scale is None else scale
    is_number = isinstance(factor, float | int) and not isinstance(factor, bool) and factor > 0
    require(is_number, "scale", scale, "use a positive number")
    given = {"layers": (layers,) if isinstance(layers, str) else tuple(layers)}
    given["train"] = (train,) if isinstance(train, str) else tuple(train)
    names = [name for name, _ in net.named_parameters()]
    learnt = [name for name in names if _matches(name, given["train"])]
    adapted = copy_sharing(net, set(names) - set(learnt))
    for name, parameter in adapted.named_parameters():
        parameter.requires_grad_(name in learnt)
    linear = [name for name, module in adapted.named_modules() if type(module) is nn.Linear]
    linear = [name for name in linear if not any(own.startswith(f"{name}.") for own in learnt)]
    chosen = [name for name in linear if _matches(name, given["layers"])]
    for argument, known in (("layers", linear), ("train", names)):
        for pattern in given[argument]:
            if not any(fnmatchcase(name, pattern) for name in known):
                what = "linear layer" if argument == "layers" else "parameter"
                shown = ", ".join(known[:6]) + (", ..." if len(known) > 6 else "") if known else "none"
                problem = (": pattern ", Value(pattern), f" matches no {what}")
                raise ParameterError(problem, argument=argument, fix=f"there are {shown}")
    if "" in chosen:
        return AdaptedLinear(adapted.get_submodule(""), rank, factor)  # type: ignore[arg-type]
    for name in chosen:
        adapted.set_submodule(name, AdaptedLinear(adapted.get_submodule(name), rank, factor))  # type: ignore[arg-type]
    return adapted


def merged(net: nn.Module, state: Mapping[str, Tensor] | None = None) -> nn.Module:
    """Copy a network with adapters as the plain network, with the changes added to the weights.

    Args:
        net: The network, as `lora` makes it.
        state: A state dict of it, such as a draw of a posterior; its own values by default.

    Returns:
        The network without adapters.
    """
    require_module(net)
    plain = copy.deepcopy(net)
    if state is not None:
        plain.load_state_dict(dict(state))
    for name, module in list(plain.named_modules()):
        if isinstance(module, AdaptedLinear):
            with torch.no_grad():
                module.base.weight.copy_(module.weight)
            if not name:
                return module.base
            plain.set_submodule(name, module.base)
    return plain


@torch.no_grad()
def changes(posterior: Posterior[Any], draws: int = 100, *, seed: int = 0) -> dict[str, Change]:
    """Measure how much each adapted layer changed.

    Args:
        posterior: Posterior of a network with adapters.
        draws: Number of draws; a posterior of stored draws uses each at most once.
        seed: Seed of the draws.

    Returns:
        |change| / |pretrained weights|, in Frobenius norms, by the names of the layers.

    Raises:
        ParameterError: If the network has no adapters.
    """
    require_whole("draws", draws)
    layers = {name: m for name, m in posterior.model.net.named_modules() if isinstance(m, AdaptedLinear)}
    if not layers:
        raise ParameterError("is of a network without adapters", argument="posterior", fix="make it by adapters.lora")
    available = posterior.source.available
    shares: dict[str, list[float]] = {name: [] for name in layers}
    for state in posterior.state_dicts(draws if available is None else min(draws, available), seed=seed):
        for name, layer in layers.items():
            prefix = f"{name}." if name else ""
            change = layer.factor * (state[f"{prefix}up.weight"] @ state[f"{prefix}down.weight"])
            shares[name].append(float(change.norm() / layer.base.weight.float().norm().clamp(min=1e-30)))
    found = {name: torch.tensor(values) for name, values in shares.items()}
    return {
        name: Change(float(v.mean()), float(v.quantile(0.05)), float(v.quantile(0.95))) for name, v in found.items()
    }


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
