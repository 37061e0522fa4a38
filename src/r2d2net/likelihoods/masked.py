"""A likelihood of numbers some of which are missing: NaN in y is a row's output without a target.

    log p(y_i | output_i) = sum over outputs k with a number y_ik of log p(y_ik | output_ik)

It serves likelihoods whose outputs are independent given those of the network (`Likelihood.takes_missing`): each cell
is looked at as a row of one output, and what is learnt for an output (its noise, say) is learnt from its own cells.
`fit` puts it in place of the model's likelihood for the time of the run; posteriors have the model's own.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import DataError, FitWarning, Value
from r2d2net.likelihoods.base import Likelihood, Noise, Unit


@dataclass(frozen=True)
class Masked(Likelihood[Any]):
    """The likelihood of targets of which some are NaN.

    Args:
        own: The likelihood of targets that are all there.
    """

    own: Likelihood[Any]

    def __post_init__(self) -> None:
        for trait in ("standardizes", "bounds_mean"):
            object.__setattr__(self, trait, getattr(self.own, trait))

    @property
    def learns_noise(self) -> bool:
        return self.own.learns_noise

    def target(self, y: Tensor) -> Tensor:
        checked = self.own.target(torch.nan_to_num(y, nan=1.0, posinf=torch.inf, neginf=-torch.inf))
        return checked.masked_fill(y.isnan().reshape(checked.shape), torch.nan)

    def outputs(self, y: Tensor) -> int | None:
        return self.own.outputs(y)

    def require_width(self, width: int, y: Tensor) -> None:
        self.own.require_width(width, torch.nan_to_num(y))

    def network_scale(self, y: Tensor) -> Tensor:
        return self.own.network_scale(y)

    def on_network_scale(self) -> Likelihood[Any]:
        scaled = self.own.on_network_scale()
        return self if scaled is self.own else Masked(scaled)

    def init(self, y: Tensor, unit: Unit | None = None) -> Noise:
        mean = y.double().nanmean(0).nan_to_num().to(y.dtype)  # in place of what is missing: means stay what they are
        return self.own.init(torch.where(y.isnan(), mean, y), unit)

    def observe(self, output: Tensor, y: Tensor, noise: Noise, rate: float) -> Noise:
        def follow(f: Tensor, known: Tensor, own: Noise) -> Noise:
            return self.own.observe(f, known, own, rate) if len(known) else own

        return self._by_output(follow, output, y, noise)

    def gibbs(
        self,
        output: Tensor,
        y: Tensor,
        noise: Noise,
        generator: torch.Generator | None = None,
        weight: float = 1.0,
    ) -> Noise:
        def draw(f: Tensor, known: Tensor, own: Noise) -> Noise:
            return self.own.gibbs(f, known, own, generator, weight)

        return self._by_output(draw, output, y, noise)

    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        known = ~y.isnan()
        if output.numel() != len(y) * (self.own.outputs(y) or -1):
            return self.own.log_prob(output, y.nan_to_num(), noise)  # which says that shapes do not agree
        each = {name: value.expand(y.shape).reshape(-1, 1) for name, value in noise.items()}
        cells = self.own.log_prob(_cells(output, y).flatten(0, 1), y.nan_to_num().reshape(-1, 1), each)
        return torch.where(known, cells.view(y.shape), 0).sum(1)

    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> Any:
        return self.own.predict(outputs, noise, unit)

    def _by_output(self, step: Any, output: Tensor, y: Tensor, noise: Noise) -> Noise:
        """Renew what is learnt for each output by its own cells."""
        if not noise:
            return noise
        cells, new = _cells(output, y), []
        for k in range(y.shape[1]):
            known = ~y[:, k].isnan()
            own = {name: value[k : k + 1] for name, value in noise.items()}
            new.append(step(cells[known, k], y[known, k : k + 1], own))
        return {name: torch.cat([part[name] for part in new]) for name in noise}


def _cells(output: Tensor, y: Tensor) -> Tensor:
    """Return what the network says of each cell, (rows, outputs, numbers): outputs (rows, numbers times outputs)."""
    return output.reshape(len(y), -1, y.shape[1]).transpose(1, 2)


def masked_for(likelihood: Likelihood[Any], y: Any) -> Likelihood[Any]:
    """Return the likelihood of given targets: itself, or where some are missing, and may be, that of the others.

    Args:
        likelihood: The likelihood.
        y: Targets.

    Returns:
        The likelihood.
    """
    return Masked(likelihood) if likelihood.takes_missing and has_missing(y) else likelihood


def has_missing(y: Any) -> bool:
    """Tell whether targets are numbers some of which are NaN.

    Args:
        y: Targets: a tensor, an array, a table of pandas or lists.

    Returns:
        Whether they are.
    """
    if isinstance(y, Tensor):
        return y.is_floating_point() and bool(y.isnan().any())
    try:
        array = np.asarray(y)
    except (ValueError, TypeError):  # rows of different lengths, which `as_arrays` refuses
        return False
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def require_some(known: Tensor, rows: int) -> None:
    """Refuse an output without any target; where only some are missing, say so in one line.

    Args:
        known: Number of targets of each output, (outputs,).
        rows: Number of training rows.

    Raises:
        DataError: If an output has no target.
    """
    if bool((known == 0).any()):
        place = f"[:, {int((known == 0).nonzero()[0])}] " if len(known) > 1 else ""
        raise DataError((f"{place}holds ", Value(float("nan")), " alone"), argument="y", fix="leave the output out")
    lacking = rows * len(known) - int(known.sum())
    if lacking:
        line = f"y is NaN in {lacking} of {rows * len(known)} cells, which count nothing"
        warnings.warn(line, FitWarning, stacklevel=3)
