"""Detection of out-of-distribution data by the uncertainty of the prediction.

Every row gets a score that is large where the prediction is uncertain, and the scores of data like the training data
("in") are compared with those of other data ("out"):

    auroc                 P(score of an out row > score of an in row), ties one half
    aupr_out, aupr_in     average precision with the out rows, or the in rows (and the score reversed), as the positives
    fpr95_out             share of in rows that raise alarm at the threshold where 95% of the out rows do
    fpr95_in              share of out rows that pass at the threshold where 95% of the in rows do

These have a direction: uncertain means out. A detector that is more certain of out rows has an AUROC below one half.

The paper's figures have no direction. Its authors' code takes the larger value of both directions,

    paper_auroc = max(auroc, 1 - auroc)
    paper_aupr  = the larger of the areas with out and with in as the positives, the score not reversed, by trapezoids

of the mean of the draws' entropies: ``score="expected_entropy"``. A detector that ranks rows in the wrong direction
looks good by these two figures; they exist only for comparison with the paper's tables.

Both data sets must have had the same preprocessing. Nothing here changes the data: a data set that was not normalised,
or normalised by its own mean, is recognised by its scale alone, and the figures mean nothing. For images
`data.ood_images` does the preprocessing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from r2d2net.errors import Argument, DataError, ParameterError, Value, require
from r2d2net.metrics.arrays import Array, Numbers, numbers
from r2d2net.metrics.ranking import aupr, auroc, fpr_at_tpr
from r2d2net.metrics.uncertainty import expected_entropy, max_prob, mutual_information, predictive_entropy

Score = Literal["entropy", "max_prob", "mutual_information", "expected_entropy"]
SCORES = {
    "entropy": predictive_entropy,
    "max_prob": lambda samples: -max_prob(samples),
    "mutual_information": mutual_information,
    "expected_entropy": expected_entropy,
}
ROWS = 1000


class Predictor(Protocol):
    """The part of a posterior's interface that these functions need."""

    def predict(self, x: Any, draws: int | Literal["mean"] = 100, *, seed: int | None = 0) -> Any: ...


@runtime_checkable
class ClassDraws(Protocol):
    """A prediction of classes: class probabilities of each draw of the weights, (draws, rows, classes)."""

    @property
    def samples(self) -> Any: ...

    @property
    def max_prob(self) -> Any: ...


@runtime_checkable
class DirichletDraws(ClassDraws, Protocol):
    """A prediction whose draws are Dirichlet distributions of the probabilities: even one has epistemic spread."""

    @property
    def concentration(self) -> Any: ...

    @property
    def aleatoric(self) -> Any: ...

    @property
    def mutual_information(self) -> Any: ...


@dataclass(frozen=True, eq=False)
class OODScores:
    """Measures of how well a score separates out rows from in rows; see the module's docstring.

    Attributes:
        score: Name of the score.
        auroc: Probability that an out row has a larger score than an in row.
        aupr_out: Average precision with the out rows as the positives.
        aupr_in: Average precision with the in rows as the positives and the score negated.
        fpr95_out: Share of in rows above the threshold that 95% of the out rows reach.
        fpr95_in: Share of out rows below the threshold under which 95% of the in rows lie.
        paper_auroc: The larger of ``auroc`` and 1 - ``auroc``, as in the paper.
        paper_aupr: The larger trapezoid area of both directions, as in the paper.
        in_scores: Scores of the in rows.
        out_scores: Scores of the out rows.
    """

    score: str
    auroc: float
    aupr_out: float
    aupr_in: float
    fpr95_out: float
    fpr95_in: float
    paper_auroc: float
    paper_aupr: float
    in_scores: Array = field(repr=False)
    out_scores: Array = field(repr=False)


