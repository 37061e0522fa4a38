"""The proofs bite: each known fault, planted in a working prior, is rejected by the Geweke test.

One fault each is enough for the proofs that hold no chance: the rising bound and the density's mass.

A fault replaces one function inside the prior's module while `gibbs` runs, and leaves the exact draws alone.
REJECT is the level the contract test uses, so what is caught here would fail there.
"""

from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
import torch

from prior_proofs import bounds_over_sweeps, geweke, total_mass
from r2d2net.priors import (
    R2D2,
    DirichletLaplace,
    GeneralizedDoublePareto,
    Horseshoe,
    HorseshoePlus,
    SpikeSlab,
    dirichlet_laplace,
    generalized_double_pareto,
    half_cauchy_product,
    spike_slab,
)
from r2d2net.priors.half_cauchy_product import HalfCauchyScale

REJECT = 2e-6


class Planted:
    """A prior whose ``module.name`` is replaced by ``fault(original)`` during `gibbs`."""

    def __init__(self, prior: Any, module: ModuleType, name: str, fault: Callable[[Any], Any]) -> None:
        self.init_scales, self.variance = prior.init_scales, prior.variance
        self._gibbs = prior.gibbs
        self._patch = lambda: patch.object(module, name, fault(getattr(module, name)))

    def gibbs(self, *arguments: Any) -> Any:
        with self._patch():
            return self._gibbs(*arguments)


class StaleGlobal(Horseshoe):
    """Draws the global scale given the local scales of the sweep before."""

    def gibbs(self, w: Any, scales: Any, generator: Any = None) -> Any:
        fresh = super().gibbs(w, scales, generator)
        frozen = Horseshoe(self.scale, self.global_scale)
        frozen._factors = (HalfCauchyScale(None, is_global=False), self._factors[1])
        stale = frozen.gibbs(w, scales, generator)
        return fresh._replace(global_variance=stale.global_variance, global_auxiliary=stale.global_auxiliary)


class StalePhi(DirichletLaplace):
    """Draws psi given the phi of the sweep before."""

    def gibbs(self, w: Any, scales: Any, generator: Any = None) -> Any:
        chi = (w / self.scale / scales.phi).square().clamp(1e-300, 1e300)
        psi = dirichlet_laplace.ReciprocalInverseGaussian(chi, 1.0).sample(generator=generator)
        return super().gibbs(w, scales, generator)._replace(psi=psi)


def inverse_gamma_faults() -> dict[str, Callable[[Any], Any]]:
    def swapped(draw: Any) -> Any:
        def gibbs(shape: float, rate: torch.Tensor, generator: Any) -> torch.Tensor:
            gamma = half_cauchy_product.standard_gamma(rate.clamp(1e-3, 1e6), generator)
            return half_cauchy_product.positive_finite(shape / gamma)

        return gibbs

    return {
        "rate halved": lambda draw: lambda shape, rate, g: draw(shape, rate / 2, g),
        "shape off by 1/2": lambda draw: lambda shape, rate, g: draw(shape + 0.5, rate, g),
        "shape and rate swapped": swapped,
    }


def doubled(square: Any) -> Any:
    """The 1/2 of w^2 / (2 v) dropped."""
    return lambda w: 2 * square(w)


def halved_chi(law: Any) -> Any:
    return lambda chi, *rest: law(chi / 2, *rest)


FAULTS: dict[str, Any] = {"horseshoe: global scale from stale local ones": StaleGlobal()}
for family_member in (Horseshoe(), Horseshoe(global_scale=None), HorseshoePlus()):
    for fault_name, planted in inverse_gamma_faults().items():
        FAULTS[f"{family_member}: {fault_name}"] = Planted(
            family_member, half_cauchy_product, "draw_inverse_gamma", planted
        )
    FAULTS[f"{family_member}: 1/2 dropped"] = Planted(family_member, half_cauchy_product, "squared", doubled)
FAULTS |= {
    "spike and slab: 1/2 dropped": Planted(SpikeSlab(), spike_slab, "squared", doubled),
    "double Pareto: chi halved": Planted(
        GeneralizedDoublePareto(), generalized_double_pareto, "ReciprocalInverseGaussian", halved_chi
    ),
    "double Pareto: shape off by 1/2": Planted(
        GeneralizedDoublePareto(),
        generalized_double_pareto,
        "standard_gamma",
        lambda draw: lambda shape, g: draw(shape - 0.5, g),
    ),
    "Dirichlet-Laplace: chi of phi halved": Planted(
        DirichletLaplace(), dirichlet_laplace, "GeneralizedInverseGaussian", halved_chi
    ),
    "Dirichlet-Laplace: chi of psi halved": Planted(
        DirichletLaplace(), dirichlet_laplace, "ReciprocalInverseGaussian", halved_chi
    ),
    "Dirichlet-Laplace: order a - 1/2": Planted(
        DirichletLaplace(),
        dirichlet_laplace,
        "GeneralizedInverseGaussian",
        lambda law: lambda chi, rho, lam: law(chi, rho, lam + 0.5),
    ),
    "Dirichlet-Laplace: psi from stale phi": StalePhi(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_geweke_proof_rejects(fault: str) -> None:
    assert geweke(FAULTS[fault], seed=11).p_value < REJECT


class HalvedPsi(R2D2):
    """Coordinate ascent with psi as if the variance were psi T, without the 1/2."""

    def _psi_conditional(self, square: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, float]:
        chi, rho = super()._psi_conditional(square, t)
        return chi / 2, rho


@pytest.mark.parametrize(("prior", "falls"), [(R2D2(0.3, 1.0), False), (HalvedPsi(0.3, 1.0), True)])
def test_the_proof_of_the_bound_rejects(prior: R2D2, falls: bool) -> None:
    """The step that leaves the optimum lowers the bound, by far more than the contract's slack.

    A fault that only moves the fixed point can rise to it: those are for the tests of stationarity.
    """
    m = torch.tensor([[1e-6, 1e-3, 0.1, 1.0, 30.0]], dtype=torch.float64)
    scales = prior.init_scales(m.shape, torch.Generator().manual_seed(2), dtype=m.dtype)
    bounds = bounds_over_sweeps(prior, m, scales, sweeps=30)
    slack = 1e-12 * max(map(abs, bounds))
    assert any(after < before - slack for before, after in pairwise(bounds)) == falls


class NoPole(R2D2):
    """The density held constant below 1e-6."""

    def log_prob(self, w: torch.Tensor, weights: int | None = None) -> torch.Tensor:
        return super().log_prob(w.abs().clamp(min=1e-6), weights)


def test_the_proof_of_the_density_rejects() -> None:
    assert abs(total_mass(R2D2(0.3, 1.0)) - 1) < 1e-6
    assert abs(total_mass(NoPole(0.3, 1.0)) - 1) > 1e-4
