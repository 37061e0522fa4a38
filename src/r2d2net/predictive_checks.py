"""Predictive checks: do rows look as a prediction says they should?

    PIT        u_i = F_i(y_i), at a random place within its step where F_i has steps: uniform if the prediction is right
    residual   z_i = Phi^-1(u_i) of numbers and counts, normal; of classes 1[event] - p_i, of variance p_i (1 - p_i)
    density    share of the rows in each bin beside the expected one, sum_i (F_i(b) - F_i(a)) / n

Tested are: mean and mean square of the residuals, the shape of the PIT (Kolmogorov and Smirnov), and, for each input,
mean and size of the residuals over up to ten groups of its values (one-way analyses of variance). Of classes: the
mean, Spiegelhalter's statistic of too bold or too timid probabilities, and means over groups. All p-values are
multiplied by their number: of right predictions at most about 5% are flagged. Rows that the fit has seen have smaller
residuals than new ones, so that these are checks of rows that it has not seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import chdtr, chdtrc, fdtrc, kolmogorov  # scipy.stats takes more than a second to import
from torch import Tensor

from r2d2net.errors import DataError, ParameterError, Shown, Value
from r2d2net.prediction import Classification, Mixture, Prediction, like_draw
from r2d2net.predictive_check_views import PredictiveCheckViews

LEAST_ROWS = 10
FLAGGED = 0.05  # chance that something is flagged of a right prediction
LARGEST = 8.0  # of a residual
GROUPS, LEAST_GROUP = 10, 5  # of an input's values, and rows of a group
BINS = 20
LEVELS = tuple(round(0.05 * k, 2) for k in range(1, 20))
FAR = 1e-6  # rarest probability of an event
PLACES = 0x51ED270B35AE  # keeps the places within steps apart from what a user has drawn by the same seed


class Density(NamedTuple):
    """Targets beside what was expected of them.

    Attributes:
        edges: Ends of the bins, (bins + 1,); of classes the numbers of the classes, shifted by a half.
        observed: Share of the rows in each bin, (bins,).
        expected: Expected share.
        low: Lower end of what chance allows with probability 90%.
        high: Upper end.
    """

    edges: np.ndarray
    observed: np.ndarray
    expected: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Calibration(NamedTuple):
    """How often something came true that was said with a probability.

    Attributes:
        said: Levels of central intervals, or mean predicted probabilities of the event, (points,).
        true: Share of rows inside, or of events.
        rows: Number of rows of each point.
    """

    said: np.ndarray
    true: np.ndarray
    rows: np.ndarray


class InputResiduals(NamedTuple):
    """Residuals over the values of one input.

    Attributes:
        name: Name of the input.
        place: Mean value of the input in each group, (groups,).
        mean: Mean residual of each group.
        size: Root mean square of the residuals of each group.
        rows: Number of rows of each group.
        p_mean: p-value of equal means.
        p_size: p-value of equal sizes.
    """

    name: str
    place: np.ndarray
    mean: np.ndarray
    size: np.ndarray
    rows: np.ndarray
    p_mean: float
    p_size: float

    @property
    def p(self) -> float:
        """The smaller of both p-values."""
        return min(self.p_mean, self.p_size)


@dataclass(frozen=True, repr=False)
class PredictiveCheck(PredictiveCheckViews):
    """Rows with known targets beside their prediction.

    Attributes:
        kind: "numbers", "counts" or "classes".
        residual: Residual of each row, (rows,).
        pit: Probability integral transform of each row; None for classes.
        density: Targets beside what was expected of them.
        calibration: Rows inside intervals of each level, or events by their probability.
        inputs: Residuals by input, those with the smallest p-values first; none where x is no table.
        p_values: p-values by name, before they are multiplied by their number.
        boldness: Of classes, Spiegelhalter's statistic: above 0 where probabilities are too close to 0 and 1.
    """

    kind: str
    residual: np.ndarray
    pit: np.ndarray | None
    density: Density
    calibration: Calibration
    inputs: tuple[InputResiduals, ...]
    p_values: dict[str, float]
    boldness: float = 0.0

    @property
    def flags(self) -> list[str]:
        """What is wrong, in words; empty if nothing is seen to be."""
        count, size = self._tests, float(np.sqrt(np.mean(self.residual**2)))
        if self.kind == "classes":
            return self._flags_of_classes(count)
        found = []
        if self.p_values["mean"] * count < FLAGGED:
            side = "high" if self.residual.mean() < 0 else "low"
            found.append(
                f"predictions are too {side}, by {abs(self.residual.mean()):.2f} standard deviations on average"
            )
        if self.p_values["size"] * count < FLAGGED:
            found.append(f"residuals are {size:.2f} times as large as predicted: intervals are too {_wide(size)}")
        if self.p_values.get("shape", 1.0) * count < FLAGGED:
            found.append("the predictive distributions have another shape than the targets")
        for entry in self.inputs:
            if entry.p_mean * count < FLAGGED:
                found.append(f"residuals depend on {entry.name}")
            elif entry.p_size * count < FLAGGED:
                found.append(f"the size of the residuals depends on {entry.name}")
        return found

    def _flags_of_classes(self, count: int) -> list[str]:
        found = []
        if self.p_values["mean"] * count < FLAGGED:
            side = "too likely" if self.residual.mean() < 0 else "too unlikely"
            found.append(f"the event is said to be {side}, by {abs(self.residual.mean()):.1%} on average")
        if self.p_values["size"] * count < FLAGGED:
            found.append(f"probabilities are too {'bold' if self.boldness > 0 else 'timid'}")
        return found + [f"events depend on {entry.name}" for entry in self.inputs if entry.p_mean * count < FLAGGED]

    @property
    def verdict(self) -> str:
        """What the check found, in one line."""
        rows = f"{len(self.residual):,} rows"
        if not self.flags:
            return f"nothing wrong found with the predictions of these {rows}"
        shown, more = self.flags[:4], len(self.flags) - 4
        return f"{rows}: {'; '.join(shown)}{f'; and {more} more' if more > 0 else ''}"

    @property
    def _tests(self) -> int:
        return len(self.p_values) + (1 if self.kind == "classes" else 2) * len(self.inputs)

    def plain(self, most_inputs: int = 3) -> dict[str, Any]:
        """Write the check as JSON.

        Args:
            most_inputs: Largest number of inputs.

        Returns:
            Verdict, flags, histogram of the PIT, density, calibration and the first inputs.
        """
        return {
            "kind": self.kind,
            "rows": len(self.residual),
            "verdict": self.verdict,
            "flags": self.flags,
            "p_values": self.p_values,
            "pit": None if self.pit is None else np.histogram(self.pit, BINS // 2, (0, 1))[0].tolist(),
            "density": {name: part.tolist() for name, part in self.density._asdict().items()},
            "calibration": {name: part.tolist() for name, part in self.calibration._asdict().items()},
            "inputs": [
                {
                    name: part.tolist() if isinstance(part, np.ndarray) else part
                    for name, part in entry._asdict().items()
                }
                for entry in self.inputs[:most_inputs]
            ],
        }


def check_prediction(
    prediction: Prediction,
    y: Any,
    inputs: np.ndarray | None = None,
    names: Sequence[str] | None = None,
    *,
    output: int = 0,
    seed: int = 0,
) -> PredictiveCheck:
    """Check a prediction by the targets of its rows.

    Args:
        prediction: The prediction.
        y: The targets.
        inputs: The rows' inputs, (rows, inputs); None checks no residuals by input.
        names: Names of the inputs; "input 0", ... by default.
        output: Which of several outputs is checked.
        seed: Seed of the places within the steps of counts.

    Returns:
        The check.

    Raises:
        DataError: If rows and targets do not fit, or are too few.
        ParameterError: If there is no such output, or the likelihood has no distribution function.
    """
    if len(prediction) < LEAST_ROWS:
        raise DataError(
            ("has ", Value(len(prediction)), " rows"), argument="x", fix=f"a check takes {LEAST_ROWS} or more"
        )
    try:
        target = torch.as_tensor(y)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"cannot be read ({error})", argument="y", fix="give numbers") from error
    if not bool(torch.isfinite(target).all()):
        raise DataError("holds a number that is not finite", argument="y", fix="leave such rows out")
    table = None if inputs is None else np.asarray(inputs, dtype=float)
    if isinstance(prediction, Classification):
        return _of_classes(prediction, target, table, names)
    if not isinstance(prediction, Mixture):
        name = Shown(type(prediction).__name__)
        raise ParameterError(
            "cannot be checked", argument="prediction", value=name, fix="use one of numbers or classes"
        )
    target = like_draw(target, prediction.samples[0])
    width = 1 if target.dim() < 2 else target.shape[1]
    if isinstance(output, bool) or not isinstance(output, int) or not 0 <= output < width:
        raise ParameterError("is out of range", argument="output", value=output, fix=f"use 0 to {width - 1}")
    return _of_numbers(
        prediction.of_output(output), target if target.dim() < 2 else target[:, output], table, names, seed
    )


# --- numbers, counts


def _of_numbers(
    prediction: Mixture, y: Tensor, inputs: np.ndarray | None, names: Sequence[str] | None, seed: int
) -> PredictiveCheck:
    """Check numbers or counts."""
    u = prediction.cdf(y).double()
    if prediction.is_discrete:
        within = torch.rand(u.shape, generator=torch.Generator().manual_seed(seed ^ PLACES), dtype=u.dtype)
        u = torch.lerp(prediction.cdf(y - 1).double(), u, within.to(u.device))
    pit = u.cpu().numpy().clip(0, 1)
    residual = torch.special.ndtri(u).clamp(-LARGEST, LARGEST).cpu().numpy()
    inside = np.abs(2 * pit - 1)
    levels = np.array(LEVELS)
    covered = (inside[:, None] <= levels).mean(0)
    calibration = Calibration(levels, covered, np.full(len(levels), len(pit)))
    kind = "counts" if prediction.is_discrete else "numbers"
    edges = _edges(prediction, y.double().cpu().numpy())
    below = np.stack([prediction.cdf(torch.full_like(y.double(), float(edge))).cpu().numpy() for edge in edges], 1)
    observed = np.histogram(y.double().cpu().numpy(), edges)[0] / len(pit)
    density = _density(edges, observed, np.diff(below, axis=1))
    n = len(residual)
    total = float((residual**2).sum())
    p = {
        "mean": math.erfc(abs(float(residual.mean())) * math.sqrt(n / 2)),
        "size": min(1.0, 2 * min(float(chdtr(n, total)), float(chdtrc(n, total)))),
        "shape": _uniform(pit),
    }
    by_input = _by_input(residual, np.ones(n), inputs, names, of_classes=False)
    return PredictiveCheck(kind, residual, pit, density, calibration, by_input, p)


def _edges(prediction: Mixture, y: np.ndarray) -> np.ndarray:
    """Return the ends of bins that hold nearly all of the targets and of what is expected of them."""
    low = np.quantile(prediction.quantile(0.01).double().cpu().numpy(), 0.05)
    high = np.quantile(prediction.quantile(0.99).double().cpu().numpy(), 0.95)
    low, high = np.nanmin([low, np.quantile(y, 0.005)]), np.nanmax([high, np.quantile(y, 0.995)])
    if not np.isfinite([low, high, high - low]).all():  # quantiles of a log-normal law may be infinite
        low, high = float(y.min()), float(y.max())
    if prediction.is_discrete:
        step = max(1, math.ceil((high - low + 1) / BINS))
        return np.arange(math.floor(low), math.ceil(high) + step + 1, step) - 0.5
    width = max(high - low, 1e-9 * max(1.0, abs(high)))
    return np.linspace(low - 0.02 * width, high + 0.02 * width, BINS + 1)


def _density(edges: np.ndarray, observed: np.ndarray, probability: np.ndarray) -> Density:
    """Add to observed shares what the probabilities of each row (rows, bins) make of them."""
    expected = probability.mean(0)
    deviation = 1.645 * np.sqrt((probability * (1 - probability)).sum(0)) / len(probability)
    return Density(edges, observed, expected, np.maximum(expected - deviation, 0), expected + deviation)


def _uniform(u: np.ndarray) -> float:
    """Return the p-value of Kolmogorov and Smirnov, with Stephens' correction for few rows."""
    n, ordered = len(u), np.sort(u)
    steps = np.arange(1, n + 1) / n
    distance = max(float((steps - ordered).max()), float((ordered - steps + 1 / n).max()))
    return float(kolmogorov((math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n)) * distance))