def ood_scores(
    posterior: Predictor,
    in_data: Any,
    out_data: Any,
    score: Score = "entropy",
    *,
    draws: int | Literal["mean"] = 100,
    seed: int | None = 0,
) -> OODScores:
    """Predict both data sets with the same draws of the weights and compare their scores.

    Args:
        posterior: A posterior of a classifier.
        in_data: Inputs like the training data, as `Posterior.predict` takes them.
        out_data: Inputs of another kind, after the same preprocessing.
        score: "entropy" of the averaged probabilities, "max_prob" (negated), "mutual_information", or
            "expected_entropy", which averages the draws' entropies as the paper's authors do. Where draws are
            Dirichlet distributions (EDL, DPN) the latter two are computed from these distributions.
        draws: Number of weight draws, or "mean".
        seed: Seed of the draws.

    Returns:
        The measures of separation, with the scores of all rows.

    Raises:
        DataError: If the posterior does not predict class probabilities.
        ParameterError: If ``score`` is unknown, or "mutual_information" is asked of a single draw.
    """
    inside = uncertainty_scores(posterior, in_data, score, draws=draws, seed=seed)
    outside = uncertainty_scores(posterior, out_data, score, draws=draws, seed=seed)
    return compare_scores(inside, outside, score)


def uncertainty_scores(
    posterior: Predictor,
    x: Any,
    score: Score = "entropy",
    *,
    draws: int | Literal["mean"] = 100,
    seed: int | None = 0,
) -> Array:
    """Compute the score of each row, large where the prediction is uncertain.

    Args:
        posterior: A posterior of a classifier.
        x: Inputs as `Posterior.predict` takes them.
        score: "entropy", "max_prob", "mutual_information" or "expected_entropy" (see `ood_scores`).
        draws: Number of weight draws, or "mean".
        seed: Seed of the draws.

    Returns:
        The scores, of shape (rows,).

    Raises:
        DataError: If the posterior does not predict class probabilities.
        ParameterError: If ``score`` is unknown, or "mutual_information" is asked of a single draw.
    """
    require(score in SCORES, "score", score, f"use one of {', '.join(SCORES)}")
    prediction = posterior.predict(x, draws, seed=seed)
    if not isinstance(prediction, ClassDraws):
        fix = "these scores need class probabilities"
        raise DataError(("predicts a ", Value(type(prediction))), argument="posterior", fix=fix)
    if isinstance(prediction, DirichletDraws) and score in ("mutual_information", "expected_entropy"):
        entropies = prediction.mutual_information if score == "mutual_information" else prediction.aleatoric
        return numbers(score, entropies)
    samples = prediction.samples  # (draws, rows, classes); float64 copies are made of few rows at a time
    if len(samples) == 1 and score == "mutual_information":
        raise ParameterError(
            ("compares draws, and there is one (", Argument("draws", draws), ")"),
            argument="score",
            value=score,
            fix=(
                *("use ", Argument("draws", 2), " or more, or "),
                *(Argument("score", "entropy"), " where the algorithm has but one network"),
            ),
        )
    return np.concatenate([SCORES[score](samples[:, k : k + ROWS]) for k in range(0, samples.shape[1], ROWS)])


def compare_scores(in_scores: Numbers, out_scores: Numbers, score: str = "given") -> OODScores:
    """Measure how well scores separate out rows from in rows.

    Args:
        in_scores: Scores of rows like the training data, (rows,); large where the prediction is uncertain.
        out_scores: Scores of rows of another kind, (rows,).
        score: Name of the score, kept in the result.

    Returns:
        The measures of separation.

    Example:
        >>> result = compare_scores([0.1, 0.2, 0.3], [0.25, 0.4])
        >>> round(result.auroc, 4), result.fpr95_out == 1 / 3
        (0.8333, True)
    """
    inside, outside = numbers("in_scores", in_scores), numbers("out_scores", out_scores)
    for name, value in (("in_scores", inside), ("out_scores", outside)):
        if value.ndim != 1:
            raise DataError(("has shape ", Value(value.shape)), argument=name, fix="give one score a row")
    value = np.concatenate([inside, outside])
    out = np.repeat([0, 1], [len(inside), len(outside)])
    area = auroc(out, value)
    return OODScores(
        score=score,
        auroc=area,
        aupr_out=aupr(out, value),
        aupr_in=aupr(1 - out, -value),
        fpr95_out=fpr_at_tpr(out, value),
        fpr95_in=fpr_at_tpr(1 - out, -value),
        paper_auroc=max(area, 1 - area),
        paper_aupr=max(_trapezoid_aupr(out, value), _trapezoid_aupr(1 - out, value)),
        in_scores=inside,
        out_scores=outside,
    )


def _trapezoid_aupr(y: Any, score: Array) -> float:
    from sklearn.metrics import auc, precision_recall_curve  # slow to import

    precision, recall, _ = precision_recall_curve(y, score)
    return float(auc(recall, precision))
