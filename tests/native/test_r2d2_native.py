"""Native sweeps of R2D2's scales: Geweke's test, laws of the draws, torch's own sweep from the same uniform numbers."""

import pytest
import torch
from scipy import stats

from native_kernels import NEEDS_KERNELS, plant
from r2d2net.distributions import sample_gig
from r2d2net.distributions.gig_refresh import gig_refreshed
from r2d2net.errors import ParameterError
from r2d2net.native import library
from r2d2net.priors import R2D2
from r2d2net.priors.r2d2 import R2D2Scales
from r2d2net.priors.r2d2_native import native_cavi_, native_gibbs_
from r2d2net.testing.gibbs_invariance import FALSE_ALARM, geweke

pytestmark = NEEDS_KERNELS
REJECT = 1e-6  # false alarms of a Kolmogorov-Smirnov test; seeds are pinned
PRIORS = {
    "default": R2D2(),
    "paper": R2D2.paper(),
    "high order": R2D2(a_pi=2.5, sigma0=0.3),
    "from R2": R2D2.from_r2(0.5, 2.0, concentration=0.75),
}


class Native(R2D2):
    """The prior with native sweeps, for Geweke's test."""

    def gibbs(self, w, scales, generator=None):
        copied = scales._replace(T=scales.T.clone(), psi=scales.psi.clone())
        return native_gibbs_(self, w, copied, torch.empty_like(copied.T), generator)


def natively(prior):
    return Native.from_hyperparameters(**prior.hyperparameters())


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_sweeps_leave_the_joint_law_invariant(prior):
    outcome = geweke(natively(prior), seed=5, dtype=torch.float32)
    assert outcome.p_value > FALSE_ALARM, outcome


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("2.0f * clamped(x * x, TINY", "3.0f * clamped(x * x, TINY"),
        ("rho[k] = clamped(2.0f * rate[i + k]", "rho[k] = clamped(3.0f * rate[i + k]"),
        ("+ js * la;", "+ 1.5f * js * la;"),
        ("t / b * t : b", "t / b * t * 1.5f : b"),
        ("b < (b + t) * u", "b < (b + 1.3f * t) * u"),
        ("exp_of(-g[i]) >= tail[i]", "exp_of(-1.5f * g[i]) >= tail[i]"),
    ],
)
def test_planted_faults_of_sweeps_are_seen(monkeypatch, tmp_path, right, wrong):
    plant(monkeypatch, tmp_path / "faulty", right, wrong)
    assert geweke(natively(R2D2()), seed=5, dtype=torch.float32).p_value < FALSE_ALARM


