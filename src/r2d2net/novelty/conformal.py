"""One calibrated p-value from several scores of a row, by ranks among held-back rows.

Let s_jk be score k of row j, for the m held-back rows and one new row, together n = m + 1. Each score alone has a
conformal p-value within these n rows, and Fisher's sum combines them:

    p_jk = #{i: s_ik >= s_jk} / n                              a score whose large values are unusual
    p_jk = min(1, 2 min(#{i: s_ik >= s_jk}, #{i: s_ik <= s_jk}) / n)        one whose small values are unusual too
    T_j  = - sum_k log p_jk
    p    = #{j: T_j >= T_new} / n

Scores of one row are correlated, so T does not have Fisher's chi-squared distribution, and nothing here relies on it: T
is the same function of each row and of the set of all n, whatever their order. Where the new row comes from where the
held-back rows came from, its rank among the T is therefore uniform, but for ties, which count against novelty:

    P(p <= alpha) <= alpha        for every alpha and m, whatever the scores and their distribution,

on average over held-back rows. The share that given held-back rows flag varies around alpha with standard deviation
sqrt(alpha (1 - alpha) / m). No p is below 1 / (m + 1).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import Argument, ParameterError, is_number, require

ELEMENTS = 1 << 21  # of a block of rows by held-back rows
ROUNDING = 1e-9  # by which sums of the same logarithms may differ


class Combined(NamedTuple):
    """P-values of rows.

    Attributes:
        p_values: The calibrated p-value of each row, (rows,).
        scores: T, (rows,), which ranks rows of equal p-value too.
        parts: P-values of each score alone, (rows, scores).
    """

    p_values: Tensor
    scores: Tensor
    parts: Tensor


class Calibration:
    """Scores of held-back rows, among which new rows are ranked.

    Args:
        held: The scores, (held-back rows, scores), in float64.
        two_sided: For each score, whether small values are unusual too.
    """

    def __init__(self, held: Tensor, two_sided: Tensor) -> None:
        self.held, self.two_sided = held, two_sided
        self._ascending = held.T.contiguous().sort(1).values  # (scores, held)
        columns = held.T.contiguous()
        above, below = self._counts(columns)
        # what T of a held-back row gains by each score if the new row's lies above, at or below its own
        self._if_above = self._logs(above + 1, below)
        self._if_equal = self._logs(above + 1, below + 1)
        self._if_below = self._logs(above, below + 1)
        self._columns = columns

    @property
    def smallest(self) -> float:
        """The smallest p-value that there can be."""
        return 1 / (len(self.held) + 1)

    def combine(self, scores: Tensor) -> Combined:
        """Compute the p-values of new rows, each by itself among the held-back rows.

        Args:
            scores: Their scores, (rows, scores).

        Returns:
            The p-values.
        """
        size = max(1, ELEMENTS // len(self.held))
        blocks = [self._block(block.T.contiguous()) for block in scores.split(size)]
        return Combined(*(torch.cat(parts) for parts in zip(*blocks, strict=True)))

    def _block(self, new: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the p-values of scores (scores, rows)."""
        above, below = self._counts(new)
        each = self._logs(above + 1, below + 1)
        own = torch.zeros(new.shape[1], dtype=torch.float64)
        others = torch.zeros(new.shape[1], len(self.held), dtype=torch.float64)
        for k, score in enumerate(new):
            own += each[k]
            row, held = score[:, None], self._columns[k]
            gain = torch.where(row == held, self._if_equal[k], self._if_below[k])
            others += torch.where(row > held, self._if_above[k], gain)
        p_values = (1 + (others >= own[:, None] - ROUNDING).sum(1)).double() / (len(self.held) + 1)
        return p_values, own, (-each).exp().T

    def _counts(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Count the held-back rows at or above each score, and at or below it."""
        above = len(self.held) - torch.searchsorted(self._ascending, columns)
        return above, torch.searchsorted(self._ascending, columns, right=True)

    def _logs(self, above: Tensor, below: Tensor) -> Tensor:
        """Return -log p of each score by its counts, (scores, rows)."""
        n = len(self.held) + 1
        both = (2 * torch.minimum(above, below)).clamp(max=n)
        return -(torch.where(self.two_sided[:, None], both, above) / n).double().log()


def require_level(alpha: float, held: int) -> float:
    """Refuse a rate of false alarms that so few held-back rows cannot show.

    Args:
        alpha: The rate.
        held: Number of held-back rows.

    Returns:
        The rate.

    Raises:
        ParameterError: If it is no number between 0 and 1, or 1 / (held + 1) is larger.
    """
    require(is_number(alpha) and 0 < alpha < 1, "alpha", alpha, "use a number between 0 and 1")
    least = math.ceil(1 / alpha - 1e-9) - 1
    if held < least:
        problem = f"is below any p-value of {held} held-back rows, 1 / {held + 1}"
        fix = (f"hold back {least} rows or more, or use ", Argument("alpha", math.ceil(1000 / (held + 1)) / 1000))
        raise ParameterError(problem, argument="alpha", value=alpha, fix=fix)
    return float(alpha)
