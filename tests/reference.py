"""What the tests of `r2d2net.distributions` are measured against; nothing here uses the library.

`gold` reads the 30-digit values of data/gold.json; `BesselReference` gives 30-digit values anywhere else;
`GigReference` integrates the giG density on a grid; `PolyaGammaReference` inverts a Laplace transform; `ks_p_value` is
the Kolmogorov-Smirnov test.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import torch
from scipy import stats
from torch import Tensor

# Goodness-of-fit tests of tests/distributions raise a false alarm at most once in 10^4 runs, all together: 2e-5 for
# each of the two tests of uniform p-values, 6e-5 for the single tests, of which there are fewer than 300.
UNIFORMITY_LEVEL = 2e-5
LEVEL = 2e-7
DRAWS = 20_000


@cache
def gold(section: str) -> Any:
    """A section of gold.json with every decimal string parsed to the nearest float."""
    path = Path(__file__).parent / "data" / "gold.json"
    return _parse(json.loads(path.read_text())[section])


def _parse(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _parse(item) for key, item in value.items()}
    return [_parse(item) for item in value] if isinstance(value, list) else float(value)


def f64(values: Any) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float64)


def column(rows: list[dict[str, Any]], name: str) -> Tensor:
    """One field of all rows."""
    return f64([row[name] for row in rows])


def scaled_error(value: Tensor, truth: Tensor) -> float:
    """Largest error relative to max(1, |truth|); equal infinities are no error, nan is an infinite one."""
    gap = torch.where(value == truth, 0.0, (value - truth).abs() / truth.abs().clamp(min=1))
    return gap.nan_to_num(nan=float("inf")).max().item()


def relative_error(value: Tensor, truth: Tensor) -> float:
    """Largest error relative to |truth|."""
    gap = torch.where(value == truth, 0.0, ((value - truth) / truth).abs())
    return gap.nan_to_num(nan=float("inf")).max().item()


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ks_p_value(draws: Tensor, cdf: Callable[[np.ndarray], np.ndarray]) -> float:
    """p-value of the draws against a continuous CDF.

    A draw stands for any number within 8 roundings of its dtype. That only ever widens the test, and by nothing
    unless the distribution is as narrow as the dtype's resolution or the draws were clamped to the ends of its range.
    """
    limits = torch.finfo(draws.dtype)
    x = np.sort(draws.detach().double().flatten().numpy())
    n, room = x.size, 4 * limits.eps * np.minimum(np.abs(x), limits.max / 2)
    above = np.arange(1, n + 1) / n - cdf(np.where(x >= limits.max, np.inf, x + room))
    below = cdf(np.where(x <= limits.tiny, 0.0, x - room) if x[0] >= 0 else x - room) - np.arange(n) / n
    return float(stats.kstwo.sf(max(above.max(), below.max(), 0.0), n))


class BesselReference:
    """log K_nu(x), its derivative in nu and moments of e^t under exp(nu t - x cosh t), to some 30 digits.

    mpmath's besselk does not end at nu = 1e7. The trapezoid rule about the peak does, and its error is geometric.
    """

    def __init__(self, nu: float, x: float, digits: int = 36) -> None:
        with mpmath.workdps(digits):
            self._nu, self._x = mpmath.mpf(nu), mpmath.mpf(x)
            self._radius = mpmath.hypot(self._nu, self._x)
            self._peak = mpmath.asinh(self._nu / self._x)
            self._depth = digits * mpmath.log(10)
            low, high = self._end(-1), self._end(1)
            step = min(mpmath.mpf(1) / 10, (high - low) / 100)
            self._nodes = [low + step * i for i in range(int((high - low) / step) + 1)]
            self._weights = [mpmath.exp(-self._psi(d)) for d in self._nodes]
            mass = mpmath.fsum(self._weights)
            self.log_z = mpmath.log(mass * step)
            self.log_k = self._nu * self._peak - self._radius + self.log_z - mpmath.log(2)
            self.dnu = self._peak + mpmath.fdot(self._weights, self._nodes) / mass

    def moment(self, power: int, digits: int = 36) -> mpmath.mpf:
        """K_{nu+power}(x) / K_nu(x)."""
        with mpmath.workdps(digits):
            total = mpmath.fsum(w * mpmath.exp(power * d) for w, d in zip(self._weights, self._nodes, strict=True))
            return mpmath.exp(power * self._peak) * total / mpmath.fsum(self._weights)

    def _psi(self, d: mpmath.mpf) -> mpmath.mpf:
        # nu (sinh d - d) + radius (cosh d - 1), as two positive terms
        large = (self._radius + abs(self._nu)) / 2
        d = d if self._nu >= 0 else -d
        return large * (mpmath.expm1(d) - d) + self._x**2 / (4 * large) * (mpmath.expm1(-d) + d)

    def _end(self, sign: int) -> mpmath.mpf:
        far = mpmath.mpf(sign) / (1 + mpmath.sqrt(self._radius))
        while self._psi(far) < self._depth + 3 * abs(far):
            far *= mpmath.mpf("1.25")
        return far


class GigReference:
    """giG(chi, rho, lam) by quadrature in d = log x - log m, where m is the mode of log x; float64 numpy.

    The log density of d is -A (e^d - 1 - d) - B (e^-d - 1 + d), A = rho m / 2 and B = chi / (2 m): both terms are
    positive, so nothing cancels. The CDF is off by less than 1e-6 (the grid's step times the density, squared).
    """

    def __init__(self, chi: float, rho: float, lam: float, points: int = 1 << 17) -> None:
        root = np.sqrt(chi) * np.sqrt(rho)
        large = (np.hypot(root, lam) + abs(lam)) / 2
        small = root * (root / (4 * large))
        self.a, self.b = (large, small) if lam >= 0 else (small, large)
        self.mode = 2 * large / rho if lam >= 0 else chi / (2 * large)
        low, high = -self._reach(-1), self._reach(1)
        # Tails of small orders reach far: pack half of the points about the edges of the plateau, d = 0 and its mirror.
        edges = [0.0] if small == 0 or small > 1e-3 else [0.0, np.log(small / large) * (1 if lam >= 0 else -1)]
        parts = [np.linspace(low, high, points)]
        parts += [np.linspace(max(low, e - 20), min(high, e + 20), points) for e in edges if high - low > 80]
        self.grid = np.unique(np.concatenate(parts))
        density = np.exp(-self.psi(self.grid))
        cells = np.diff(self.grid) * (density[1:] + density[:-1]) / 2
        self.cumulative = np.concatenate([[0.0], np.cumsum(cells)]) / cells.sum()
        # log of the integral of x^(lam-1) e^-(rho x + chi / x) / 2
        self.log_norm = np.log(cells.sum()) - self.a - self.b + lam * np.log(self.mode)

    def psi(self, d: np.ndarray) -> np.ndarray:
        return self.a * _excess(d) + (self.b * _excess(-d) if self.b > 0 else 0.0)

    def _reach(self, sign: int) -> float:
        """A distance from the mode at which the density has fallen to e^-40, by doubling and bisection."""
        far = 1e-12
        while self.psi(np.array(sign * far)) < 40:
            far *= 2
        near = far / 2
        for _ in range(20):
            middle = (near + far) / 2
            near, far = (near, middle) if self.psi(np.array(sign * middle)) > 40 else (middle, far)
        return far

    def cdf(self, x: np.ndarray) -> np.ndarray:
        relative = (x - self.mode) / self.mode  # exact where x / m is within rounding of 1
        with np.errstate(divide="ignore"):
            far = np.log(x) - np.log(self.mode)
        d = np.where(np.abs(relative) < 0.5, np.log1p(np.clip(relative, -0.5, 0.5)), far)
        return np.interp(d, self.grid, self.cumulative)


class PolyaGammaReference:
    """PG(b, z) from its Laplace transform alone, by Talbot's contour (J. Abate and P. Valko, IJNME 60, 2004).

    The CDF is off by less than 1e-9 for b max(|z|, 5) <= 50; narrower laws, which are refused, need more nodes.
    """

    def __init__(self, b: int, z: float, nodes: int = 24) -> None:
        assert b * max(abs(z), 5) <= 50
        self.b, self.half = b, abs(z) / 2
        theta = np.arange(1, nodes) * np.pi / nodes
        cot = 1 / np.tan(theta)
        self.scale = 0.4 * nodes
        self.contour = np.concatenate([[1.0], theta * (cot + 1j)])
        self.weights = np.concatenate([[0.5], 1 + 1j * (theta + (theta * cot - 1) * cot)]) * self.scale / nodes

    def transform(self, t: np.ndarray) -> np.ndarray:
        """E e^(-t X) = (cosh h / cosh w)^b with h = z / 2 and w = sqrt(h^2 + t / 2), for complex t too."""
        w = np.sqrt(self.half**2 + t / 2)
        excess = t / 2 / (w + self.half)  # w - h
        return (np.exp(-excess) * (1 + np.exp(-2 * self.half)) / (1 + np.exp(-2 * w))) ** self.b

    def cdf(self, x: np.ndarray) -> np.ndarray:
        return np.where(x > 0, self._inverse(x, 1).clip(0, 1), 0.0)

    def pdf(self, x: np.ndarray) -> np.ndarray:
        return self._inverse(x, 0) / x

    def _inverse(self, x: np.ndarray, integrals: int) -> np.ndarray:
        x = np.asarray(x, dtype=float)
        total, safe = np.zeros(x.shape), np.where(x > 0, x, 1.0)
        for place, weight in zip(self.scale * self.contour, self.weights, strict=True):
            total += (weight * np.exp(place) * self.transform(place / safe) / place**integrals).real
        return total


def _excess(d: np.ndarray) -> np.ndarray:
    """e^d - 1 - d without cancellation."""
    near = np.abs(d) < 0.5
    y = np.where(near, d, 0.0)
    series = np.ones_like(y)
    for k in range(18, 2, -1):
        series = 1 + series * y / k
    with np.errstate(over="ignore"):
        return np.where(near, series * y * y / 2, np.expm1(d) - d)
