"""`check_likelihood` accepts every likelihood of r2d2net and rejects a fault planted against each of its properties."""

from dataclasses import dataclass

import pytest
import torch

from r2d2net.likelihoods import Bernoulli, Categorical, Gaussian, Heteroscedastic, Poisson
from r2d2net.registry import LIKELIHOODS
from r2d2net.testing import LIKELIHOOD_CHECKS, ContractError, check_likelihood
from r2d2net.testing.contract_error import run_checks
from r2d2net.testing.likelihood import case_of

OURS = [Gaussian(), Gaussian(noise=0.3), Heteroscedastic(), Categorical(), Bernoulli(), Poisson()]


@pytest.mark.parametrize("likelihood", OURS, ids=repr)
def test_our_likelihoods_keep_the_contract(likelihood):
    check_likelihood(likelihood)


@pytest.mark.parametrize("likelihood", [Gaussian(), Heteroscedastic(), Poisson()], ids=repr)
def test_targets_of_several_columns(likelihood):
    check_likelihood(likelihood, torch.arange(48).reshape(24, 2) % 5)


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
