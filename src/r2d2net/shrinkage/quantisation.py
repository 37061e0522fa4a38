"""Weights in as few bits as their posterior deviations allow (after Louizos, Ullrich and Welling, 2017).

    w_j -> D round(w_j / D),      D = step * (mean over the layer of 1 / s_j^2)^(-1/2)

A weight is known up to its posterior deviation s_j, and more digits say nothing. The loss and the prior's term together
have the curvature t / s_j^2 at temperature t (`weight_scores`), and errors of rounding to a grid of distance D have the
mean square D^2 / 12, so that K weights of a layer cost

    t / 2 sum_j D^2 / (12 s_j^2) = t K step^2 / 24      nats over all training rows, 1/24 nat a weight at step = 1.

A layer has one D, and its weights have the bits of their range in units of D. With validation rows the step is the
largest of 4, 2, 1, ... with which their mean log density stays within one standard error.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn

from r2d2net import checkpoint
from r2d2net.errors import CheckpointError, ParameterError, Shown, is_number, require, require_whole
from r2d2net.inference.mean_field_family import MeanFieldDraws
from r2d2net.model import require_module
from r2d2net.notebook_tables import html_table
from r2d2net.posterior import Posterior
from r2d2net.prediction import PredictionT
from r2d2net.shrinkage.packed_weights import MOST_BITS, Packed, bits_of, pack, unpack
from r2d2net.shrinkage.pruned import PrunedDraws, prunable
from r2d2net.shrinkage.pruning import require_rows, standing
from r2d2net.shrinkage.smaller_network import plain_network
from r2d2net.shrinkage.weight_scores import moments_of
from r2d2net.specification import reading

STEP = 1.0
LARGEST, SMALLEST = 4.0, 2.0**-12  # of the steps that validation rows choose from
KIND = "quantised network"


class LayerBits(NamedTuple):
    """The weights of one layer on their grid.

    Attributes:
        layer: Name of the parameter.
        weights: Number of weights that are not zero for good.
        bits: Bits of a weight.
        step: Distance D of the values of the grid.
    """

    layer: str
    weights: int
    bits: int
    step: float


@dataclass(frozen=True)
class Quantised(Generic[PredictionT]):
    """A posterior whose means lie on a grid; `quantise` makes it.

    Attributes:
        posterior: The posterior; deviations are what they were.
        layers: Bits of each layer.
        step: Distances of the grids in posterior deviations.
    """

    posterior: Posterior[PredictionT]
    layers: tuple[LayerBits, ...]
    step: float

    @property
    def net(self) -> nn.Module:
        """The plain network, with means on the grid."""
        return plain_network(self.posterior)

    @property
    def bits(self) -> float:
        """Mean number of bits of a weight that is left."""
        return sum(row.weights * row.bits for row in self.layers) / sum(row.weights for row in self.layers)

    def __str__(self) -> str:
        width = max(len(row.layer) for row in self.layers)
        head = f"{self.bits:.3g} bits a weight, in steps of {self.step:g} posterior deviations"
        rows = [f"{row.layer:<{width}} {row.weights:>9} weights of {row.bits:>2} bits" for row in self.layers]
        return "\n".join([head, *rows])

    def _repr_html_(self) -> str:
        return html_table(f"{self.bits:.3g} bits a weight", LayerBits._fields, self.layers)

    def save(self, path: str | Path) -> FileSizes:
        """Save the plain network in as many bits; `load_quantised` reads it.

        Deviations are not in the file: `Posterior.save` keeps them. Biases, buffers and the like are in float32.

        Args:
            path: File to write.

        Returns:
            The bytes of the file as written, beside those of all weights in float32 as a safetensors file.

        Raises:
            CheckpointError: If the file cannot be written.
        """
        path, state = Path(path), self.posterior.state_dict()
        keep = moments_of(self.posterior).keep
        slots = {slot.name: slot for slot in self.posterior.model.bayesian}
        tensors: dict[str, Tensor] = {}
        described: dict[str, Any] = {}
        for row in self.layers:
            packed = pack(state[row.layer].detach(), slots[row.layer].of(keep), row.step)
            tensors[f"codes/{row.layer}"], tensors[f"mask/{row.layer}"] = map(_bytes, (packed.codes, packed.mask))
            described[row.layer] = [list(packed.shape), packed.step, packed.least, packed.bits, packed.left]
        whole = {name: tensor.detach().contiguous().clone() for name, tensor in state.items()}
        tensors |= {f"rest/{name}": tensor for name, tensor in whole.items() if name not in described}
        checkpoint.write(path, tensors, {"kind": KIND, "layers": described})
        return FileSizes(path.stat().st_size, len(save(whole)))


class FileSizes(NamedTuple):
    """Bytes of two files.

    Attributes:
        quantised: Of the file that was written.
        whole: Of the tensors as they are, as a safetensors file.
    """

    quantised: int
    whole: int


def quantise(
    posterior: Posterior[PredictionT],
    *,
    step: float | None = None,
    validation: tuple[Any, Any] | None = None,
    draws: int = 20,
) -> Quantised[PredictionT]:
    """Round the posterior means of a network to as few bits as their deviations allow.

    Args:
        posterior: The fitted network, pruned or not, by mean-field inference; it is not changed.
        step: Distance of the values of a grid in posterior deviations; 1 by default.
        validation: Rows (x, y) that were not used for training, which choose the step in place of ``step``.
        draws: Posterior draws with which they are predicted.

    Returns:
        The posterior with rounded means and the bits of each layer. Intervals calibrated for the posterior as it was
        are left out.

    Raises:
        ParameterError: If an argument lies outside its range, or the posterior does not hold deviations.
        DataError: If ``validation`` does not fit the network.

    Example:
        >>> import r2d2net as rn
        >>> x = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))
        >>> model = rn.BayesianModel(rn.nets.mlp(8, [10], 1))
        >>> small = quantise(rn.fit(model, (x, x[:, 0] - x[:, 1]), "cavi", epochs=5))
        >>> all(row.bits < 10 for row in small.layers)
        True
    """
    if step is not None:
        require(is_number(step) and 0 < step < math.inf, "step", step, "use a number above 0, such as 1")
        if validation is not None:
            raise ParameterError("is chosen by validation rows", argument="step", value=step, fix="leave one out")
    require_whole("draws", draws)
    source: Any = posterior.source
    if not isinstance(source.inner if isinstance(source, PrunedDraws) else source, MeanFieldDraws):
        kind = Shown(type(source).__name__)
        fix = "use one that svgi, cavi, svi or mfvi fitted"
        raise ParameterError("needs a mean-field posterior", argument="posterior", value=kind, fix=fix)
    if not prunable(posterior.model):
        fix = "give a weight matrix of the model a prior"
        raise ParameterError("has no Bayesian matrices or filters", argument="posterior", fix=fix)
    if validation is None:
        return _rounded(posterior, STEP if step is None else float(step))
    rows = require_rows(validation, "validation", least=2)
    whole = standing(posterior, rows, draws)
    for tried in _steps():
        found = _rounded(posterior, tried)
        if standing(found.posterior, rows, draws).log_density >= whole.log_density - whole.standard_error:
            return found
    raise ParameterError(
        f"lose more than one standard error even at a step of {SMALLEST:g}",
        argument="validation",
        fix="give step=",
    )


def _steps() -> Iterator[float]:
    step = LARGEST
    while step >= SMALLEST:
        yield step
        step /= 2


def _rounded(posterior: Posterior[Any], step: float) -> Quantised[Any]:
    """Return the posterior with means on grids of a step."""
    moments = moments_of(posterior)
    assert moments.deviation is not None
    mean, layers = moments.mean.clone(), []
    for slot in prunable(posterior.model):
        own, keep = slot.of(mean), slot.of(moments.keep)
        left = own[keep].double()
        precision = slot.of(moments.deviation)[keep].double().square().reciprocal()
        if not len(left):
            continue
        with np.errstate(over="ignore"):
            distance = float(np.float32(step * precision.mean().rsqrt()))
        if distance == math.inf:
            problem = f"is beyond the numbers of float32 for {slot.name!r}"
            raise ParameterError(problem, argument="step", value=step, fix="use a smaller one, such as 1")
        if not distance > 0:
            raise _too_fine(slot.name, step)
        numbers = torch.round(left / distance)
        bits = bits_of(int(numbers.max() - numbers.min()))
        if bits > MOST_BITS:
            raise _too_fine(slot.name, step)
        own[keep] = (numbers * distance).to(own.dtype)
        layers.append(LayerBits(slot.name, len(left), bits, distance))
    source: Any = posterior.source
    changed = copy.copy(posterior)
    inner = source.inner if isinstance(source, PrunedDraws) else source
    inner = inner.with_state(inner.state._replace(mean=mean))
    changed.source = PrunedDraws(inner, source.keep) if isinstance(source, PrunedDraws) else inner
    changed.calibration = None
    if changed.settings:
        facts = {"step": step, "layers": [list(row) for row in layers]}
        changed.settings = {**changed.settings, "quantised": facts}
    return Quantised(changed, tuple(layers), step)


def _too_fine(name: str, step: float) -> ParameterError:
    problem = ("needs more than ", Shown(str(MOST_BITS)), f" bits for {name!r}")
    return ParameterError(problem, argument="step", value=step, fix="use a larger one, such as 1")


def load_quantised(path: str | Path, net: nn.Module) -> nn.Module:
    """Load the plain network that `Quantised.save` wrote.

    Args:
        path: The file.
        net: A network of the same architecture; it is not changed.

    Returns:
        The network in evaluation mode; its inputs and outputs are standardised as in the fit.

    Raises:
        CheckpointError: If the file holds no such network, or one of another architecture.
    """
    require_module(net)
    path = Path(path)
    tensors, header = checkpoint.read(path)
    if header.get("kind") != KIND:
        raise CheckpointError("holds no quantised network", value=path, fix="give a file of Quantised.save")
    state = {name.removeprefix("rest/"): tensor for name, tensor in tensors.items() if name.startswith("rest/")}
    with reading(path):
        for name, (shape, step, least, bits, left) in header["layers"].items():
            codes, mask = (tensors[f"{part}/{name}"].numpy().tobytes() for part in ("codes", "mask"))
            state[name] = unpack(Packed(tuple(shape), step, least, bits, left, codes, mask))
    loaded = copy.deepcopy(net)
    try:
        loaded.load_state_dict(state)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise CheckpointError(
            f"is of another network: {reason}", value=path, fix="give the one that was fitted"
        ) from None
    return loaded.requires_grad_(False).eval()


def _bytes(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.zeros(0, dtype=torch.uint8)
