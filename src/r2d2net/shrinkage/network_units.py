"""The units of a network, and which parameters belong to each: found by tracing it.

A unit is an output of a linear layer, a channel of a convolution, a dimension of an embedding or a head of attention.
It has numbers of its own in the layers that make it and in all that take it. `torch.fx` gives the graph of the network;
every tensor in it is followed by a tensor of the same shape that holds, for each entry, the number of its unit.
Operations that only move entries (flatten, permute, concatenate, slice) move the numbers as well, elementwise ones keep
them, additions make the units of their operands one. Units that reach what is not known here are kept, with the reason.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn

from r2d2net.errors import ParameterError
from r2d2net.nets.narrow_attention import NarrowAttention
from r2d2net.nets.selected_linear import SelectedLinear
from r2d2net.shrinkage.attention_units import (
    ATTENTION,
    ENCODERS,
    attention_problem,
    encoder_units,
    heads_of,
    heads_that_stay,
    mask_of,
)
from r2d2net.shrinkage.unit_places import ZERO_AT_ZERO, Place, Units

LINEAR = (nn.Linear, SelectedLinear)
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
ELEMENTWISE = (nn.Softplus, nn.Sigmoid, nn.LogSigmoid, nn.Hardsigmoid)
POOLS = tuple(
    getattr(nn, f"{kind}Pool{d}d") for kind in ("Max", "Avg", "AdaptiveMax", "AdaptiveAvg") for d in (1, 2, 3)
)
_NAMES_AT_ZERO = (
    "relu relu6 leaky_relu tanh gelu silu elu selu celu mish hardswish hardtanh softsign dropout dropout1d dropout2d "
    "dropout3d abs neg sin sqrt square contiguous clone detach float double relu_ tanh_ dropout_"
)
_NAMES_ELSEWHERE = "softplus sigmoid logsigmoid exp log cos clamp sigmoid_ hardsigmoid"
_POOL_NAMES = {f"{kind}_pool{d}d" for kind in ("max", "avg", "adaptive_max", "adaptive_avg") for d in (1, 2, 3)}
MOVING = {"flatten", "permute", "transpose", "squeeze", "unsqueeze", "reshape", "view", "cat", "concat", "chunk"}
MOVING |= {"split", "movedim", "swapaxes", "getitem"}
SUMMING = {"add", "sub", "iadd", "isub", "mul", "imul", "truediv", "maximum", "minimum"}
REDUCING = {"mean", "sum", "amax", "amin"}


class _Leaves(fx.Tracer):
    """A tracer that does not look into layers of this package."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, (SelectedLinear, NarrowAttention)) or super().is_leaf_module(m, module_qualified_name)


def units_of(net: nn.Module, x: Any) -> Units:
    """Trace a network.

    Args:
        net: The network.
        x: A few rows of its inputs, as it takes them; a tuple for several inputs.

    Returns:
        Its units.

    Raises:
        ParameterError: If the network cannot be traced.
    """
    try:
        graph = _Leaves().trace(net)
    except Exception as error:  # whatever a network's own code raises for a symbol in place of a tensor
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        fix = "write its forward without branches on values, or remove weights by prune"
        raise ParameterError(f"cannot be traced by torch.fx: {reason}", argument="net", fix=fix) from error
    walk = _Walk(fx.GraphModule(net, graph), Units())
    walk.lock_shared(net)
    with torch.no_grad():
        walk.run(*(x if isinstance(x, tuple) else (x,)))
    return walk.units


