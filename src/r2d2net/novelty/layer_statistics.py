"""What rows look like at several depths of a network: statistics of its inputs and of the outputs of its layers.

A layer's output for one row is a vector, or a map of channels over positions (pixels, tokens). A vector is its own
statistics. Of a map each channel c has

    its mean over positions, its deviation over positions, and for each spatial axis its roughness
    sqrt(mean of (h_c[i + 1] - h_c[i])^2)

so that images of another sharpness, contrast or brightness differ, whatever they show and wherever it stands.

Layers are the modules with a weight matrix of their own, in the order in which a pass calls them; forward hooks read
their outputs, so that any `nn.Module` will do. Deep networks are read at `DEPTHS` layers, evenly spaced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from r2d2net.inference.base import Draws
from r2d2net.model import BayesianModel

DEPTHS = 6
INPUT = "input"


class Statistics(NamedTuple):
    """Statistics of some rows at one depth.

    Attributes:
        values: Means, or values of a vector, (rows, values).
        spreads: Deviations and roughness of channels, not negative, (rows, spreads); of a vector there are none.
    """

    values: Tensor
    spreads: Tensor


class LayerReader:
    """One network of a posterior, read at some depths.

    Args:
        model: The model.
        network: Draws of that one network.
        layers: Names of the layers to read.
        inputs: Names of the inputs to read, as in `input_parts`.
    """

    def __init__(
        self, model: BayesianModel[Any], network: Draws, layers: Sequence[str], inputs: Collection[str]
    ) -> None:
        self.model, self.network, self.layers, self.inputs = model, network, tuple(layers), tuple(inputs)

    @torch.no_grad()
    def read(self, inputs: Any) -> dict[str, Statistics]:
        """Compute the statistics of a block of rows.

        Args:
            inputs: Inputs as the network takes them, standardised.

        Returns:
            The statistics by depth, the inputs first.
        """
        modules = dict(self.model.net.named_modules())
        first_is_conv = bool(self.layers) and isinstance(modules[self.layers[0]], _ConvNd)
        found = {}
        for name, part in input_parts(inputs).items():
            if name in self.inputs:
                found[name] = statistics_of(part, channels_first=part.dim() > 3 or first_is_conv)
        outputs = _outputs(self.model, self.network, inputs, self.layers)
        for name in self.layers:
            found[name] = statistics_of(outputs[name], channels_first=isinstance(modules[name], _ConvNd))
        return found


def input_parts(inputs: Any) -> dict[str, Tensor]:
    """Name the inputs of a network.

    Args:
        inputs: A tensor or a tuple of tensors.

    Returns:
        The tensors by name: "input" where there is one, else "input 0", "input 1" and so on.
    """
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    return {INPUT if len(parts) == 1 else f"{INPUT} {number}": part for number, part in enumerate(parts)}


def layers_to_read(model: BayesianModel[Any], network: Draws, inputs: Any) -> list[str]:
    """Find the layers whose outputs have one entry for each row.

    Args:
        model: The model.
        network: Draws of one network.
        inputs: Inputs of a few rows, standardised.

    Returns:
        Names of at most `DEPTHS` layers, in the order of a pass.
    """
    names = [name for name, module in model.net.named_modules() if _has_matrix(module)]
    rows = len(inputs[0] if isinstance(inputs, tuple) else inputs)
    with torch.no_grad():
        outputs = _outputs(model, network, inputs, names)
    fitting = [name for name, output in outputs.items() if output.dim() > 0 and len(output) == rows]
    if len(fitting) <= DEPTHS:
        return fitting
    places = torch.linspace(0, len(fitting) - 1, DEPTHS).round().int().tolist()
    return [fitting[place] for place in places]


def statistics_of(output: Tensor, *, channels_first: bool) -> Statistics:
    """Compute the statistics of a layer's output.

    Args:
        output: The output, (rows, ...).
        channels_first: Whether the channels of a map are its first dimension after the rows, or its last.

    Returns:
        The statistics, in float64 on the CPU.
    """
    maps = output.reshape(len(output), -1) if output.dim() <= 2 else output
    if maps.dim() == 2:
        values = maps.cpu().double()
        return Statistics(values, values[:, :0])
    if not channels_first:
        maps = maps.movedim(-1, 1)
    positions = maps.flatten(2)
    axes = [axis for axis in range(2, maps.dim()) if maps.shape[axis] > 1]
    roughness = [maps.diff(dim=axis).square().flatten(2).mean(2).sqrt() for axis in axes]
    spreads = [positions.std(2, correction=0), *roughness]
    return Statistics(positions.mean(2).cpu().double(), torch.cat(spreads, 1).cpu().double())


def _has_matrix(module: nn.Module) -> bool:
    return any(parameter.dim() > 1 for parameter in module.parameters(recurse=False))


def _outputs(model: BayesianModel[Any], network: Draws, inputs: Any, layers: Sequence[str]) -> dict[str, Tensor]:
    """Return the outputs of layers, each that of its first call, in the order of the calls."""
    with _recording(model.net, layers) as outputs:
        buffers = {name: buffer[0] for name, buffer in network.buffers.items()}
        model.forward(network.weights[0], network.fixed[0], buffers, inputs)
    return outputs


@contextmanager
def _recording(net: nn.Module, layers: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    outputs: dict[str, Tensor] = {}

    def recorder(name: str) -> Any:
        def record(module: nn.Module, arguments: Any, output: Any) -> None:
            first = output[0] if isinstance(output, tuple) else output
            if isinstance(first, Tensor) and first.is_floating_point():
                outputs.setdefault(name, first)

        return record

    modules = dict(net.named_modules())
    handles = [modules[name].register_forward_hook(recorder(name)) for name in layers]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()
