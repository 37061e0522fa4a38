"""The giG sampler against quadrature CDFs, its manners, and proof that the proof bites."""

import subprocess
import sys
from functools import cache

import numpy as np
import pytest
import torch
from scipy import stats

from r2d2net import ParameterError
from r2d2net.distributions import gig_sampler
from r2d2net.distributions.gig_sampler import propose, sample_gig, touching_points
from reference import DRAWS, LEVEL, UNIFORMITY_LEVEL, GigReference, gold, ks_p_value, seeded

CORNERS = [  # chi, rho, lam
    (0.0, 1.0, 0.1), (0.0, 1e-5, 0.5), (0.0, 1e7, 3.7), (0.0, 2.0, 1e3), (0.0, 1.0, 1e7), (0.0, 1.0, 0.4),
    (1e-30, 1.0, 0.1), (1e-30, 1.0, -0.1), (1e-30, 1e-5, 0.0), (1e-30, 1e7, -0.4), (1e-34, 1.0, 0.02),
    (1e-8, 1e-30, 0.02), (1e-36, 1e7, 0.02), (1e-30, 1.0, 0.5), (1e-12, 2.0, 0.1), (1e-12, 1e-3, 0.0),
    (1e-12, 1e7, -0.5),
    (1e-12, 1.0, -50.0), (1.0, 1.0, 0.1), (1.0, 1e-5, -0.1), (1.0, 3.0, 0.0), (1.0, 1e7, 0.4), (1.0, 0.5, -0.4),
    (1.0, 1.0, 3.7), (1.0, 1.0, -50.0), (1.0, 1.0, 1e3), (1e6, 1.0, 0.1), (1e6, 1e-5, -1e5), (1e6, 1.0, -1e7),
    (1e30, 1.0, 0.1), (1e30, 1e-5, -0.4), (1e30, 1.0, 1e7), (3.0, 0.0, -0.4), (1e-12, 0.0, -3.7), (1e30, 0.0, -1e5),
]  # fmt: skip
DTYPES = [torch.float32, torch.float64]


@cache
def reference(chi: float, rho: float, lam: float) -> GigReference:
    return GigReference(chi, rho, lam)


def p_value(corner, dtype, *, seed, tensor_lam=False, draws=DRAWS, compiled=False, sampler=sample_gig) -> float:
    chi, rho, lam = (torch.tensor(v, dtype=dtype) for v in corner)
    order = lam.expand(draws) if tensor_lam else lam
    x = sampler(chi.expand(draws), rho, order, seeded(seed), compiled=compiled)
    assert x.dtype == dtype
    assert bool(((x > 0) & (x < torch.inf)).all())
    return ks_p_value(x, reference(chi.item(), rho.item(), lam.item()).cdf)


def test_reference_cdf_is_itself_right():
    """The quadrature's normalising constant agrees with gold, and a grid half as fine moves the CDF below 1e-6."""
    for row in gold("gig"):
        grid = reference(row["chi"], row["rho"], row["lam"])
        assert abs(grid.log_norm + row["log_norm"]) <= 1e-7 + 1e-14 * abs(row["log_norm"])
    for corner in CORNERS:
        fine, coarse = reference(*corner), GigReference(*corner, points=1 << 16)
        x = fine.mode * np.exp(np.interp(np.linspace(1e-3, 1, 500), fine.cumulative, fine.grid))
        assert np.abs(fine.cdf(x) - coarse.cdf(x)).max() < 1e-6


@pytest.mark.parametrize("dtype", DTYPES, ids=["f32", "f64"])
@pytest.mark.parametrize("tensor_lam", [False, True], ids=["scalar", "tensor"])
@pytest.mark.parametrize("corner", CORNERS, ids=str)
def test_draws(corner, tensor_lam, dtype):
    """Kolmogorov-Smirnov; false-alarm rate 2e-7 for each of 140 cases."""
    seed = CORNERS.index(corner) + 1000 * tensor_lam + 2000 * (dtype == torch.float32)
    assert p_value(corner, dtype, seed=seed, tensor_lam=tensor_lam) > LEVEL


def test_p_values_are_uniform():
    """The p-values of 8 runs over the grid in float64; false-alarm rate 4e-5."""
    runs = [(corner, 10_000 + 100 * run + i) for run in range(8) for i, corner in enumerate(CORNERS)]
    values = [p_value(corner, torch.float64, seed=seed, draws=4000) for corner, seed in runs]
    assert stats.kstest(values, "uniform").pvalue > UNIFORMITY_LEVEL


