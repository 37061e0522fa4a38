"""Adaptive R2D2 beyond the common contract: its tables, its exact (row, g) posterior, its draws, its known faults.

False alarms: fewer than 40 tests at 2e-6 each. The quantile table's distribution function is off by up to 0.007 (row
a = 0.01, kappa = 10 at u = 3.5), so Kolmogorov-Smirnov tests take 2,000 draws: at their level they resolve 0.06.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from r2d2net import ParameterError
from r2d2net.priors import R2D2, AdaptiveR2D2
from r2d2net.priors.global_scale_grid import GlobalScaleGrid, global_scale_grid
from r2d2net.priors.mixture_tables import Mixture, Row, moment_tables, quantile_table
from r2d2net.testing import geweke

REJECT = 2e-6
CPU = torch.device("cpu")
FLOORED, SPIKY = R2D2.adaptive(), R2D2.adaptive(floor=False)
each = pytest.mark.parametrize("prior", [FLOORED, SPIKY], ids=["floor", "no floor"])


def f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# --- the tables


def exact_log_density(a: float, kappa: float, u: float) -> float:
    """By mpmath, with the density of V in closed form: Gamma(3/2) U(3/2, 2 - a, V) / B(a, 1/2)."""
    with mpmath.workdps(25):
        constant = mpmath.gamma(1.5) / mpmath.beta(a, 0.5)
        floor = mpmath.npdf(u)

        def above_the_floor(y: Any) -> Any:
            v = mpmath.exp(y)
            return (mpmath.npdf(u, 0, mpmath.sqrt(1 + kappa * v)) - floor) * v * mpmath.hyperu(1.5, 2 - a, v)

        edges = [-60, -30, -15, -5, 0, 5, 15, 30, 60, 120]
        return float(mpmath.log(floor + constant * mpmath.quad(above_the_floor, edges, maxdegree=6)))


@pytest.mark.parametrize(
    ("a", "kappa", "u"),
    [
        (0.01, 1.0, 1e-3),
        (0.01, 1.0, 3.5),
        (0.01, 1e4, 3.5),
        (0.03, 10.0, 5.0),
        (0.1, 100.0, 0.7),
        (0.3, 1e3, 1e5),
        (0.3, 1e4, 1e-6),
    ],
)
def test_density_of_a_floored_row_against_mpmath(a: float, kappa: float, u: float) -> None:
    table = moment_tables(Mixture((Row(a, kappa),), floor=True), f64(math.log(u)))
    assert float(table.log_density) == pytest.approx(exact_log_density(a, kappa, u), abs=1e-10)


def test_rows_without_floor_are_r2d2() -> None:
    """R2D2's own density comes from its Laplace form: another integral altogether."""
    w = torch.logspace(-30, 15, 46, dtype=torch.float64)
    for a, kappa in ((0.01, 1.0), (0.1, 1.0), (0.3, 9.0)):
        table = moment_tables(Mixture((Row(a, kappa),), floor=False), torch.log(w))
        expected = R2D2(a, 0.5, sigma0=math.sqrt(kappa)).log_prob(w)
        torch.testing.assert_close(table.log_density.squeeze(1), expected, rtol=1e-11, atol=1e-11)


@each
def test_interpolated_density(prior: AdaptiveR2D2) -> None:
    """Between and far beyond the nodes, against quadrature at the very point; one row at a time, g = 1."""
    log_u = 0.0037 + torch.cat([torch.arange(-60.0, -8, 2.1), torch.arange(-8, 12, 0.053), torch.arange(12, 60, 1.7)])
    log_u = log_u.double()
    grid = global_scale_grid(prior._mixture, CPU)
    at_one = int((grid.log_g.abs() < 1e-9).nonzero())
    offset = grid.log_prior[at_one] - math.log(grid.rows)
    found = grid.log_joint(log_u[:, None]).reshape(-1, grid.log_g.numel(), grid.rows)[:, at_one] - offset
    exact = moment_tables(prior._mixture, log_u).log_density
    heavy = [k for k, row in enumerate(prior.rows) if row.kappa > 0]
    assert float((found - exact)[:, heavy].abs().max()) < 2e-5
    if prior.floor:
        bulk = log_u < 3
        assert float(((found - exact)[:, 0].abs() / exact[:, 0].abs())[bulk].max()) < 1e-6


@each
def test_precision_is_the_slope_of_the_density(prior: AdaptiveR2D2) -> None:
    step = 1e-4
    for x in (-7.0, -1.0, 0.0, 0.7, 1.2, 1.6, 2.5, 6.0):
        table = moment_tables(prior._mixture, f64(x - step, x, x + step))
        slope = (table.log_density[2] - table.log_density[0]) / (2 * step)
        torch.testing.assert_close(table.slope[1], slope, rtol=1e-5, atol=1e-10)
        torch.testing.assert_close(
            table.precision[1], -slope / math.exp(2 * x), rtol=1e-5, atol=1e-10 * math.exp(-2 * x)
        )


