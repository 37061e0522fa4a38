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
NEED_FLOAT64 = [(1e-30, 1e-30, 0.02), (1e-20, 1e-30, 0.02), (1e-37, 1e-3, 0.02), (0.0, 1e-30, 0.02)]
AS_NARROW_AS_FLOAT32 = [(1e30, 1.0, 0.1), (1e30, 1.0, 1e7)]
FAR_TAILS = [(1e-30, 1.0, 0.4), (1.0, 1e-30, -0.4)]


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
    """Kolmogorov-Smirnov; false-alarm rate 2e-7 for each of 140 cases.

    In float32 AS_NARROW_AS_FLOAT32 shows only that the draws lie about the mode: a constant would pass. The next
    test takes these two by the values they round to.
    """
    seed = CORNERS.index(corner) + 1000 * tensor_lam + 2000 * (dtype == torch.float32)
    assert p_value(corner, dtype, seed=seed, tensor_lam=tensor_lam) > LEVEL


@pytest.mark.parametrize("corner", AS_NARROW_AS_FLOAT32, ids=str)
def test_draws_as_narrow_as_float32(corner):
    """The few float32 numbers in reach occur as often as a rounded giG says; false-alarm rate 2e-7 for each of 2."""
    chi, rho, lam = (torch.tensor(v) for v in corner)
    x = sample_gig(chi.expand(DRAWS), rho, lam, seeded(21)).double().numpy()
    law, spacing = reference(chi.item(), rho.item(), lam.item()), 2.0**26  # of float32 between 2^49 and 2^50
    cells = spacing * (np.round(law.mode / spacing) + np.arange(-8, 9))
    expected = DRAWS * (law.cdf(cells + spacing / 2) - law.cdf(cells - spacing / 2))
    seen = (x[:, None] == cells).sum(0)
    assert seen.sum() == DRAWS
    assert (seen > 0).sum() >= 4  # no constant
    common = expected > 5
    seen, expected = (np.append(v[common], v[~common].sum()) for v in (seen, expected))
    assert stats.chi2.sf(((seen - expected) ** 2 / expected.clip(1e-3)).sum(), common.sum()) > LEVEL


def negligible_tolerance(corner) -> bool:
    """Whether what `ks_p_value` forgives float32 (8 roundings, clamped draws) is below 1e-4 of probability."""
    law, limits = reference(*torch.tensor(corner).tolist()), torch.finfo(torch.float32)
    steepest = (np.diff(law.cumulative) / np.diff(law.grid)).max()
    return 4 * limits.eps * steepest < 1e-4 and law.cdf(np.array(limits.tiny)) < 1e-4


@pytest.mark.parametrize("dtype", DTYPES, ids=["f32", "f64"])
def test_p_values_are_uniform(dtype):
    """The p-values of 8 runs over the grid; false-alarm rate 2e-5 for each of the two."""
    corners = CORNERS if dtype == torch.float64 else [corner for corner in CORNERS if negligible_tolerance(corner)]
    assert len(corners) >= 25
    first = 10_000 if dtype == torch.float64 else 20_000
    runs = [(corner, first + 100 * run + i) for run in range(8) for i, corner in enumerate(corners)]
    values = [p_value(corner, dtype, seed=seed, draws=4000) for corner, seed in runs]
    assert stats.kstest(values, "uniform").pvalue > UNIFORMITY_LEVEL


@pytest.mark.parametrize("corner", NEED_FLOAT64, ids=str)
def test_float32_parameters_that_need_float64(corner):
    """False-alarm rate 2e-7 for each of 4 cases; `test_fault_narrow` shows what is at stake."""
    assert p_value(corner, torch.float32, seed=22, draws=200_000) > LEVEL


@pytest.mark.parametrize("lam", [0.0, 1e-4, -1e-4, 1e-3])
def test_products_below_the_least(lam):
    """chi rho < 1e-300 near order 0 counts as 1e-300, about the same sqrt(chi / rho).

    False-alarm rate 2e-7 for each of 4 cases, and 2e-9 for the median at order 0 (6 standard errors).
    """
    chi, rho = 1e-305, 1.0
    x = sample_gig(torch.full((DRAWS,), chi, dtype=torch.float64), rho, lam, seeded(23))
    assert bool(((x > 0) & (x < 1)).all())
    lift = np.sqrt(1e-300 / (chi * rho))
    assert ks_p_value(x, GigReference(chi * lift, rho * lift, lam).cdf) > LEVEL
    if lam == 0:
        below = (x < np.sqrt(chi / rho)).double().mean().item()
        assert abs(below - 0.5) < 6 * 0.5 / DRAWS**0.5


def tail_p_values(corner, draws=10_000_000) -> tuple[float, float]:
    """Binomial tests of the numbers of float32 draws beyond the 1e-5 quantiles, below and above."""
    chi, rho, lam = (torch.tensor(v) for v in corner)
    law, level = reference(chi.item(), rho.item(), lam.item()), 1e-5
    low, high = law.mode * np.exp(np.interp([level, 1 - level], law.cumulative, law.grid))
    x = sample_gig(chi.expand(draws), rho, lam, seeded(24))
    counts = (int((x < low).sum()), int((x > high).sum()))
    return tuple(stats.binomtest(count, draws, level).pvalue for count in counts)


