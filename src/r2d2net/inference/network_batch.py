"""Outputs of several networks of one architecture, in one batched pass that autograd can differentiate.

    layers       Linear layers, activations and what only reshapes, one after the other, perhaps with a linear path
                 beside them: every product of a layer is one batched product of all networks
    vmap         any other network that `torch.func.vmap` can run
    one by one   the rest

For small networks a pass of four costs little more than a pass of one: most of that is the call of each operation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap

from r2d2net.model import BayesianModel, Tensors
from r2d2net.nets.linear_path import LinearPath

# Modules that work on the last dimension or on each element alone, and so on a batch of networks as they are.
ELEMENTWISE = (
    *(nn.ReLU, nn.Softplus, nn.Tanh, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Sigmoid, nn.SELU, nn.Mish, nn.Hardtanh),
    *(nn.Identity, nn.Dropout),
)
WIDE = 100  # inputs from which a layer multiplies rows that all networks share by all of their weights at once
# Layers with fused kernels that vmap has no rule for.
FUSED = (nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention, nn.TransformerEncoderLayer)


class NetworkBatch:
    """The batched forward pass of a model's network, in evaluation mode.

    Args:
        model: The model.
    """

    def __init__(self, model: BayesianModel[Any]) -> None:
        self.model = model
        self.sizes = [slot.shape.numel() for slot in model.bayesian]
        self.by_layers = is_chain_of_layers(model.net)
        inside = model.net.net if isinstance(model.net, LinearPath) else model.net
        innermost = [module for module in inside.modules() if not isinstance(module, nn.Sequential)]
        self.flattens = bool(innermost) and isinstance(innermost[0], nn.Flatten)  # rows of any shape
        self.by_vmap = not any(isinstance(module, FUSED) for module in model.net.modules())

    def __call__(self, weights: Tensor, fixed: Tensor, buffers: Tensors, x: Any) -> Tensor:
        """Compute the outputs of all networks.

        Args:
            weights: Bayesian weights of each network, (networks, weights).
            fixed: Deterministic parameters, the same for all networks, (deterministic parameters,).
            buffers: Buffers by name, the same for all networks.
            x: Inputs: a tensor, or a tuple of tensors for a network of several inputs.

        Returns:
            The outputs, (networks, rows, width).
        """
        model = self.model
        model.net.eval()
        # One split: the gradient of each of many slices of the flat matrix would be as large as the matrix.
        parts = weights.split(self.sizes, dim=1)
        slots = zip(model.bayesian, parts, strict=True)
        named = {slot.name: part.reshape(len(weights), *slot.shape) for slot, part in slots}
        frozen = model.frozen_parts.tensors
        shared = {**{slot.name: slot.of(fixed) for slot in model.fixed}, **buffers, **frozen}
        if self.by_layers and isinstance(x, Tensor) and (x.dim() == 2 or self.flattens):
            every = {name: tensor.expand(len(weights), *tensor.shape) for name, tensor in shared.items()}
            return _through(model.net, "", {**named, **every}, x)
        if self.by_vmap:
            outputs: Tensor = vmap(lambda own: model.call(model.net, {**own, **shared}, x))(named)
        else:
            each = [{name: tensor[i] for name, tensor in named.items()} for i in range(len(weights))]
            outputs = torch.stack([model.call(model.net, {**own, **shared}, x) for own in each])
        return outputs.flatten(2)


def is_chain_of_layers(net: nn.Module) -> bool:
    """Tell whether the batched pass by layers computes what the network's own pass does.

    Args:
        net: The network.

    Returns:
        False if a module or parameter stands in two places, has hooks, or is of a class with a pass of its own.
    """
    modules = [module for _, module in net.named_modules(remove_duplicate=False)]
    parameters = [parameter for _, parameter in net.named_parameters(remove_duplicate=False)]
    if len(modules) > len(set(modules)) or len(parameters) > len(set(parameters)):
        return False
    if any(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks for module in modules):
        return False
    if any(isinstance(module, LinearPath) for module in modules[1:]):
        return False
    inner = [module for module in modules if not isinstance(module, (nn.Sequential, LinearPath))]
    if any(isinstance(module, nn.Flatten) for module in inner[1 + (type(net) is LinearPath) :]):
        return False  # of a layer's outputs
    return _has_known_modules(net)


def _has_known_modules(net: nn.Module) -> bool:
    if type(net).forward is nn.Sequential.forward:
        return all(_has_known_modules(module) for module in net.children())
    if type(net) is LinearPath:
        return _has_known_modules(net.net)
    if type(net) is nn.Flatten:
        return net.start_dim == 1 and net.end_dim == -1
    return type(net) is nn.Linear or type(net) in ELEMENTWISE


def _through(net: nn.Module, prefix: str, tensors: Tensors, h: Tensor) -> Tensor:
    """Pass rows of one network, (rows, ...), or of several, (networks, rows, ...), through a module of all networks."""
    if isinstance(net, nn.Sequential):
        for name, module in net.named_children():
            h = _through(module, f"{prefix}{name}.", tensors, h)
        return h
    if isinstance(net, LinearPath):
        beside = _through(net.net, f"{prefix}net.", tensors, h)
        return beside + _through(net.linear, f"{prefix}linear.", tensors, h.flatten(1))
    if isinstance(net, nn.Flatten):
        return h.flatten(1)  # of the inputs: a layer's outputs are flat
    if not isinstance(net, nn.Linear):
        return net(h)
    weight, bias = tensors[f"{prefix}weight"].mT, tensors.get(f"{prefix}bias")
    if h.dim() == 2 and h.shape[1] >= WIDE:  # one product that reads the shared inputs once, not once a network
        joint = h @ weight.transpose(0, 1).flatten(1)
        outputs = joint.unflatten(1, (len(weight), -1)).transpose(0, 1)
        return outputs if bias is None else outputs + bias.unsqueeze(1)
    if h.dim() == 2:
        h = h.expand(len(weight), *h.shape)
    if bias is None:
        return torch.bmm(h, weight)
    return torch.baddbmm(bias.unsqueeze(1), h, weight)
