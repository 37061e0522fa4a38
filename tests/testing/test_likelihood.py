"""`check_likelihood` accepts every likelihood of r2d2net and rejects a fault planted against each of its properties."""

import math
from dataclasses import dataclass, replace

import pytest
import torch

import r2d2net as rn
from r2d2net.likelihoods import (
    Bernoulli,
    Categorical,
    Gamma,
    Gaussian,
    Heteroscedastic,
    Likelihood,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
)
from r2d2net.prediction import Prediction
from r2d2net.registry import LIKELIHOODS
from r2d2net.testing import LIKELIHOOD_CHECKS, ContractError, check_likelihood
from r2d2net.testing.contract_error import run_checks
from r2d2net.testing.likelihood import case_of

OURS = [
    Gaussian(),
    Gaussian(noise=0.3),
    Heteroscedastic(),
    StudentT(),
    LogNormal(),
    LogNormal(noise=0.3),
    Gamma(),
    Categorical(),
    Bernoulli(),
    Poisson(),
    Poisson(centered=True),
    NegativeBinomial(),
    Ordinal(3),
    Ordinal(("low", "middle", "high", "top")),
]


@pytest.mark.parametrize("likelihood", OURS, ids=repr)
def test_our_likelihoods_keep_the_contract(likelihood):
    check_likelihood(likelihood)


@pytest.mark.parametrize(
    "likelihood", [Gaussian(), Heteroscedastic(), StudentT(), Poisson(), NegativeBinomial()], ids=repr
)
def test_targets_of_several_columns(likelihood):
    check_likelihood(likelihood, torch.arange(48).reshape(24, 2) % 5)


@pytest.mark.parametrize("likelihood", [LogNormal(), Gamma()], ids=repr)
def test_positive_targets_of_several_columns(likelihood):
    check_likelihood(likelihood, 1.0 + torch.arange(48).reshape(24, 2) % 5)


def test_every_likelihood_is_tested():
    assert {type(likelihood) for likelihood in OURS} == set(LIKELIHOODS.classes())


def faulty(likelihood, **methods):
    cls = type(likelihood)
    return dataclass(frozen=True)(type(f"Faulty{cls.__name__}", (cls,), methods))()


FAULTS = {
    "it is saved and loaded by its arguments": faulty(Poisson(), __eq__=lambda self, other: self is other),
    "targets are checked": faulty(Gaussian(), target=lambda self, y: y.reshape(len(y), -1)),
    "the width of the network is checked": faulty(Gaussian(), require_width=lambda self, width, y: None),
    "log_prob is a number for each row": faulty(
        Poisson(),
        log_prob=lambda self, output, y, noise: Poisson.log_prob(self, output, y, noise).mean().expand(len(y)),
    ),
    "log_prob is normalised": faulty(
        Gaussian(), log_prob=lambda self, output, y, noise: Gaussian.log_prob(self, output, y, noise) + 0.01
    ),
    "the noise is learnt": faulty(
        Gaussian(),
        observe=lambda self, *rest: {k: 1.1 * v for k, v in Gaussian.observe(self, *rest).items()},
    ),
    "predictions say what log_prob says": faulty(
        Gaussian(), predict=lambda self, outputs, noise, unit: Gaussian.predict(self, 1.01 * outputs, noise, unit)
    ),
    "its scale is that of its density": faulty(
        Gaussian(), on_network_scale=lambda self: StudentT(), log_slope=lambda self, y: Gaussian.log_slope(self, y)
    ),
    "traits are true": faulty(Bernoulli(), is_softmax=True),
    "a network is fitted, saved and loaded": faulty(
        Gaussian(), predict=lambda self, outputs, noise, unit: Gaussian.predict(self, outputs / 0, noise, unit)
    ),
}


def test_every_property_has_its_fault():
    assert FAULTS.keys() == LIKELIHOOD_CHECKS.keys()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_rejected_and_named(name):
    with pytest.raises(ContractError) as caught:
        run_checks(case_of(FAULTS[name]), {name: LIKELIHOOD_CHECKS[name]})
    assert caught.value.property == name


def test_targets_that_are_refused():
    with pytest.raises(ContractError, match="it takes targets: target\\(\\) refuses all example targets"):
        check_likelihood(Bernoulli(), [0.5, 0.2])
    with pytest.raises(ContractError, match="it takes targets: int is no subclass of Likelihood"):
        check_likelihood(3)


@dataclass(frozen=True)
class LaplacePrediction(Prediction):
    """A mixture of Laplace distributions of one width."""

    samples: torch.Tensor
    width: torch.Tensor

    @property
    def mean(self):
        return self.samples.mean(0)

    def log_prob(self, y):
        terms = -(y.reshape(self.samples.shape[1:]) - self.samples).abs() / self.width - (2 * self.width).log()
        return torch.logsumexp(terms.sum(-1), 0) - math.log(len(terms))

    def without_output_dimension(self):
        return replace(self, samples=self.samples.squeeze(-1)[..., None])


@dataclass(frozen=True)
class Laplace(Likelihood[LaplacePrediction]):
    """A likelihood from outside, which learns a width and predicts what r2d2net does not have."""

    says_variance: bool = False
    standardizes = True

    @property
    def learns_noise(self):
        return self.says_variance

    def target(self, y):
        return Gaussian().target(y)

    def outputs(self, y):
        return y.shape[1]

    def init(self, y, unit=None):
        return {"width": torch.ones(1, dtype=y.dtype, device=y.device)}

    def observe(self, output, y, noise, rate):
        return {"width": (1 - rate) * noise["width"] + rate * (y - output).abs().mean().reshape(1)}

    def log_prob(self, output, y, noise):
        return (-(y - output).abs() / noise["width"] - (2 * noise["width"]).log()).sum(-1)

    def predict(self, outputs, noise, unit):
        width = noise["width"] if noise["width"].dim() == 1 else noise["width"][:, None]
        return LaplacePrediction(unit.center + unit.scale * outputs, unit.scale * width)


def test_a_likelihood_from_outside_is_fitted_with_validation_rows(tmp_path):
    check_likelihood(Laplace())
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 2, generator=generator)
    model = rn.BayesianModel(torch.nn.Linear(2, 1), likelihood=Laplace())
    settings = {"epochs": 3, "validation": 0.2, "restarts": 2, "jobs": 1, "verbose": False, "resume": tmp_path}
    posterior = rn.fit(model, (x, x[:, 0]), **settings)
    assert torch.isfinite(posterior.predict(x).log_prob(x[:, 0])).all()
    again = rn.load(tmp_path, torch.nn.Linear(2, 1), classes=[Laplace])
    assert torch.equal(again.predict(x).samples, posterior.predict(x).samples)


def test_one_that_promises_a_noise_variance_and_has_none_is_told():
    with pytest.raises(ContractError, match="learns_noise, but init gives no 'variance'") as caught:
        check_likelihood(Laplace(says_variance=True))
    assert caught.value.property == "the noise is learnt"
