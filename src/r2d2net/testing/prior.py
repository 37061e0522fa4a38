"""All properties that algorithms and users take for granted of a prior, proved or refuted.

Those that hold up to chance are tested at false-alarm rates of 2e-6 or less each, about 1e-5 for a prior in all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch

from r2d2net.priors.base import ScaleMixturePrior
from r2d2net.specification import describe, prior_from
from r2d2net.testing import coordinate_ascent, gibbs_invariance, prior_density, prior_scales, scale_density
from r2d2net.testing.contract_error import demand, run_checks

AnyPrior = ScaleMixturePrior[Any]


def check_kind(prior: AnyPrior) -> None:
    """Check that it is a `ScaleMixturePrior`, whose scales are a NamedTuple."""
    demand(isinstance(prior, ScaleMixturePrior), f"{type(prior).__name__} is no subclass of ScaleMixturePrior")
    scales = prior.init_scales((2,), torch.Generator().manual_seed(0))
    demand(isinstance(scales, tuple) and hasattr(scales, "_fields"), "init_scales gives no NamedTuple of tensors")


def check_saving(prior: AnyPrior) -> None:
    """Check that the prior comes back from JSON with its hyperparameters, and draws the same scales."""
    saved = json.loads(json.dumps(describe(prior)))
    demand(saved == describe(prior), "hyperparameters() change on the way through JSON: use numbers and lists of them")
    again = prior_from(saved, [type(prior)])
    demand(vars(again).keys() == vars(prior).keys(), "the prior that is loaded has other attributes")
    demand(again.hyperparameters() == prior.hyperparameters(), "the prior that is loaded has other hyperparameters")
    scales = [each.init_scales((5,), torch.Generator().manual_seed(0)) for each in (prior, again)]
    demand(all(map(torch.equal, *scales)), "the prior that is loaded draws other scales")


PRIOR_CHECKS: dict[str, Callable[[AnyPrior], None]] = {
    "it is a scale mixture": check_kind,
    "it is saved and loaded by its hyperparameters": check_saving,
    "shapes follow the weights and their groups": prior_scales.check_shapes,
    "groups that do not broadcast are refused": prior_scales.check_groups,
    "groups do not feel each other": prior_scales.check_independence,
    "the generator decides every draw": prior_scales.check_generator,
    "the density integrates to one": prior_density.check_mass,
    "the density is differentiable": prior_density.check_derivative,
    "the density vanishes at infinity": prior_density.check_infinity,
    "draws follow the density": prior_density.check_draws,
    "gibbs leaves the joint law unchanged": gibbs_invariance.check_gibbs,
    "coordinate ascent never lowers the bound": coordinate_ascent.check_rise,
    "the bound stays below the log density": coordinate_ascent.check_bound,
    "exact factors are the law of gibbs": coordinate_ascent.check_posterior,
    "the factors agree with each other": coordinate_ascent.check_factors,
    "a finite mode is one": coordinate_ascent.check_mode,
    "a known deviation is one": coordinate_ascent.check_known_deviation,
    "sweeps in place are the same sweeps": prior_scales.check_in_place,
    "inference mode leaves no trace": prior_scales.check_inference_mode,
    "scales stay finite at extreme weights": prior_scales.check_extremes,
    "scales stay finite in large layers": prior_scales.check_million,
    "unconstrained scales have the density of the draws": scale_density.check_unconstrained,
}
"""The properties of a prior, by name, and the functions that check them."""


def check_prior(prior: AnyPrior, cdf: prior_density.Cdf | None = None) -> None:
    """Check that a prior keeps the contract of `r2d2net.priors.ScaleMixturePrior`.

    Args:
        prior: The prior, with hyperparameters such as a user may choose: one call for each choice of interest.
        cdf: P(|w| <= x) for a numpy array of x > 0, computed without the prior's own code. Draws are compared with the
            prior's `log_prob` in any case; both could share a mistake, which only an independent law reveals.

    Raises:
        ContractError: Names the first property that the prior does not have.

    >>> from r2d2net.priors import Gaussian
    >>> check_prior(Gaussian(0.5))
    """
    run_checks(prior, PRIOR_CHECKS)
    if cdf is not None:
        run_checks(prior, {"draws follow the given law": lambda each: prior_density.check_draws(each, cdf)})
