"""Posteriors with fewer weights: the others are zero, in every draw.

    pruned = prune(posterior, ratio=50)                          keeps 1 weight of 50
    pruned = prune(posterior, "auto", validation=(x, y))         as few as validation rows allow

Weights of matrices and filters are ranked by a score (`r2d2net.shrinkage.weight_scores`) over the whole network or
within each layer; biases and normalisation layers are left alone and are not counted. What is left has the posterior
that it had: means, deviations and draws.

"auto" takes the largest cut of a grid, refined by bisection, such that no smaller one lowers the mean log density of
validation rows by more than the standard error that this mean has for the whole network.
"""

from __future__ import annotations

import copy
import math
import warnings
from numbers import Real
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import Argument, DataError, ParameterError, PruningWarning, Shown, Value, require, require_whole
from r2d2net.posterior import Posterior
from r2d2net.prediction import PredictionT
from r2d2net.shrinkage.pruned import Pruned, PrunedDraws, prunable
from r2d2net.shrinkage.weight_scores import SCORES, Score, moments_of, weight_scores
from r2d2net.specification import describe, method_from

GRID = 1.5  # factor between the numbers of weights that "auto" tries
BISECTIONS = 3  # between the last number that passes and the first that does not
By = Literal["network", "layer"]
BYS = ("network", "layer")
PAIR = Argument("validation", Shown("(x, y)"))


def prune(
    posterior: Posterior[PredictionT],
    how: Literal["auto"] | None = None,
    *,
    ratio: float | None = None,
    weights: int | None = None,
    threshold: float | None = None,
    score: Score = "snr",
    by: By = "network",
    validation: tuple[Any, Any] | None = None,
    draws: int = 20,
) -> Posterior[PredictionT]:
    """Set the weights of a fitted network that it needs least to zero.

    Give one of ``"auto"``, ``ratio``, ``weights`` and ``threshold``.

    Args:
        posterior: The fitted network; it is not changed. It may have been pruned before.
        how: "auto" cuts as far as ``validation`` allows.
        ratio: How many times fewer weights are left, from 1.
        weights: How many weights are left, over all matrices and filters.
        threshold: Weights whose score in nats is below it go. The score is "snr" or "saliency" then.
        score: "snr", the mean over the posterior deviation; "saliency", the rise of the training loss in nats; or
            "magnitude".
        by: "network" for one ranking of all weights; "layer" for the same share of every layer.
        validation: Rows (x, y) of "auto", which were not used for training.
        draws: Posterior draws with which "auto" predicts them.

    Returns:
        The pruned posterior, which predicts and is saved and loaded like any other. Its ``settings["pruned"]`` tell how
        many weights are left. Intervals calibrated for the whole network are left out.

    Raises:
        ParameterError: If an argument lies outside its range, or the posterior does not hold what the score needs.
        DataError: If ``validation`` does not fit the network.

    Warns:
        PruningWarning: If a layer would have lost all weights: it keeps its best.

    Example:
        >>> from torch import nn
        >>> import r2d2net as rn
        >>> x = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))
        >>> net = nn.Sequential(nn.Linear(8, 10), nn.ReLU(), nn.Linear(10, 1))
        >>> posterior = rn.fit(rn.BayesianModel(net), (x, x[:, 0] - x[:, 1]), "cavi", epochs=5)
        >>> prune(posterior, ratio=3).settings["pruned"]["kept"]
        30
    """
    require(by in BYS, "by", by, "use 'network' or 'layer'")
    require(score in SCORES, "score", score, f"use one of {', '.join(SCORES)}")
    cut = Cut.of(posterior, score, by, in_nats=threshold is not None)
    given = {"how": how, "ratio": ratio, "weights": weights, "threshold": threshold}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        problem = f"needs one of 'auto', ratio, weights and threshold, and has {' and '.join(named) or 'none'}"
        raise ParameterError(problem, fix="give ratio=10, say")
    if how is not None:
        require(how == "auto", "how", how, "use 'auto', or give ratio, weights or threshold")
        count = _largest_cut(cut, validation, draws)
    elif ratio is not None:
        is_number = isinstance(ratio, Real) and not isinstance(ratio, bool)
        require(is_number and 1 <= ratio <= cut.total, "ratio", ratio, f"use a number from 1 to {cut.total}")
        count = max(1, round(cut.total / ratio))
    elif weights is not None:
        require_whole("weights", weights)
        require(weights <= cut.total, "weights", weights, f"use a whole number from 1 to {cut.total}")
        count = int(weights)
    else:
        assert threshold is not None
        is_number = isinstance(threshold, Real) and not isinstance(threshold, bool)
        require(is_number and 0 <= threshold < math.inf, "threshold", threshold, "use a number of nats from 0, say 0.5")
        if score == "magnitude":
            fix = ("use ", Argument("score", "saliency"), " or 'snr'")
            raise ParameterError("is in nats, and magnitudes are not", argument="threshold", value=threshold, fix=fix)
        return cut.made(cut.scores >= threshold, f"threshold={threshold:g} nats")
    return cut.to(count, "auto" if how else f"ratio={ratio:g}" if ratio is not None else f"weights={count}")


