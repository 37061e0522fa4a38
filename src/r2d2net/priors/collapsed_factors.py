"""Coordinate ascent for priors whose scales can be summed out: the jointly optimal q(s).

With no global scale nothing forces q(s) to factorise. Given m = E[w^2] and u = sqrt(m), the maximum of
E_q[log N(w | 0, v)] - KL(q(s) || p(s)) over all q(s) is reached by the exact posterior at w = u:

    q(s) = p(s | w = u),    maximum = log p(u),    E_q[1/v] = c(u) = -(log p)'(u) / u

because E_q[log N(w | 0, v)] depends on q(w) through m only. One sweep is therefore the optimum. The same holds for a
group of weights with a global scale, if the scale is summed out too: p(u) is then the group's joint density.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from torch import Tensor

from r2d2net.priors.base import Factors

ScalesT = TypeVar("ScalesT", bound=NamedTuple)


class CollapsedFactors(Factors[ScalesT]):
    """q(s) = p(s | w = u) for every weight or group.

    Args:
        scales: Point values with 1 / variance(scales) = precision.
        second_moment: m = u^2, at which the posterior is taken.
        precision: c(u).
        log_density: Computes log p(u), of every weight or of every group.
        log_variance: Computes E_q[log v]. Both are called only when asked: they may need quadrature.
    """

    def __init__(
        self,
        scales: ScalesT,
        second_moment: Tensor,
        precision: Tensor,
        log_density: Callable[[], Tensor],
        log_variance: Callable[[], Tensor],
    ) -> None:
        self._scales = scales
        self._second_moment = second_moment
        self._precision = precision
        self._log_density = log_density
        self._log_variance = log_variance

    @property
    def scales(self) -> ScalesT:
        return self._scales

    @property
    def precision(self) -> Tensor:
        return self._precision

    def log_variance(self) -> Tensor:
        return self._log_variance()

    def kl(self) -> Tensor:
        twice = math.log(2 * math.pi) + self.log_variance() + self._precision * self._second_moment
        return -0.5 * twice.sum() - self._log_density().sum()

    def bound(self, second_moment: Tensor) -> Tensor:
        """The same number as the general formula, without E[log v] and its quadrature."""
        away = second_moment - self._second_moment
        return self._log_density().sum() - 0.5 * (self._precision * away).sum()
