"""How good predictions of rows with known targets are: error, log density, calibration, beside the best constant."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from r2d2net.columns.cell_parsing import Values
from r2d2net.interval_calibration import IntervalCalibration, interval_of, level_of
from r2d2net.metrics import accuracy, brier, ece, macro_auroc, rmse, rps
from r2d2net.prediction import Classification, Mixture, Prediction
from r2d2net.tables.prediction_task import Task
from r2d2net.tables.verdict import LOG_LOSS, NLL, RMSE

LEVELS = tuple(round(0.05 * k, 2) for k in range(1, 20))  # of the calibration curve
BINS = 10  # of the reliability diagram


def baseline_of(task: Task, y: Values) -> dict[str, Any]:
    """Return the best constant predictions by the training targets.

    Args:
        task: What is predicted.
        y: Targets of the training rows.

    Returns:
        Mean and standard deviation of a normal law and, for absolute errors, the median; or the shares of the classes.
    """
    if task.is_regression:
        return {"mean": float(y.mean()), "sd": float(y.std()) or 1.0, "median": float(np.median(y))}
    counts = np.bincount(y.astype(np.int64), minlength=len(task.classes))
    return {"shares": ((counts + 0.5) / (counts.sum() + 0.5 * len(counts))).tolist()}


@dataclass
class Scored:
    """Predictions met by their targets, collected block by block.

    Kept are, of a row, its target, mean and width of the interval, or the probabilities of its classes.
    """

    task: Task
    calibration: IntervalCalibration | None = None  # of intervals, by rows left out of the fit
    y: list[Values] = field(default_factory=list)
    log_density: list[Values] = field(default_factory=list)
    center: list[Values] = field(default_factory=list)  # predictive means, or class probabilities
    spread: list[Values] = field(
        default_factory=list
    )  # least levels whose interval contains the target; none for classes
    width: list[Values] = field(default_factory=list)

    def add(self, prediction: Prediction, y: Values, level: float) -> None:
        """Add a block of predictions.

        Args:
            prediction: The predictive distributions.
            y: The targets.
            level: Level of the intervals.
        """
        target = torch.from_numpy(y)
        self.y.append(y)
        self.log_density.append(_array(prediction.log_prob(target)))
        if isinstance(prediction, Mixture):
            self.center.append(_array(prediction.mean))
            levels = level_of(prediction, target)
            self.spread.append(_array(levels if self.calibration is None else self.calibration.nominal(levels)))
            low, high = interval_of(prediction, level, self.calibration)
            self.width.append(_array(high - low))
        else:
            assert isinstance(prediction, Classification)
            self.center.append(_array(prediction.probs))

    def losses(self) -> dict[str, Values]:
        """Return the losses of each row by measure (see `verdict`)."""
        return losses_of(
            self.task, np.concatenate(self.y), np.concatenate(self.center), np.concatenate(self.log_density)
        )

    def metrics_beside(self, center: Values, log_density: Values) -> dict[str, float | None]:
        """Measure the predictions that another model makes of the same rows.

        Args:
            center: Its predictive means, or class probabilities.
            log_density: Logarithm of its density, or probability, of the targets.

        Returns:
            The metrics that need no more than these, ready for JSON.
        """
        y, nll = np.concatenate(self.y), -float(log_density.mean())
        if not self.task.is_regression:
            return {**_class_scores(self.task, y.astype(np.int64), center), "nll": nll}
        return {**_number_scores(y, center), "nll": nll}

    @np.errstate(over="ignore", invalid="ignore")  # a target of 1e90 has an infinite error, and no warning
    def metrics(self, baseline: dict[str, Any], level: float) -> dict[str, Any]:
        """Measure all predictions that were added.

        Args:
            baseline: The best constant predictions (see `baseline_of`).
            level: Level of the intervals.

        Returns:
            Metrics of the model, ready for JSON, and under "constant" the same of the best constant prediction.
        """
        y, log_density = np.concatenate(self.y), np.concatenate(self.log_density)
        center = np.concatenate(self.center)
        common = {"rows": len(y), "nll": -float(log_density.mean()), "nll_se": _standard_error(log_density)}
        if self.task.is_regression:
            return common | self._of_numbers(y, center, baseline, level)
        return common | self._of_classes(y, center, baseline)

    def _of_numbers(self, y: Values, mean: Values, baseline: dict[str, Any], level: float) -> dict[str, Any]:
        transform = np.concatenate(self.spread)
        z = (y - baseline["mean"]) / baseline["sd"]
        median = baseline.get("median", baseline["mean"])  # runs of earlier versions have none
        constant = {
            "rmse": rmse(y, np.full(len(y), baseline["mean"])),
            "mae": float(np.abs(y - median).mean()),
            "nll": float((0.5 * z * z).mean() + math.log(baseline["sd"] * math.sqrt(2 * math.pi))),
        }
        return {
            **_number_scores(y, mean),
            "level": level,
            "coverage": float((transform <= level).mean()),
            "width": float(np.concatenate(self.width).mean()),
            "constant": constant,
            "calibration": {
                "level": list(LEVELS),
                "covered": [float((transform <= nominal).mean()) for nominal in LEVELS],
            },
        }

    def _of_classes(self, y: Values, probs: Values, baseline: dict[str, Any]) -> dict[str, Any]:
        label, shares = y.astype(np.int64), np.array(baseline["shares"])
        return {
            **_class_scores(self.task, label, probs),
            "constant": {
                "accuracy": float((label == shares.argmax()).mean()),
                "nll": -float(np.log(shares[label]).mean()),
                **_distances(self.task, label, np.tile(shares, (len(label), 1))),
            },
            "calibration": reliability(label, probs),
        }


@np.errstate(over="ignore", invalid="ignore")
def losses_of(task: Task, y: Values, center: Values, log_density: Values) -> dict[str, Values]:
    """Return the losses of rows by measure, the one that decides the verdict first.

    Args:
        task: What is predicted.
        y: Targets of the rows.
        center: Predictive means, or class probabilities.
        log_density: Logarithm of the predictive density, or probability, of the targets.
    """
    return {RMSE: np.square(y - center), NLL: -log_density} if task.is_regression else {LOG_LOSS: -log_density}


@np.errstate(over="ignore", invalid="ignore")
def constant_losses(task: Task, y: Values, baseline: dict[str, Any]) -> dict[str, Values]:
    """Return the losses of the best constant prediction.

    Args:
        task: What is predicted.
        y: Targets of the rows.
        baseline: The best constant predictions (see `baseline_of`).
    """
    if task.is_regression:
        center, sd = np.full(len(y), baseline["mean"]), baseline["sd"]
        log_density = -0.5 * np.square((y - center) / sd) - math.log(sd * math.sqrt(2 * math.pi))
        return losses_of(task, y, center, log_density)
    return losses_of(task, y, y, np.log(np.array(baseline["shares"]))[y.astype(np.int64)])


@np.errstate(over="ignore", invalid="ignore")
def _number_scores(y: Values, mean: Values) -> dict[str, float | None]:
    error, total = np.square(y - mean).mean(), y.var()
    return {
        "rmse": rmse(y, mean),
        "mae": float(np.abs(y - mean).mean()),
        "r2": float(1 - error / total) if total > 0 else None,
    }


def _distances(task: Task, label: np.ndarray, probs: Values) -> dict[str, float]:
    """Distances of probabilities from the classes; of ordinal ones first that by which near misses cost less."""
    ranked = {"rps": rps(label, probs)} if task.kind == "ordinal" else {}
    return {**ranked, "brier": brier(label, probs)}


def _class_scores(task: Task, label: np.ndarray, probs: Values) -> dict[str, float | None]:
    return {
        "accuracy": accuracy(label, probs),
        **_distances(task, label, probs),
        "ece": ece(label, probs),
        "auroc": macro_auroc(label, probs) if len(np.unique(label)) > 1 else None,
    }


def reliability(label: np.ndarray, probs: Values) -> dict[str, list[float]]:
    """Return the bins of a reliability diagram.

    Args:
        label: The classes of the rows.
        probs: (rows, classes), their predicted probabilities.

    Returns:
        Of each bin the mean predicted probability, the share that came true, and the rows; for two classes of the
        second class, for more of the most probable one.
    """
    if probs.shape[1] == 2:
        said, true = probs[:, 1], label == 1
    else:
        said, true = probs.max(1), probs.argmax(1) == label
    at = np.minimum((said * BINS).astype(np.int64), BINS - 1)
    rows = np.bincount(at, minlength=BINS)
    there = rows > 0
    means = [np.bincount(at, weights=what, minlength=BINS)[there] / rows[there] for what in (said, true)]
    return {"said": means[0].tolist(), "true": means[1].tolist(), "rows": rows[there].tolist()}


def _array(tensor: torch.Tensor) -> Values:
    return tensor.double().cpu().numpy()


def _standard_error(values: Values) -> float | None:
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    return float(values.std(ddof=1) / math.sqrt(len(values)))