class Cut(NamedTuple):
    """A posterior and the ranking by which its weights go.

    Attributes:
        posterior: The posterior.
        score: Name of the score.
        by: "network" or "layer".
        scores: Score of each weight, (weights,); below 0 for those that are no weights of matrices and filters.
        total: Number of weights of matrices and filters.
    """

    posterior: Posterior[Any]
    score: Score
    by: By
    scores: Tensor
    total: int

    @classmethod
    def of(cls, posterior: Posterior[Any], score: Score, by: By, *, in_nats: bool = False) -> Cut:
        """Rank the weights of a posterior.

        Args:
            posterior: The posterior.
            score: What the weights are ranked by.
            by: Over what they are ranked.
            in_nats: Whether the scores are to be in nats.

        Returns:
            The ranking.

        Raises:
            ParameterError: If the network has no weights to remove, or the posterior does not hold the scores.
        """
        slots = prunable(posterior.model)
        if not slots:
            fix = "give a weight matrix of the model a prior"
            raise ParameterError("has no Bayesian matrices or filters", argument="posterior", fix=fix)
        values = weight_scores(posterior, score, nats=in_nats and score != "magnitude")
        scores = torch.full_like(values, -1.0)
        for slot in slots:
            slot.of(scores).copy_(slot.of(values))
        return cls(posterior, score, by, scores, sum(slot.stop - slot.start for slot in slots))

    def mask(self, count: int) -> Tensor:
        """Return which weights are left when so many are."""
        keep = torch.zeros_like(self.scores, dtype=torch.bool)
        if self.by == "network":
            keep[torch.topk(self.scores, count).indices] = True
            return keep
        for slot in prunable(self.posterior.model):
            own = slot.of(self.scores).reshape(-1)
            most = max(1, round(count * len(own) / self.total))
            slot.of(keep).view(-1)[torch.topk(own, most).indices] = True
        return keep

    def to(self, count: int, rule: str) -> Posterior[Any]:
        """Return the posterior with so many weights."""
        return self.made(self.mask(count), rule)

    def made(self, keep: Tensor, rule: str, *, quietly: bool = False) -> Posterior[Any]:
        """Return the posterior with these weights, those that cannot be removed, and the best of an empty layer."""
        keep, notes, moments = keep.clone(), [], moments_of(self.posterior)
        left = 0
        fixed = torch.ones_like(keep)
        for slot in prunable(self.posterior.model):
            own = slot.of(keep)
            slot.of(fixed).zero_()
            own &= slot.of(moments.keep)
            if not bool(own.any()):
                own.view(-1)[slot.of(self.scores).argmax()] = True
                notes.append(f"{slot.name} would have lost all {slot.stop - slot.start} weights and keeps its best")
            left += int(own.sum())
        if notes and not quietly:
            warnings.warn("; ".join(notes), PruningWarning, stacklevel=4)
        source = self.posterior.source
        inner = source.inner if isinstance(source, PrunedDraws) else source
        pruned = copy.copy(self.posterior)
        pruned.source = PrunedDraws(inner, keep | fixed)
        pruned.calibration = None
        if pruned.settings:
            method = method_from(pruned.settings["algorithm"])
            algorithm = describe(method if isinstance(method, Pruned) else Pruned(algorithm=method))
            facts = {"rule": rule, "score": self.score, "by": self.by, "kept": left, "of": self.total, "notes": notes}
            pruned.settings = {**pruned.settings, "algorithm": algorithm, "pruned": facts}
        return pruned


class Standing(NamedTuple):
    """How a posterior does on rows.

    Attributes:
        log_density: Mean log predictive density of a row, or log probability of its class.
        standard_error: Its standard error over the rows.
        error: Share of rows whose class is not the most probable one, or root mean squared error.
    """

    log_density: float
    standard_error: float
    error: float


def standing(posterior: Posterior[Any], rows: tuple[Any, Any], draws: int) -> Standing:
    """Predict rows and compare with their targets.

    Args:
        posterior: The posterior.
        rows: Inputs and targets in the user's units.
        draws: Number of posterior draws.

    Returns:
        How it does.

    Raises:
        DataError: If the rows do not fit the network.
    """
    predicted: Any = posterior.predict(rows[0], draws=draws)
    y = torch.as_tensor(rows[1]).to(predicted.mean.device)
    each = predicted.log_prob(y).double()
    if posterior.model.likelihood.has_classes and hasattr(predicted, "label"):
        error = float((predicted.label != y.reshape(predicted.label.shape)).double().mean())
    else:
        error = float((predicted.mean.double() - y.double().reshape(predicted.mean.shape)).square().mean().sqrt())
    spread = float(each.std()) if len(each) > 1 else 0.0
    return Standing(float(each.mean()), spread / math.sqrt(len(each)), error)


def require_rows(rows: object, argument: str, *, least: int = 1) -> tuple[Any, Any]:
    """Return rows as a pair; a `ParameterError` or `DataError` of one line if they are none, or too few."""
    if not isinstance(rows, (tuple, list)) or len(rows) != 2:
        raise ParameterError(("is a ", Value(type(rows))), argument=argument, fix="give a pair (x, y)")
    if len(rows[1]) < least:
        raise DataError(f"has {len(rows[1])} rows", argument=argument, fix=f"give {least} or more")
    return rows[0], rows[1]


def _largest_cut(cut: Cut, validation: tuple[Any, Any] | None, draws: int) -> int:
    """Return the least number of weights that "auto" keeps."""
    if validation is None:
        raise ParameterError("needs validation rows", argument="how", value="auto", fix=("give ", PAIR))
    rows = require_rows(validation, "validation", least=2)
    require_whole("draws", draws)
    whole = standing(cut.posterior, rows, draws)
    least = whole.log_density - whole.standard_error

    def passes(count: int) -> bool:
        tried = cut.made(cut.mask(count), "auto", quietly=True)
        return standing(tried, rows, draws).log_density >= least

    best = cut.total
    while best > 1:
        count = max(1, int(best / GRID))
        if not passes(count):
            break
        best = count
    else:
        return best
    for _ in range(BISECTIONS):
        middle = round(math.sqrt(count * best))
        if not count < middle < best:
            break
        if passes(middle):
            best = middle
        else:
            count = middle
    return best
