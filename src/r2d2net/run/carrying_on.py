"""New rows for a posterior of SVGI: the run goes on from where it is (see `inference.carrying_on`).

Inputs and targets stay in the units of the first rows, by which they were standardised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from r2d2net.callbacks import Callbacks
from r2d2net.errors import DataError, ParameterError, Shown
from r2d2net.inference import SVGI
from r2d2net.inference.carrying_on import CarryOn, Past
from r2d2net.inference.mean_field_family import MeanFieldDraws
from r2d2net.likelihoods.masked import has_missing
from r2d2net.model import BayesianModel
from r2d2net.posterior import Posterior
from r2d2net.run.batches import TensorBatches, as_arrays, default_batch_size, pair
from r2d2net.run.choice import epochs_for
from r2d2net.run.health import warn_of
from r2d2net.run.more_epochs import require_same_model
from r2d2net.run.prepare import Prepared, data_digest
from r2d2net.run.train import Plan, train
from r2d2net.specification import method_from


def next_posterior(
    prior: Posterior[Any], model: BayesianModel[Any], data: Any, others: Mapping[str, Any], **own: Any
) -> Posterior[Any]:
    """Fit a posterior to new rows, as `fit` is asked to by ``prior=posterior``.

    Args:
        prior: The posterior so far.
        model: The model that the user gave, which must be the posterior's.
        data: Inputs and targets of the new rows.
        others: Other arguments of `fit`, which must be None.
        own: Arguments of `carry_on`.

    Returns:
        The posterior of all rows.

    Raises:
        ParameterError: If an argument does not go with a posterior as prior.
        DataError: If targets are missing.
    """
    for name, value in others.items():
        if value is not None:
            problem = "does not go with a posterior as prior"
            raise ParameterError(problem, argument=name, value=Shown(str(type(value).__name__)), fix="leave it out")
    if isinstance(data, (DataLoader, Dataset)):
        fix = "give (x, y) as tensors or arrays"
        raise ParameterError("is a stream: a posterior as prior needs all rows", argument="data", fix=fix)
    if not prior.settings:
        raise ParameterError("was not made by fit", argument="prior", value=Shown(repr(prior)), fix="fit it by SVGI")
    require_same_model("prior", prior, model)
    if has_missing(pair(data)[1]):
        fix = "leave these rows out, or go on from it by start="
        raise DataError("holds NaN, and a posterior as prior needs all targets", argument="y", fix=fix)
    target = as_arrays(data, model.device, model.dtype).y
    return carry_on(prior, (pair(data)[0], target), **own)


def carry_on(
    posterior: Posterior[Any],
    data: tuple[Any, Tensor],
    *,
    epochs: int | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    callbacks: Callbacks | None = None,
    verbose: bool = True,
) -> Posterior[Any]:
    """Fit a posterior to new rows beside those that it is of.

    Args:
        posterior: A posterior of SVGI.
        data: Inputs and targets of the new rows, in the user's units.
        epochs: Passes over the new rows; by default those that make about 1,000 steps.
        batch_size: Rows of a step; by default chosen from their number.
        seed: Seed of everything random.
        callbacks: What is called as the run goes on; None for nothing.
        verbose: Show progress on a terminal.

    Returns:
        The posterior of all rows.

    Raises:
        ParameterError: The posterior is of another algorithm.
    """
    source, settings = posterior.source, posterior.settings
    method = method_from(settings["algorithm"]) if isinstance(source, MeanFieldDraws) else None
    if not isinstance(source, MeanFieldDraws) or type(method) is not SVGI:
        name = Shown(str(settings["algorithm"]["type"]))
        fix = "fit a single model by SVGI first"
        raise ParameterError("cannot carry on with new rows", argument="algorithm", value=name, fix=fix)
    if "weights" in settings:
        fix = "fit it without weights first"
        raise ParameterError("was fitted to rows with weights, which cannot be carried on", fix=fix)
    model = source.model
    x = posterior.network_inputs(data[0])
    target = model.likelihood.target(data[1].to(model.device))
    model.likelihood.require_width(_width(posterior, x), target)
    scaled = model.likelihood.network_scale(target)
    units = posterior.units
    if units.y.most is not None:
        most = torch.maximum(units.y.most, scaled.amax(0).to(units.y.most))
        units = units._replace(y=units.y._replace(most=most))
    y = units.targets(scaled)
    y = y.to(model.dtype) if y.is_floating_point() else y
    rows = min(len(y), default_batch_size(len(y)) if batch_size is None else batch_size)
    batches = TensorBatches(x, y, rows, seed)
    digest = data_digest(x, y)
    prepared = Prepared(batches, y, units, None, posterior.flat_target, digest, is_whole=False)
    asked = epochs_for(len(y), batch_size, method, model) if epochs is None else epochs
    seen = settings["n"]
    now = {
        **settings,
        "epochs": asked,
        "batch_size": batch_size,
        "seed": seed,
        "restart": 0,
        "validation": None,
        "patience": None,
        "n": seen + len(y),
        "batches": batches.per_epoch(),
        "data": digest,
    }
    plan = Plan(model, CarryOn(method, Past.of(source, seen)), prepared, now, 60.0)
    found = train(plan, None, resume=False, verbose=verbose, callbacks=callbacks)
    found.history = [*posterior.history, *found.history]
    warn_of(found.health, "SVGI")
    return found


def _width(posterior: Posterior[Any], x: Tensor) -> int:
    """Return the width of the network's output at a row."""
    model, center = posterior.model, posterior.source.center()
    with torch.no_grad():
        buffers = {name: buffer[0] for name, buffer in center.buffers.items()}
        return model.forward(center.weights[0], center.fixed[0], buffers, x[:1]).numel()