def reference_law(prior: AdaptiveR2D2, row: Row, u: float) -> tuple[np.ndarray, np.ndarray]:
    """Log v on a fine grid and its distribution function given u; log V = log E + log T by numerical convolution."""
    step = 1 / 32
    y = np.arange(-150, 90, step) - math.log(row.kappa)
    z = np.arange(-160, 160, 1 / 8) - math.log(row.kappa)
    log_t = row.a * z - (row.a + 0.5) * np.logaddexp(0, z)
    d = y[:, None] - z
    density = np.exp(np.minimum(d, 7) - np.exp(np.minimum(d, 7)) + log_t).sum(1)
    v = float(prior.floor) + row.kappa * np.exp(y)
    mass = density * np.exp(-0.5 * u**2 / v) / np.sqrt(v)
    below = density[0] / row.a / step * math.exp(-0.5 * u**2) if prior.floor else 0.0
    cdf = below + np.cumsum(mass) - mass / 2
    return np.log(v), cdf / (below + mass.sum())


DRAWN_ROWS = [
    (FLOORED, 6, [1e-4, 1.0, 3.0, 3.5]),  # a = .03, kappa = 10
    (FLOORED, 5, [3.5, 3.6]),  # a = .01, kappa = 10, where the table is worst
    (FLOORED, 20, [0.1, 40.0, 1e9]),  # a = .3, kappa = 1e4
    (SPIKY, 0, [1e-20, 1e-3, 1.0, 1e3, 1e8]),
]


@pytest.mark.parametrize(("prior", "index", "magnitudes"), DRAWN_ROWS, ids=["middle", "worst", "heavy", "spiky"])
def test_drawn_variances(prior: AdaptiveR2D2, index: int, magnitudes: list[float]) -> None:
    """The law of v | u by Kolmogorov-Smirnov, and E[1/v | u] = c(u) within 0.15% beyond five standard errors."""
    generator, n = torch.Generator().manual_seed(4), 200_000
    for u in magnitudes:
        log_w, row = torch.full((n,), math.log(u), dtype=torch.float64), torch.tensor(index)
        v = prior._draw_variances(log_w, f64(0.0).squeeze(), row, generator)
        x, cdf = reference_law(prior, prior.rows[index], u)
        # What is within 1e-4 of the floor is counted, not resolved.
        low = 1e-4 if prior.floor else -math.inf
        drawn = torch.log(v[:2000]).numpy()
        above, at_floor = drawn[drawn > low], float(np.interp(low, x, cdf))
        assert stats.binomtest(2000 - len(above), 2000, at_floor).pvalue > REJECT
        if len(above) > 100:
            law = (cdf - at_floor) / (1 - at_floor)
            assert stats.kstest(above, lambda t, x=x, law=law: np.interp(t, x, law)).pvalue > REJECT
        c = float(moment_tables(prior._mixture, f64(math.log(u))).precision[0, index])
        noise = float((1 / v).std()) / math.sqrt(n)
        assert abs(float((1 / v).mean()) - c) < 1.5e-3 * c + 5 * noise


# --- the posterior of (row, g)


