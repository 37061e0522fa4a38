"""The proofs bite: each known fault, planted in a working prior, is rejected by the Geweke test.

One fault each is enough for the proofs that hold no chance, and for every other property that `check_prior` proves.

A fault replaces one function inside the prior's module while `gibbs` runs, and leaves the exact draws alone.
REJECT is the level the contract test uses, so what is caught here would fail there.
"""

from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
import torch

from r2d2net.priors import (
    R2D2,
    DirichletLaplace,
    Gaussian,
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
from r2d2net.testing import PRIOR_CHECKS, ContractError, check_prior, geweke
from r2d2net.testing.contract_error import run_checks
from r2d2net.testing.coordinate_ascent import check_rise
from r2d2net.testing.prior_density import total_mass

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
    with pytest.raises(AssertionError, match="lowers the bound") if falls else nullcontext():
        check_rise(prior)


class NoPole(R2D2):
    """The density held constant below 1e-6."""

    def log_prob(self, w: torch.Tensor, weights: int | None = None) -> torch.Tensor:
        return super().log_prob(w.abs().clamp(min=1e-6), weights)


def test_the_proof_of_the_density_rejects() -> None:
    assert abs(total_mass(R2D2(0.3, 1.0)) - 1) < 1e-6
    assert abs(total_mass(NoPole(0.3, 1.0)) - 1) > 1e-4


# --- one fault for every property that check_prior proves; it names the property


class Unsaved(SpikeSlab):
    """Tells its hyperparameters by other names than the constructor's."""

    def hyperparameters(self) -> dict[str, float]:
        return {"pi": self.slab_probability}


def faulty(prior: Any, **methods: Any) -> Any:
    """A subclass of the prior's class with other methods or attributes, of the same hyperparameters."""
    cls = type(f"Faulty{type(prior).__name__}", (type(prior),), methods)
    return cls(**prior.hyperparameters())


def negative_kl(self: Any, second_moment: Any, scales: Any) -> Any:
    factors = SpikeSlab.cavi(self, second_moment, scales)
    factors.kl = lambda: factors.precision.new_tensor(-1.0)
    return factors


def higher_bound(self: Any, second_moment: Any, scales: Any) -> Any:
    factors = SpikeSlab.cavi(self, second_moment, scales)
    bound = factors.bound
    factors.bound = lambda m: bound(m) + 1e-3
    return factors


def louder_in_place(self: Any, second_moment: Any, scales: Any, precision: Any, **kind: Any) -> Any:
    scales = SpikeSlab.cavi_(self, second_moment, scales, precision, **kind)
    precision.mul_(1.01)
    return scales


def cached_in_inference_mode(self: Any, w: Any) -> Any:
    if not hasattr(self, "_one"):
        self._one = torch.ones_like(w[:1])
    return SpikeSlab.log_prob(self, w) * self._one


def unbounded(self: Any, w: Any, scales: Any, generator: Any = None) -> Any:
    scales = Horseshoe.gibbs(self, w, scales, generator)
    return scales._replace(local_variance=scales.local_variance * w.square())


def unbounded_sums(self: Any, w: Any, scales: Any, generator: Any = None) -> Any:
    scales = Horseshoe.gibbs(self, w, scales, generator)
    total = (w / 1e12).square().sum() if w.numel() > 100 else 1.0
    return scales._replace(local_variance=scales.local_variance * total)


PROPERTY_FAULTS: dict[str, Any] = {
    "it is a scale mixture": object(),
    "it is saved and loaded by its hyperparameters": Unsaved(),
    "shapes follow the weights and their groups": faulty(
        Horseshoe(), variance=lambda self, scales: Horseshoe.variance(self, scales).reshape(-1)
    ),
    "groups that do not broadcast are refused": faulty(
        Gaussian(),
        init_scales=lambda self, shape, g=None, *, groups=(), **kind: Gaussian.init_scales(self, shape, **kind),
    ),
    "groups do not feel each other": faulty(
        SpikeSlab(), cavi=lambda self, m, scales: SpikeSlab.cavi(self, m.mean().expand(m.shape), scales)
    ),
    "the generator decides every draw": faulty(
        SpikeSlab(), gibbs=lambda self, w, scales, g=None: SpikeSlab.gibbs(self, w, scales, None)
    ),
    "the density integrates to one": faulty(SpikeSlab(), log_prob=lambda self, w: SpikeSlab.log_prob(self, w) + 1e-4),
    "the density is differentiable": faulty(
        SpikeSlab(), log_prob=lambda self, w: SpikeSlab.log_prob(self, w.detach()) + 0 * w
    ),
    "the density vanishes at infinity": faulty(
        SpikeSlab(), log_prob=lambda self, w: SpikeSlab.log_prob(self, w).clamp(min=-1e30)
    ),
    "draws follow the density": faulty(
        SpikeSlab(), sample=lambda self, *shape, **kind: 1.3 * SpikeSlab.sample(self, *shape, **kind)
    ),
    "gibbs leaves the joint law unchanged": faulty(
        SpikeSlab(), gibbs=lambda self, w, scales, g=None: SpikeSlab.gibbs(self, 1.1 * w, scales, g)
    ),
    "coordinate ascent never lowers the bound": HalvedPsi(0.3, 1.0),
    "the bound stays below the log density": faulty(SpikeSlab(), has_exact_factors=False, cavi=higher_bound),
    "exact factors are the law of gibbs": faulty(
        SpikeSlab(), gibbs=lambda self, w, scales, g=None: SpikeSlab.gibbs(self, 3 * w, scales, g)
    ),
    "the factors agree with each other": faulty(SpikeSlab(), cavi=negative_kl),
    "a finite mode is one": faulty(Horseshoe(), has_finite_mode=True),
    "a known deviation is one": faulty(Gaussian(2.0), known_deviation=1.0),
    "sweeps in place are the same sweeps": faulty(SpikeSlab(), cavi_=louder_in_place),
    "inference mode leaves no trace": faulty(SpikeSlab(), log_prob=cached_in_inference_mode),
    "scales stay finite at extreme weights": faulty(Horseshoe(), gibbs=unbounded),
    "scales stay finite in large layers": faulty(Horseshoe(), gibbs=unbounded_sums),
    "unconstrained scales have the density of the draws": faulty(
        Horseshoe(), log_prob_scales=lambda self, u: 1.05 * Horseshoe.log_prob_scales(self, u)
    ),
}


def test_every_property_has_its_fault() -> None:
    assert PROPERTY_FAULTS.keys() == PRIOR_CHECKS.keys()


@pytest.mark.parametrize("name", PROPERTY_FAULTS)
def test_the_check_of_a_property_rejects_its_fault_and_names_it(name: str) -> None:
    with pytest.raises(ContractError) as caught:
        run_checks(PROPERTY_FAULTS[name], {name: PRIOR_CHECKS[name]})
    assert (caught.value.property, f": {name}: " in str(caught.value)) == (name, True)


def test_check_prior_rejects_a_faulty_prior() -> None:
    with pytest.raises(ContractError, match="breaks the contract: gibbs leaves the joint law unchanged: after four"):
        check_prior(PROPERTY_FAULTS["gibbs leaves the joint law unchanged"])