def test_mixed_elements():
    """Each element of one call has its own parameters; false-alarm rate 2e-7 for each of 35 cases."""
    chi, rho, lam = torch.tensor(CORNERS, dtype=torch.float64).T
    x = sample_gig(chi, rho, lam.expand(DRAWS, -1), seeded(7))
    for corner, draws in zip(CORNERS, x.unbind(1), strict=True):
        assert ks_p_value(draws, reference(*corner).cdf) > LEVEL


def test_acceptance():
    """Over chi rho in [1e-60, 1e60] and lam in [0, 1e7] the lowest acceptance is 0.66, about lam = 0.01.

    0.63 is 6 standard errors below it.
    """
    generator, draws, lowest = seeded(0), 10_000, 1.0
    for lam in (0.0, *(10.0**k for k in range(-6, 8)), 0.007, 0.015, 0.03, 0.3, 3.0, 30.0):
        order = torch.tensor(lam, dtype=torch.float64)
        product = torch.logspace(-60, 60, 61, dtype=torch.float64)[:, None].expand(-1, draws).contiguous()
        u, v = torch.rand(2, *product.shape, generator=generator, dtype=torch.float64)
        one = torch.ones((), dtype=torch.float64)
        x = propose(product, one, order, touching_points(order), u, v, reciprocal=False)
        lowest = min(lowest, 1 - torch.signbit(x).double().mean(1).max().item())
    assert 0.63 < lowest < 0.70


# Faults that must be seen. Each takes the place of `sample_gig` or of a part of it.


def _reject(corner, dtype=torch.float64, sampler=sample_gig):
    """The proof with ten times the draws, which the faults below cannot pass."""
    assert p_value(corner, dtype, seed=3, draws=200_000, sampler=sampler) < LEVEL


def test_no_fault(monkeypatch):
    """The control: a stand-in that changes nothing passes. False-alarm rate 2e-7 for each of 6 cases."""
    monkeypatch.setattr(gig_sampler, "propose", lambda *a, **kw: propose(*a, **kw))
    for corner in ((1.0, 1.0, 0.1), (1.0, 1.0, 3.7), (1e-34, 1.0, 0.02), (1e-36, 1e7, 0.02)):
        assert p_value(corner, torch.float64, seed=3, draws=200_000) > LEVEL
    for corner in ((1e-34, 1.0, 0.02), (1e-36, 1e7, 0.02)):
        assert p_value(corner, torch.float32, seed=3, draws=200_000) > LEVEL


def test_fault_halved_chi():
    for corner in ((1.0, 1.0, 0.1), (1e-12, 1e-3, 0.0), (1e-30, 1e7, -0.4), (1e6, 1.0, 0.1)):
        _reject(corner, sampler=lambda chi, *rest, **kw: sample_gig(chi / 2, *rest, **kw))


def test_fault_sign_of_lam():
    for corner in ((1.0, 0.5, -0.4), (1e-12, 1e7, -0.5)):
        _reject(corner, sampler=lambda chi, rho, lam, *rest, **kw: sample_gig(chi, rho, lam.abs(), *rest, **kw))


def test_fault_every_proposal_accepted(monkeypatch):
    monkeypatch.setattr(gig_sampler, "propose", lambda *a, **kw: propose(*a, **kw).abs_())
    _reject((1.0, 1.0, 0.1))


def test_fault_capped_rejection_loop(monkeypatch):
    """The authors' loop gives up after a few trials; here after the first retry."""
    calls = []

    def capped(chi, *rest, **kw):
        calls.append(chi.numel())
        x = propose(chi, *rest, **kw)
        return x.abs_() if sum(calls) > 200_000 else x

    monkeypatch.setattr(gig_sampler, "propose", capped)
    _reject((1e-34, 1.0, 0.02))  # where acceptance is lowest


@pytest.mark.parametrize(("side", "factor"), [("right", 0.7), ("left", 1.3)])
def test_fault_wrong_tangent(monkeypatch, side, factor):
    """A touching point t whose e^t - 1 belongs to another: the hat cuts into the density."""

    def wrong(order):
        points = touching_points(order)
        return points._replace(**{side: getattr(points, side) * factor})

    monkeypatch.setattr(gig_sampler, "touching_points", wrong)
    _reject((1.0, 1.0, 3.7))


def test_fault_rejected_draws_that_underflow(monkeypatch):
    """-0.0 is not below zero: a rejected float32 draw that underflows must not count as accepted."""
    monkeypatch.setattr(torch, "signbit", lambda x: x < 0)
    _reject((1e-36, 1e7, 0.02), torch.float32)


# Manners.