# --- classes


def _of_classes(
    prediction: Classification, y: Tensor, inputs: np.ndarray | None, names: Sequence[str] | None
) -> PredictiveCheck:
    """Check classes: of two the second is the event, of more the one predicted."""
    prediction.log_prob(y)  # refuses what is no class
    label = y.reshape(-1).long().cpu().numpy()
    probs = prediction.probs.double().cpu().numpy()
    event = np.ones(len(label), dtype=int) if probs.shape[1] == 2 else probs.argmax(1)
    said = probs[np.arange(len(label)), event].clip(FAR, 1 - FAR)
    came = (label == event).astype(float)
    residual, variance = came - said, said * (1 - said)
    observed = np.bincount(label, minlength=probs.shape[1]) / len(label)
    density = _density(np.arange(probs.shape[1] + 1) - 0.5, observed, probs)
    bins = np.array_split(np.argsort(said, kind="stable"), min(GROUPS, max(1, len(said) // LEAST_GROUP)))
    points = [(said[rows].mean(), came[rows].mean(), len(rows)) for rows in bins]
    calibration = Calibration(*(np.array(part) for part in zip(*points, strict=True)))
    bold = math.sqrt(float(((1 - 2 * said) ** 2 * variance).sum()))
    boldness = float((residual * (1 - 2 * said)).sum()) / bold if bold > 0 else 0.0
    p = {
        "mean": math.erfc(abs(float(residual.sum())) / math.sqrt(2 * float(variance.sum()))),
        "size": math.erfc(abs(boldness) / math.sqrt(2)),
    }
    by_input = _by_input(residual, variance, inputs, names, of_classes=True)
    return PredictiveCheck("classes", residual, None, density, calibration, by_input, p, boldness)


# --- inputs


def _by_input(
    residual: np.ndarray,
    variance: np.ndarray,
    table: np.ndarray | None,
    names: Sequence[str] | None,
    *,
    of_classes: bool,
) -> tuple[InputResiduals, ...]:
    """Return the residuals over the values of each input that varies, by p-value."""
    if table is None:
        return ()
    labels = [f"input {j}" for j in range(table.shape[1])] if names is None else list(map(str, names))
    if len(labels) != table.shape[1]:
        problem = ("has ", Value(len(labels)), f" names, x has {table.shape[1]} columns")
        raise DataError(problem, argument="names", fix="they must agree")
    found = (
        _one_input(residual, variance, table[:, j], label, of_classes=of_classes) for j, label in enumerate(labels)
    )
    return tuple(sorted((entry for entry in found if entry is not None), key=lambda entry: entry.p))


def _one_input(
    residual: np.ndarray, variance: np.ndarray, values: np.ndarray, name: str, *, of_classes: bool
) -> InputResiduals | None:
    """Group the rows by an input's values, and compare means and sizes of the residuals; None of a constant."""
    levels, code = np.unique(values, return_inverse=True)
    if len(levels) > GROUPS:
        groups = min(GROUPS, len(values) // LEAST_GROUP)
        ends = np.unique(np.quantile(values, np.linspace(0, 1, groups + 1)[1:-1]))
        code = np.searchsorted(ends, values, side="left")
    rows = np.bincount(code)
    code = (np.cumsum(rows > 0) - 1)[code]  # without empty groups
    rows = rows[rows > 0]
    if len(rows) < 2 or len(values) <= len(rows):
        return None
    mean = np.bincount(code, residual) / rows
    size = np.sqrt(np.bincount(code, residual**2) / np.bincount(code, variance))
    if of_classes:
        total = float((np.bincount(code, residual) ** 2 / np.bincount(code, variance)).sum())
        p = (float(chdtrc(len(rows), total)), 1.0)
    else:
        p = (_equal_means(residual, code, rows), _equal_means(np.abs(residual - mean[code]), code, rows))
    return InputResiduals(name, np.bincount(code, values) / rows, mean, size, rows, *p)


def _equal_means(values: np.ndarray, code: np.ndarray, rows: np.ndarray) -> float:
    """Return the p-value of the one-way analysis of variance."""
    mean = np.bincount(code, values) / rows
    between = float((rows * (mean - values.mean()) ** 2).sum()) / (len(rows) - 1)
    within = float(((values - mean[code]) ** 2).sum()) / (len(values) - len(rows))
    return float(fdtrc(len(rows) - 1, len(values) - len(rows), between / within)) if within > 0 else 1.0


def _wide(size: float) -> str:
    return "narrow" if size > 1 else "wide"
