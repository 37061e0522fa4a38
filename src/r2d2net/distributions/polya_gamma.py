"""The Polya-Gamma distribution PG(b, z), which makes a logistic likelihood normal (Polson, Scott and Windle 2013).

With X ~ PG(b, z) and h = z / 2:

    X = sum_k Gamma(b, 1) / (2 pi^2 ((k - 1/2)^2 + (h / pi)^2))      E e^(-t X) = (cosh h / cosh sqrt(h^2 + t / 2))^b
    E X = (b / 4) tanh(h) / h                                       Var X = (b / 16) (tanh h - h sech^2 h) / h^3

The density at b = 1 is an alternating series in either of two forms, which meet at x = 0.16:

    (1 + e^-|z|) / 2  (2 pi x^3)^(-1/2)  e^(-(2 |z| x - 1)^2 / (8 x))  sum_n (-1)^n (2n + 1) e^(-n (n + 1) / (2 x))
    2 pi cosh(h) e^(-(pi^2 + z^2) x / 2)  sum_n (-1)^n (2n + 1) e^(-2 pi^2 n (n + 1) x)

For |h| < 1/2 both moments are power series in h^2. No formula forms a small difference of large numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all
from torch.nn.functional import softplus

from r2d2net.distributions.polya_gamma_sampler import CUT, require_polya_gamma, sample_polya_gamma
from r2d2net.errors import ParameterError, Value

TERMS = 20  # of the power series of tanh(h) / h: the next is below 1e-20 at h = 1/2


class PolyaGamma(Distribution):
    """PG(b, z) as a torch.distributions.Distribution.

    Args:
        z: Tilt, any finite number; its sign does not matter.
        b: Number of independent PG(1, z) variables in the sum, a whole number from 1 to 1000.
        validate_args: Check the values given to `log_prob` against the support; None for torch's default.

    Raises:
        ParameterError: If ``z`` is not finite or ``b`` not a whole number from 1 to 1000.

    Example:
        >>> omega = PolyaGamma(torch.tensor([0.0, 3.0, -1e6]))
        >>> omega.mean
        tensor([2.5000e-01, 1.5086e-01, 5.0000e-07])
        >>> omega.sample((4,), generator=torch.Generator().manual_seed(0)).shape
        torch.Size([4, 3])
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "z": constraints.real,
        "b": constraints.positive,
    }
    support = constraints.positive
    has_rsample = False

    def __init__(self, z: Tensor | float, b: Tensor | float = 1.0, validate_args: bool | None = None) -> None:
        self.z, self.b = broadcast_all(z, b)
        require_polya_gamma(self.z, self.b)
        super().__init__(self.z.shape, validate_args=False)
        self._validate_args = Distribution._validate_args if validate_args is None else validate_args

    def expand(self, batch_shape: Sequence[int], _instance: PolyaGamma | None = None) -> PolyaGamma:
        new = self._get_checked_instance(PolyaGamma, _instance)
        shape = torch.Size(batch_shape)
        new.z, new.b = self.z.expand(shape), self.b.expand(shape)
        super(PolyaGamma, new).__init__(shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def sample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        shape = torch.Size(sample_shape) + self.batch_shape
        return sample_polya_gamma(self.z.expand(shape), generator, b=self.b)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        if bool((self.b != 1).any()):
            problem = ("holds ", Value(self.b[self.b != 1][0].item()))
            raise ParameterError(problem, argument="b", fix="the log density is known for b = 1 only")
        z, x = self.z.double().abs(), value.double()
        small, finite = x < CUT / 4, x < math.inf
        # Each form is evaluated where it converges fast, so that gradients stay finite where it is not taken.
        low, high = torch.where(small, x, CUT / 4), torch.where(small | ~finite, CUT / 4, x)
        square = ((2 * z * low - 1) / torch.sqrt(low)).square() / 8
        below = softplus(-z) - math.log(2) - 0.5 * (math.log(2 * math.pi) + 3 * torch.log(low)) - square
        below = below + _log_alternating(torch.exp(-1 / low))
        above = math.log(math.pi) + z / 2 + softplus(-z) - (math.pi**2 + z * z) * high / 2
        above = above + _log_alternating(torch.exp(-4 * math.pi**2 * high))
        density = torch.where(finite, torch.where(small, below, above), -math.inf)
        return density.to(torch.promote_types(self.z.dtype, value.dtype))

    @property
    def mean(self) -> Tensor:
        h = self.z.double() / 2
        near, inner, outer = _split(h)
        ratio = torch.where(near, _polynomial(TANH, inner * inner), torch.tanh(outer) / outer)
        return (self.b.double() / 4 * ratio).to(self.z.dtype)

    @property
    def variance(self) -> Tensor:
        h = self.z.double() / 2
        near, inner, outer = _split(h)
        decay = torch.exp(-2 * outer)
        sech2 = 4 * decay / (1 + decay).square()
        ratio = (torch.tanh(outer) - outer * sech2) / outer / outer / outer
        slope = [-2 * k * coefficient for k, coefficient in enumerate(TANH)][1:]  # of -T' / h, T = tanh(h) / h
        return (self.b.double() / 16 * torch.where(near, _polynomial(slope, inner * inner), ratio)).to(self.z.dtype)


def _log_alternating(q: Tensor) -> Tensor:
    """log of 1 - 3 q + 5 q^3 - 7 q^6, the series from n = 4 on being below rounding for q <= e^-6.25."""
    square = q * q
    return torch.log1p(-q * (3 - square * (5 - 7 * square * q)))


def _split(h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mask of |h| < 1/2, with h itself there and |h| elsewhere, each 1/2 or 0 where it is not taken."""
    near = h.abs() < 0.5
    return near, torch.where(near, h, 0.0), torch.where(near, 0.5, h.abs())


def _tanh_series(terms: int) -> list[float]:
    """Coefficients of tanh(h) / h in h^2, from tanh' = 1 - tanh^2; nothing cancels."""
    coefficients = [1.0]
    for n in range(1, terms):
        products = math.fsum(coefficients[i] * coefficients[n - 1 - i] for i in range(n))
        coefficients.append(-products / (2 * n + 1))
    return coefficients


TANH = _tanh_series(TERMS)


def _polynomial(coefficients: Sequence[float], x: Tensor) -> Tensor:
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total