def at(prior, w, psi, rate, count=40_000):
    """Scales of equal weights whose T is drawn exactly."""
    chi = torch.full((count,), 2 * (w / prior.sigma0) ** 2 / psi)
    t = sample_gig(chi, 2 * rate, prior.a_pi - 0.5, torch.Generator().manual_seed(0))
    return R2D2Scales(t, torch.full((count,), psi), torch.tensor(rate), torch.tensor(rate)), chi


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize(("w", "psi", "rate"), [(0.05, 1.0, 2.0), (1e-6, 0.3, 50.0), (3.0, 2.0, 0.1)])
def test_draws_have_their_conditionals(prior, w, psi, rate):
    """T stays as it is distributed; psi given T has 1 / psi ~ inverse Gaussian of mean 1 / sqrt(chi)."""
    scales, chi = at(prior, w, psi, rate)
    before = scales.T.clone()
    weights = torch.full_like(before, w)
    native_gibbs_(prior, weights, scales, torch.empty_like(before), torch.Generator().manual_seed(1))
    fresh = sample_gig(chi, 2 * rate, prior.a_pi - 0.5, torch.Generator().manual_seed(2))
    assert 0.6 < float((before != scales.T).double().mean()) < 1
    assert stats.ks_2samp(scales.T.numpy(), fresh.numpy()).pvalue > REJECT
    root = (2 * (w / prior.sigma0) ** 2 / scales.T.double()).sqrt().numpy()
    assert stats.kstest(stats.invgauss.cdf(1 / scales.psi.double().numpy(), 1 / root), "uniform").pvalue > REJECT


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_proposals_are_torchs(prior, monkeypatch):
    """From the same uniform numbers; rounding may decide one proposal in a thousand otherwise."""
    n, key, lam = 640, 77, prior.a_pi - 0.5
    monkeypatch.setattr(library, "new_key", lambda generator: key)
    g = torch.Generator().manual_seed(3)
    w, scales = torch.randn(n, generator=g).mul_(0.1), prior.init_scales((n,), g)
    uniform = [
        torch.cat([library.words(key, block, stream) for block in range(n // 64)]).div(256, rounding_mode="floor")
        * 2**-24
        for stream in (1, 2)
    ]
    chi, rho, _ = prior._t_conditional((w / prior.sigma0).square(), scales)
    expected = gig_refreshed(scales.T.clone(), chi, rho, lam, *(u.float() for u in uniform))
    native_gibbs_(prior, w, scales, torch.empty(n), g)
    agree = torch.isclose(scales.T, expected, rtol=1e-3, atol=0)
    assert float(agree.double().mean()) >= 0.998


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
def test_precisions_are_those_of_the_scales(prior):
    g = torch.Generator().manual_seed(4)
    scales, precision = prior.init_scales((50, 7), g), torch.empty(50, 7)
    new = native_gibbs_(prior, torch.randn(50, 7, generator=g), scales, precision, g)
    torch.testing.assert_close(precision, 1 / prior.variance(new), rtol=1e-5, atol=0)
    assert new.T is scales.T


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
@pytest.mark.parametrize("n", [1000, 1, 64])
def test_coordinate_ascent_is_torchs(prior, n):
    if prior.total is not None and n == 1:
        pytest.skip("the prior needs more weights")
    g = torch.Generator().manual_seed(5)
    second, scales = (5 * torch.randn(n, generator=g)).exp(), prior.init_scales((n,), g)
    found = []
    for update in (native_cavi_, R2D2.cavi_):
        copied, precision = R2D2Scales(*(part.clone() for part in scales)), torch.empty(n)
        for _ in range(3):
            copied = update(prior, second, copied, precision)
        found.append((*copied, precision))
    for native, eager in zip(*found, strict=True):
        torch.testing.assert_close(native, eager, rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    ("right", "wrong"), [("down[i] + 2.0f * q.order", "down[i] + 2.01f * q.order"), ("0x1p-19f", "0x1p-20f")]
)
def test_planted_faults_of_coordinate_ascent_are_seen(monkeypatch, tmp_path, right, wrong):
    plant(monkeypatch, tmp_path / "faulty", right, wrong)
    with pytest.raises(AssertionError):
        test_coordinate_ascent_is_torchs(R2D2(), 1000)


def swept(n, seed=6):
    prior, g = R2D2(), torch.Generator().manual_seed(seed)
    w, scales, precision = torch.randn(n, generator=g), prior.init_scales((n,), g), torch.empty(n)
    scales = native_gibbs_(prior, w, scales, precision, g)
    gibbs = [part.clone() for part in (*scales, precision)]
    return [*gibbs, *native_cavi_(prior, w.square(), scales, precision), precision]


def test_levels_and_threads_change_nothing():
    n, threads = 300_000, torch.get_num_threads()
    first = swept(n)
    try:
        torch.set_num_threads(2)
        assert all(map(torch.equal, first, swept(n)))
        for level in range(3):
            library.use_level(level)
            assert all(map(torch.equal, first, swept(n)))
    finally:
        torch.set_num_threads(threads)


def test_parts_change_nothing_but_rounding(monkeypatch):
    whole = swept(5000)
    monkeypatch.setattr(library, "PART", 320)
    for one, other in zip(whole, swept(5000), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_the_kernels_do_not_take_torch_does(dtype):
    """float64, and orders near zero where chi rho leaves float32: the draws are those of torch, to the bit."""
    prior, found = R2D2.paper(), []
    for sweep in (native_gibbs_, R2D2.gibbs_):
        g = torch.Generator().manual_seed(7)
        w, scales = torch.full((100,), 1e-19, dtype=dtype), prior.init_scales((100,), g, dtype=dtype)
        found.append((*sweep(prior, w, scales, torch.empty(100, dtype=dtype), g),))
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("w", [0.0, 1e-38, 1e30, 1e-10])
@pytest.mark.parametrize("prior", [R2D2(), R2D2(a_pi=3.0), R2D2(sigma0=1e-3)], ids=str)
def test_the_ends_of_float32_stay_finite(prior, w):
    g = torch.Generator().manual_seed(8)
    scales, precision = prior.init_scales((1000,), g), torch.empty(1000)
    for _ in range(20):
        scales = native_gibbs_(prior, torch.full((1000,), w), scales, precision, g)
        assert all(bool((part > 0).all() and part.isfinite().all()) for part in (*scales, precision))
    for _ in range(20):
        scales = native_cavi_(prior, torch.full((1000,), w), scales, precision)
        assert all(bool((part > 0).all() and part.isfinite().all()) for part in (*scales, precision))


def test_weights_without_a_number_are_one_line():
    prior = R2D2()
    with pytest.raises(ParameterError, match=r"^w reaches from nan to nan: it must be finite$"):
        native_gibbs_(prior, torch.tensor([1.0, float("nan")]), prior.init_scales((2,)), torch.empty(2))
