"""Intervals that hold on rows left out: cross-conformal calibration of the level of central intervals.

A central interval of level l contains y if and only if l >= s(y), where F is the predictive distribution function,

    s(y) = max(1 - 2 F(y), 2 F(y-) - 1, 0)        |2 F(y) - 1| for continuous targets, F(y-) = F(y - 1) for counts.

With s_(1) <= ... <= s_(n) of n rows that the fit has not seen, the interval of level s_(k), k = ceil((n + 1) l),
contains a new y with probability l or a little more (Vovk, 2015): it is the model's own interval at another level, so
that it keeps the model's shape and support. Calibration is on average over rows; it does not make a constant noise
vary. Means, standard deviations and densities stay the model's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from r2d2net.errors import require
from r2d2net.prediction import Mixture

FEWEST = 100  # rows left out, from which calibration is worth its noise
EDGE = 1e-9  # distance of a level from 0 and 1, where quantiles end


def containing_level(at: Tensor, before: Tensor) -> Tensor:
    """Compute the least level whose central interval contains a target.

    Args:
        at: F(y), in float64.
        before: F(y-), the probability of less than y.

    Returns:
        The levels, in [0, 1].

    >>> containing_level(torch.tensor([0.95, 0.5]), torch.tensor([0.95, 0.0]))
    tensor([0.9000, 0.0000])
    """
    return torch.maximum(1 - 2 * at, 2 * before - 1).clamp(0, 1)


def level_of(prediction: Mixture, y: Tensor) -> Tensor:
    """Compute the least level at which a prediction's central interval contains a target.

    Args:
        prediction: The prediction.
        y: Targets, in the shape of the prediction's mean.

    Returns:
        The levels, in the shape of ``y``.
    """
    at = prediction.cdf(y)
    return containing_level(at, prediction.cdf(y - 1) if prediction.is_discrete else at)


@dataclass(frozen=True)
class IntervalCalibration:
    """Levels at which intervals just contain the targets of rows left out.

    Attributes:
        levels: s of each row and output, ascending, (rows, outputs), float64.
    """

    levels: Tensor

    @classmethod
    def of(cls, levels: Tensor) -> IntervalCalibration:
        """Build the calibration of levels in any order.

        Args:
            levels: s of each row left out, (rows, outputs).

        Returns:
            The calibration.
        """
        return cls(levels.double().cpu().sort(0).values)

    def level(self, level: float, output: int = 0) -> float:
        """Compute the model's level whose intervals hold with a given probability.

        Args:
            level: The probability, strictly between 0 and 1.
            output: Number of the output.

        Returns:
            The level to ask the model for. Where it takes more rows than were left out (0.999 of 100), it is the larger
            of the level itself and the largest of theirs.

        Raises:
            ParameterError: If the level does not lie strictly between 0 and 1.
        """
        require(0 < level < 1, "level", level, "use a number between 0 and 1, such as 0.9")
        own, n = self.levels[:, output], len(self.levels)
        rank = math.ceil((n + 1) * level - 1e-12)
        found = float(own[rank - 1]) if rank <= n else max(level, float(own[-1]))
        return min(max(found, EDGE), 1 - EDGE)

    def interval(self, prediction: Mixture, level: float) -> tuple[Tensor, Tensor]:
        """Compute intervals that hold with a given probability on average over rows.

        Args:
            prediction: The prediction.
            level: The probability, strictly between 0 and 1.

        Returns:
            The lower and the upper ends, in the shape of the prediction's mean.

        Raises:
            ParameterError: If the level does not lie strictly between 0 and 1.
        """
        outputs = self.levels.shape[1]
        if outputs == 1:
            return prediction.interval(self.level(level))
        ends = [prediction.interval(self.level(level, j)) for j in range(outputs)]
        low, high = (torch.stack([pair[side][..., j] for j, pair in enumerate(ends)], -1) for side in (0, 1))
        return low, high

    def of_output(self, output: int) -> IntervalCalibration:
        """Take the calibration of one of several outputs.

        Args:
            output: Number of the output.
        """
        return IntervalCalibration(self.levels[:, output : output + 1])

    def nominal(self, levels: Tensor) -> Tensor:
        """Compute the least nominal level at which calibrated intervals contain targets.

        Args:
            levels: The least levels at which the model's own intervals do, of the first output, (rows,).

        Returns:
            The nominal levels: `level` of each is at least what was given.
        """
        own, n = self.levels[:, 0].contiguous(), len(self.levels)
        levels = levels.double().cpu().clamp(EDGE, 1 - EDGE)
        rank = torch.searchsorted(own.clamp(EDGE, 1 - EDGE), levels.contiguous())  # so many lie below
        inside = (rank.double() + 1e-6) / (n + 1)
        return torch.where(rank < n, inside, torch.maximum(levels, torch.tensor((n + 1e-6) / (n + 1)).double()))


def interval_of(prediction: Mixture, level: float, calibration: IntervalCalibration | None) -> tuple[Tensor, Tensor]:
    """Compute intervals, calibrated where there is a calibration.

    Args:
        prediction: The prediction.
        level: The probability, strictly between 0 and 1.
        calibration: The calibration; None for the model's own intervals.

    Returns:
        The lower and the upper ends.
    """
    return prediction.interval(level) if calibration is None else calibration.interval(prediction, level)
