"""Selection of inputs with a bound on the share of false ones.

Four ways, of which `select` takes one:

    terms           numbers: exact draws of a sparse regression on slopes, curves and products (`term_rates`)
    randomization   any network: tests on rows that it has not seen (`randomization_test`)
    lfdr            the posterior of a linear model itself (`local_rates`)
    knockoffs       twins of the columns, fitted beside them (`knockoffs`)

The first and the third have probabilities lfdr_j that y does not depend on input j, the second p-values p_j, and with
m inputs in ascending order selected are those with q <= fdr:

    q_(k) = (lfdr_(1) + ... + lfdr_(k)) / k              Bayes (Müller, Parmigiani and Rice, 2006), but see
                                                         `local_rates` for lfdr > 1/2
    q_(k) = min over l >= k of  m p_(l) / l              Benjamini and Hochberg (1995)

Unlike knockoffs, whose rule can select k inputs only if k >= 1 / fdr, each of them can select a single one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import DataError, Value, is_number, require, require_seed, require_whole
from r2d2net.posterior import Posterior
from r2d2net.shrinkage.conditional_inputs import ConditionalInputs
from r2d2net.shrinkage.knockoffs import knockoff_rates, knockoffs, statistics
from r2d2net.shrinkage.left_out_networks import Refit, left_out_networks
from r2d2net.shrinkage.local_rates import cumulative_rates, local_rates
from r2d2net.shrinkage.randomization_test import randomization_p_values
from r2d2net.shrinkage.selection_inputs import CORRELATED, as_table, groups_of, inputs_of
from r2d2net.shrinkage.selection_models import SelectionModels, models_for
from r2d2net.shrinkage.term_rates import has_many_values, term_rates

METHODS = ("auto", "terms", "randomization", "lfdr", "knockoffs")
DRAWS = 30  # of predictions


class Selection(NamedTuple):
    """Which inputs are selected, and why.

    Attributes:
        selected: Whether each input is selected, (inputs,).
        p_value: p-value of the group of each input, (inputs,), of the randomization test; NaN of the other ways.
        q_value: Least fdr at which the input would be selected, (inputs,).
        group: Number of the group of each input, from 0; inputs of a group are selected together.
        fdr: The bound on the expected share of false groups among those selected.
        line: The result in one sentence.
        method: The way taken: "terms", "randomization", "lfdr" or "knockoffs".
        score: What inputs are ordered by where there is no p-value: the local false discovery rate, or the knockoff
            statistic W; None of the randomization test.
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
    method: Literal["auto", "terms", "randomization", "lfdr", "knockoffs"] = "auto",
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
        posterior: A fitted network; None with ``refit``, or for numbers. The randomization test fits it again to the
            rows outside each fold, by the same algorithm; one that combines several models by a linear model and a
            network (`selection_models`).
        x: The table of the fit, in the user's units, or rows that the fit has not seen (``folds="left out"``).
        y: Their targets.
        fdr: Bound on the expected share of false discoveries, strictly between 0 and 1.
        method: "terms", for numbers: probabilities of a sparse regression on slopes, curves and products of all inputs,
            which asks the rows alone and fits no network; "randomization", a test on rows left out that suits any
            network; "lfdr", probabilities of the posterior itself, which must be of a linear model by exact draws;
            "knockoffs", which doubles the columns by twins, fits ``refit`` (our models by default) once, and selects
            1 / fdr inputs or more, or none. "auto" takes "terms" for one target of ten different numbers or more, and
            "randomization" for classes, for several targets, for a ``refit`` of your own and for rows left out.
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
    require(is_number(fdr) and 0 < fdr < 1, "fdr", fdr, "use a share strictly between 0 and 1, such as 0.1")
    require(method in METHODS, "method", method, f"use one of {', '.join(METHODS)}")
    known = correlated is None or (is_number(correlated) and 0 < correlated <= 1)
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
    if method == "auto":
        method = _suited(posterior, targets, folds, refit)
    if method != "randomization":
        q, score = _by_other(method, posterior, table, targets, joined, refit, seed)
        selected = q <= fdr
        line, missing = in_words(selected, sizes, fdr, len(table)), torch.full((len(number),), torch.nan)
        return Selection(selected[number], missing.double(), q[number], number, fdr, line, method, score[number])
    fitted = left_out_networks(posterior, table, targets, joined, folds=folds, refit=refit, seed=seed)
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


def _suited(
    posterior: Posterior[Any] | None, targets: Tensor, folds: int | str, refit: Refit | None
) -> Literal["terms", "randomization"]:
    """Return the way that suits the target: terms for numbers, unless rows or models of the user's are to be tested."""
    likelihood = refit.likelihood if isinstance(refit, SelectionModels) else None
    if refit is None and posterior is not None:
        likelihood = posterior.model.likelihood
    is_asked = folds == "left out" or (refit is not None and likelihood is None)
    classes = likelihood is not None and likelihood.has_classes
    if is_asked or classes:
        return "randomization"
    if has_many_values(targets):
        return "terms"
    if posterior is None and refit is None:
        width = _width(targets)
        problem = (
            (f"has {width} columns",) if width > 1 else ("has ", Value(len(targets.unique())), " different values")
        )
        fix = "the method 'terms' takes one column of ten or more; give a posterior or `refit` for these"
        raise DataError(problem, argument="y", fix=fix)
    return "randomization"


def _by_other(
    method: str,
    posterior: Posterior[Any] | None,
    table: Tensor,
    targets: Tensor,
    inputs: Sequence[Sequence[int]],
    refit: Refit | None,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Return q-values and scores of inputs by terms, by the posterior itself, or by knockoffs."""
    if method == "terms":
        if not has_many_values(targets):
            problem = ("has ", Value(len(targets.unique())), " different values")
            raise DataError(problem, argument="y", fix="give one column of ten or more, or use method='randomization'")
        rates = term_rates(table, targets.reshape(-1), inputs, seed)
        return cumulative_rates(rates), rates
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
