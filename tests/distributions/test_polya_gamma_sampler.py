"""Draws from PG(b, z) against the inverted Laplace transform, their manners, and faults that must be seen."""

import math
import subprocess
import sys

import mpmath
import numpy as np
import pytest
import torch
from scipy import special, stats

from r2d2net import ParameterError
from r2d2net.distributions import polya_gamma_sampler, sample_polya_gamma
from r2d2net.distributions.polya_gamma_sampler import (
    propose_jacobi,
    share_above,
    truncated_inverse_gaussian,
)
from reference import GigReference, PolyaGammaReference, f64, ks_p_value, seeded

TILTS = [0.0, 0.5, 2.0, 10.0, 50.0]
LEVEL = 1e-8  # fewer than 50 tests: 5e-7 beside the 1e-4 of all tests of `reference`
DRAWS = 100_000
DTYPES = [torch.float32, torch.float64]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=["f32", "f64"])


def p_value(z: float, dtype=torch.float64, *, seed: int, b: int = 1, sampler=sample_polya_gamma) -> float:
    x = sampler(torch.full((DRAWS,), z, dtype=dtype), seeded(seed), b=b)
    assert x.dtype == dtype
    assert bool(((x > 0) & (x < torch.inf)).all())
    return ks_p_value(x, PolyaGammaReference(b, z).cdf)


@pytest.mark.parametrize(("b", "z"), [*((1, z) for z in TILTS), (3, 2.0), (10, 0.0), (10, 5.0), (5, 10.0)])
def test_reference_is_itself_right(b, z):
    """Talbot's contour in float64 agrees with mpmath's in 30 digits, and the density with the slope of the CDF."""
    law = PolyaGammaReference(b, z)
    mean = b / 4 * (math.tanh(z / 2) / (z / 2) if z else 1.0)
    x = mean * np.array([0.3, 0.7, 1.0, 1.5, 3.0])
    with mpmath.workdps(30):

        def transform(t):
            return (mpmath.cosh(mpmath.mpf(z) / 2) / mpmath.cosh(mpmath.sqrt(mpmath.mpf(z) ** 2 / 4 + t / 2))) ** b

        exact = [mpmath.invertlaplace(lambda t: transform(t) / t, v, method="talbot", degree=60) for v in x]
        density = [mpmath.invertlaplace(transform, v, method="talbot", degree=60) for v in x]
    np.testing.assert_allclose(law.cdf(x), np.array(exact, dtype=float), atol=1e-9)
    np.testing.assert_allclose(law.pdf(x) * mean, np.array(density, dtype=float) * mean, atol=1e-7)
    assert law.transform(np.array(1.7)) == pytest.approx(float(transform(mpmath.mpf(1.7))), rel=1e-13)


@every_dtype
@pytest.mark.parametrize("z", TILTS)
def test_draws(z, dtype):
    """Kolmogorov-Smirnov with 1e5 draws; false-alarm rate 1e-8 for each of 10 cases."""
    assert p_value(z, dtype, seed=TILTS.index(z) + 10 * (dtype == torch.float32)) > LEVEL


@pytest.mark.parametrize(("b", "z"), [(2, 0.0), (3, 2.0), (10, 5.0)])
def test_sums(b, z):
    """PG(b, z) for whole b; false-alarm rate 1e-8 for each of 3 cases."""
    assert p_value(z, seed=20 + b, b=b) > LEVEL


@every_dtype
@pytest.mark.parametrize("z", [700.0, -700.0, 1e6])
def test_large_tilts(z, dtype):
    """The law is that of an inverse Gaussian, giG(1/4, z^2, -1/2), but for e^-700; rate 1e-8 for each of 6 cases."""
    x = sample_polya_gamma(torch.full((DRAWS,), z, dtype=dtype), seeded(30))
    assert ks_p_value(x, GigReference(0.25, z * z, -0.5).cdf) > LEVEL


