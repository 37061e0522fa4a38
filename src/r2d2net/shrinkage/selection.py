"""Selection of inputs with a bound on the share of false ones.

Each input, or group of inputs that can stand for each other, has the p-value of a randomization test on rows that the
network has not seen (`randomization_test`); Benjamini and Hochberg's rule bounds the expected share of false ones:

    q_(k) = min over l >= k of  m p_(l) / l,        selected are the inputs with q <= fdr

Three facts about it. The test needs the law of each input given the others, which is estimated from the rows
(`conditional_inputs`), and no assumption on how y depends on them. It is no threshold of posterior probabilities: of
inputs whose share in the output's variance is above 1% with 90% probability more than a tenth may be false where inputs
are correlated. Unlike knockoffs, whose rule can select k inputs only if k >= 1 / fdr, it can select a single one.

Two other ways are there beside it: the posterior of a linear model (`local_rates`) and knockoffs (`knockoffs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import DataError, Value, require, require_seed, require_whole
from r2d2net.network_inputs import as_tensors
from r2d2net.posterior import Posterior
from r2d2net.run.fit import fit
from r2d2net.shrinkage.conditional_inputs import ConditionalInputs
from r2d2net.shrinkage.input_groups import clusters, similarities
from r2d2net.shrinkage.knockoffs import knockoff_rates, knockoffs, statistics
from r2d2net.shrinkage.local_rates import cumulative_rates, local_rates
from r2d2net.shrinkage.randomization_test import LeftOut, randomization_p_values
from r2d2net.shrinkage.relevance import input_relevance
from r2d2net.shrinkage.selection_models import SelectionModels, models_for
from r2d2net.specification import method_from

METHODS = ("randomization", "lfdr", "knockoffs")
CORRELATED = 0.8  # least similarity of the inputs of a group
FEWEST = 8  # rows; with so few hardly anything can be selected
LEAST = 0.002  # share of a network's variance from which it is asked about an input
MOST_ASKED = 60  # inputs that a network is asked about, those of the largest shares
DRAWS, RELEVANCE_DRAWS = 30, 30  # of predictions, and of the relevance by which inputs are asked about
Refit = Callable[[Tensor, Any], Posterior[Any] | Sequence[Posterior[Any]]]


class Selection(NamedTuple):
    """Which inputs are selected, and why.

    Attributes:
        selected: Whether each input is selected, (inputs,).
        p_value: p-value of the group of each input, (inputs,).
        q_value: Least fdr at which the input would be selected, (inputs,).
        group: Number of the group of each input, from 0; inputs of a group are selected together.
        fdr: The bound on the expected share of false groups among those selected.
        line: The result in one sentence.
        method: "randomization", "lfdr" or "knockoffs".
        score: What inputs are ordered by where there is no p-value, which is NaN then: the local false discovery rate,
            or the knockoff statistic W; None of the randomization test.
    """

    selected: Tensor
    p_value: Tensor
    q_value: Tensor
    group: Tensor
    fdr: float
    line: str
    method: str = "randomization"
    score: Tensor | None = None

    @property
    def indices(self) -> list[int]:
        """Numbers of the selected inputs."""
        return [int(i) for i in self.selected.nonzero().flatten()]


def select(
    posterior: Posterior[Any] | None,
    x: Any,
    y: Any,
    *,
    fdr: float = 0.1,
    method: Literal["randomization", "lfdr", "knockoffs"] = "randomization",
    groups: Sequence[Sequence[int]] | None = None,
    correlated: float | None = CORRELATED,
    folds: int | Literal["left out"] = 5,
    refit: Refit | None = None,
    draws: int = DRAWS,
    resamples: int = 4000,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Selection:
    """Select the inputs on which the target depends, with a bound on the share of false ones.

    Args:
        posterior: A fitted network. It is fitted again to the rows outside each fold, by the same algorithm; one that
            combines several models by a linear model and a network (`selection_models`). None only with ``refit``.
        x: The table of the fit, in the user's units, or rows that the fit has not seen (``folds="left out"``).
        y: Their targets.
        fdr: Bound on the expected share of false discoveries, strictly between 0 and 1.
        method: "randomization", a test on rows left out that suits any network; "lfdr", probabilities of the posterior
            itself, which must be of a linear model by exact draws, without another fit; "knockoffs", which doubles the
            columns by twins, fits ``refit`` (our models by default) once, and selects 1 / fdr inputs or more, or none.
        groups: For each input the columns that belong to it, such as those of a category; by default each column is an
            input of its own.
        correlated: Inputs whose correlation is at least this are tested and selected as a group, since the data can
            hardly tell them apart; None tests every input by itself.
        folds: Number of folds; "left out" if the posterior has not seen these rows, which are then tested without
            fitting again.
        refit: Fits one network, or several whose log densities are added, to other rows (x, y), in place of the
            posterior's own model and algorithm.
        draws: Number of posterior draws that a prediction is a mean of.
        resamples: Number of draws of each input, which bounds p-values from below by 1 / (resamples + 1).
        seed: Seed of folds and draws.
        progress: Called after each input of the test with the number of inputs done and the total.

    Returns:
        The selection. No input may be selected: then its line says so.

    Raises:
        DataError: If the rows are not a table with targets, or too few.
        ParameterError: If an argument is out of range.

    Example:
        >>> import r2d2net as rn
        >>> x = torch.randn(100, 6, generator=torch.Generator().manual_seed(0))
        >>> y = x[:, 0] - x[:, 3] + 0.5 * torch.randn(100, generator=torch.Generator().manual_seed(1))
        >>> model = rn.BayesianModel(torch.nn.Linear(6, 1), rn.priors.R2D2.adaptive())
        >>> posterior = rn.fit(model, (x, y), "lineargibbs", epochs=100, verbose=False)
        >>> select(posterior, x, y).line
        'selected 2 of 6 inputs: of such selections at most about 10% are false on average'
    """
    is_number = isinstance(fdr, (int, float)) and not isinstance(fdr, bool)
    require(is_number and 0 < fdr < 1, "fdr", fdr, "use a share strictly between 0 and 1, such as 0.1")
    require(method in METHODS, "method", method, f"use one of {', '.join(METHODS)}")
    known = correlated is None or 0 < correlated <= 1
    require(known, "correlated", correlated, "use a correlation above 0 and at most 1, or None")
    if isinstance(folds, str):
        require(folds == "left out", "folds", folds, "use a number of folds, or 'left out'")
    else:
        require_whole("folds", folds, least=2)
    require_whole("draws", draws)
    require_whole("resamples", resamples)
    require_seed(seed)
    table, targets = as_table(x, y)
    inputs = inputs_of(groups, table.shape[1])
    number = groups_of(table, inputs, correlated)
    members = [(number == g).nonzero().flatten().tolist() for g in range(int(number.max()) + 1)]
    joined = [[column for i in group for column in inputs[i]] for group in members]
    sizes = [len(group) for group in members]
    if method != "randomization":
        q, score = _by_other(method, posterior, table, targets, joined, refit, seed)
        selected = q <= fdr
        line, missing = in_words(selected, sizes, fdr, len(table)), torch.full((len(number),), torch.nan)
        return Selection(selected[number], missing.double(), q[number], number, fdr, line, method, score[number])
    fitted: list[LeftOut] = []
    if isinstance(folds, str):
        require(posterior is not None, "posterior", posterior, "give the posterior that has not seen the rows")
        assert posterior is not None
        fitted.append(LeftOut(posterior, torch.arange(len(table)), _used(posterior, table, joined, seed)))
    else:
        again = refit or _again(posterior)
        parts = _folds(targets, int(folds), seed)
        rests = [np.setdiff1d(np.arange(len(table)), part) for part in parts]
        for part, rest, networks in zip(parts, rests, _fits(again, table, targets, rests), strict=True):
            for network in networks:
                used = _used(network, table[rest], joined, seed)
                fitted.append(LeftOut(network, torch.from_numpy(part), used))
    law = ConditionalInputs(table, joined)
    p = randomization_p_values(
        fitted, table, targets, law, draws=draws, resamples=resamples, seed=seed, progress=progress
    )
    q = false_discovery_rates(p)
    selected = q <= fdr
    return Selection(
        selected=selected[number],
        p_value=p[number],
        q_value=q[number],
        group=number,
        fdr=fdr,
        line=in_words(selected, sizes, fdr, len(table)),
    )


def _by_other(
    method: str,
    posterior: Posterior[Any] | None,
    table: Tensor,
    targets: Tensor,
    inputs: Sequence[Sequence[int]],
    refit: Refit | None,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Return q-values and scores of inputs by the posterior itself, or by knockoffs."""
    if method == "lfdr":
        require(posterior is not None, "posterior", posterior, "give the posterior of a linear model")
        assert posterior is not None
        rates = local_rates(posterior, table, inputs, seed)
        return cumulative_rates(rates), rates
    if refit is None:
        require(posterior is not None, "posterior", posterior, "give a posterior of the targets, or `refit`")
        assert posterior is not None
        outputs = posterior.predict(table[:1].to(posterior.model.dtype), 1).samples.shape[-1]
        classes = posterior.model.likelihood.has_classes
        refit = models_for(posterior.model.likelihood, outputs if classes else _width(targets), seed)
    both = torch.cat([table, knockoffs(table, inputs, seed)], 1)
    found = refit(both, targets)
    w = statistics([found] if isinstance(found, Posterior) else found, both, inputs, seed)
    return knockoff_rates(w), w


