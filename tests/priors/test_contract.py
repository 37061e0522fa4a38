"""The contract of `r2d2net.priors.base`, proved for every prior of tests/prior_cases.py.

False alarms: a Kolmogorov-Smirnov and a Geweke test for each prior and dtype at 2e-6 each, 1e-4 in all for
twelve cases. Seeds are pinned, so a pass stays a pass until the code changes.
"""

import math
from itertools import pairwise
from typing import Any

import pytest
import torch

from prior_cases import CASES, EXTREME_PRIORS, Case
from prior_proofs import assert_scales_finite, bounds_over_sweeps, draws_p_value, geweke, total_mass
from r2d2net import ParameterError
from r2d2net.distributions import GeneralizedInverseGaussian, ReciprocalInverseGaussian
from r2d2net.distributions.gig_moments import _table as bessel_table
from r2d2net.priors import R2D2, AdaptiveR2D2
from r2d2net.priors.global_scale_grid import global_scale_grid
from r2d2net.priors.mixture_tables import quantile_table

FALSE_ALARM = 2e-6
every_prior = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])


def second_moments(seed: int = 1) -> torch.Tensor:
    """E[w^2] between 1e-12 and 1e12, in two groups of four."""
    generator = torch.Generator().manual_seed(seed)
    return 10 ** (24 * torch.rand(2, 4, generator=generator, dtype=torch.float64) - 12)


@every_prior
@both_dtypes
def test_draws_follow_the_marginal(case: Case, dtype: torch.dtype) -> None:
    assert draws_p_value(case.prior, case.cdf, dtype, seed=3) > FALSE_ALARM


@every_prior
def test_density_integrates_to_one(case: Case) -> None:
    assert abs(total_mass(case.prior) - 1) < 1e-6


