"""The models by which inputs are tested where no model is given: a linear one, and a network beside a linear path.

Of a test by log densities any statistic is valid, so that the sum over both models is one: the linear model has power
where effects are straight and rows are few, the network where they are curved or inputs act together.

    linear    adaptive R2D2, exact sweeps; where the likelihood has none or they are dear, chains under R2D2
    network   y = A x + f(x) under R2D2 by chains, f with 20 hidden units, where gradients of all rows are affordable

The networks of all folds of one size train side by side.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import DivergenceError
from r2d2net.inference import MCLMC, SVGI, LinearGibbs, Method
from r2d2net.likelihoods import Likelihood
from r2d2net.model import AnyPrior, BayesianModel
from r2d2net.nets import mlp
from r2d2net.posterior import Posterior
from r2d2net.priors import R2D2
from r2d2net.run.choice import LARGEST_GRADIENT, linear_is_affordable
from r2d2net.run.fit import Request
from r2d2net.run.global_generator import lent_generator
from r2d2net.run.prepare import prepare
from r2d2net.run.several_runs import run_all
from r2d2net.run.stack_candidates import EXACT
from r2d2net.run.train import Plan

UNITS = 20
SWEEPS, CHAINS = 120, 2  # of linear models
MOST_INPUTS = 2.0  # for each row: beyond, a network has nothing to add to a linear model


class SelectionModels:
    """Fits the models to rows; see `models_for`.

    Args:
        likelihood: The likelihood of the targets.
        outputs: Number of outputs of the models, such as the number of classes.
        seed: Seed of the fits.
    """

    def __init__(self, likelihood: Likelihood[Any], outputs: int = 1, seed: int = 0) -> None:
        self.likelihood, self.outputs, self.seed = likelihood, outputs, seed

    def __call__(self, x: Tensor, y: Any) -> list[Posterior[Any]]:
        """Fit the models to some rows."""
        return self.of_folds([(x, y)])[0]

    def of_folds(self, parts: Sequence[tuple[Tensor, Any]]) -> list[list[Posterior[Any]]]:
        """Fit the models to several sets of rows.

        Args:
            parts: Inputs and targets of each set.

        Returns:
            One or two posteriors for each set.

        Raises:
            DivergenceError: All models of a set diverged.
        """
        plans = [
            self._plan(x, y, *kind, name=f"{part}-{number}")
            for part, (x, y) in enumerate(parts)
            for number, kind in enumerate(self._kinds(*x.shape))
        ]
        with tempfile.TemporaryDirectory(prefix="r2d2net-") as folder:
            fitted = run_all(plans, Path(folder), 1, False)
        found: list[list[Posterior[Any]]] = [[] for _ in parts]
        for plan, posterior in zip(plans, fitted, strict=True):
            if posterior is not None:
                found[int(plan.settings["candidate"].split("-")[0])].append(posterior)
        if not all(found):
            raise DivergenceError("no model of the selection could be fitted", fix="look for extreme values in columns")
        return found

    def _kinds(self, rows: int, inputs: int) -> list[Kind]:
        """List the models that so many rows and inputs afford."""
        outputs, likelihood = self.outputs, self.likelihood
        exact = type(likelihood) in EXACT and linear_is_affordable(
            rows, inputs, outputs, has_classes=likelihood.has_classes
        )
        chains = rows * (inputs + 1) * outputs <= LARGEST_GRADIENT
        kinds: list[Kind] = [Kind([], R2D2(), MCLMC() if chains else SVGI(), None)]
        if exact:
            method = LinearGibbs(chains=CHAINS, loo_draws=0, calibrate=False)
            kinds = [Kind([], R2D2.adaptive(), method, SWEEPS)]
        weights = (inputs + 2) * (UNITS + outputs)
        if rows * weights <= LARGEST_GRADIENT and inputs <= MOST_INPUTS * rows:
            kinds.append(Kind([UNITS], R2D2(), MCLMC(), None))
        return kinds

    def _plan(
        self, x: Tensor, y: Any, hidden: list[int], prior: AnyPrior, method: Method, epochs: int | None, name: str
    ) -> Plan:
        with lent_generator(self.seed, torch.device("cpu")):
            net = mlp(x.shape[1], hidden, self.outputs, linear=bool(hidden))
        model = BayesianModel(net, prior, self.likelihood)
        data = (x.float(), y)
        request = Request(
            model=model,
            method=method,
            epochs=epochs,
            seed=self.seed,
        ).checked(data)
        prepared = prepare(model, data, request.batch_size, self.seed, None, None, True, None)
        plan = request.with_epochs(prepared.batches.n, model).plans(prepared)[0]
        return replace(plan, settings={**plan.settings, "candidate": name}, is_part=True)


class Kind(NamedTuple):
    """A model and how it is fitted."""

    hidden: list[int]
    prior: AnyPrior
    method: Method
    epochs: int | None


def models_for(likelihood: Likelihood[Any], outputs: int = 1, seed: int = 0) -> SelectionModels:
    """Return what fits the models to rows.

    Args:
        likelihood: The likelihood of the targets.
        outputs: Number of outputs of the models, such as the number of classes.
        seed: Seed of the fits.

    Returns:
        A function of inputs and targets to one or two posteriors, which also fits several sets of rows at once.
    """
    return SelectionModels(likelihood, outputs, seed)