def _width(targets: Tensor) -> int:
    return 1 if targets.dim() == 1 else targets.shape[1]


def false_discovery_rates(p: Tensor) -> Tensor:
    """Compute the least false discovery rate at which each hypothesis is rejected (Benjamini and Hochberg, 1995).

    Args:
        p: p-values, (hypotheses,).

    Returns:
        The q-values, (hypotheses,).

    >>> false_discovery_rates(torch.tensor([0.01, 0.5, 0.02]))
    tensor([0.0300, 0.5000, 0.0300])
    """
    m = len(p)
    ascending, order = p.sort()
    ratio = ascending * m / torch.arange(1, m + 1, dtype=p.dtype)
    least = ratio.flip(0).cummin(0).values.flip(0).clamp(max=1)
    return torch.empty_like(p).scatter_(0, order, least)


def in_words(selected: Tensor, sizes: Sequence[int], fdr: float, rows: int) -> str:
    """Say in a sentence what was selected.

    Args:
        selected: Whether each group is selected.
        sizes: Number of inputs of each group.
        fdr: The bound.
        rows: Number of rows.
    """
    count, total = int(selected.sum()), len(sizes)
    noun = "inputs" if max(sizes) == 1 else "groups of inputs"
    if count == 0:
        return f"no input can be selected at a false discovery rate of {fdr:g} with these {rows} rows"
    return f"selected {count} of {total} {noun}: of such selections at most about {fdr:.0%} are false on average"


