"""A network and its posterior without some of their units: every tensor keeps the entries of the units that stay.

The state of a posterior is cut as it would be saved, tensor by tensor, and read again for the smaller network: so what
is left of a weight is what it was, mean, deviation, scales and draws.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from r2d2net.errors import ParameterError, Shown
from r2d2net.inference.base import flatten
from r2d2net.model import BayesianModel, Slot
from r2d2net.nets.narrow_attention import NarrowAttention
from r2d2net.nets.selected_linear import SelectedLinear
from r2d2net.posterior import Posterior
from r2d2net.shrinkage.network_units import CONVOLUTIONS, LINEAR
from r2d2net.specification import describe_model, method_from, network_text

Kept = dict[str, dict[int, Tensor]]  # name of a tensor -> dimension -> places of the entries that stay
OF_WEIGHTS = ("mean", "rho", "precision", "weights", "keep", "moments/mean/", "moments/rho/")
OF_FIXED = ("fixed", "moments/fixed/")
OF_THE_RUN = ("step", "noise/", "divergences")


class Selection(NamedTuple):
    """Inputs of a linear layer that it reads, where not all that reach it do.

    Attributes:
        places: Their places among those that reach it.
        reaching: Number of those that reach it.
    """

    places: Tensor
    reaching: int


def cut_network(net: nn.Module, kept: Kept, selected: Mapping[str, Selection]) -> nn.Module:
    """Copy a network with fewer entries in its tensors.

    Args:
        net: The network.
        kept: The entries of its parameters and buffers that stay.
        selected: Linear layers that read some of their inputs.

    Returns:
        The smaller network, in evaluation mode.
    """
    small = copy.deepcopy(net)
    for name, module in list(small.named_modules()):
        for own, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            dims = kept.get(f"{name}.{own}".lstrip("."))
            if dims:
                value = cut_tensor(tensor.detach(), dims)
                if isinstance(tensor, nn.Parameter):
                    setattr(module, own, nn.Parameter(value, requires_grad=tensor.requires_grad))
                else:
                    setattr(module, own, value)
        resize(module)
    for name, module in list(small.named_modules()):
        weight = module.in_proj_weight if isinstance(module, nn.MultiheadAttention) else None
        if weight is not None and weight.shape[0] != 3 * module.embed_dim:
            small = _with_module(small, name, NarrowAttention.like(module))
    _without_nested_tensors(small)
    for name, selection in selected.items():
        old = small.get_submodule(name)
        new = SelectedLinear(selection.places, selection.reaching, old.out_features, old.bias is not None)  # type: ignore
        new.weight, new.bias = old.weight, old.bias  # type: ignore[assignment]
        new.kept = new.kept.to(old.weight.device)  # type: ignore[arg-type]
        small = _with_module(small, name, new)
    return small.eval()


def _without_nested_tensors(net: nn.Module) -> None:
    """Let encoders with narrow attention take padded rows as they are: only torch's own attention takes them nested."""
    for module in net.modules():
        if isinstance(module, nn.TransformerEncoder) and any(isinstance(m, NarrowAttention) for m in module.modules()):
            module.enable_nested_tensor = module.use_nested_tensor = False


def with_padding_as_in(whole: nn.Module, small: nn.Module) -> None:
    """Let the encoders of a whole network take padded rows as those of the smaller one do.

    Nested tensors make the outputs of padded places zero, in evaluation alone; without them they are numbers.

    Args:
        whole: The network before the cut, changed in place.
        small: The smaller network.
    """
    own = dict(small.named_modules())
    for name, module in whole.named_modules():
        if isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = own[name].use_nested_tensor


def _with_module(net: nn.Module, name: str, module: nn.Module) -> nn.Module:
    if not name:
        return module
    parent, _, own = name.rpartition(".")
    setattr(net.get_submodule(parent), own, module)
    return net


def resize(module: nn.Module) -> None:
    """Set the sizes that a layer has as attributes to those of its tensors.

    Args:
        module: The layer, changed in place.
    """
    changed: Any = module
    weight = getattr(module, "weight", None)
    if isinstance(module, LINEAR):
        changed.out_features, changed.in_features = weight.shape  # type: ignore[union-attr]
    elif isinstance(module, CONVOLUTIONS):
        depthwise = changed.groups == changed.in_channels == changed.out_channels > 1
        changed.out_channels = weight.shape[0]  # type: ignore[union-attr]
        changed.groups = changed.out_channels if depthwise else changed.groups
        changed.in_channels = weight.shape[1] * changed.groups  # type: ignore[union-attr]
    elif isinstance(module, nn.Embedding):
        changed.embedding_dim = weight.shape[1]  # type: ignore[union-attr]
    elif isinstance(module, nn.modules.batchnorm._BatchNorm):
        sizes = [t for t in (module.running_mean, module.weight) if t is not None]
        changed.num_features = len(sizes[0]) if sizes else changed.num_features


def cut_tensor(tensor: Tensor, dims: Mapping[int, Tensor], skip: int = 0) -> Tensor:
    """Return the entries of a tensor that stay.

    Args:
        tensor: The tensor.
        dims: The places that stay along dimensions.
        skip: Number of dimensions in front that are not counted.

    Returns:
        The smaller tensor.
    """
    for dim, places in dims.items():
        tensor = tensor.index_select(dim + skip, places.to(tensor.device))
    return tensor.contiguous()


