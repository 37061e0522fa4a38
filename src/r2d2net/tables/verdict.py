"""The verdict on a fit: one sentence that compares it with its baselines on test rows, and a warning where one wins.

    d_i = loss of the model on test row i - loss of the baseline on test row i,    se = sd(d) / sqrt(rows)

Losses are squared errors (shown as RMSE), and negative log densities. The model is better, or worse, if |mean d| > 2
se, else as good. Where nothing differs a comparison is decided wrongly with probability 5%. The pairing matters: both
models err on the same difficult rows, so the error of their difference is smaller than that of either score.

A row dominates a score, and is named, if the score falls markedly without it and the row lies where calibrated normal
predictions of so many rows have none: by RMSE an error above 5 times the root mean square of the others' that makes up
10% of the RMSE, by NLL 10 nats above the mean of the others that move it by 0.1 (5 in a million rows have 10 nats).
Models are compared without such a row, which would decide the comparison alone; the sentence says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from r2d2net.columns.cell_parsing import Values

ERRORS = 2.0  # standard errors beyond which two models differ
USELESS = 0.98  # score as a share of the best constant's from which a model has found nothing
FEWEST_ROWS = 10  # test rows below which nothing is compared
FAR, LEAST_FALL = 5.0, 0.1  # of an error that dominates the RMSE
FAR_NATS, LEAST_NATS = 10.0, 0.1  # of a log density that dominates the NLL

RMSE, NLL, LOG_LOSS = "RMSE", "NLL", "log loss"
CONSTANT = "the best constant"
Losses = Mapping[str, Values]  # losses of each test row by measure, the one that decides the sentence first


class Comparison(NamedTuple):
    """How a model does beside another one by one measure.

    Attributes:
        measure: `RMSE`, `NLL` or `LOG_LOSS`.
        own: Score of the model; lower is better.
        other: Score of the other one.
        errors: Mean difference of the losses in standard errors; below 0 the model is better.
    """

    measure: str
    own: float
    other: float
    errors: float

    @property
    def outcome(self) -> int:
        """1 if the model is better, -1 if it is worse, 0 if it is as good."""
        return int(self.errors < -ERRORS) - int(self.errors > ERRORS)

    @property
    def amount(self) -> str:
        """By how much: of the score of the other one, or in nats where scores may be negative."""
        difference = abs(self.own - self.other)
        if self.measure == NLL:
            return f"{difference:.2g} nats"
        share = difference / self.other if self.other > 0 else math.inf
        if 0.995 <= share <= 1 and self.own < self.other:
            return "more than 99%"  # nothing is better by all of it
        return f"{share:.2g} times" if share >= 10 else f"{share:.0%}" if share >= 0.095 else f"{share:.1%}"


def score(measure: str, losses: Values) -> float:
    """Summarise the losses of all rows.

    Args:
        measure: `RMSE`, whose losses are squared errors, or another.
        losses: One for each row.
    """
    mean = float(losses.mean())
    return math.sqrt(mean) if measure == RMSE else mean


def compare(measure: str, own: Values, other: Values) -> Comparison:
    """Compare two models by the losses of the same rows.

    Args:
        measure: What the losses are.
        own: Losses of the model, (rows,).
        other: Losses of the other one, (rows,).

    Returns:
        The comparison; a score that is not finite loses against one that is.
    """
    scores = score(measure, own), score(measure, other)
    if not all(map(math.isfinite, scores)):
        sides = [0.0 if math.isfinite(value) else math.inf for value in scores]
        return Comparison(measure, *scores, 0.0 if sides[0] == sides[1] else sides[0] - sides[1])
    difference = own - other
    difference = difference / max(float(np.abs(difference).max()), np.finfo(np.float64).tiny)  # squares do not overflow
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    mean = float(difference.mean())
    return Comparison(measure, *scores, mean / error if error > 0 else math.copysign(math.inf, mean) if mean else 0.0)


def dominating_row(measure: str, losses: Values) -> int | None:
    """Find the row that dominates a score.

    Args:
        measure: What the losses are.
        losses: One for each row.

    Returns:
        Its place, or None where there is none.
    """
    if len(losses) < FEWEST_ROWS or not np.isfinite(losses).all():
        return None
    place = int(losses.argmax())
    others = np.delete(losses, place)
    fall = score(measure, losses) - score(measure, others)
    if measure == RMSE:
        is_far = losses[place] > FAR**2 * others.mean() and fall >= LEAST_FALL * score(measure, losses)
    else:
        is_far = losses[place] > others.mean() + FAR_NATS and fall >= LEAST_NATS
    return place if is_far else None


def judge(own: Losses, others: Mapping[str, Losses], rows: Sequence[int] | np.ndarray) -> dict[str, Any]:
    """Judge a model beside its baselines.

    Args:
        own: Losses of the model.
        others: Losses of each other model by its name, by the same measures.
        rows: Numbers of the test rows, as the user counts them.

    Returns:
        For JSON: "sentence"; "warning", None where there is nothing to warn of; "rows", the numbers of rows that
        dominate a score, by which models are compared without them; "comparisons", the outcome by name and measure (1
        better, 0 as good, -1 worse); and "useless", whether the model gains less than 2% on the best constant, and no
        more than the noise.
    """
    if len(rows) < FEWEST_ROWS:
        sentence = f"too few test rows to compare the model with others: {len(rows)}, it takes {FEWEST_ROWS}"
        return {"sentence": sentence, "warning": None, "rows": [], "comparisons": {}, "useless": False}
    dominant = {measure: dominating_row(measure, losses) for measure, losses in own.items()}
    places = {measure: place for measure, place in dominant.items() if place is not None}
    found = {
        name: [compare(measure, *_without(places.get(measure), own[measure], losses[measure])) for measure in own]
        for name, losses in others.items()
    }
    constant = found[CONSTANT][0] if CONSTANT in found else None
    warnings = [_lost(name, comparisons) for name, comparisons in found.items()]
    warnings += [
        f"test row {rows[place]} dominates {measure}: {score(measure, own[measure]):.4g} with it, "
        f"{score(measure, np.delete(own[measure], place)):.4g} without it"
        for measure, place in places.items()
    ]
    first = next(iter(own))
    left_out = f", test row {rows[places[first]]} left out, which dominates {first}" if first in places else ""
    return {
        "sentence": sentence_of({name: comparisons[0] for name, comparisons in found.items()}, len(rows)) + left_out,
        "warning": "; ".join(filter(None, warnings)) or None,
        "rows": sorted({int(rows[place]) for place in places.values()}),
        "comparisons": {name: {c.measure: c.outcome for c in comparisons} for name, comparisons in found.items()},
        "useless": constant is not None and constant.outcome <= 0 and not constant.own < USELESS * constant.other,
    }


def _without(place: int | None, *losses: Values) -> list[Values]:
    """Return the losses of all rows but one, or of all where there is none to leave out."""
    return [each if place is None else np.delete(each, place) for each in losses]


def sentence_of(found: Mapping[str, Comparison], rows: int) -> str:
    """Say in one sentence how a model does beside others.

    Args:
        found: The comparison with each other model, by one measure.
        rows: Number of test rows.

    >>> near = Comparison(RMSE, 50.0, 50.1, -0.2)
    >>> sentence_of({"ridge regression": Comparison(RMSE, 50.0, 56.8, -3.1), "boosted trees": near}, 88)
    'on 88 test rows better than ridge regression by 12% (RMSE), as good as boosted trees'
    """
    measure = next((comparison.measure for comparison in found.values()), "")
    groups = (("better than", 1), ("as good as", 0), ("worse than", -1))
    parts, told = [], False
    for words, outcome in groups:
        names = [
            name + (f" by {comparison.amount}" if outcome else "")
            for name, comparison in found.items()
            if comparison.outcome == outcome
        ]
        if names:
            parts.append(f"{words} {' and '.join(filter(None, [', '.join(names[:-1]), names[-1]]))}")
            if not told:
                parts[-1] += f" ({measure})"
                told = True
    return f"on {rows:,} test rows {', '.join(parts)}"


def _lost(name: str, comparisons: Sequence[Comparison]) -> str:
    """Say by which measures another model is better beyond noise; "" if by none."""
    lost = [comparison for comparison in comparisons if comparison.outcome < 0]
    against = ", ".join(f"{c.measure} {c.other:.4g} against {c.own:.4g} ({c.amount})" for c in lost)
    return f"worse than {name}, beyond the noise of the test rows: {against}" if lost else ""
