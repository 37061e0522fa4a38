"""More epochs of a run that came to its end: `fit(model, data, start=posterior)`.

The run starts at the posterior's q and at the scales of its priors, with Adam's moments at zero, the full weight of the
KL from the first step, and a schedule of the learning rate of its own. Data are those of the posterior; rows that are
new are for `carrying_on`, in which what the earlier ones said is not forgotten.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from r2d2net.errors import Argument, ParameterError, Shown
from r2d2net.inference import Method
from r2d2net.inference.base import copied, flatten
from r2d2net.inference.mean_field_family import MeanFieldDraws, VariationalState
from r2d2net.inference.variational import Variational
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
        The algorithm, without a rise of the KL's weight.

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
    return replace(chosen, warm_up=0.0, start="net")


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


def digest_of(state: VariationalState) -> str:
    """Return a digest of a state, which is part of the settings of the run."""
    return data_digest(*flatten(state).values())