def cut_posterior(posterior: Posterior[Any], kept: Kept, selected: Mapping[str, Selection]) -> Posterior[Any]:
    """Build the posterior of the smaller network.

    Args:
        posterior: The posterior, which `fit` made.
        kept: The entries of parameters and buffers that stay.
        selected: Linear layers that read some of their inputs.

    Returns:
        The posterior of the smaller network; intervals calibrated for the whole one are left out.

    Raises:
        ParameterError: If the posterior is of an algorithm whose state is not known here.
    """
    old = posterior.model
    net = cut_network(old.net, kept, selected)
    shapes_left = {name: parameter.shape for name, parameter in net.named_parameters()}
    priors = {
        _escaped(slot.name): None if slot.prior is None else slot.prior.smaller(shapes_left[slot.name])
        for slot in (*old.bayesian, *old.fixed)
    }
    frozen = [_escaped(name) for name in old.frozen]
    model: BayesianModel[Any] = BayesianModel(net, priors, old.likelihood, frozen=frozen)
    weights, fixed = _places(old.bayesian, kept), _places(old.fixed, kept)
    shapes = {slot.name: slot.shape for slot in old.bayesian}
    state: dict[str, Tensor] = {}
    extra = {f"{name}.kept".lstrip("."): selection.places for name, selection in selected.items()}
    for key, tensor in flatten(posterior.state).items():
        outer = "inner/" * key.count("inner/")
        name = key.removeprefix(outer)
        if name.startswith("buffers/"):
            buffer = name.removeprefix("buffers/")
            own = extra.pop(buffer, None)  # of a layer that had selected its inputs before
            skip = tensor.dim() - _dim_of(old, buffer)
            state[key] = cut_tensor(tensor, kept.get(buffer, {}), skip)
            if own is not None:
                state[key] = own.to(tensor).expand(*tensor.shape[:skip], len(own)).clone()
        elif name.startswith("scales/"):
            parameter = name.split("/")[1]
            state[key] = _cut_scale(tensor, shapes[parameter], kept.get(parameter, {}))
        elif _is(name, OF_WEIGHTS):
            state[key] = tensor.index_select(-1, weights.to(tensor.device))
        elif _is(name, OF_FIXED):
            state[key] = tensor.index_select(-1, fixed.to(tensor.device))
        elif _is(name, OF_THE_RUN):
            state[key] = tensor
        else:
            algorithm = Shown(str(posterior.settings["algorithm"]["type"]))
            fix = "use SVGI, CAVI, SVI, MFVI, MAP or a sampler"
            raise ParameterError("keeps more than weights, which units cannot leave", value=algorithm, fix=fix)
    prefix, lead = _of_buffers(posterior.state)
    for buffer, places in extra.items():
        state[f"{prefix}buffers/{buffer}"] = places.expand(*lead, len(places)).clone()
    settings = {**posterior.settings, "model": describe_model(model), "network": network_text(model)}
    method = method_from(settings["algorithm"])
    steps = settings["epochs"] * settings["batches"]
    small = copy.copy(posterior)
    small.source = method.read(state, model, n=settings["n"], steps=steps)
    small.settings, small.calibration = settings, None
    center = small.source.center()
    tensors = {name: buffer[0] for name, buffer in center.buffers.items()}
    model.net.load_state_dict(model.state_dict(center.weights[0], center.fixed[0], tensors))
    return small


def _escaped(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


def _is(name: str, known: tuple[str, ...]) -> bool:
    return any(name.startswith(one) if one.endswith("/") else name == one for one in known)


def _places(slots: tuple[Slot, ...], kept: Kept) -> Tensor:
    """Return the places in a flat vector that stay."""
    parts = [
        cut_tensor(torch.arange(slot.start, slot.stop).view(slot.shape), kept.get(slot.name, {})).reshape(-1)
        for slot in slots
    ]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.int64)


def _cut_scale(tensor: Tensor, shape: torch.Size, dims: Mapping[int, Tensor]) -> Tensor:
    """Cut a scale of the shape of the weights, or of size 1 in some of its dimensions; leave others as they are."""
    fits = tensor.dim() == len(shape) and all(a in (1, b) for a, b in zip(tensor.shape, shape, strict=True))
    return cut_tensor(tensor, {d: places for d, places in dims.items() if tensor.shape[d] > 1}) if fits else tensor


def _dim_of(model: BayesianModel[Any], name: str) -> int:
    return {**dict(model.net.named_buffers()), **dict(model.net.named_parameters())}[name].dim()


def _of_buffers(state: Any, prefix: str = "") -> tuple[str, tuple[int, ...]]:
    """Return the prefix of the names of buffers in a state, and the dimensions of draws in front of them."""
    if hasattr(state, "inner"):
        return _of_buffers(state.inner, f"{prefix}inner/")
    weights = getattr(state, "weights", None)
    return prefix, () if weights is None else tuple(weights.shape[:-1])