@every_prior
def test_density_is_differentiable(case: Case) -> None:
    w = torch.tensor([-3.0, -0.2, 1e-3, 0.7, 40.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(case.prior.log_prob, w, eps=1e-7, rtol=1e-5)
    assert not case.prior.log_prob(torch.zeros(2)).isnan().any()


@every_prior
@both_dtypes
def test_gibbs_leaves_the_joint_law_unchanged(case: Case, dtype: torch.dtype) -> None:
    result = geweke(case.prior, seed=5, dtype=dtype)
    assert result.p_value > FALSE_ALARM, (result.worst, result.max_z)


def test_gibbs_piece_by_piece_leaves_the_joint_law_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chains lie in 82 pieces, most of which end inside one."""
    monkeypatch.setattr("r2d2net.priors.cache_blocks.PIECE", 1234)
    result = geweke(R2D2(), seed=5, dtype=torch.float32)
    assert result.p_value > FALSE_ALARM, (result.worst, result.max_z)


@every_prior
def test_coordinate_ascent_never_lowers_the_bound(case: Case) -> None:
    m = second_moments()
    scales = case.prior.init_scales(m.shape, torch.Generator().manual_seed(2), groups=(2, 1), dtype=m.dtype)
    bounds = bounds_over_sweeps(case.prior, m, scales, sweeps=30)
    slack = 1e-12 * max(map(abs, bounds))  # rounding of the sums
    assert all(after >= before - slack for before, after in pairwise(bounds))


@every_prior
def test_bound_is_a_lower_bound(case: Case) -> None:
    """For one weight E[log N] - KL cannot exceed log p(u), u^2 = E[w^2]; independent weights can reach it."""
    m = second_moments()[:, :1]
    scales = case.prior.init_scales(m.shape, torch.Generator().manual_seed(0), groups=(2, 1), dtype=m.dtype)
    for _ in range(200):
        factors = case.prior.cavi(m, scales)
        scales = factors.scales
    reached = float(factors.bound(m))
    exact = float(case.prior.log_prob(m.sqrt()).sum())
    assert reached <= exact + 1e-9 * abs(exact)
    if case.prior.has_exact_factors:
        assert reached == pytest.approx(exact, rel=1e-12)


@every_prior
def test_factors_agree_with_each_other(case: Case) -> None:
    m = second_moments()
    scales = case.prior.init_scales(m.shape, torch.Generator().manual_seed(2), groups=(2, 1), dtype=m.dtype)
    factors = case.prior.cavi(m, scales)
    assert factors.precision.shape == factors.log_variance().shape == m.shape
    torch.testing.assert_close(1 / case.prior.variance(factors.scales), factors.precision, rtol=1e-12, atol=0)
    elsewhere = 1.3 * m
    normal = -0.5 * (math.log(2 * math.pi) + factors.log_variance() + factors.precision * elsewhere).sum()
    torch.testing.assert_close(factors.bound(elsewhere), normal - factors.kl(), rtol=1e-11, atol=0)
    assert factors.kl() >= 0


@every_prior
@both_dtypes
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e30])
def test_scales_stay_finite_at_the_extremes(case: Case, dtype: torch.dtype, size: float) -> None:
    assert_scales_finite(case.prior, torch.full((1,), size, dtype=dtype))
    mixed = torch.tensor([size, 1.0, -size], dtype=dtype).repeat(4, 5)
    assert_scales_finite(case.prior, mixed)
    assert_scales_finite(case.prior, mixed, groups=(4, 1))


@both_dtypes
@pytest.mark.parametrize("prior", EXTREME_PRIORS, ids=repr)
def test_scales_stay_finite_for_extreme_hyperparameters(prior: Any, dtype: torch.dtype) -> None:
    w = torch.tensor([0.0, 1e-30, 1e-3, 1.0, 1e30], dtype=dtype).repeat(20)
    assert_scales_finite(prior, w)


@every_prior
@pytest.mark.parametrize("size", [0.0, 1e30])
def test_a_million_weights(case: Case, size: float) -> None:
    assert_scales_finite(case.prior, torch.full((1000, 1000), size), sweeps=1)


@every_prior
@both_dtypes
def test_density_at_infinity(case: Case, dtype: torch.dtype) -> None:
    w = torch.tensor([math.inf, 1.0, -math.inf], dtype=dtype)
    density = case.prior.log_prob(w)
    assert density[[0, 2]].tolist() == [-math.inf, -math.inf]
    assert math.isfinite(density[1])


@every_prior
@pytest.mark.parametrize(("shape", "groups"), [((4, 3), (4,)), ((4, 3), (2, 1)), ((3,), (4, 1)), ((3,), (0,))])
def test_groups_that_do_not_broadcast(case: Case, shape: tuple[int, ...], groups: tuple[int, ...]) -> None:
    for draw in (case.prior.init_scales, case.prior.sample):
        with pytest.raises(ParameterError, match=r"^groups=\(.*is out of range: use a shape that broadcasts to"):
            draw(shape, groups=groups)


@every_prior
@pytest.mark.parametrize(("shape", "groups"), [((0,), ()), ((0, 3), (0, 1)), ((3, 0), (3, 1)), ((3, 0), ())])
def test_layers_and_groups_of_size_zero(case: Case, shape: tuple[int, ...], groups: tuple[int, ...]) -> None:
    if isinstance(case.prior, AdaptiveR2D2) and 0 in groups:
        pytest.skip("adaptive R2D2 needs at least one group")
    generator = torch.Generator().manual_seed(0)
    w = case.prior.sample(shape, generator, groups=groups)
    scales = case.prior.init_scales(shape, generator, groups=groups)
    factors = case.prior.cavi(w.square(), scales)
    drawn = case.prior.gibbs(w, scales, generator)
    assert w.shape == case.prior.variance(drawn).shape == factors.precision.shape == factors.log_variance().shape
    assert [x.shape for x in drawn] == [x.shape for x in factors.scales] == [x.shape for x in scales]
    assert math.isfinite(factors.bound(w.square()))


@every_prior
def test_inference_mode(case: Case) -> None:
    """Tables first built in inference mode serve autograd afterwards."""
    m, point = second_moments().clamp(0.01, 1), torch.tensor([0.3, 2.0], dtype=torch.float64)
    scales = case.prior.init_scales(m.shape, torch.Generator().manual_seed(2), groups=(2, 1), dtype=m.dtype)
    for cached in (global_scale_grid, quantile_table, bessel_table):
        cached.cache_clear()
    with torch.inference_mode():
        factors = case.prior.cavi(m, scales)
        inside = factors.bound(m).item(), case.prior.log_prob(point).sum().item()
        case.prior.gibbs(m.sqrt(), scales, torch.Generator().manual_seed(2))
    m.requires_grad_()
    point.requires_grad_()
    bound, density = case.prior.cavi(m, scales).bound(m), case.prior.log_prob(point).sum()
    assert (bound.item(), density.item()) == inside
    for value, leaf in ((bound, m), (density, point)):
        assert bool(torch.autograd.grad(value, leaf)[0].isfinite().all())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu() -> None:
    """giG, its reciprocal form and one sweep of R2D2 in each mode, drawn and kept on the device."""
    device, generator = torch.device("cuda"), torch.Generator("cuda").manual_seed(0)
    chi = torch.rand(1000, generator=generator, device=device)
    prior = R2D2()
    scales = prior.init_scales((1000,), generator, device=device)
    w = prior.sample((1000,), generator, device=device)
    found = [
        GeneralizedInverseGaussian(chi, 1.0, 0.1).sample((3,), generator),
        ReciprocalInverseGaussian(chi, 1.0).sample((3,), generator),
        prior.variance(prior.gibbs(w, scales, generator)),
        prior.cavi(w.square(), scales).precision,
    ]
    for x in found:
        assert x.device.type == "cuda"
        assert bool(((x > 0) & (x < math.inf)).all())


@every_prior
def test_the_generator_decides_every_draw(case: Case) -> None:
    first, second = (case.prior.sample((3, 2), torch.Generator().manual_seed(9)) for _ in range(2))
    assert torch.equal(first, second)
    w = torch.ones(3, 2, requires_grad=True)
    draws = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(9)
        draws.append(case.prior.gibbs(w, case.prior.init_scales(w.shape, generator), generator))
    for one, other in zip(*draws, strict=True):
        assert torch.equal(one, other)
        assert not one.requires_grad
