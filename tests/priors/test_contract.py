"""The contract of `r2d2net.priors.base`, proved by `r2d2net.testing` for every prior of tests/prior_cases.py.

False alarms: the statistical checks of a prior are at 2e-6 or less each, 2e-4 in all for twelve cases. Seeds are
pinned, so a pass stays a pass until the code changes.
"""

import math
import subprocess
import sys
from typing import Any

import pytest
import torch

from prior_cases import CASES, EXTREME_PRIORS, Case
from r2d2net.distributions import GeneralizedInverseGaussian, ReciprocalInverseGaussian
from r2d2net.distributions.gig_moments import _table as bessel_table
from r2d2net.priors import R2D2
from r2d2net.priors.global_scale_grid import global_scale_grid
from r2d2net.priors.mixture_tables import quantile_table
from r2d2net.testing import PRIOR_CHECKS, check_prior, geweke
from r2d2net.testing.contract_error import run_checks
from r2d2net.testing.gibbs_invariance import FALSE_ALARM
from r2d2net.testing.prior_density import check_draws
from r2d2net.testing.prior_scales import check_inference_mode, require_finite_scales

every_prior = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])


@every_prior
@pytest.mark.parametrize("name", PRIOR_CHECKS)
def test_the_contract(case: Case, name: str) -> None:
    run_checks(case.prior, {name: PRIOR_CHECKS[name]})


@every_prior
def test_draws_follow_a_law_computed_without_the_library(case: Case) -> None:
    check_draws(case.prior, case.cdf)


def test_check_prior_runs_all_checks_and_needs_no_pytest() -> None:
    code = (
        "import sys; sys.modules['pytest'] = None; from r2d2net.priors import SpikeSlab; "
        "from r2d2net.testing import check_prior; check_prior(SpikeSlab()); print('proved')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.stdout.strip(), ended.returncode) == ("proved", 0), ended.stderr


def test_check_prior_compares_with_the_given_law() -> None:
    case = CASES[0]
    check_prior(case.prior, case.cdf)
    with pytest.raises(AssertionError, match="draws follow the given law: 20,000 draws"):
        check_prior(case.prior, lambda x: case.cdf(1.1 * x))


def test_gibbs_piece_by_piece_leaves_the_joint_law_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chains lie in 82 pieces, most of which end inside one."""
    monkeypatch.setattr("r2d2net.cache_blocks.PIECE", 1234)
    result = geweke(R2D2(), seed=5, dtype=torch.float32)
    assert result.p_value > FALSE_ALARM, (result.worst, result.max_z)


@both_dtypes
@pytest.mark.parametrize("prior", EXTREME_PRIORS, ids=repr)
def test_scales_stay_finite_for_extreme_hyperparameters(prior: Any, dtype: torch.dtype) -> None:
    w = torch.tensor([0.0, 1e-30, 1e-3, 1.0, 1e30], dtype=dtype).repeat(20)
    require_finite_scales(prior, w)


@every_prior
def test_tables_first_built_in_inference_mode_serve_autograd(case: Case) -> None:
    for cached in (global_scale_grid, quantile_table, bessel_table):
        cached.cache_clear()
    check_inference_mode(case.prior)


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
