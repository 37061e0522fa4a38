"""What rows left out say of the candidates of a stack, and of their mixture.

    log p(y_i) = log sum_k w_k p_k(y_i),     level of an interval that holds y_i = by F(y_i) = sum_k w_k F_k(y_i)

with p_k and F_k of the fit of candidate k that has not seen row i, and weights w of `stacking_weights`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from r2d2net.inference.linear_collection import LinearCollection
from r2d2net.interval_calibration import containing_level
from r2d2net.likelihoods import Gamma
from r2d2net.run.constant_check import BESIDE_CONSTANT, gain_over_constant
from r2d2net.run.health import NOT_CHECKED
from r2d2net.run.health_line import flags, line
from r2d2net.run.predictive_check import KEPT_ROWS, kept_scores
from r2d2net.run.prepare import Prepared
from r2d2net.run.stack_fits import Fitted, Search

SCORE_DRAWS = 200  # networks that predict a row left out
SPREADS = (0.2, 0.4, 0.6, 0.8, 1.0)  # of the draws of linear models of classes
# measures of a health that importance weights gave
BY_WEIGHTS = ("loo_k", "loo_bad", "loo_exact", KEPT_ROWS, "flags", "line")


def log_densities(search: Search, fitted: Sequence[Fitted | None], left_out: Tensor) -> Tensor:
    """Compute the log density of rows by candidates, on the network's scale.

    Args:
        search: What is searched.
        fitted: The fits.
        left_out: Numbers of the rows.

    Returns:
        The log densities, (rows, candidates); NaN for candidates that were not fitted.
    """
    columns = []
    for each in fitted:
        if each is None:
            columns.append(torch.full((len(left_out),), torch.nan, dtype=torch.float64))
            continue
        predicted = each.posterior.predict(search.x[left_out], SCORE_DRAWS, seed=search.seed)
        log_density = predicted.log_prob(search.y[left_out]).double().cpu()
        columns.append(log_density.reshape(len(left_out), -1).sum(1))
    return torch.stack(columns, 1)


def mixture_densities(densities: Tensor, weights: Tensor) -> Tensor:
    """Compute the log density of rows left out by the mixture of the candidates.

    Args:
        densities: Log density of each row by each candidate, (rows, candidates).
        weights: The weights, (candidates,); 0 of those that were not fitted.

    Returns:
        The log densities, (rows,).

    >>> mixture_densities(torch.tensor([[0.0, -1.0, torch.nan]]), torch.tensor([1.0, 0.0, 0.0])).tolist()
    [0.0]
    """
    kept = weights.cpu() > 0
    return torch.logsumexp(densities.cpu()[:, kept] + weights.cpu()[kept].log(), 1)


def average(values: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean of numbers of rows, by their weights."""
    return values.mean() if weights is None else (values * weights).sum() / weights.sum()


def user_shift(prepared: Prepared, search: Search) -> Tensor:
    """Compute what log densities in the user's units have more than those of the networks' targets.

    Args:
        prepared: The data as prepared with the user's likelihood.
        search: What is searched.

    Returns:
        The differences, (n,), on the CPU.
    """
    scale = prepared.units.y.scale.double().log().sum() if search.own.standardizes else torch.zeros(())
    return search.log_slope.double().cpu() - scale.cpu()


def least_levels(search: Search, fitted: Sequence[Fitted | None], left_out: Tensor, weights: Tensor) -> Tensor:
    """Return the least levels at which intervals of the mixture contain rows left out, (rows, outputs)."""
    y, total = search.y[left_out], 0.0
    at, before = torch.zeros_like(y, dtype=torch.float64), torch.zeros_like(y, dtype=torch.float64)
    for each, weight in zip(fitted, weights.tolist(), strict=True):
        if each is None or weight == 0:
            continue
        predicted = each.posterior.predict(search.x[left_out], SCORE_DRAWS, seed=search.seed)
        below = predicted.cdf(y)
        at, total = at + weight * below, total + weight
        before = before + weight * (predicted.cdf(y - 1) if predicted.is_discrete else below)
    return containing_level(at / total, before / total)


def gain_of(search: Search, densities: Tensor, rows: Tensor) -> dict[str, float]:
    """Compare densities of rows left out with a constant's; nothing for counts, and of rows with weights.

    Args:
        search: What is searched.
        densities: Log densities of the mixture on the network's scale.
        rows: Numbers of these rows.

    Returns:
        The measures of `gain_over_constant`.
    """
    if search.weights is not None:
        return {}
    likelihood, y = search.likelihood, search.y[rows].cpu()
    if likelihood.has_classes:
        classes = max(2, search.network["outputs"], int(y.max()) + 1)
        return gain_over_constant(densities, y, classes)
    return gain_over_constant(densities, y) if likelihood.standardizes or isinstance(likelihood, Gamma) else {}


def choose_spread(search: Search, fitted: Sequence[Fitted | None], rows: Sequence[Tensor]) -> float:
    """Return the spread with the highest density of rows left out; 1 unless it gains more than a standard error."""
    members = [(member, left) for member, left in zip(fitted, rows, strict=True) if member is not None]
    if not (search.likelihood.has_classes and members and isinstance(members[0][0].posterior.source, LinearCollection)):
        return 1.0
    scores = torch.stack(
        [
            torch.cat([log_densities(search, [with_spread(member, c)], left) for member, left in members])[:, 0]
            for c in SPREADS
        ]
    )
    best = int(scores.mean(1).argmax())
    gain = scores[best] - scores[SPREADS.index(1.0)]
    return SPREADS[best] if float(gain.mean()) > float(gain.std(correction=0)) / len(gain) ** 0.5 else 1.0


def with_spread(fitted: Fitted | None, spread: float) -> Fitted | None:
    """Return a fitted linear model with another spread of its draws."""
    if fitted is None or spread == 1:
        return fitted
    posterior, source = copy.copy(fitted.posterior), fitted.posterior.source
    assert isinstance(source, LinearCollection)
    posterior.source = source.with_spread(spread)
    return Fitted(fitted.candidate, posterior)


def with_held_out(
    health: dict[str, Any], densities: Tensor, rows: Tensor, count: int, gain: dict[str, float] | None = None
) -> dict[str, Any]:
    """Give a health the log density of rows that were really left out, in place of its estimate by importance weights.

    Args:
        health: The measures of `look_at`, with their line.
        densities: Log density of each row left out by the mixture, in the user's units.
        rows: Numbers of these rows.
        count: Number of all rows.
        gain: What these densities are above those of a constant (`gain_over_constant`).

    Returns:
        The health, with "elpd_by" that says by what rows the density is.
    """
    measured = {name: value for name, value in health.items() if name not in (*BY_WEIGHTS, *BESIDE_CONSTANT)}
    if measured["verdict"] != NOT_CHECKED and bool(densities.isfinite().all()):
        error = float(densities.std(correction=0)) / len(densities) ** 0.5
        measured |= {"elpd": float(densities.mean()), "elpd_error": error, "elpd_by": "rows left out by folds"}
        measured |= gain or {}
        if len(rows) == count:
            measured[KEPT_ROWS] = kept_scores(densities[rows.argsort()])
    else:
        measured = {name: value for name, value in measured.items() if name not in ("elpd", "elpd_error")}
    measured["flags"] = flags(measured)
    return {**measured, "line": line(measured)}
