"""Outputs and gradients of small perceptrons, written out layer by layer for any number of networks at once.

    a = W h + b,    h' = f(a)                                     weights that are given
    a = M h + m + sqrt(S h^2 + s) e,    e ~ N(0, 1) for each row  weights N(M, S), biases N(m, s): activations are drawn
                                                                  (see `local_reparametrization`)

A linear path beside the network (`nets.LinearPath`) is one more such layer, of the inputs, whose output is added to the
last one's. With g = d loss / d a the gradients in (M, S) are g h' and (g e / (2 sd)) (h^2)': means and variances are
the two halves of one batch of products. For a network of three small layers the calls of autograd, of `functional_call`
and of a module's hooks cost several times as much as the products; here a layer has a dozen operations, for one network
or eight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from r2d2net.inference.network_batch import is_chain_of_layers
from r2d2net.model import BayesianModel
from r2d2net.nets.linear_path import LinearPath

LEAST_VARIANCE = 1e-20  # of an activation: below, it is not drawn. A root has no slope at zero
NARROW = 16  # numbers of a vector unit
SEVERAL = 4  # networks from which the time of products matters beside that of calls
aten = torch.ops.aten


class Activation(NamedTuple):
    """An elementwise function by its module, and the gradient in its input a, given that in its output h."""

    forward: Callable[[Any, Tensor], Tensor]  # module, a -> h
    backward: Callable[[Any, Tensor, Tensor, Tensor], Tensor]  # module, gradient in h, a, h


ACTIVATIONS: dict[type[nn.Module], Activation] = {
    nn.ReLU: Activation(lambda m, a: torch.relu(a), lambda m, g, a, h: aten.threshold_backward(g, h, 0)),
    nn.Tanh: Activation(lambda m, a: torch.tanh(a), lambda m, g, a, h: aten.tanh_backward(g, h)),
    nn.Sigmoid: Activation(lambda m, a: torch.sigmoid(a), lambda m, g, a, h: aten.sigmoid_backward(g, h)),
    nn.Softplus: Activation(
        lambda m, a: nn.functional.softplus(a, m.beta, m.threshold),
        lambda m, g, a, h: aten.softplus_backward(g, a, m.beta, m.threshold),
    ),
    nn.GELU: Activation(
        lambda m, a: nn.functional.gelu(a, approximate=m.approximate),
        lambda m, g, a, h: aten.gelu_backward(g, a, approximate=m.approximate),
    ),
    nn.SiLU: Activation(lambda m, a: nn.functional.silu(a), lambda m, g, a, h: aten.silu_backward(g, a)),
    nn.ELU: Activation(
        lambda m, a: nn.functional.elu(a, m.alpha),
        lambda m, g, a, h: aten.elu_backward(g, m.alpha, 1, 1, False, a),
    ),
    nn.LeakyReLU: Activation(
        lambda m, a: nn.functional.leaky_relu(a, m.negative_slope),
        lambda m, g, a, h: aten.leaky_relu_backward(g, a, m.negative_slope, False),
    ),
    nn.Identity: Activation(lambda m, a: a, lambda m, g, a, h: g),
}


class Layer(NamedTuple):
    """A Linear layer: its places in the vector of all parameters, and the activation modules that follow it."""

    inputs: int
    outputs: int
    weight: slice
    bias: slice | None
    activations: tuple[nn.Module, ...]


class Tape(NamedTuple):
    """What the backward pass of a layer needs of the forward pass; twice as many networks where activations are drawn.

    Attributes:
        inputs: Inputs h of the layer and, where activations are drawn, their squares, (networks, rows, inputs).
        ratio: e / sd of drawn activations, None where weights are given.
        values: Inputs of the activations that follow, and the output of the last.
    """

    inputs: Tensor
    ratio: Tensor | None
    values: tuple[Tensor, ...]


class Room(NamedTuple):
    """Parameters of networks, and views of them by layer.

    Attributes:
        parameters: Parameters, (networks, parameters).
        weights: Weights of each layer, (networks, outputs, inputs).
        transposed: Their transposes.
        biases: Biases of each layer, (networks, 1, outputs); None where it has none.
        path: Transposed weights of a linear path, (networks, inputs, outputs); None where there is none.
    """

    parameters: Tensor
    weights: list[Tensor]
    transposed: list[Tensor]
    biases: list[Tensor | None]
    path: Tensor | None = None


class LayeredPass:
    """The pass of a perceptron, for a vector of all its parameters: the Bayesian ones, then the deterministic ones.

    Args:
        layers: The layers, in order.
        path: Place of the weights of a linear path beside the layers; None where there is none.
    """

    def __init__(self, layers: Sequence[Layer], path: slice | None = None) -> None:
        self.layers, self.path = tuple(layers), path
        self.widest = max(max(layer.inputs, layer.outputs) for layer in layers)
        places = [*(place for layer in layers for place in (layer.weight, layer.bias)), path]
        starts = [math.inf if place is None else place.start for place in places]
        # of the gradients, which come as weight, bias, weight, ..., path: their order in the vector
        self.order = [k for k in sorted(range(len(places)), key=starts.__getitem__) if places[k] is not None]

    @classmethod
    def of(cls, model: BayesianModel[Any], *, within: str = "") -> Self | None:
        """Build the pass of a model's network, or None where it would not compute what the network does in training.

        Args:
            model: The model.
            within: Name of the module of the network whose pass is wanted; the network itself by default.

        Returns:
            The pass of a chain of Linear layers, all of whose weights are Bayesian and none of whose parameters is
            frozen, and of activations of `ACTIVATIONS`; perhaps with a linear path beside them.
        """
        net = model.net.get_submodule(within)
        if type(net) is LinearPath and is_chain_of_layers(net):
            beside = next((slot for slot in model.bayesian if slot.name == "linear.weight"), None)
            inside = cls.of(model, within="net") if within == "" and beside is not None else None
            if inside is None or beside is None or inside.layers[-1].outputs != net.linear.out_features:
                return None
            return cls(inside.layers, slice(beside.start, beside.stop))
        if not is_chain_of_layers(net) or model.frozen or dict(model.net.named_buffers()):
            return None
        places = {slot.name: slice(slot.start, slot.stop) for slot in model.bayesian}
        bayesian = set(places)
        places |= {slot.name: slice(model.size + slot.start, model.size + slot.stop) for slot in model.fixed}
        layers: list[Layer] = []
        for name, module in net.named_modules():
            if isinstance(module, nn.Sequential):
                continue
            prefix = "".join(f"{part}." for part in (within, name) if part)
            if type(module) is nn.Linear:
                if f"{prefix}weight" not in bayesian:
                    return None
                bias = places.get(f"{prefix}bias")
                layers.append(Layer(module.in_features, module.out_features, places[f"{prefix}weight"], bias, ()))
            elif type(module) in ACTIVATIONS and layers:
                layers[-1] = layers[-1]._replace(activations=(*layers[-1].activations, module))
            else:
                return None
        return cls(layers) if layers else None

    def room(self, networks: int, like: Tensor) -> Room:
        """Allocate memory for the parameters of networks, which passes then read.

        Args:
            networks: Number of networks; twice as many where activations are drawn, for means and then variances.
            like: A tensor of the dtype and device.

        Returns:
            The memory.
        """
        places = [*(place for layer in self.layers for place in (layer.weight, layer.bias)), self.path]
        size = max(place.stop for place in places if place is not None)
        parameters = like.new_empty(networks, size)
        weights = [parameters[:, layer.weight].view(-1, layer.outputs, layer.inputs) for layer in self.layers]
        biases = [None if layer.bias is None else parameters[:, layer.bias].unsqueeze(1) for layer in self.layers]
        return Room(parameters, weights, [weight.mT for weight in weights], biases, self.path_of(parameters))

    def path_of(self, parameters: Tensor) -> Tensor | None:
        """Return the transposed weights of the linear path as a view.

        Args:
            parameters: Parameters, (networks, parameters).

        Returns:
            The view, (networks, inputs, outputs); None where there is no path.
        """
        if self.path is None:
            return None
        return parameters[:, self.path].view(-1, self.layers[-1].outputs, self.layers[0].inputs).mT

    def given(self, room: Room, x: Tensor) -> tuple[Tensor, list[Tape]]:
        """Compute the outputs of networks.

        Args:
            room: Parameters of each network.
            x: Inputs of each network, (networks, rows, inputs).

        Returns:
            The outputs, (networks, rows, outputs), and what `gradients` needs.
        """
        tapes, h = [], x
        for layer, weight, bias in zip(self.layers, room.transposed, room.biases, strict=True):
            a = torch.bmm(h, weight) if bias is None else torch.baddbmm(bias, h, weight)
            values = _through(layer, a)
            tapes.append(Tape(h, None, values))
            h = values[-1]
        if room.path is not None:
            tapes.append(Tape(x, None, ()))
            h = torch.baddbmm(h, x, room.path)
        return h, tapes

    def drawn(self, room: Room, x: Tensor, generators: Sequence[torch.Generator]) -> tuple[Tensor, list[Tape]]:
        """Compute the outputs of networks with drawn activations.

        Args:
            room: Means of the parameters of each network, then their variances.
            x: Inputs of each network, (networks, rows, inputs).
            generators: Source of randomness of each network.

        Returns:
            The outputs, (networks, rows, outputs), and what `gradients` needs.
        """
        tapes, h = [], x
        for layer, weight, bias in zip(self.layers, room.transposed, room.biases, strict=True):
            inputs = torch.cat((h, h.square()))
            product = torch.bmm(inputs, weight) if bias is None else torch.baddbmm(bias, inputs, weight)
            a, ratio = _with_noise(product, generators)
            values = _through(layer, a)
            tapes.append(Tape(inputs, ratio, values))
            h = values[-1]
        if room.path is not None:
            inputs = tapes[0].inputs
            straight, ratio = _with_noise(torch.bmm(inputs, room.path), generators)
            tapes.append(Tape(inputs, ratio, ()))
            h = h + straight
        return h, tapes

    def gradients(self, room: Room, tapes: Sequence[Tape], gradient: Tensor) -> Tensor:
        """Compute the gradients of a loss in all parameters.

        Args:
            room: The parameters, as in the forward pass.
            tapes: What the forward pass returned.
            gradient: Gradients of the loss in the outputs, (networks, rows, outputs).

        Returns:
            The gradients, (networks, parameters). Where activations are drawn, (2 networks, parameters): those in the
            means, then twice those in the variances.
        """
        parts: list[Tensor | None] = []
        networks, g = len(gradient), gradient
        for number in range(len(self.layers) - 1, -1, -1):
            layer, tape = self.layers[number], tapes[number]
            for k in range(len(layer.activations) - 1, -1, -1):
                module = layer.activations[k]
                g = ACTIVATIONS[type(module)].backward(module, g, tape.values[k], tape.values[k + 1])
            both = _of_means_and_variances(g, tape)
            parts.append(None if layer.bias is None else both.sum(1))
            parts.append(_weight_gradient(both, tape.inputs).flatten(1))
            if number:
                weight = room.weights[number]
                outer = layer.outputs == 1 and len(both) >= SEVERAL  # where bmm is the slower one
                g = both * weight if outer else torch.bmm(both, weight)
                if tape.ratio is not None:  # in h and in h^2, twice over
                    in_mean, in_square = g.chunk(2)
                    g = in_mean.addcmul_(tape.inputs[:networks], in_square)
        parts.reverse()  # weight, bias, weight, ... in the order of the layers
        if room.path is not None:
            parts.append(_weight_gradient(_of_means_and_variances(gradient, tapes[-1]), tapes[-1].inputs).flatten(1))
        return torch.cat([part for k in self.order if (part := parts[k]) is not None], 1)


def _weight_gradient(gradient: Tensor, inputs: Tensor) -> Tensor:
    """Return the sums over rows of g h', (networks, outputs, inputs).

    For narrow inputs the transposed product is the quicker one.
    """
    if inputs.shape[2] < NARROW <= gradient.shape[2] and len(gradient) >= SEVERAL:
        return torch.bmm(inputs.mT, gradient).mT
    return torch.bmm(gradient.mT, inputs)


def standard_normal(like: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    """Draw standard normal numbers, those of each network from its own generator.

    Args:
        like: Tensor of the shape, dtype and device of the numbers, (networks, ...).
        generators: Source of randomness of each network.

    Returns:
        The numbers.
    """
    noise = torch.empty_like(like)
    if len(generators) == 1:
        return noise.normal_(generator=generators[0])
    for own, generator in zip(noise.unbind(), generators, strict=True):
        own.normal_(generator=generator)
    return noise


def _with_noise(product: Tensor, generators: Sequence[torch.Generator]) -> tuple[Tensor, Tensor]:
    """Return activations drawn from the two halves of a product, means (overwritten) and variances, and e / sd."""
    mean, variance = product.chunk(2)
    ratio = torch.threshold(variance, LEAST_VARIANCE, math.inf).rsqrt_()
    ratio.mul_(standard_normal(ratio, generators))
    return mean.addcmul_(variance, ratio), ratio


def _of_means_and_variances(gradient: Tensor, tape: Tape) -> Tensor:
    """Return the gradient in a layer's product, in means and then twice that in variances where these are drawn."""
    return gradient if tape.ratio is None else torch.cat((gradient, gradient * tape.ratio))


def _through(layer: Layer, a: Tensor) -> tuple[Tensor, ...]:
    """Return the activations' inputs and the last one's output."""
    values = [a]
    for module in layer.activations:
        values.append(ACTIVATIONS[type(module)].forward(module, values[-1]))
    return tuple(values)
