"""The models by which inputs are tested where no model is given: a linear one, and a network beside a linear path.

Of a test by log densities any statistic is valid, so that the sum over both models is one: the linear model has power
where effects are straight and rows are few, the network where they are curved or inputs act together.

    linear    adaptive R2D2, exact sweeps; where the likelihood has none or they are dear, chains under R2D2
    network   y = A x + f(x) under R2D2 by chains, f with 20 hidden units, where gradients of all rows are affordable
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from r2d2net.errors import DivergenceError, FitWarning
from r2d2net.inference import MCLMC, SVGI, LinearGibbs, Method
from r2d2net.likelihoods import Likelihood
from r2d2net.model import AnyPrior, BayesianModel
from r2d2net.nets import mlp
from r2d2net.posterior import Posterior
from r2d2net.priors import R2D2
from r2d2net.run.choice import LARGEST_GRADIENT, linear_is_affordable
from r2d2net.run.fit import fit
from r2d2net.run.global_generator import lent_generator
from r2d2net.run.stack_candidates import EXACT

UNITS = 20
SWEEPS, CHAINS = 250, 2  # of linear models
MOST_INPUTS = 2.0  # for each row: beyond, a network has nothing to add to a linear model
Refit = Callable[[Tensor, Any], list[Posterior[Any]]]


def models_for(likelihood: Likelihood[Any], outputs: int = 1, seed: int = 0) -> Refit:
    """Return a function that fits the models to rows.

    Args:
        likelihood: The likelihood of the targets.
        outputs: Number of outputs of the models, such as the number of classes.
        seed: Seed of the fits.

    Returns:
        A function of inputs and targets to one or two posteriors.
    """

    def refit(x: Tensor, y: Any) -> list[Posterior[Any]]:
        rows, inputs = x.shape
        exact = type(likelihood) in EXACT and linear_is_affordable(
            rows, inputs, outputs, has_classes=likelihood.has_classes
        )
        chains = rows * (inputs + 1) * outputs <= LARGEST_GRADIENT
        linear: Method = MCLMC() if chains else SVGI()
        prior: AnyPrior = R2D2()
        if exact:
            linear, prior = LinearGibbs(chains=CHAINS, loo_draws=0, calibrate=False), R2D2.adaptive()
        plans: list[tuple[list[int], AnyPrior, Method, int | None]] = [([], prior, linear, SWEEPS if exact else None)]
        weights = (inputs + 2) * (UNITS + outputs)
        if rows * weights <= LARGEST_GRADIENT and inputs <= MOST_INPUTS * rows:
            plans.append(([UNITS], R2D2(), MCLMC(), None))
        fitted: list[Posterior[Any]] = []
        failure: DivergenceError | None = None
        for hidden, own, method, epochs in plans:
            with lent_generator(seed, torch.device("cpu")):
                net = mlp(inputs, hidden, outputs, linear=bool(hidden))
            model = BayesianModel(net, own, likelihood)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", FitWarning)  # a network that learns nothing has no power, no more
                    warnings.filterwarnings("ignore", message="the chains disagree")
                    fitted.append(fit(model, (x.float(), y), method, epochs=epochs, seed=seed, verbose=False))
            except DivergenceError as error:
                failure = error
        if failure is not None and not fitted:
            raise failure
        return fitted

    return refit
