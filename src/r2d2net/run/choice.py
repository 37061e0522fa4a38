"""The algorithm that ``algorithm="auto"`` stands for, and how long a run is where the user does not say.

    one Linear layer, a sweep of which is affordable            LinearGibbs    exact
    the same beside a network, more inputs than rows            LinearFirst    numbers only: A exactly, then the network
    one Linear layer for which SVGI averages its sweeps         SVGI           numbers, few rows: chains do not mix
    a network for which gradients of all rows are affordable    MCLMC          better than SVGI wherever it was compared
    everything else                                             SVGI           batches of rows

A sweep of linear chains costs, for each output or logit, about n^2 p multiplications for n rows of p > n inputs, else
p^3 and some for each row, and for classes a Polya-Gamma variable for each row and class; where it is dear there are
fewer sweeps, so that a run stays about a minute. A gradient of all rows costs n times the number of weights, or more in
convolutions, whose weights are used many times. Early stopping, batches and data that come in a stream are SVGI's.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from torch import nn
from torch.utils.data import DataLoader, Dataset

from r2d2net.columns.phrases import counted
from r2d2net.errors import DataError, ParameterError
from r2d2net.inference import MCLMC, SVGI, LinearFirst, LinearGibbs, Method
from r2d2net.likelihoods import Gaussian
from r2d2net.model import BayesianModel
from r2d2net.nets.linear_path import LinearPath
from r2d2net.run.batches import default_batch_size

LARGEST_SWEEP = 1e8  # multiplications of a sweep of one linear chain, for one output: a few ms
LARGEST_SWEEPS = 3e8  # the same for all outputs or logits together
LARGEST_WIDE_SWEEP = 6e8  # of a model of one number with more inputs than rows, whose alternatives are far behind
LARGEST_RUN, LARGEST_RUN_OF_ONE = 6e10, 1.5e11  # multiplications of all sweeps in a minute, for several outputs or one
LEAST_SWEEPS = 250
ROW_COST = 30  # multiplications of a sweep for each number of a table with more rows than inputs
LARGEST_CLASSES = 5000  # rows times classes: above, Polya-Gamma variables cost more than gradients
LARGEST_GRADIENT = 1e7  # rows times weights of a gradient: 10 ms or so for four chains
STEPS, LEAST_EPOCHS, MOST_EPOCHS = 1000, 20, 300


class Choice(NamedTuple):
    """An algorithm and why it was chosen."""

    method: Method
    reason: str


def choose(
    model: BayesianModel[Any], data: Any, *, batch_size: int | None, patience: int | None, shares: bool = False
) -> Choice:
    """Choose the algorithm for a model and data.

    Args:
        model: The model.
        data: The data of `fit`.
        batch_size: Rows of a step, if the user names them.
        patience: Epochs of early stopping, if the user wants it.
        shares: Whether several processes share the steps of the fit.

    Returns:
        The algorithm with its default settings, and the reason in words.
    """
    if shares:
        return Choice(SVGI(), "SVGI: several processes share its steps")
    if isinstance(data, (DataLoader, Dataset)):
        return Choice(SVGI(), "SVGI: the data come in batches")
    for name, value in (("batch_size", batch_size), ("patience", patience)):
        if value is not None:
            return Choice(SVGI(), f"SVGI: {name}={value} is given")
    try:
        n = len(data[1])
    except (TypeError, IndexError, KeyError):
        return Choice(SVGI(), "SVGI: the data have no number of rows")  # `prepare` says what is wrong with them
    if model.is_linear:
        p, outputs = _sizes(model)
        classes = model.likelihood.has_classes
        affordable = linear_is_affordable(n, p, outputs, has_classes=classes)
        if p > n and outputs == 1 and not classes:
            affordable = _sweep_costs(n, p, 1, has_classes=False)[1] <= LARGEST_WIDE_SWEEP
        if affordable and _suits(LinearGibbs(), model, n):
            return Choice(LinearGibbs(), f"LinearGibbs: one linear layer, {_size(n, p)}")
        if p > n and not affordable and isinstance(model.likelihood, Gaussian) and SVGI().averaging_of(model, n) < 1:
            return Choice(SVGI(), f"SVGI: one linear layer, {_size(n, p)}, for which exact sweeps are dear")
    if isinstance(model.net, LinearPath):
        outputs, p = model.net.linear.weight.shape
        if p > n and linear_is_affordable(n, p, outputs, has_classes=False) and _suits(LinearFirst(), model, n):
            return Choice(LinearFirst(), f"LinearFirst: a linear path, {_size(n, p)}")
    whole = model.context is not None and model.context.whole_pass
    passed = len(model.context) if whole and model.context is not None else n * _uses(model, data[0])
    if passed * model.size <= LARGEST_GRADIENT and _suits(MCLMC(), model, n):
        return Choice(MCLMC(), f"MCLMC: {counted(n, 'row')}, {counted(model.size, 'weight')}")
    return Choice(SVGI(), f"SVGI: {counted(n, 'row')}, {counted(model.size, 'weight')}")


def linear_is_affordable(n: int, p: int, outputs: int, *, has_classes: bool) -> bool:
    """Tell whether a sweep of linear chains is affordable.

    Args:
        n: Number of rows.
        p: Number of inputs.
        outputs: Number of outputs, or of classes.
        has_classes: Whether the targets are classes.

    Returns:
        Whether it is.

    >>> linear_is_affordable(100, 4000, 1, has_classes=False), linear_is_affordable(10**6, 200, 1, has_classes=False)
    (True, False)
    >>> [linear_is_affordable(60, 20_000, classes, has_classes=True) for classes in (3, 10)]
    [True, False]
    """
    one, every = _sweep_costs(n, p, outputs, has_classes=has_classes)
    rows = n * outputs if has_classes else 0  # as many Polya-Gamma variables
    return one <= LARGEST_SWEEP and every <= LARGEST_SWEEPS and rows <= LARGEST_CLASSES


def sweeps_for(n: int, p: int, outputs: int, *, has_classes: bool) -> int:
    """Count the sweeps of linear chains that take about a minute: at least 250, at most the default number.

    Args:
        n: Number of rows.
        p: Number of inputs.
        outputs: Number of outputs, or of classes.
        has_classes: Whether the targets are classes.

    Returns:
        The number.

    >>> [sweeps_for(60, p, 3, has_classes=True) for p in (1000, 20_000, 100_000)]
    [1000, 277, 250]
    >>> [sweeps_for(n, 3000, 1, has_classes=False) for n in (150, 300)]
    [1000, 555]
    """
    one, every = _sweep_costs(n, p, outputs, has_classes=has_classes)
    run = LARGEST_RUN_OF_ONE if every == one else LARGEST_RUN
    return min(LinearGibbs().default_epochs(n), max(LEAST_SWEEPS, int(run / every)))


def _sweep_costs(n: int, p: int, outputs: int, *, has_classes: bool) -> tuple[float, float]:
    """Return the multiplications of a sweep for one output or logit, and for all; two classes have one logit."""
    one = float(n) * n * p if n < p else float(p) ** 3 + float(n) * p * ROW_COST
    return one, one * (1 if has_classes and outputs == 2 else outputs)


def epochs_for(rows: int, batch_size: int | None, method: Method, model: BayesianModel[Any] | None = None) -> int:
    """Passes over so many rows that make about 1,000 steps, at least 20 and at most 300.

    Where SVGI averages its sweeps it takes 1,000 steps however few the rows. Algorithms that see all rows at once have
    a number of their own, and `LinearGibbs` fewer sweeps where several outputs or classes make them dear.

    Args:
        rows: Number of training rows.
        batch_size: Rows of a step, None for the default.
        method: The algorithm.
        model: The model, which decides whether SVGI averages and what sweeps of linear chains cost.

    Returns:
        The number of epochs.

    >>> from r2d2net.inference import SVGI
    >>> [epochs_for(n, None, SVGI()) for n in (100, 1000, 10_000, 1_000_000)]
    [300, 143, 26, 20]
    >>> epochs_for(100, None, SVGI(), BayesianModel(nn.Linear(1000, 1)))
    1000
    """
    if isinstance(method, LinearGibbs) and model is not None and model.is_linear:
        return sweeps_for(rows, *_sizes(model), has_classes=model.likelihood.has_classes)
    if method.full_batch:
        return method.default_epochs(rows)
    batches = max(1, rows // (batch_size or default_batch_size(rows)))
    averages = isinstance(method, SVGI) and model is not None and method.averaging_of(model, rows) < 1
    return min(STEPS if averages else MOST_EPOCHS, max(LEAST_EPOCHS, math.ceil(STEPS / batches)))


def _size(n: int, p: int) -> str:
    return f"{counted(n, 'row')} of {counted(p, 'input')}"


def _sizes(model: BayesianModel[Any]) -> tuple[int, int]:
    """Return the numbers of inputs and outputs of a linear model."""
    outputs, *inputs = model.bayesian[0].shape
    return math.prod(inputs), outputs


def _suits(method: Method, model: BayesianModel[Any], n: int) -> bool:
    """Whether the algorithm takes the model."""
    try:
        method.build(model, n=n, steps=method.default_epochs(n))
    except (ParameterError, DataError):
        return False
    return True


def _uses(model: BayesianModel[Any], x: Any) -> int:
    """Return about how often a pass over a row uses each weight: once for each place of an image or a sequence."""
    shape: tuple[int, ...] = tuple(getattr(x, "shape", ()))
    if len(shape) <= 2:
        return 1
    convolves = any(isinstance(module, nn.modules.conv._ConvNd) for module in model.net.modules())
    return math.prod(shape[2:]) if convolves else shape[1]
