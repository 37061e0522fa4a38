"""Local reparametrisation: noise on a layer's activations in place of noise on its weights.

For a linear or convolutional layer with independent weights N(m, s^2) the activations are normal with mean layer(x; m)
and variance layer(x^2; s^2) (Kingma, Salimans and Welling, 2015). Drawing them row by row makes the rows' noise
independent, and the gradient's variance falls with the batch. In a convolution, and in a linear layer over positions,
locations are treated as independent too, as is customary.

Parameters outside plain Linear and Conv layers, and tied weights, are drawn as weights.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from r2d2net.model import BayesianModel, Tensors

PLAIN = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
SUFFIX = "_variance"
FEW_WEIGHTS = 100_000


def is_cheap_for(model: BayesianModel) -> bool:
    """Whether all Bayesian weights are of linear layers, and so few that a second product with them costs little."""
    linear = {
        f"{name}.{own}".lstrip(".")
        for name, module in model.net.named_modules()
        if type(module) is nn.Linear
        for own, _ in module.named_parameters(recurse=False)
    }
    return model.size <= FEW_WEIGHTS and linear.issuperset(slot.name for slot in model.bayesian)


class LocalReparametrization:
    """A model's network with noisy activations; built once, used in training only."""

    def __init__(self, model: BayesianModel) -> None:
        self.model = model
        self.net = copy.deepcopy(model.net)
        bayesian = {slot.name for slot in model.bayesian}
        shared = Counter(id(p) for _, p in self.net.named_parameters(remove_duplicate=False))
        self.local: set[str] = set()
        self._noisy: list[NoisyLayer] = []
        for name, module in list(self.net.named_modules()):
            if type(module) not in PLAIN:
                continue
            own = {f"{name}.{k}".lstrip("."): p for k, p in module.named_parameters(recurse=False)}
            weight = f"{name}.weight".lstrip(".")
            if weight not in bayesian or any(shared[id(p)] > 1 for p in own.values()):
                continue
            layer = NoisyLayer(module)
            self._noisy.append(layer)
            self.net = _replace(self.net, name, layer)
            self.local |= own.keys() & bayesian

    def forward(
        self,
        mean: Sequence[Tensor],
        scale: Sequence[Tensor],
        fixed: Sequence[Tensor],
        buffers: Tensors,
        x: Any,
        generator: torch.Generator,
    ) -> Tensor:
        """The output with fresh noise, differentiable in means and scales of the slots; buffers change in place."""
        named: Tensors = {slot.name: value for slot, value in zip(self.model.fixed, fixed, strict=True)}
        for slot, m, s in zip(self.model.bayesian, mean, scale, strict=True):
            if slot.name in self.local:
                named[slot.name], named[slot.name + SUFFIX] = m, s.square()
            else:
                named[slot.name] = m + s * torch.empty_like(m).normal_(generator=generator)
        for layer in self._noisy:
            layer.generator = generator
        self.net.train()
        return self.model.call(self.net, {**named, **buffers}, x)


class NoisyLayer(nn.Module):
    """A Linear or Conv layer whose activations carry the noise of its weights."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.generator: torch.Generator | None = None
        self._layer = [layer]  # in a list: not a submodule, its parameters are ours
        self.dtype = next(layer.parameters()).dtype
        for name, parameter in layer.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
            self.register_parameter(name + SUFFIX, nn.Parameter(torch.zeros_like(parameter), requires_grad=False))

    def forward(self, x: Tensor) -> Tensor:
        layer = self._layer[0]
        bias = getattr(self, "bias", None)
        mean = _apply(layer, x, self.weight, bias)
        variance = _apply(layer, x.square(), self.weight_variance, None if bias is None else self.bias_variance)
        # drawn in the dtype of the weights, so that the draws do not depend on autocast
        noise = torch.empty_like(mean, dtype=self.dtype).normal_(generator=self.generator).to(mean.dtype)
        # sqrt has no slope at 0: a row of zeros would turn the gradient into nan
        return mean + variance.clamp(min=1e-20).sqrt() * noise


def _apply(layer: nn.Module, x: Tensor, weight: Any, bias: Any) -> Tensor:
    if isinstance(layer, nn.Linear):
        return nn.functional.linear(x, weight, bias)
    return layer._conv_forward(x, weight, bias)  # type: ignore[operator]


def _replace(net: nn.Module, name: str, layer: nn.Module) -> nn.Module:
    if not name:
        return layer
    parent, _, child = name.rpartition(".")
    setattr(net.get_submodule(parent), child, layer)
    return net