def test_generator_and_global_state():
    chi = torch.rand(1000, generator=seeded(0))
    state = torch.get_rng_state()
    first, second, third = (sample_gig(chi, 1.0, 0.1, seeded(s)) for s in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert torch.equal(state, torch.get_rng_state())
    sample_gig(chi, 1.0, 0.1)
    assert not torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("chi", "rho", "lam"),
    [((), (), ()), ((3, 1), (4,), ()), ((2, 1, 3), (), (5, 1)), ((1,), (), (7,)), ((0, 2), (), ())],
)
def test_shapes(chi, rho, lam):
    x = sample_gig(torch.ones(chi), torch.ones(rho), torch.full(lam, -0.3), seeded(0))
    assert x.shape == torch.broadcast_shapes(chi, rho, lam)
    assert bool((x > 0).all())


@pytest.mark.parametrize(
    "bad",
    [(-1.0, 1.0, 0.1), (torch.nan, 1.0, 0.1), (torch.inf, 1.0, 0.1), (1.0, torch.nan, 0.1), (1.0, -1.0, 0.1),
     (1.0, 1.0, torch.nan), (0.0, 1.0, 0.0), (1.0, 0.0, 0.2), (1e200, 1e200, 1.0)],
)  # fmt: skip
def test_bad_parameters_raise_at_once(bad):
    chi, rho, lam = (torch.tensor([1.0, v], dtype=torch.float64) for v in bad)
    with pytest.raises(ParameterError):
        sample_gig(chi, rho, lam)


def test_extreme_results_stay_positive_and_finite_in_float32():
    """Draws beyond the range of float32 are returned at its ends, and in the right proportion.

    P(X < tiny) for Gamma(0.02, 1/2) is 0.18 and its estimate from 20,000 draws has standard error 0.003:
    false-alarm rate of 6 standard errors 2e-9 for each of the two tests.
    """
    limits = torch.finfo(torch.float32)
    small = sample_gig(torch.zeros(DRAWS), 1.0, 0.02, seeded(0))
    large = sample_gig(torch.ones(DRAWS), 0.0, -0.02, seeded(1))
    for x, end, share in (
        (small, limits.tiny, stats.gamma(0.02, scale=2).cdf(limits.tiny)),
        (large, limits.max, stats.gamma(0.02, scale=2).cdf(1 / limits.max)),
    ):
        assert bool(((x >= limits.tiny) & (x <= limits.max)).all())
        assert abs((x == end).double().mean().item() - share) < 6 * (share * (1 - share) / DRAWS) ** 0.5


def test_no_numpy_in_the_path(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("numpy in the path of the sampler")

    for name in ("numpy", "__array__"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    sample_gig(torch.ones(100), 1.0, torch.linspace(-1, 1, 100))


MEMORY = """
import torch
from r2d2net.distributions import sample_gig
torch.set_num_threads(1)
generator, n = torch.Generator().manual_seed(0), 10_000_000
chi = torch.rand(n, generator=generator)
lam = {lam}
sample_gig(chi[:100_000], 1.0, lam if isinstance(lam, float) else lam[:100_000], generator)
def kilobytes(field):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(field))
before = kilobytes("VmRSS")
x = sample_gig(chi, 1.0, lam, generator)
print((kilobytes("VmHWM") - before) * 1024 / (4 * n))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("lam", ["0.1", "torch.rand(n, generator=generator) - 0.5"], ids=["scalar", "tensor"])
def test_memory(lam):
    """1e7 float32 draws in one call: the peak of resident memory grows by at most 4 tensors, the result included."""
    run = subprocess.run(
        [sys.executable, "-c", MEMORY.replace("{lam}", lam)], capture_output=True, text=True, check=True
    )
    assert float(run.stdout) <= 4


def test_without_a_compiler(monkeypatch):
    """compiled=True warns and gives the eager draws where torch.compile does not work."""

    def broken(*_args, **_kwargs):
        raise RuntimeError("no C++ compiler found\nand a long trace")

    monkeypatch.setattr(torch, "compile", broken)
    gig_sampler._compiled_propose.cache_clear()
    try:
        with pytest.warns(UserWarning, match="sampling runs eagerly: no C\\+\\+ compiler found$"):
            x = sample_gig(torch.ones(100), 1.0, 0.1, seeded(0), compiled=True)
    finally:
        gig_sampler._compiled_propose.cache_clear()
    assert torch.equal(x, sample_gig(torch.ones(100), 1.0, 0.1, seeded(0)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the compiler's own modules
@pytest.mark.parametrize("dtype", DTYPES, ids=["f32", "f64"])
def test_compiled_draws(dtype):
    """The fused proposal has the same law; false-alarm rate 2e-7 for each of 6 cases."""
    for corner in ((1e-12, 2.0, 0.1), (1.0, 0.5, -0.4), (1e-34, 1.0, 0.02)):
        assert p_value(corner, dtype, seed=11, compiled=True) > LEVEL
    assert gig_sampler._compiled_propose() is not propose
