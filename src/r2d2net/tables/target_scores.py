"""Scores of predictions of several targets: those of each target (see `scores`), and one verdict.

Each target is measured as if it were the only one, by its own part of the prediction. Targets have units of their own,
so that nothing is averaged over them but the log density of a row, which is joint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from r2d2net.columns.cell_parsing import Values
from r2d2net.interval_calibration import IntervalCalibration
from r2d2net.prediction import Mixture, Prediction
from r2d2net.tables.baselines import BaselinePrediction
from r2d2net.tables.prediction_task import Task
from r2d2net.tables.scores import Scored, baseline_of, constant_losses, losses_of
from r2d2net.tables.verdict import CONSTANT, judge

Baselines = Mapping[str, BaselinePrediction]


def baselines_of(task: Task, y: Values) -> dict[str, Any]:
    """Return the best constant predictions of each target.

    Args:
        task: What is predicted.
        y: Targets of the training rows, (rows,) or (rows, targets).

    Returns:
        Those of the target, or under "targets" those of each of several by its name.
    """
    if not task.parts:
        return baseline_of(task, y)
    return {"targets": {part.target: baseline_of(part, y[:, j]) for j, part in enumerate(task.parts)}}


def outputs_of(
    prediction: Prediction, calibration: IntervalCalibration | None, count: int
) -> list[tuple[Prediction, IntervalCalibration | None]]:
    """Split a prediction of several targets and its calibration.

    Args:
        prediction: The prediction.
        calibration: Calibration of its intervals, if there is one.
        count: Number of targets.

    Returns:
        Prediction and calibration of each target.
    """
    assert isinstance(prediction, Mixture)
    return [(prediction.of_output(j), None if calibration is None else calibration.of_output(j)) for j in range(count)]


class TargetScores:
    """Predictions of several targets met by what was observed, collected block by block.

    Args:
        task: The task, with its parts.
        calibration: Calibration of the intervals, if there is one.
    """

    def __init__(self, task: Task, calibration: IntervalCalibration | None = None) -> None:
        self.task = task
        self.calibration = calibration
        each = (None if calibration is None else calibration.of_output(j) for j in range(len(task.parts)))
        self.scored = [Scored(part, own) for part, own in zip(task.parts, each, strict=True)]
        self.joint: list[Values] = []

    def add(self, prediction: Prediction, y: Values, level: float) -> None:
        """Add a block of predictions.

        Args:
            prediction: The predictive distributions.
            y: The targets, (rows, targets).
            level: Level of the intervals.
        """
        self.joint.append(prediction.log_prob(torch.from_numpy(y)).double().cpu().numpy())
        parts = outputs_of(prediction, self.calibration, len(self.scored))
        for j, (scored, (own, _)) in enumerate(zip(self.scored, parts, strict=True)):
            scored.add(own, np.ascontiguousarray(y[:, j]), level)

    def metrics(self, baseline: dict[str, Any], level: float, others: Sequence[Baselines] = ()) -> dict[str, Any]:
        """Measure all predictions that were added.

        Args:
            baseline: The best constant predictions (see `baselines_of`).
            level: Level of the intervals.
            others: What baselines predict of each target.

        Returns:
            For JSON: "rows", "level", "nll" of all targets together, and under "targets" the metrics of each.
        """
        joint = np.concatenate(self.joint)
        each: dict[str, Any] = {}
        for j, (part, scored) in enumerate(zip(self.task.parts, self.scored, strict=True)):
            beside = {name: scored.metrics_beside(*found) for name, found in others[j].items()} if others else {}
            each[part.target] = {**scored.metrics(baseline["targets"][part.target], level), "baselines": beside}
        return {"rows": len(joint), "level": level, "nll": -float(joint.mean()), "targets": each}

    def verdict(
        self, baseline: dict[str, Any], rows: Sequence[int] | np.ndarray, others: Sequence[Baselines] = ()
    ) -> dict[str, Any]:
        """Judge the model by each target.

        Args:
            baseline: The best constant predictions.
            rows: Numbers of the rows, as the user counts them.
            others: What baselines predict of each target.

        Returns:
            A verdict as that of `verdict.judge`, of sentences about each target; "comparisons" are by target, and the
            model is useless if it is so for every target.
        """
        each = {}
        for j, (part, scored) in enumerate(zip(self.task.parts, self.scored, strict=True)):
            y = np.concatenate(scored.y)
            losses = {name: losses_of(part, y, *found) for name, found in others[j].items()} if others else {}
            constant = constant_losses(part, y, baseline["targets"][part.target])
            each[part.target] = judge(scored.losses(), {CONSTANT: constant, **losses}, rows)
        warnings = [f"{name}: {found['warning']}" for name, found in each.items() if found["warning"]]
        return {
            "sentence": "; ".join(f"for {name}, {found['sentence']}" for name, found in each.items()),
            "warning": "; ".join(warnings) or None,
            "rows": sorted({row for found in each.values() for row in found["rows"]}),
            "comparisons": {name: found["comparisons"] for name, found in each.items()},
            "useless": all(found["useless"] for found in each.values()),
        }