class _Walk(fx.Interpreter):
    """Runs a graph; ``_ids`` holds for each node the units of its entries, as far as they are known."""

    def __init__(self, module: fx.GraphModule, units: Units) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.units = units
        self._ids: dict[fx.Node, Any] = {}
        self._modules = dict(module.named_modules())
        self._calls: dict[str, int] = {}
        for node in module.graph.nodes:
            if node.op == "call_module":
                self._calls[node.target] = self._calls.get(node.target, 0) + 1
        self._shared: set[str] = set()

    def lock_shared(self, net: nn.Module) -> None:
        """Note the layers that have a parameter in common with another."""
        owners: dict[int, list[str]] = {}
        for name, parameter in net.named_parameters(remove_duplicate=False):
            owners.setdefault(id(parameter), []).append(name.rpartition(".")[0])
        self._shared = {name for names in owners.values() if len(names) > 1 for name in names}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        self._ids[n] = self._followed(n, result)
        return result

    # --- what becomes of the units of a node's inputs

    def _followed(self, node: fx.Node, result: Any) -> Any:
        if node.op == "placeholder":
            return self._of_input(result)
        if node.op == "output":
            self._lock_inputs(node, "the network's outputs")
            return None
        if node.op == "get_attr":
            return None
        if node.op == "call_module":
            return self._of_module(node, result)
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        return self._of_function(node, name.removeprefix("__").removesuffix("__"), result)

    def _of_input(self, result: Any) -> Tensor | None:
        if not isinstance(result, Tensor) or result.dim() < 2 or not result.is_floating_point():
            return None
        dim = 1
        ids = self.units.new(result.shape[dim])
        self.units.lock(ids, "the network's inputs")
        return _spread(ids, dim, result.shape)

    def _of_module(self, node: fx.Node, result: Any) -> Any:
        name, module = str(node.target), self._modules[str(node.target)]
        ids = self._ids.get(node.args[0]) if node.args and isinstance(node.args[0], fx.Node) else None
        if isinstance(module, ENCODERS):
            return self._of_encoder(node, name, module, result)
        if self._calls[name] > 1 or name in self._shared:
            self._lock_inputs(node, f"{name}, whose weights are used more than once")
            return self._made_and_locked(result, f"{name}, whose weights are used more than once")
        if isinstance(module, LINEAR):
            return self._of_linear(name, module, ids, result)
        if isinstance(module, CONVOLUTIONS):
            return self._of_convolution(name, module, ids, result)
        if isinstance(module, ATTENTION):
            return self._of_attention(node, name, module, result)
        if isinstance(module, nn.Embedding):
            return self._made(name, 1, result, result.dim() - 1)
        if isinstance(module, BATCH_NORMS) and ids is not None:
            own = _along(ids, 1)
            if own is not None:
                tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
                self.units.places += [
                    Place(f"{name}.{k}".lstrip("."), 0, own, "own") for k, v in tensors.items() if v.dim() == 1
                ]
                self.units.moved.update(own.tolist())
                return ids
        if isinstance(module, ZERO_AT_ZERO):
            return ids
        if isinstance(module, ELEMENTWISE) and ids is not None:
            self.units.moved.update(ids.unique().tolist())
            return ids
        if isinstance(module, POOLS) and ids is not None:
            return self._pooled(node, ids, result, name)
        if isinstance(module, nn.Flatten) and ids is not None:
            return ids.flatten(module.start_dim, module.end_dim)
        self._lock_inputs(node, f"{name} ({type(module).__name__})")
        return None

    def _of_linear(self, name: str, module: nn.Module, ids: Tensor | None, result: Tensor) -> Tensor:
        if ids is not None:
            own = _along(ids, ids.dim() - 1)
            if own is None:
                self.units.lock(ids, f"{name}, whose inputs are no units")
            else:
                self.units.columns[name] = own
                own = own[module.kept.cpu()] if isinstance(module, SelectedLinear) else own
                self.units.places.append(Place(f"{name}.weight".lstrip("."), 1, own, "out"))
        return self._made(name, 0, result, result.dim() - 1)

    def _of_convolution(self, name: str, module: Any, ids: Tensor | None, result: Tensor) -> Tensor | None:
        own = None if ids is None else _along(ids, 1)
        weight = f"{name}.weight".lstrip(".")
        if ids is not None and own is None:
            self.units.lock(ids, f"{name}, whose channels are no units")
        if own is not None and module.groups == module.in_channels == module.out_channels > 1:
            self.units.places.append(Place(weight, 0, own, "own"))
            if module.bias is not None:
                self.units.places.append(Place(f"{name}.bias".lstrip("."), 0, own, "own"))
                self.units.moved.update(own.tolist())
            return _spread(own, 1, result.shape)
        if module.groups > 1:
            if own is not None:
                self.units.lock(own, f"{name}, a convolution of groups")
            return self._made_and_locked(result, f"{name}, a convolution of groups")
        if own is not None:
            self.units.places.append(Place(weight, 1, own, "out"))
        return self._made(name, 0, result, 1)

    def _of_attention(self, node: fx.Node, name: str, module: Any, result: Any) -> tuple[Tensor | None, None]:
        self._lock_inputs(node, f"{name} ({type(module).__name__})")
        problem = attention_problem(node, module, self.env)
        if problem:
            heads_that_stay(self.units, name, module, problem)
        else:
            heads_of(self.units, name, module)
        return self._locked_stream(result[0], f"{name} ({type(module).__name__})"), None

    def _of_encoder(self, node: fx.Node, name: str, module: nn.Module, result: Tensor) -> Tensor:
        reason = f"{name} ({type(module).__name__})"
        self._lock_inputs(node, reason)
        is_shared = any(shared == name or shared.startswith(f"{name}.") for shared in self._shared)
        if self._calls[name] == 1 and not is_shared:
            place = "mask" if isinstance(module, nn.TransformerEncoder) else "src_mask"
            encoder_units(self.units, name, module, mask_of(node, place, 1, self.env))
        return self._locked_stream(result, reason)

    def _locked_stream(self, result: Tensor, reason: str) -> Tensor:
        """Number the entries of the last dimension of a result, which stay."""
        units = self.units.new(result.shape[-1])
        self.units.lock(units, reason)
        return _spread(units, result.dim() - 1, result.shape)

    def _made(self, name: str, dim: int, result: Tensor, at: int) -> Tensor:
        """Number the units that a layer makes."""
        units = self.units.new(result.shape[at])
        self.units.layers[name] = units
        module = self._modules[name]
        self.units.places.append(Place(f"{name}.weight".lstrip("."), dim, units, "in"))
        if getattr(module, "bias", None) is not None:
            self.units.places.append(Place(f"{name}.bias".lstrip("."), 0, units, "in"))
        return _spread(units, at, result.shape)

    def _made_and_locked(self, result: Any, reason: str) -> Tensor | None:
        if not isinstance(result, Tensor) or result.dim() < 2:
            return None
        units = self.units.new(result.shape[1])
        self.units.lock(units, reason)
        return _spread(units, 1, result.shape)

    def _pooled(self, node: fx.Node, ids: Tensor, result: Any, name: str) -> Tensor | None:
        own = _along(ids, 1)
        if own is None or not isinstance(result, Tensor) or ids.dim() < 3:
            self._lock_inputs(node, name)
            return None
        return _spread(own, 1, result.shape)

    def _of_function(self, node: fx.Node, name: str, result: Any) -> Any:
        inputs = [self._ids.get(each) for each in node.all_input_nodes]
        if not any(ids is not None for ids in inputs):
            return None
        ids = next(each for each in inputs if each is not None)
        if not _holds_tensors(result):
            return None  # a size, say
        if name in _NAMES_AT_ZERO.split() and isinstance(ids, Tensor):
            return ids
        if name in _NAMES_ELSEWHERE.split() and isinstance(ids, Tensor):
            self.units.moved.update(ids.unique().tolist())
            return ids
        if name in _POOL_NAMES and isinstance(ids, Tensor):
            return self._pooled(node, ids, result, name)
        if name in SUMMING:
            return self._summed(node, name, result)
        if name in REDUCING:
            return self._reduced(node, ids, name, result)
        if name in MOVING and not self._has_fixed_sizes(node, name):
            return self._moved(node, result)
        self._lock_inputs(node, f"{name}, which is not known")
        return None

    def _summed(self, node: fx.Node, name: str, result: Tensor) -> Tensor | None:
        pairs = [(each, self._ids.get(each)) for each in node.args[:2] if isinstance(each, fx.Node)]
        tensors = [(each, ids) for each, ids in pairs if isinstance(self.env[each], Tensor)]
        known = [ids for _, ids in tensors if ids is not None]
        if len(known) < len(tensors):
            self._lock_inputs(node, f"{name} with what is no layer's output")
            return known[0].expand(result.shape) if known else None
        wide = [ids.expand(result.shape) for ids in known]
        if len(wide) == 2:
            pair = torch.stack([each.reshape(-1) for each in wide]).unique(dim=1)
            self.units.join(pair[0], pair[1])
        else:
            if name in ("add", "sub", "iadd", "isub", "maximum", "minimum"):  # of a number
                self.units.moved.update(wide[0].unique().tolist())
        return wide[0]

    def _reduced(self, node: fx.Node, ids: Tensor, name: str, result: Tensor) -> Tensor | None:
        dims = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
        varying = _varying(ids)
        given = [dims] if isinstance(dims, int) else dims
        if given is None or varying is None or any(int(d) % ids.dim() in (0, varying) for d in given):  # type: ignore
            self._lock_inputs(node, f"{name} over units or rows")
            return None
        keep = bool(node.kwargs.get("keepdim", node.args[2] if len(node.args) > 2 else False))
        return ids.amax([int(d) for d in given], keepdim=keep)  # type: ignore

    def _moved(self, node: fx.Node, result: Any) -> Any:
        """Run an operation that moves entries on the numbers of their units."""
        environment = dict(self.env)
        for each in node.all_input_nodes:
            ids = self._ids.get(each)
            if _holds_tensors(self.env[each]) and ids is None:
                self._lock_inputs(node, f"{node.name} with what is no layer's output")
                return None
            if ids is not None:
                self.env[each] = ids
        try:
            args, kwargs = self.fetch_args_kwargs_from_env(node)
            return getattr(self, node.op)(node.target, args, kwargs)
        finally:
            self.env.clear()
            self.env.update(environment)

    def _has_fixed_sizes(self, node: fx.Node, name: str) -> bool:
        """Whether a reshape names sizes, which would be wrong once units are gone."""
        if name not in ("reshape", "view"):
            return False
        sizes = [size for arg in node.args[1:] for size in (arg if isinstance(arg, (tuple, list)) else [arg])]
        return any(isinstance(size, int) and size > 1 for size in sizes)

    def _lock_inputs(self, node: fx.Node, reason: str) -> None:
        for each in node.all_input_nodes:
            for ids in _tensors_in(self._ids.get(each)):
                self.units.lock(ids, reason)


def _holds_tensors(value: Any) -> bool:
    return isinstance(value, Tensor) or (
        isinstance(value, (tuple, list)) and any(isinstance(each, Tensor) for each in value)
    )


def _tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [each for each in value if isinstance(each, Tensor)] if isinstance(value, (tuple, list)) else []


def _spread(units: Tensor, dim: int, shape: torch.Size) -> Tensor:
    """Return the units of all entries of a tensor whose units lie along one dimension."""
    view = [1] * len(shape)
    view[dim] = len(units)
    return units.view(view).expand(shape)


def _varying(ids: Tensor) -> int | None:
    """Return the one dimension along which units differ; None if there are several."""
    dims = [d for d in range(1, ids.dim()) if bool((ids != ids.narrow(d, 0, 1)).any())]
    if len(dims) > 1:
        return None
    return dims[0] if dims else ids.dim() - 1


def _along(ids: Tensor, dim: int) -> Tensor | None:
    """Return the units along a dimension; None if they differ along another one too."""
    first = ids
    for d in range(ids.dim()):
        if d != dim:
            first = first.narrow(d, 0, 1)
    return first.reshape(-1).clone() if bool((ids == first).all()) else None
