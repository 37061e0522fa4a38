"""A network of fewer units with a posterior of its own: what `remove_units` returns, measured, saved and loaded."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple

import torch
from safetensors.torch import save
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from r2d2net.errors import CheckpointError, require_whole
from r2d2net.manifest import opened, replacing
from r2d2net.model import require_module
from r2d2net.nets.selected_linear import SelectedLinear
from r2d2net.notebook_tables import html_table
from r2d2net.posterior import FILE as POSTERIOR
from r2d2net.posterior import Posterior
from r2d2net.prediction import PredictionT
from r2d2net.run.batches import take
from r2d2net.saved_json import Each, Whole
from r2d2net.saved_posteriors import load_saved, read_saved
from r2d2net.shrinkage.pruned import prunable
from r2d2net.shrinkage.unit_cut import Kept, Selection, cut_network
from r2d2net.specification import reading, require_classes

FILE = "smaller.json"
SCHEMA = {"shapes": Each([Whole()]), "selected": Each(Whole())}
REPEATS = 30  # of a forward pass that is timed


class LayerUnits(NamedTuple):
    """Units of one layer.

    Attributes:
        layer: Name of the layer; "inputs of" a linear layer for the inputs that it reads.
        before: Number of units of the whole network.
        after: Number that is left.
        why: Why some could not be removed; empty where all could.
    """

    layer: str
    before: int
    after: int
    why: str = ""


class Measure(NamedTuple):
    """A network before and after the cut."""

    quantity: str
    before: float
    after: float


@dataclass(frozen=True)
class SmallerNetwork(Generic[PredictionT]):
    """A network of fewer units and its posterior.

    Attributes:
        net: The plain network, with the posterior means of its weights.
        posterior: Its posterior, which predicts, draws and is saved like any other.
        layers: Units of each layer before and after.
        threshold: Score below which units went; None where numbers of units were given.
        notes: Layers that would have lost all units.
        whole: The posterior before the cut.
    """

    net: nn.Module
    posterior: Posterior[PredictionT]
    layers: tuple[LayerUnits, ...]
    threshold: float | None
    notes: tuple[str, ...]
    whole: Posterior[PredictionT] = field(repr=False)

    @property
    def weights(self) -> int:
        """Number of weights of matrices and filters, biases apart."""
        return weights_of(self.posterior)

    @property
    def ratio(self) -> float:
        """How many times fewer weights of matrices and filters there are than before."""
        return weights_of(self.whole) / self.weights

    def __repr__(self) -> str:
        return f"SmallerNetwork({self.weights} weights of {weights_of(self.whole)}, {self.ratio:.3g} times fewer)"

    def __str__(self) -> str:
        width = max((len(row.layer) for row in self.layers), default=0)
        rows = [f"{row.layer:<{width}} {row.before:>7} -> {row.after:<7} {row.why}".rstrip() for row in self.layers]
        return "\n".join([repr(self), *rows, *self.notes])

    def _repr_html_(self) -> str:
        return html_table(repr(self), LayerUnits._fields, self.layers)

    def measure(self, x: Any, *, repeats: int = REPEATS) -> list[Measure]:
        """Measure both networks: parameters, file size, operations and time of a forward pass.

        Args:
            x: Rows of inputs in the user's units.
            repeats: Number of passes that are timed, the networks in turn; the median counts.

        Returns:
            Parameters; bytes of the tensors as a safetensors file; floating-point operations of one row; milliseconds
            of a pass of one row and of all rows, on the model's device.
        """
        require_whole("repeats", repeats)
        nets = plain_network(self.whole), self.net
        inputs = self.whole.network_inputs(x)
        one = take(inputs, slice(0, 1))
        count = [sum(p.numel() for p in net.parameters()) for net in nets]
        size = [len(save({k: v.contiguous().clone() for k, v in net.state_dict().items()})) for net in nets]
        rows = len(inputs[0]) if isinstance(inputs, tuple) else len(inputs)
        found = [Measure("parameters", *count), Measure("bytes", *size)]
        found.append(Measure("operations of a row", *(_operations(net, one) for net in nets)))
        for name, batch in (("ms, 1 row", one), (f"ms, {rows} rows", inputs)):
            found.append(Measure(name, *_latencies(nets, batch, repeats)))
        return found

    def save(self, folder: str | Path) -> Path:
        """Save the smaller network and its posterior; `load_smaller` reads both, given the whole network.

        Args:
            folder: Folder to write, made where it is missing.

        Returns:
            Path of the posterior's file.
        """
        tensors = {**dict(self.net.named_parameters()), **dict(self.net.named_buffers())}
        selected = {n: m.inputs for n, m in self.net.named_modules() if isinstance(m, SelectedLinear)}
        shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
        content = {"shapes": shapes, "selected": selected, "layers": [list(row) for row in self.layers]}
        with replacing(Path(folder)) as staging:
            self.posterior.stage(staging)
            staging.json(FILE, content)
        return Path(folder) / POSTERIOR


def plain_network(posterior: Posterior[Any]) -> nn.Module:
    """Copy the plain network with the posterior means of its weights.

    Args:
        posterior: The posterior.

    Returns:
        The network in evaluation mode, without gradients.
    """
    net = copy.deepcopy(posterior.model.net)
    net.load_state_dict(posterior.state_dict())
    return net.requires_grad_(False).eval()


def load_smaller(folder: str | Path, net: nn.Module, *, classes: Sequence[type] = ()) -> Posterior[Any]:
    """Load the posterior of a network of fewer units.

    Args:
        folder: Folder that `SmallerNetwork.save` wrote.
        net: A network of the architecture before any unit was removed; it is not changed.
        classes: Classes from outside r2d2net, as for `r2d2net.load`.

    Returns:
        The posterior; ``posterior.model.net`` is the plain, smaller network.

    Raises:
        CheckpointError: If the folder holds no complete run, or one of another network.
    """
    require_module(net)
    require_classes(classes)
    path = Path(folder) / FILE
    with opened(Path(folder)) as parts:
        if not parts.has(FILE) and not path.exists():
            raise CheckpointError("is not there", value=path, fix="give a folder written by SmallerNetwork.save")
        content, saved = parts.json(FILE, SCHEMA), read_saved(parts)
    held = sum(tensor.numel() for tensor in saved.tensors.values())
    if any(shape[0] > held for name, shape in content["shapes"].items() if name.endswith("kept") and shape):
        raise CheckpointError("has a network larger than the posterior beside it", value=path, fix="save it again")
    with reading(path):
        return load_saved(saved, like_saved(net, content["shapes"], content["selected"], path), classes)


def like_saved(net: nn.Module, shapes: dict[str, list[int]], selected: dict[str, int], path: Path) -> nn.Module:
    """Build a network of the sizes of a smaller one; the entries of its tensors are none of the smaller one's.

    Args:
        net: The network before the cut.
        shapes: Shapes of the tensors after it.
        selected: Number of entries that reach linear layers which read some of them.
        path: The file that says so, for errors.

    Returns:
        The network.

    Raises:
        CheckpointError: If no cut of the network has these sizes.
    """
    kept: Kept = {}
    own = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    for name, tensor in own.items():
        shape = shapes.get(name)
        fits = shape is not None and len(shape) == tensor.dim()
        if shape is None or not fits or any(a > b for a, b in zip(shape, tensor.shape, strict=True)):
            problem = f"is of another network: it has {name!r} of shape {shape}, the given one of {tuple(tensor.shape)}"
            raise CheckpointError(problem, value=path, fix="give the network before units were removed")
        kept[name] = {d: torch.arange(size) for d, size in enumerate(shape) if size != tensor.shape[d]}
    places = {name: Selection(torch.arange(shapes[f"{name}.kept".lstrip(".")][0]), n) for name, n in selected.items()}
    return cut_network(net, kept, places)


def weights_of(posterior: Posterior[Any]) -> int:
    """Count the Bayesian weights of matrices and filters."""
    return sum(slot.stop - slot.start for slot in prunable(posterior.model))


def _operations(net: nn.Module, row: Any) -> int:
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        net(*(row if isinstance(row, tuple) else (row,)))
    return int(counter.get_total_flops())


@torch.no_grad()
def _latencies(nets: Sequence[nn.Module], batch: Any, repeats: int) -> list[float]:
    """Return the median milliseconds of a pass of each network, which take turns."""
    arguments = batch if isinstance(batch, tuple) else (batch,)
    times: list[list[float]] = [[] for _ in nets]
    for _ in range(repeats + 2):
        for own, net in zip(times, nets, strict=True):
            start = time.perf_counter()
            net(*arguments)
            own.append(1000 * (time.perf_counter() - start))
    return [statistics.median(own[2:]) for own in times]  # the first passes warm up
