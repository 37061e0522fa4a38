"""What cannot be, refused in the words of the command line before anything is written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from r2d2net.columns.cell_parsing import Values
from r2d2net.errors import Argument, DataError, ParameterError, Shown
from r2d2net.estimators.named_settings import prior_of
from r2d2net.inference import method_named
from r2d2net.likelihoods import Categorical, Gaussian, Likelihood, Ordinal
from r2d2net.model import BayesianModel
from r2d2net.nets import mlp
from r2d2net.priors import R2D2
from r2d2net.registry import FOR_ONE_LAYER, PRIORS
from r2d2net.run.likelihood_choice import likelihood_named
from r2d2net.tables.prediction_task import LEAST, MOST, Task
from r2d2net.tables.settings import AUTO, Settings
from r2d2net.tables.training_table import CLASSES, WITHOUT

DIGITS = 1e-5  # a deviation that is a smaller share of the mean is lost in float32

SPREADSHEETS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")  # how .xlsx and .ods begin, which are zip files; and .xls


def require_no_spreadsheet(data: Path) -> None:
    """Refuse a file of Excel or the like, by its first bytes: many a .xls is plain text.

    Args:
        data: The file.

    Raises:
        DataError: It is a spreadsheet.
    """
    if not (data.is_file() and os.access(data, os.R_OK)) or data.suffix.lower() == ".zip":
        return  # the reader says what is wrong; and a zipped CSV file it reads
    with open(data, "rb") as file:
        if file.read(4) in SPREADSHEETS:
            problem = "is a spreadsheet, and CSV or Parquet is read"
            raise DataError(problem, value=data, fix="save the sheet as CSV")


def require_target(target: str, y: Values) -> None:
    """Refuse numbers that float32, in which networks are trained, does not tell apart.

    Args:
        target: Name of the target.
        y: Its values.

    Raises:
        DataError: The values are too large, too small or too close to each other.
    """
    size = float(np.abs(y).max())
    if size and not LEAST < size < MOST:
        fix = f"rescale it to between {LEAST:g} and {MOST:g}"
        raise DataError(f"has values of size {size:.3g}", argument="target", value=target, fix=fix)
    deviation, mean = float(y.std()), float(y.mean())
    if 0 < deviation < DIGITS * abs(mean):
        problem = f"varies by {deviation:.3g} about {mean:.6g}, which seven digits do not tell"
        raise DataError(problem, argument="target", value=target, fix=f"subtract {mean:.6g} from it")


def require_likelihood(settings: Settings, task: Task, y: Values) -> None:
    """Refuse a likelihood that cannot have the targets, or that the algorithm does not suit.

    Args:
        settings: The settings of the fit.
        task: What is predicted.
        y: All targets.

    Raises:
        DataError: A target is none of the likelihood's, such as a negative count.
        ParameterError: The target is a class, or the algorithm does not suit the likelihood.
    """
    name = settings.likelihood
    if name == AUTO:
        return
    if not task.is_regression:
        raise ParameterError(CLASSES, argument="likelihood", value=name, fix=WITHOUT)
    likelihood = likelihood_named(name)
    try:
        likelihood.target(torch.from_numpy(y))
    except DataError as error:
        raise DataError(error.problem, argument="target", value=settings.target, fix=error.fix) from error
    if settings.stacked or settings.algorithm == "auto":
        return
    method = method_named(settings.algorithm)
    width = likelihood.outputs(torch.ones(1, 1)) or 1
    net = mlp(2, (2,) if settings.hidden else (), width, linear=method.needs_linear_path)
    try:
        method.build(BayesianModel(net, prior_of("gaussian"), likelihood), n=1000, steps=1000)
    except ParameterError as error:
        unsuitable = ("does not suit ", Argument("likelihood", name))
        fix = "use another, such as svgi"
        raise ParameterError(unsuitable, argument="algorithm", value=settings.algorithm, fix=fix) from error


def require_suitable(settings: Settings, task: Task) -> None:
    """Refuse an algorithm that does not suit the task, the prior or the network, and name those that do.

    Args:
        settings: The settings of the fit.
        task: What is predicted.

    Raises:
        ParameterError: The algorithm does not suit them.
    """
    algorithm, hidden = settings.algorithm, (2,) if settings.hidden else ()
    if algorithm == "auto":
        return
    usual = () if algorithm in FOR_ONE_LAYER else (2,)
    reason = _fault(algorithm, "gaussian", usual, task.kind)
    if reason is not None:
        if all(_fault(algorithm, "gaussian", usual, kind) is not None for kind in ("regression", "binary")):
            raise reason  # something is not installed
        problem = f"is not for {task.kind}"
        raise ParameterError(problem, argument="algorithm", value=algorithm, fix="use another, such as svgi")
    if _fault(algorithm, settings.prior, usual, task.kind) is not None:
        suiting = [name for name in PRIORS if _fault(algorithm, name, usual, task.kind) is None]
        unsuitable = ("does not suit ", Argument("prior", settings.prior))
        fix = ("use ", Argument("prior", Shown(" or ".join(suiting))))
        raise ParameterError(unsuitable, argument="algorithm", value=algorithm, fix=fix)
    if _fault(algorithm, "gaussian", hidden, task.kind) is not None:
        unsuitable = ("does not suit ", Argument("hidden", Shown(",".join(map(str, settings.hidden or (0,))))))
        fix = ("use a hidden layer, such as ", Argument("hidden", 50)) if usual else ("use ", Argument("hidden", 0))
        raise ParameterError(unsuitable, argument="algorithm", value=algorithm, fix=fix)


def _fault(algorithm: str, prior: str, hidden: tuple[int, ...], kind: str) -> ParameterError | None:
    """Return why an algorithm cannot be built for a small network of this kind; None if it can."""
    chosen = R2D2.adaptive() if prior == "auto" else prior_of(prior)
    method = method_named(algorithm)
    likelihoods: dict[str, Likelihood[Any]] = {"regression": Gaussian(), "ordinal": Ordinal(3)}
    net = mlp(2, hidden, 1 if kind in likelihoods else 2, linear=method.needs_linear_path)
    model = BayesianModel(net, chosen, likelihoods.get(kind, Categorical()))
    try:
        method.build(model, n=1000, steps=1000)
    except ParameterError as error:
        return error
    return None


def require_one_target(settings: Settings, task: Task) -> None:
    """Refuse a selection for several targets at once.

    Args:
        settings: The settings.
        task: The task.

    Raises:
        ParameterError: There are several targets and a selection.
    """
    if settings.select and task.parts:
        fix = ("give one of them by ", Argument("target"), ", or leave it out")
        raise ParameterError("is for one target", argument="select", fix=fix)
