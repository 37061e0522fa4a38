"""`check_algorithm` accepts every algorithm of r2d2net and rejects a fault planted against each of its properties."""

from dataclasses import dataclass, field
from typing import ClassVar

import pytest
import torch

from r2d2net import inference
from r2d2net.inference.base import Draws
from r2d2net.inference.map import MAP
from r2d2net.inference.point import Point, PointDraw
from r2d2net.registry import ALGORITHMS
from r2d2net.testing import ALGORITHM_CHECKS, ContractError, check_algorithm
from r2d2net.testing.algorithm import case_of
from r2d2net.testing.contract_error import run_checks

SETTINGS = {
    "DeepEnsemble": {"members": 2},
    "SGLD": {"chains": 2, "burn_in": 0.25, "thin": 1},
    "SGHMC": {"burn_in": 0.25, "thin": 1},
    "HMC": {"chains": 2, "max_tree_depth": 2},
}


@pytest.mark.parametrize("name", ALGORITHMS.class_names)
def test_our_algorithms_keep_the_contract(name):
    check_algorithm(getattr(inference, name)(**SETTINGS.get(name, {})))


@dataclass(frozen=True, kw_only=True)
class Faulty(MAP):
    """MAP with a trainer of another class."""

    trainer: ClassVar[type[Point]] = Point

    def build(self, model, *, n, steps):
        return self.trainer(self, model, n=n, steps=steps)


@dataclass(frozen=True, kw_only=True)
class Drifting(MAP):
    """Its settings change whenever they are built."""

    drift: float = field(default=0.0)

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "drift", self.drift + 1.0)


class CountsRuns(Point):
    """What a run does depends on how many there were before."""

    number = 0

    def init(self, y, generator, unit=None):
        type(self).number += 1
        state = super().init(y, generator, unit)
        return state._replace(mean=state.mean + self.number)


class CountsSteps(Point):
    """The trainer remembers what is not in the state."""

    taken = 0

    def step(self, state, batch, generator):
        self.taken += 1
        state, info = super().step(state, batch, generator)
        return state._replace(mean=state.mean + 0.01 * self.taken), info


class Forgets(Point):
    """The finished run has more than is saved."""

    def finish(self, state):
        return Shifted(self.model, state)


class Shifted(PointDraw):
    def center(self):
        return _shifted(super().center())

    def draws(self, n, generator=None, at_once=None):
        return map(_shifted, super().draws(n, generator, at_once))


def _shifted(networks):
    return networks._replace(weights=networks.weights + 1)


class TooFew(Point):
    """Draws have a weight less than the network."""

    def source(self, state):
        return Narrow(self.model, state)


class Narrow(PointDraw):
    def sample(self, n, generator=None):
        return super().sample(n, generator)[:, 1:]


class AllAtOnce(Point):
    """Its draws come in one part, whatever ``at_once`` says."""

    def source(self, state):
        return OnePart(self.model, state)


class OnePart(PointDraw):
    available = None

    def draws(self, n, generator=None, at_once=None):
        return super().draws(n, generator)


class NoTemperature(Point):
    def step(self, state, batch, generator):
        state, info = super().step(state, batch, generator)
        return state, info._replace(temperature=float("nan"))


class Idle(Point):
    """Nothing is learnt."""

    def step(self, state, batch, generator):
        before = state.mean.clone()
        state, info = super().step(state, batch, generator)
        return state._replace(mean=before), info


class OnlyAtTheEnd(Point):
    """It has no source of draws before the last step."""

    def present(self, state):
        return Draws.sharing(state.mean[None], state.fixed, state.buffers, state.noise)

    def source(self, state):
        if 0 < int(state.step) < self.descent.steps:
            raise RuntimeError("not yet")
        return super().source(state)


def method(trainer_class, **attributes):
    cls = type("Faulty", (Faulty,), {"trainer": trainer_class, **attributes})
    return cls()


FAULTS = {
    "its settings are saved and loaded": lambda: Drifting(),
    "the seed decides the run": lambda: method(CountsRuns),
    "a killed run goes on where it stopped": lambda: method(CountsSteps),
    "a posterior is saved and loaded": lambda: method(Forgets),
    "draws and predictions have their shapes": lambda: method(TooFew),
    "the history has every epoch": lambda: method(NoTemperature),
    "a longer run learns": lambda: method(Idle),
    "priors are taken or refused": lambda: method(Point, suits_every_prior=True),
    "early stopping is taken or refused": lambda: method(OnlyAtTheEnd),
}


def test_every_property_has_its_fault():
    assert FAULTS.keys() == ALGORITHM_CHECKS.keys()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_rejected_and_named(name):
    faulty = FAULTS[name]()
    with pytest.raises(ContractError) as caught:
        run_checks(case_of(faulty), {name: ALGORITHM_CHECKS[name]})
    assert caught.value.property == name


def test_draws_that_come_in_too_large_parts_are_rejected():
    name = "draws and predictions have their shapes"
    with pytest.raises(ContractError, match="come in parts of"):
        run_checks(case_of(method(AllAtOnce)), {name: ALGORITHM_CHECKS[name]})


def test_what_fits_nothing_is_rejected():
    class Unfit(Point):
        def step(self, state, batch, generator):
            raise RuntimeError("no step")

    with pytest.raises(ContractError, match="it fits a small network: it raised RuntimeError: no step"):
        check_algorithm(method(Unfit))
    with pytest.raises(ContractError, match="it fits a small network: str is no subclass of Method"):
        check_algorithm("svgi")


def test_the_global_generator_is_left_alone():
    state = torch.random.get_rng_state()
    check_algorithm(MAP())
    assert torch.equal(state, torch.random.get_rng_state())