@pytest.mark.parametrize("corner", FAR_TAILS, ids=str)
def test_far_tails(corner):
    """Both tails in float32, one of them a power law; false-alarm rate 1e-7 for each of 4 counts of about 100."""
    assert min(tail_p_values(corner)) > 1e-7


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


@pytest.mark.parametrize("corner", NEED_FLOAT64, ids=str)
def test_fault_narrow(monkeypatch, corner):
    """float32 throughout, whatever chi rho."""
    monkeypatch.setattr(gig_sampler, "check_parameters", lambda chi, *_rest: chi.dtype)
    _reject(corner, torch.float32)


@pytest.mark.parametrize(("corner", "side"), [(FAR_TAILS[0], 0), (FAR_TAILS[1], 1)])
def test_fault_cut_tail(monkeypatch, corner, side):
    """The hat's tails end at 1e-4 of their mass, where `propose` lets them run to eps / 8."""
    clamp = torch.Tensor.clamp_

    def cut(x, min=None, max=None):
        return clamp(x, 1e-4 if max == 1 else min, max)

    monkeypatch.setattr(torch.Tensor, "clamp_", cut)
    assert tail_p_values(corner)[side] < 1e-7


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
from r2d2net.distributions import GeneralizedInverseGaussian, sample_gig
torch.set_num_threads(1)
generator, n = torch.Generator().manual_seed(0), 10_000_000
def rand(*shape):
    return torch.rand(shape, generator=generator)
sample_gig(rand(100_000), 1.0, 0.1, generator)
sample_gig(rand(100_000), 1.0, rand(100_000) - 0.5, generator)
{parameters}
def kilobytes(field):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(field))
before = kilobytes("VmRSS")
x = {call}
assert x.numel() == n
print((kilobytes("VmHWM") - before) * 1024 / (4 * n))
"""


DIRECT = "sample_gig(chi, rho, lam, generator)"
MEMORY_CASES = {
    "scalar": ("chi, rho, lam = rand(n), 1.0, 0.1", DIRECT),
    "tensor": ("chi, rho, lam = rand(n), 1.0, rand(n) - 0.5", DIRECT),
    "broadcast": ("chi, rho, lam = rand(2500, 1), rand(4000), rand(2500, 1) - 0.5", DIRECT),
    "class": (
        "q = GeneralizedInverseGaussian(rand(10), rand(10), rand(10) - 0.5)",
        "q.sample((1_000_000,), generator)",
    ),
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("case", MEMORY_CASES)
def test_memory(case):
    """1e7 float32 draws in one call: the peak of resident memory grows by at most 4 tensors, the result included."""
    parameters, call = MEMORY_CASES[case]
    script = MEMORY.replace("{parameters}", parameters).replace("{call}", call)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(run.stdout) <= 4


VIEWS = {
    "transposed": lambda x: x[:180, :250].T,
    "expanded": lambda x: x[3:4, :180].expand(250, 180),
    "expanded to the right": lambda x: x[:250, 2:3].expand(250, 180),
    "sliced": lambda x: x[5:255, 7:187],
    "every second": lambda x: x[::2, ::2][:250, :180],
    "of three dimensions": lambda x: x[:500].unflatten(1, (125, 4))[::2, :45].transpose(1, 2),
}


@pytest.mark.parametrize("view", VIEWS)
def test_parameters_of_any_strides(view):
    """A view and its contiguous copy give the same draws, over two chunks and in every retry."""
    base = torch.rand(520, 500, generator=seeded(0), dtype=torch.float64)
    one = VIEWS[view](base)
    assert one.numel() == 45_000
    assert not one.is_contiguous()
    parameters = (one, VIEWS[view](base + 0.5), VIEWS[view](base - 0.6))
    copies = [p.contiguous() for p in parameters]
    for k in range(3):
        mixed = [p if i == k else c for i, (p, c) in enumerate(zip(parameters, copies, strict=True))]
        assert torch.equal(sample_gig(*mixed, seeded(1)), sample_gig(*copies, seeded(1)))
    index = torch.randint(one.numel(), (1000,), generator=seeded(2))
    read = gig_sampler.Reader(one)
    assert torch.equal(read[index], copies[0].view(-1)[index])
    assert torch.equal(read[slice(40_000, 50_000)], copies[0].view(-1)[40_000:50_000])


def test_kinds_of_chi():
    """chi may require a gradient, hold integers or be a plain number; the draws carry no gradient."""
    x = sample_gig(torch.ones(5, requires_grad=True), torch.ones(5, requires_grad=True), 0.3, seeded(0))
    assert not x.requires_grad
    whole = sample_gig(torch.ones(5, dtype=torch.int64), 1.0, 0.3, seeded(0))
    number = sample_gig(1.0, torch.ones(5), 0.3, seeded(0))
    for y in (whole, number):
        assert torch.equal(x, y)
    assert sample_gig(1.0, 1.0, 0.3, seeded(0)).shape == ()


def test_only_the_products_that_occur_count():
    """chi and rho both reach 1e200, never together: X is sqrt(chi / rho) to all digits."""
    big, one = torch.tensor([1e200, 1.0], dtype=torch.float64), torch.tensor([1.0, 1e200], dtype=torch.float64)
    x = sample_gig(big, one, 0.3, seeded(0))
    torch.testing.assert_close(x, torch.tensor([1e100, 1e-100], dtype=torch.float64), rtol=1e-12, atol=0)


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
