"""A network's outputs at many draws of its weights: one draw after the other, or many at once by `torch.func.vmap`.

One draw keeps a CPU busy; a GPU mostly waits between small products, so there vmap turns the products of a layer for
all draws into one batched product. Both ways give the same numbers up to the rounding of products. In both, parts of
the network that no draw changes, such as a frozen backbone, are computed once for a block of rows (`shared_features`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from r2d2net.errors import ParameterError, require
from r2d2net.inference.base import Draws
from r2d2net.inference.network_batch import ELEMENTWISE, FUSED
from r2d2net.model import BayesianModel, Tensors
from r2d2net.shared_features import remembering, submodules_to_share

# Parts of torch's messages where vmap cannot run a forward pass: branches on values, random draws, missing rules.
NO_VMAP = ("vmap:", "Batching rule not implemented", "doesn't have storage")


def forward_draws(
    model: BayesianModel[Any],
    draws: Draws,
    inputs: Any,
    *,
    rows: int,
    memory: int,
    vectorize: bool | None = None,
) -> Tensor:
    """Compute the network's outputs at every draw of its weights.

    Args:
        model: The model.
        draws: Draws of the network.
        inputs: A tensor or a tuple of tensors, standardised.
        rows: Largest number of rows of a forward pass.
        memory: Largest number of elements that a vectorised forward pass may create.
        vectorize: True for vmap, False for a loop; None for vmap on a GPU where the network allows it.

    Returns:
        The outputs, (draws, rows of the inputs, width).

    Raises:
        ParameterError: If ``vectorize`` is True and vmap cannot run the network.
    """
    model.frozen_parts.require_unchanged()
    fits = vectorize is None or isinstance(vectorize, bool)
    require(fits, "vectorize", vectorize, "use True, False or None")
    fused = sorted({type(module).__name__ for module in model.net.modules() if isinstance(module, FUSED)})
    if vectorize and fused:
        problem = f": vmap has no rule for {fused[0]}"
        raise ParameterError(problem, argument="vectorize", value=True, fix="leave it out")
    if vectorize or (vectorize is None and model.device.type == "cuda" and not fused):
        try:
            return _at_once(model, draws, inputs, rows, memory)
        except RuntimeError as error:
            if not any(sign in str(error) for sign in NO_VMAP):
                raise
            if vectorize:
                reason = str(error).splitlines()[0]
                problem = f": vmap cannot run the network ({reason})"
                raise ParameterError(problem, argument="vectorize", value=True, fix="leave it out") from error
    blocks = _blocks(model, inputs, rows)
    if isinstance(inputs, Tensor) and _is_plain_chain(model):
        model.net.eval()
        networks = _tensors(model, draws)
        return torch.stack([torch.cat([_flat(model, _through(model.net, own, x)) for x in blocks]) for own in networks])
    whole = [_network(draws, i) for i in range(len(draws.weights))]
    if len(whole) == 1 or not submodules_to_share(model):
        return torch.stack([torch.cat([_flat(model, model.forward(*network, x)) for x in blocks]) for network in whole])
    return torch.cat([_sharing(model, whole, draws.weights, x, memory) for x in blocks], dim=1)


def _sharing(
    model: BayesianModel[Any], networks: Sequence[tuple[Tensor, Tensor, Tensors]], drawn: Tensor, x: Any, memory: int
) -> Tensor:
    """Compute the outputs of networks that share submodules, which are computed once."""
    outputs = []
    with remembering(model, drawn, memory) as next_pass:
        for network in networks:
            with next_pass():
                outputs.append(_flat(model, model.forward(*network, x)))
    return torch.stack(outputs)


def _is_plain_chain(model: BayesianModel[Any]) -> bool:
    """Whether the network is linear layers and activations one after the other, without hooks or shared weights."""
    net = model.net
    if (
        model.context is not None
        or not isinstance(net, nn.Sequential)
        or type(net).forward is not nn.Sequential.forward
    ):
        return False
    if len(list(net.children())) < len(net):  # one is used twice
        return False
    known = {slot.name for slot in (*model.bayesian, *model.fixed)}
    return (
        all(type(layer) is nn.Linear or type(layer) in ELEMENTWISE for layer in net.children())
        and not any(module._forward_hooks or module._forward_pre_hooks for module in net.modules())
        and known == {name for name, _ in net.named_parameters(remove_duplicate=False)}
    )


def _tensors(model: BayesianModel[Any], draws: Draws) -> Iterator[Tensors]:
    """Iterate over the networks' parameters by name."""
    flat = [(slot, draws.weights) for slot in model.bayesian] + [(slot, draws.fixed) for slot in model.fixed]
    named = {slot.name: slot.of(vectors).unbind() for slot, vectors in flat}
    return (dict(zip(named, own, strict=True)) for own in zip(*named.values(), strict=True))


def _through(net: nn.Module, tensors: Tensors, h: Tensor) -> Tensor:
    """Pass rows through a chain of layers: for small networks `functional_call` costs more than their products."""
    for name, layer in net.named_children():
        if isinstance(layer, nn.Linear):
            h = nn.functional.linear(h, tensors[f"{name}.weight"], tensors.get(f"{name}.bias"))
        else:
            h = layer(h)
    return h


def _at_once(model: BayesianModel[Any], draws: Draws, inputs: Any, rows: int, memory: int) -> Tensor:
    blocks = _blocks(model, inputs, rows)
    with _Elements() as counted:
        model.forward(*_network(draws, 0), blocks[0])
    together = max(1, memory // max(1, counted.total))
    # what all draws share stays without a dimension of draws, so that vmap computes with it once
    shared = {name: buffer[0] for name, buffer in draws.buffers.items() if buffer.stride(0) == 0 and len(buffer) > 1}
    own = {name: buffer for name, buffer in draws.buffers.items() if name not in shared}
    parts = [
        vmap(lambda w, f, b, x=x: _flat(model, model.forward(w, f, {**shared, **b}, x)), chunk_size=together)(
            draws.weights, draws.fixed, own
        )
        for x in blocks
    ]
    return torch.cat(parts, dim=1)


def _network(draws: Draws, i: int) -> tuple[Tensor, Tensor, Tensors]:
    return draws.weights[i], draws.fixed[i], {name: buffer[i] for name, buffer in draws.buffers.items()}


class _Elements(TorchDispatchMode):
    """Count of the elements of all tensors that operations return: an upper bound of a forward pass's memory."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.total += sum(leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor))
        return result


def _blocks(model: BayesianModel[Any], inputs: Any, rows: int) -> list[Any]:
    if model.context is not None and model.context.whole_pass:
        return [inputs]
    if isinstance(inputs, tuple):
        return list(zip(*(part.split(rows) for part in inputs), strict=True))
    return list(inputs.split(rows))


def _flat(model: BayesianModel[Any], output: Tensor) -> Tensor:
    return output if model.likelihood.keeps_shape else output.reshape(len(output), -1)