def test_mixed_elements():
    """Each element of one call has its own z and b, across chunks; false-alarm rate 1e-8 for each of 10 cases."""
    z, b = f64([*TILTS, *TILTS]), torch.tensor([5, 4, 3, 2, 1, 1, 2, 4, 5, 1])
    x = sample_polya_gamma(z.expand(DRAWS // 5, -1), seeded(40), b=b)
    for tilt, count, draws in zip(z.tolist(), b.tolist(), x.unbind(1), strict=True):
        assert ks_p_value(draws, PolyaGammaReference(count, tilt).cdf) > LEVEL


def test_sign_and_vanishing_tilts():
    """The sign does not matter, and next to 0 the draws are those at 0, to the bit."""
    z = torch.linspace(0, 20, 1000, dtype=torch.float64)
    assert torch.equal(sample_polya_gamma(z, seeded(1)), sample_polya_gamma(-z, seeded(1)))
    at_zero = sample_polya_gamma(torch.zeros(1000, dtype=torch.float64), seeded(2))
    for tiny in (1e-8, -1e-8, 1e-300):
        close = sample_polya_gamma(torch.full((1000,), tiny, dtype=torch.float64), seeded(2))
        torch.testing.assert_close(close, at_zero, rtol=1e-14, atol=0)


@pytest.mark.parametrize("z", TILTS)
def test_laplace_transform(z):
    """The mean of e^(-t X) at three t; 6 standard errors, false-alarm rate 2e-9 for each of 15 means."""
    x = sample_polya_gamma(torch.full((DRAWS,), z, dtype=torch.float64), seeded(50))
    for t in (0.1 / x.mean(), 1 / x.mean(), 10 / x.mean()):
        values = torch.exp(-t * x)
        exact = math.cosh(z / 2) / math.cosh(math.sqrt((z * z / 2 + t.item()) / 2))
        assert abs(values.mean().item() - exact) < 6 * values.std().item() / DRAWS**0.5


@pytest.mark.parametrize(("b", "z"), [(1, 0.0), (1, 1e-8), (1, 2.0), (4, 10.0), (1, 700.0)])
def test_moments(b, z):
    """Mean and variance; 6 standard errors, false-alarm rate 2e-9 for each of 10 estimates."""
    x = sample_polya_gamma(torch.full((DRAWS,), z, dtype=torch.float64), seeded(60), b=b)
    with mpmath.workdps(60):
        wide = mpmath.mpf(z or 1e-15)
        mean = float(b / (2 * wide) * mpmath.tanh(wide / 2))
        variance = float(b / (4 * wide**3) * (mpmath.sinh(wide) - wide) * mpmath.sech(wide / 2) ** 2)
    for values, exact in ((x, mean), ((x - mean).square(), variance)):
        assert abs(values.mean().item() - exact) < 6 * values.std().item() / DRAWS**0.5


# The proposal, exactly.


def inverse_gaussian_below(h: np.ndarray, cut: float | np.ndarray) -> np.ndarray:
    """P(IG(1 / h, 1) < cut), and the Levy limit at h = 0."""
    root = np.sqrt(cut)
    return special.ndtr((cut * h - 1) / root) + np.exp(2 * h + special.log_ndtr(-(cut * h + 1) / root))


def envelope_mass(h: np.ndarray, cut: float = 0.64) -> np.ndarray:
    """The integral of cosh(h) e^(-h^2 x / 2) a_0(x), whose reciprocal is the acceptance rate."""
    k = np.pi**2 / 8 + h * h / 2
    above = np.pi / (2 * k) * np.exp(h - k * cut)
    return (1 + np.exp(-2 * h)) / 2 * (above + 2 * inverse_gaussian_below(h, cut))


def density_error(z: float) -> float:
    """Largest error of proposal density times acceptance over acceptance rate, relative to the density's peak."""
    h, x = z / 2, np.concatenate([np.linspace(0.02, 0.639, 200), np.linspace(0.641, 4.0, 200)])
    k, mass, cut = np.pi**2 / 8 + h * h / 2, envelope_mass(np.array(h)), 0.64
    share = share_above(f64([h])).item()
    inverse_gaussian = np.sqrt(1 / (2 * np.pi * x**3)) * np.exp(-((h * x - 1) ** 2) / (2 * x))
    below = (1 - share) * inverse_gaussian / inverse_gaussian_below(np.array(h), cut)
    proposal = np.where(x > cut, share * k * np.exp(-k * (x - cut)), below)
    density = proposal * (1 - polya_gamma_sampler.rejection_probability(f64(x)).numpy()) * mass
    exact = PolyaGammaReference(1, z).pdf(x / 4) / 4
    return np.abs(density - exact).max() / exact.max()


@pytest.mark.parametrize("z", [0.0, 0.5, 2.0, 10.0])
def test_proposal_times_acceptance_is_the_density(z):
    assert density_error(z) < 1e-9


def test_acceptance():
    """By the masses the lowest rate is 0.99920, at z = 2.76; the rates of proposals agree.

    6 standard errors, false-alarm rate 2e-9 for each of 3 rates.
    """
    rates = 1 / envelope_mass(np.linspace(0, 30, 3001))
    assert rates.min() == pytest.approx(0.9991977, abs=1e-7)
    for h in (0.0, 1.378, 3.0):
        rate = 1 / envelope_mass(np.array(h))
        _, accepted = propose_jacobi(torch.full((DRAWS * 5,), h, dtype=torch.float64), seeded(70))
        assert abs(accepted.double().mean().item() - rate) < 6 * math.sqrt(rate * (1 - rate) / (5 * DRAWS))


@pytest.mark.parametrize("h", [0.0, 1.5, 1.6, 8.0])
def test_truncated_inverse_gaussian(h):
    """On both sides of the switch at 1 / cut; false-alarm rate 1e-8 for each of 4 cases."""
    x = truncated_inverse_gaussian(torch.full((DRAWS,), h, dtype=torch.float64), seeded(80))
    below = inverse_gaussian_below(np.array(h), 0.64)
    assert float(x.max()) <= 0.64

    def cdf(v):
        return np.minimum(inverse_gaussian_below(np.array(h), v) / below, 1)

    assert ks_p_value(x, cdf) > LEVEL


# Faults that must be seen, by the same test with the same number of draws.


def test_no_fault(monkeypatch):
    """The control: the draws are right for any cut that all parts share. False-alarm rate 1e-8 for each of 6 cases."""
    for cut in (0.4, 2.0):
        monkeypatch.setattr(polya_gamma_sampler, "CUT", cut)
        for z in (0.0, 2.0, 10.0):
            assert p_value(z, seed=3) > LEVEL


def test_fault_wrong_cut(monkeypatch):
    """The masses belong to another cut than the draws."""

    def shares_of_another_cut(half):
        with monkeypatch.context() as patch:
            patch.setattr(polya_gamma_sampler, "CUT", 0.55)
            return share_above(half)

    monkeypatch.setattr(polya_gamma_sampler, "share_above", shares_of_another_cut)
    for z in (0.0, 0.5, 2.0):
        assert p_value(z, seed=3) < LEVEL


def test_fault_dropped_terms(monkeypatch):
    """Without the terms from n = 1 or from n = 2 on: seen in the density, and in draws where the cut makes it count."""

    def first_term_only(x):
        return torch.zeros_like(x)

    def two_terms(x):
        return 3 * torch.exp(-torch.where(x > 0.64, math.pi**2 * x, 4 / x))

    for fault in (first_term_only, two_terms):
        monkeypatch.setattr(polya_gamma_sampler, "rejection_probability", fault)
        assert density_error(0.5) > 1e-9
    monkeypatch.setattr(polya_gamma_sampler, "rejection_probability", first_term_only)
    monkeypatch.setattr(polya_gamma_sampler, "CUT", 2.0)
    assert p_value(0.0, seed=3) < LEVEL


@pytest.mark.slow
def test_fault_dropped_term_in_draws(monkeypatch):
    """At the cut of 0.64 a dropped term changes a CDF by 3e-4 at most; it is seen in the share of draws about the cut.

    The window is that in which the fault is expected to show best: by 9 standard errors of 6.3e7 draws. False-alarm
    rate of the control 1e-8; the fault would be missed at a rate of 1e-3.
    """
    low, high = 0.54, 0.76
    law = PolyaGammaReference(1, 0.0)
    share = float(law.cdf(np.array(high / 4)) - law.cdf(np.array(low / 4)))

    def p_value_of_share():
        generator, batch, rounds = seeded(90), 1 << 21, 30
        x = (sample_polya_gamma(torch.zeros(batch), generator) for _ in range(rounds))
        count = sum(int(((draws > low / 4) & (draws < high / 4)).sum()) for draws in x)
        return stats.binomtest(count, batch * rounds, share).pvalue

    assert p_value_of_share() > LEVEL
    monkeypatch.setattr(polya_gamma_sampler, "rejection_probability", torch.zeros_like)
    assert p_value_of_share() < LEVEL


def test_fault_missing_tilt(monkeypatch):
    """The tilt is left out of the proposal below the cut, of the rate above it, or halved once too often."""
    levy = polya_gamma_sampler._propose_levy
    with monkeypatch.context() as patch:
        patch.setattr(polya_gamma_sampler, "_propose_levy", lambda half, generator: levy(0 * half, generator))
        assert p_value(2.0, seed=3) < LEVEL
    with monkeypatch.context() as patch:
        patch.setattr(polya_gamma_sampler, "exponential_rate", lambda half: torch.full_like(half, math.pi**2 / 8))
        assert p_value(2.0, seed=3) < LEVEL
    for factor in (0.0, 0.5):

        def weaker(z, generator, b, factor=factor):
            return sample_polya_gamma(factor * z, generator, b=b)

        assert p_value(2.0, seed=3, sampler=weaker) < LEVEL


def test_fault_missing_draw_of_a_sum():
    def shorter(z, generator, b):
        return sample_polya_gamma(z, generator, b=b - 1)

    assert p_value(2.0, seed=3, b=3, sampler=shorter) < LEVEL


# Manners.


def test_generator_and_global_state():
    z = torch.randn(1000, generator=seeded(0))
    state = torch.get_rng_state()
    first, second, third = (sample_polya_gamma(z, seeded(s)) for s in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert torch.equal(state, torch.get_rng_state())
    sample_polya_gamma(z)
    assert not torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(("z", "b"), [((), ()), ((3, 1), (4,)), ((2, 1, 3), (5, 1)), ((1,), (7,)), ((0, 2), ())])
def test_shapes(z, b):
    x = sample_polya_gamma(torch.ones(z), seeded(0), b=torch.full(b, 2))
    assert x.shape == torch.broadcast_shapes(z, b)
    assert bool((x > 0).all())


def test_kinds_of_arguments():
    """z may require a gradient, hold integers, be a plain number or a view; the draws carry no gradient."""
    x = sample_polya_gamma(torch.ones(5, requires_grad=True), seeded(0))
    assert not x.requires_grad
    assert torch.equal(x, sample_polya_gamma(torch.ones(5, dtype=torch.int64), seeded(0)))
    assert torch.equal(x, sample_polya_gamma(1.0, seeded(0), b=torch.ones(5)))
    assert sample_polya_gamma(1.0, seeded(0)).shape == ()
    base = torch.randn(300, 200, generator=seeded(1))
    assert torch.equal(sample_polya_gamma(base.T, seeded(2)), sample_polya_gamma(base.T.contiguous(), seeded(2)))


@every_dtype
def test_extreme_tilts_stay_positive_and_finite(dtype):
    limits = torch.finfo(dtype)
    z = torch.tensor([0.0, limits.tiny, 1e-8, 88.0, 700.0, 1e6, 1e30, limits.max], dtype=dtype)
    x = sample_polya_gamma(torch.cat([z, -z]).expand(1000, -1), seeded(0))
    assert bool(((x >= limits.tiny) & (x < 10)).all())
    torch.testing.assert_close(x[:, 6], torch.full((1000,), 5e-31, dtype=dtype), rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("z", "b", "message"),
    [
        (torch.nan, 1, "z holds nan: it must be finite"),
        (-torch.inf, 1, "z holds -inf: it must be finite"),
        (1.0, 0, "b holds 0: it must be a whole number from 1 to 1000"),
        (1.0, 1.5, "b holds 1.5: it must be a whole number from 1 to 1000"),
        (1.0, 1001, "b holds 1001: it must be a whole number from 1 to 1000"),
        (1.0, torch.nan, "b holds nan: it must be a whole number from 1 to 1000"),
    ],
)
def test_bad_arguments(z, b, message):
    with pytest.raises(ParameterError) as error:
        sample_polya_gamma(torch.tensor([1.0, z]), b=b)
    assert str(error.value) == message
    assert error.value.argument == message[0]


def test_no_numpy_in_the_path(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("numpy in the path of the sampler")

    for name in ("numpy", "__array__"):
        monkeypatch.setattr(torch.Tensor, name, refuse)
    sample_polya_gamma(torch.linspace(-9, 9, 100), seeded(0), b=2)


MEMORY = """
import torch
from r2d2net.distributions import PolyaGamma
torch.set_num_threads(1)
generator, n = torch.Generator().manual_seed(0), 5_000_000
q = PolyaGamma(torch.linspace(0, 9, 10))
q.sample((10_000,), generator)
def kilobytes(field):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(field))
before = kilobytes("VmRSS")
assert q.sample((n // 10,), generator).numel() == n
print((kilobytes("VmHWM") - before) * 1024 / (4 * n))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory():
    """5e6 float32 draws in one call: the peak of resident memory grows by at most 2 tensors, the result included."""
    run = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    assert float(run.stdout) <= 2
