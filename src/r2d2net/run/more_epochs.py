"""More epochs of a run that came to its end: `fit(model, data, start=posterior)`.

The run starts at the posterior's q and at the scales of its priors, with Adam's moments at zero. Step sizes and weight
of the KL are those that a single run of all steps, b before and k now, has left: for t = 1, ..., k

    lr(t) = largest (1 + cos(pi (b + t - 1) / (b + k))) / 2        KL: min(1, (b + t) / (warm_up (b + k)))

so that few epochs more change a run that has settled little; steps as large as at a start would throw it out of its
optimum without the time to find back. Data are those of the posterior; rows that are new are for `carrying_on`, in
which what the earlier ones said is not forgotten.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from r2d2net.errors import Argument, ParameterError, Shown
from r2d2net.inference import Method
from r2d2net.inference.base import copied, flatten
from r2d2net.inference.descent import default_step
from r2d2net.inference.mean_field_family import MeanFieldDraws, VariationalState
from r2d2net.inference.variational import MeanField, Variational
from r2d2net.model import BayesianModel
from r2d2net.posterior import Posterior
from r2d2net.run.prepare import Prepared, data_digest
from r2d2net.specification import describe_model, method_from

KINDS = "SVGI, CAVI, SVI, MFVI or Radial"


def require_same_model(argument: str, posterior: Posterior[Any], model: BayesianModel[Any]) -> None:
    """Refuse a posterior of another model.

    Args:
        argument: Argument that gave the posterior.
        posterior: The posterior.
        model: The model of the fit.

    Raises:
        ParameterError: If parameters, priors or likelihood differ.
    """
    if describe_model(posterior.model) != describe_model(model):
        fix = ("give ", Argument("model", Shown("posterior.model")))
        raise ParameterError(
            "is a posterior of another model", argument=argument, value=Shown(repr(posterior)), fix=fix
        )


def method_of(posterior: object, model: BayesianModel[Any], algorithm: Method | str | None) -> Method:
    """Return the algorithm of a run that goes on from a posterior.

    Args:
        posterior: What the user gave as start.
        model: The model of the fit.
        algorithm: The algorithm that the user named; None for that of the posterior.

    Returns:
        The algorithm, which draws no new weights.

    Raises:
        ParameterError: If the run cannot start there.
    """
    if not isinstance(posterior, Posterior):
        raise ParameterError("is no posterior", argument="start", value=posterior, fix="give what fit returned")
    require_same_model("start", posterior, model)
    if not isinstance(posterior.source, MeanFieldDraws) or not posterior.settings:
        name = Shown(type(posterior.source).__name__)
        fix = f"give one of {KINDS}, or start from a network: BayesianModel(net), algorithm(start='net')"
        raise ParameterError("is not of a run that can go on", argument="start", value=name, fix=fix)
    own = method_from(posterior.settings["algorithm"])
    chosen = own if algorithm is None else algorithm
    if type(chosen) is not type(own) or not isinstance(chosen, Variational):
        asked = chosen if isinstance(chosen, str) else type(chosen).__name__
        problem = f"differs from that of start, {type(own).__name__}"
        raise ParameterError(problem, argument="algorithm", value=Shown(str(asked)), fix="leave it out")
    return replace(chosen, start="net")


def state_of(posterior: Posterior[Any], prepared: Prepared) -> VariationalState:
    """Return the state from which a run goes on.

    Args:
        posterior: The posterior.
        prepared: The data of the run.

    Returns:
        Its state as that of a run before its first step.

    Raises:
        ParameterError: If the data are not those of the posterior.
    """
    if "data" not in posterior.settings:
        problem, loop = "is of a loop of your own, and does not tell of which data", "go on in that loop"
        raise ParameterError(problem, argument="start", value=Shown(repr(posterior)), fix=loop)
    if posterior.settings["data"] != prepared.digest:
        problem = "is of other data, or other validation rows"
        fix = ("give the same data, validation and seed; new rows are for ", Argument("prior", Shown("posterior")))
        raise ParameterError(problem, argument="start", value=Shown(repr(posterior)), fix=fix)
    state: VariationalState = copied(posterior.source.state)
    for first, second in state.moments.values():
        first.zero_()
        second.zero_()
    return state._replace(step=torch.zeros((), dtype=torch.int64))


def steps_before(posterior: Posterior[Any]) -> int:
    """Return the number of steps that led to a posterior, those of the runs it started from among them.

    Args:
        posterior: The posterior.
    """
    return int(posterior.source.state.step) + int(posterior.settings.get("steps_before", 0))


def with_steps_left(trainer: MeanField, before: int) -> MeanField:
    """Return a trainer with the step sizes and the weight of the KL that a single run of all steps has left.

    Args:
        trainer: The trainer.
        before: Number of earlier steps.
    """
    descent, settings = trainer.descent, trainer.descent.settings
    total = before + descent.steps
    largest = descent.largest_step if settings.lr is not None else min(descent.largest_step, default_step(total))
    risen = trainer.warm_up * total

    def lr(t: int) -> float:
        falling = 1.0 if settings.schedule == "constant" else 0.5 * (1 + math.cos(math.pi * (before + t - 1) / total))
        return largest * descent.rising(t) * falling

    def temperature(t: int) -> float:
        return settings.temperature * (min(1.0, (before + t) / risen) if risen > 0 else 1.0)

    return trainer.with_schedule(lr, temperature)


def digest_of(state: VariationalState) -> str:
    """Return a digest of a state, which is part of the settings of the run."""
    return data_digest(*flatten(state).values())