def brute_force(prior: AdaptiveR2D2, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log p(w, g, r) of one group by quadrature at every w / g; E[1/(g^2 v)] and E[log g^2 v] of each weight."""
    log_g = torch.linspace(3, -10, 131, dtype=torch.float64)
    log_u = torch.log(w)[:, None] - log_g  # (p, g)
    order = log_u.flatten().argsort()
    tables = moment_tables(prior._mixture, log_u.flatten()[order])
    back = order.argsort()
    log_p, _, c, log_v = (t[back].reshape(*log_u.shape, -1) for t in tables)  # (p, g, rows)
    log_prior = torch.log(torch.exp(log_g) / (1 + torch.exp(2 * log_g)))
    log_prior = log_prior - torch.logsumexp(log_prior, 0) - math.log(len(prior.rows))
    joint = (log_p - log_g[:, None]).sum(0) + log_prior[:, None]
    q = torch.softmax(joint.flatten(), 0).reshape(joint.shape)
    precision = (q * c / torch.exp(2 * log_g)[:, None]).sum((1, 2))
    return joint, precision, (q * (log_v + 2 * log_g[:, None])).sum((1, 2))


LAYERS = [f64(0.3), f64(1e-3, 0.02, 0.02, 1.7, 30.0), f64(*np.geomspace(1e-9, 1e6, 40))]


@each
@pytest.mark.parametrize("w", LAYERS, ids=len)
def test_evidence_and_factors_by_brute_force(prior: AdaptiveR2D2, w: Tensor) -> None:
    joint, precision, log_variance = brute_force(prior, w)
    factors = prior.cavi(w.square(), prior.init_scales(w.shape, torch.Generator().manual_seed(0), dtype=w.dtype))
    assert float(factors.bound(w.square())) == pytest.approx(
        float(torch.logsumexp(joint.flatten(), 0)), abs=1e-5 * len(w)
    )
    torch.testing.assert_close(factors.precision, precision, rtol=1e-4, atol=0)
    torch.testing.assert_close(factors.log_variance(), log_variance, rtol=1e-4, atol=1e-4)
    found = global_scale_grid(prior._mixture, CPU).log_joint(torch.log(w)[None]).reshape(joint.shape)
    likely = joint > joint.max() - 30
    assert float((found - joint)[likely].abs().max()) < 1e-5 * len(w)


@each
def test_row_and_global_scale_follow_their_posterior(prior: AdaptiveR2D2) -> None:
    """30,000 draws for one layer: chi-square tests of row and of log g at 2e-6 each."""
    w, n = LAYERS[1], 30_000
    q = torch.softmax(brute_force(prior, w)[0].flatten(), 0).reshape(131, -1)
    many = w.repeat(n, 1)
    start = prior.init_scales(many.shape, torch.Generator().manual_seed(0), groups=(n, 1), dtype=w.dtype)
    scales = prior.gibbs(many, start, torch.Generator().manual_seed(8))
    g_index = ((3 - torch.log(scales.g)) * 10).round().long().flatten()
    for drawn, law in ((scales.row.flatten().long() - 1, q.sum(0)), (g_index, q.sum(1))):
        expected = n * law
        kept = expected > 10
        counts = torch.bincount(drawn, minlength=law.numel())
        rest, rest_expected = counts[~kept].sum(), expected[~kept].sum()
        found = torch.cat([counts[kept], rest[None]]) if rest_expected > 1 else counts[kept]
        wanted = torch.cat([expected[kept], rest_expected[None]]) if rest_expected > 1 else expected[kept]
        if found.numel() > 1:
            assert stats.chisquare(found.double(), wanted * found.sum() / wanted.sum()).pvalue > REJECT


@each
def test_histogram_and_direct_sums_agree(prior: AdaptiveR2D2) -> None:
    grid = global_scale_grid(prior._mixture, CPU)
    p = 2 * grid.nodes
    log_w = 30 * torch.rand(2, p, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 20
    log_w[0, :3] = f64(-700.0, 700.0, 0.0)
    many = grid.log_joint(log_w)
    few = [grid.log_joint(part) for part in log_w.split(p // 8, 1)]
    constant = (grid.log_prior - math.log(grid.rows)).repeat_interleave(grid.rows)
    torch.testing.assert_close(many, sum(few) - (len(few) - 1) * constant, rtol=1e-11, atol=0)


def test_groups_of_every_layout() -> None:
    """Groups along any axes give what each group gives by itself."""
    m = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for groups in ((3, 1, 1), (4, 1), (1, 1, 5), (3, 1, 5), ()):
        factors = FLOORED.cavi(
            m, FLOORED.init_scales(m.shape, torch.Generator().manual_seed(0), groups=groups, dtype=m.dtype)
        )
        scales = factors.scales
        assert scales.g.shape == scales.row.shape == groups
        g, precision = scales.g.expand(m.shape), factors.precision
        for label in g.unique():
            alone = m[g == label]
            single = FLOORED.cavi(
                alone, FLOORED.init_scales(alone.shape, torch.Generator().manual_seed(0), dtype=m.dtype)
            )
            torch.testing.assert_close(single.precision, precision[g == label], rtol=1e-10, atol=0)
        assert FLOORED.gibbs(m, scales, torch.Generator().manual_seed(1)).v.shape == m.shape


# --- what it is for


def test_it_tells_dense_from_sparse() -> None:
    generator = torch.Generator().manual_seed(0)
    dense = 0.1 * torch.randn(20_000, generator=generator)
    scales = FLOORED.gibbs(dense, FLOORED.init_scales(dense.shape, generator), generator)
    assert FLOORED.rows[int(scales.row) - 1].kappa == 0
    assert float(scales.g) == pytest.approx(0.1, rel=0.06)
    assert bool((scales.v == 1).all())
    sparse = torch.where(torch.rand(20_000, generator=generator) < 0.02, 10 * dense, 0.01 * dense)
    scales = FLOORED.gibbs(sparse, scales, generator)
    assert FLOORED.rows[int(scales.row) - 1].kappa >= 100
    assert float(scales.g) == pytest.approx(0.001, rel=0.1)
    assert float(FLOORED.variance(scales)[sparse.abs() > 0.5].min()) > 1e-3


def test_the_pole_at_zero() -> None:
    assert SPIKY.log_prob(torch.zeros(1)) == math.inf
    w = f64(1e-40).requires_grad_()
    (slope,) = torch.autograd.grad(SPIKY.log_prob(w).sum(), w)
    assert float(slope * 1e-40) == pytest.approx(2 * 0.1 - 1, abs=1e-6)
    assert math.isfinite(FLOORED.log_prob(torch.zeros(1)))


def test_arguments() -> None:
    assert repr(SPIKY) == "AdaptiveR2D2(a=(0.1,), kappa=(1.0,), floor=False)"
    assert FLOORED.hyperparameters() == {
        "a": (0.01, 0.03, 0.1, 0.3),
        "kappa": (1.0, 10.0, 100.0, 1e3, 1e4),
        "floor": True,
    }
    assert AdaptiveR2D2(**FLOORED.hyperparameters()).rows == FLOORED.rows
    with pytest.raises(ParameterError, match=r"a=\(0\.1, -1\.0\) is out of range"):
        AdaptiveR2D2(a=(0.1, -1.0))
    with pytest.raises(ParameterError, match=r"kappa=\(\) is out of range: use one or more numbers"):
        AdaptiveR2D2(kappa=())
    with pytest.raises(ParameterError, match="use each number once"):
        AdaptiveR2D2(a=(0.1, 0.1))


def test_tables_wait_until_they_are_needed() -> None:
    before = global_scale_grid.cache_info().currsize, quantile_table.cache_info().currsize
    AdaptiveR2D2(a=0.07)
    assert (global_scale_grid.cache_info().currsize, quantile_table.cache_info().currsize) == before


# --- faults that the Geweke proof must reject

SMALL = AdaptiveR2D2(a=(0.03, 0.3), kappa=(10.0, 1e3))
Sums = Callable[[GlobalScaleGrid, Tensor], Tensor]


def per_g(grid: GlobalScaleGrid, values: Tensor) -> Tensor:
    return values.repeat_interleave(grid.rows)


def shifted_rows(grid: GlobalScaleGrid, log_w: Tensor) -> Tensor:
    return TRUE_SUM(grid, log_w).reshape(-1, grid.log_g.numel(), grid.rows).roll(1, 2).flatten(1)


TRUE_SUM: Sums = GlobalScaleGrid.log_joint
FAULTY_SUMS: dict[str, Sums] = {
    "Jacobian dropped": lambda grid, w: TRUE_SUM(grid, w) + w.shape[1] * per_g(grid, grid.log_g),
    "prior of g dropped": lambda grid, w: TRUE_SUM(grid, w) - per_g(grid, grid.log_prior),
    "density of g for that of log g": lambda grid, w: TRUE_SUM(grid, w) - per_g(grid, grid.log_g),
    "rows off by one": shifted_rows,
    "one step of log g": lambda grid, w: TRUE_SUM(grid, w + 0.1),
}


@pytest.mark.parametrize("fault", FAULTY_SUMS)
def test_geweke_rejects_a_wrong_posterior_of_row_and_scale(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GlobalScaleGrid, "log_joint", FAULTY_SUMS[fault])
    assert geweke(SMALL, seed=11).p_value < REJECT


class WrongRow(AdaptiveR2D2):
    """v from the quantiles of the next row."""

    def _draw_variances(self, log_w: Tensor, log_g: Tensor, row: Tensor, generator: Any) -> Tensor:
        return super()._draw_variances(log_w, log_g, (row + 1) % len(self.rows), generator)


class Unscaled(AdaptiveR2D2):
    """v given w instead of w / g."""

    def _draw_variances(self, log_w: Tensor, log_g: Tensor, row: Tensor, generator: Any) -> Tensor:
        return super()._draw_variances(log_w, 0 * log_g, row, generator)


class PriorDraw(AdaptiveR2D2):
    """v given a typical u instead of w's own."""

    def _draw_variances(self, log_w: Tensor, log_g: Tensor, row: Tensor, generator: Any) -> Tensor:
        return super()._draw_variances(0 * log_w + log_g, log_g, row, generator)


@pytest.mark.parametrize("fault", [WrongRow, Unscaled, PriorDraw])
def test_geweke_rejects_wrong_variances(fault: type[AdaptiveR2D2]) -> None:
    assert geweke(fault(**SMALL.hyperparameters()), seed=11).p_value < REJECT


def test_geweke_accepts_the_prior_in_which_faults_are_planted() -> None:
    assert geweke(SMALL, seed=11).p_value > REJECT