def as_table(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Check a table and its targets.

    Args:
        x: The table.
        y: The targets.

    Returns:
        Both, the table in float64.
    """
    table = as_tensors(x)
    if isinstance(table, tuple) or table.dim() != 2:
        raise DataError("is no table", argument="x", fix="give one table (rows, inputs)")
    targets = torch.as_tensor(y)
    if targets.dim() == 0 or len(targets) != len(table):
        rows = 1 if targets.dim() == 0 else len(targets)
        raise DataError(("has ", Value(len(table)), f" rows and y has {rows}"), argument="x", fix="they must agree")
    if len(table) < FEWEST:
        raise DataError(("has ", Value(len(table)), " rows"), argument="x", fix=f"a test takes {FEWEST} or more")
    if not bool(torch.isfinite(table).all()):
        raise DataError("holds a number that is not finite", argument="x", fix="fill in missing cells")
    return table.double().cpu(), targets.cpu()


def inputs_of(groups: Sequence[Sequence[int]] | None, columns: int) -> list[list[int]]:
    """List the columns of each input, and check that no column belongs to two.

    Args:
        groups: Columns of each input; None for one column each.
        columns: Number of columns.
    """
    if groups is None:
        return [[i] for i in range(columns)]
    inputs = [list(group) for group in groups]
    named = [i for group in inputs for i in group]
    known = bool(inputs) and all(inputs) and all(isinstance(i, (int, np.integer)) and 0 <= i < columns for i in named)
    require(known, "groups", groups, f"use lists of columns from 0 to {columns - 1}, none of them empty")
    require(len(named) == len(set(named)), "groups", groups, "let each column belong to one input only")
    return inputs


def groups_of(x: Tensor, inputs: Sequence[Sequence[int]], correlated: float | None) -> Tensor:
    """Number the groups of inputs that are tested together, by complete-linkage clustering.

    Args:
        x: The table.
        inputs: Columns of each input.
        correlated: Least similarity of two inputs of a group; None for one group each.

    Returns:
        The number of each input's group, (inputs,), from 0 in the order of the inputs.
    """
    if correlated is None or len(inputs) < 2:
        return torch.arange(len(inputs))
    if all(len(columns) == 1 for columns in inputs):
        centred = x[:, [columns[0] for columns in inputs]]
        centred = centred - centred.mean(0)
        scaled = centred / centred.norm(dim=0).clamp(min=1e-300)
        alike = (scaled.T @ scaled).abs()
    else:
        alike = similarities(x, inputs)
    first: dict[int, int] = {}
    return torch.tensor([first.setdefault(label, len(first)) for label in clusters(alike, correlated)])


def _folds(targets: Tensor, count: int, seed: int) -> list[np.ndarray]:
    """Divide the rows at random; classes, and counts, are spread evenly over the folds."""
    rows = len(targets)
    order = np.random.default_rng(seed).permutation(rows)
    if not targets.is_floating_point() and targets.dim() == 1:
        order = order[targets.numpy()[order].argsort(kind="stable")]
    return [np.sort(order[start::count]) for start in range(min(count, rows))]


def _fits(
    again: Refit, table: Tensor, targets: Tensor, parts: Sequence[np.ndarray]
) -> Iterator[Sequence[Posterior[Any]]]:
    """Fit to each part of the rows; our own models to all parts at once."""
    if isinstance(again, SelectionModels):
        yield from again.of_folds([(table[rows], targets[rows]) for rows in parts])
        return
    for rows in parts:
        found = again(table[rows], targets[rows])
        yield [found] if isinstance(found, Posterior) else found


def _again(posterior: Posterior[Any] | None) -> Refit:
    """Return a function that fits the posterior's model to other rows by its own algorithm."""
    settings = {} if posterior is None else posterior.settings
    known = {"algorithm", "epochs", "seed"} <= settings.keys()
    require(known, "posterior", posterior, "give one that `fit` made, or `refit`")
    assert posterior is not None
    if "stack" in settings:
        return models_for(posterior.model.likelihood, settings["stack"]["network"]["outputs"], settings["seed"])
    model, method = posterior.model, method_from(settings["algorithm"])
    kept = {name: settings[name] for name in ("epochs", "seed", "standardize")}
    return lambda x, y: fit(model, (x.to(model.dtype), y), method, **kept, verbose=False)


def _used(network: Posterior[Any], x: Tensor, inputs: Sequence[Sequence[int]], seed: int) -> Tensor:
    """Whether a network uses each input enough to be asked about it, by rows that it may have seen."""
    share = input_relevance(network, x, groups=inputs, draws=RELEVANCE_DRAWS, shuffles=1, seed=seed).mean
    used = share >= LEAST
    if int(used.sum()) > MOST_ASKED:
        used &= share >= share.sort(descending=True).values[MOST_ASKED - 1]
    return used.cpu()
