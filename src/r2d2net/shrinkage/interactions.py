"""Pairs of inputs that act together: Friedman's H statistic from partial dependences, for each posterior draw.

With p_j and p_jk the partial dependences of a draw (see `partial_dependence`) at rows x_1 ... x_n, each less its mean
over these rows, the interaction of inputs j and k is what their joint curve has beyond the sum of their own,

    d_jk(i) = p_jk(x_ij, x_ik) - p_j(x_ij) - p_k(x_ik)
    H_jk    = sqrt( sum_i d_jk(i)^2 / sum_i p_jk(x_ij, x_ik)^2 )           (Friedman and Popescu 2008)
    s_jk    = sum_i d_jk(i)^2 / sum_i (f(x_i) - mean f)^2                  its share of the output's variance

both 0 where f = g(x_j, others) + h(x_k, others). H is large for two inputs without any effect, whose joint curve is
noise: s says whether an interaction matters, and pairs are ranked by it. Of numbers f is the prediction in the user's
units; of classes the logits less their mean over classes (of ordinal ones, the cumulative logits), since probabilities
have bounds, which alone make inputs act together.

Of a table only some rows are used, and other rows would give another s. With s_(-g) what is found without the g-th of G
groups of these rows, a draw's error has the variance of the jackknife (Efron and Stein, 1981), taken of log s, as s has
no sign,

    v = (G - 1) / G sum_g (log s_(-g) - mean log s_(-g))^2

and intervals are those of the mixture over draws of log-normal laws exp N(log s, v): of the posterior and of the choice
of rows together. Where there is no posterior to speak of, intervals of 90% by 40 rows hold a known s in 83% to 90%.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import DataError, ParameterError, Value, require, require_whole
from r2d2net.likelihoods import Ordinal
from r2d2net.network_inputs import as_tensors
from r2d2net.posterior import Posterior
from r2d2net.prediction import Classification, Prediction, Regression
from r2d2net.shrinkage.partial_dependence import sums_by_group

ROWS = 40  # at which partial dependences are taken, and over which they average: the cost grows by their square
MOST_INPUTS = 20
GROUPS = 20  # of rows that are left out in turn
SMALLEST = 1e-18  # measures whose logarithm is taken are no smaller
TINY = 1e-7  # of a probability whose logarithm is taken


class Interactions(NamedTuple):
    """Interactions of pairs of inputs, summarised over posterior draws and the choice of rows.

    Attributes:
        pairs: Numbers of the two inputs of each pair, (pairs, 2).
        h: Posterior mean of H, (pairs,), or (pairs, targets) for several targets.
        h_low, h_high: Ends of its central interval, of which the choice of rows is a part.
        share: Posterior mean of s, the share of the output's variance that is the interaction, of the same shape.
        share_low, share_high: Ends of its central interval.
    """

    pairs: Tensor
    h: Tensor
    h_low: Tensor
    h_high: Tensor
    share: Tensor
    share_low: Tensor
    share_high: Tensor


@torch.no_grad()
def interactions(
    posterior: Posterior[Any],
    x: Any,
    *,
    groups: Sequence[Sequence[int]] | None = None,
    draws: int = 30,
    level: float = 0.9,
    rows: int = ROWS,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Interactions:
    """Compute how much each two of some inputs act together.

    Args:
        posterior: The fitted network.
        x: Rows, such as training inputs, (rows, columns), in the user's units.
        groups: For each input to compare the columns that belong to it; by default each column is an input.
        draws: Number of posterior draws.
        level: Probability of the intervals.
        rows: How many rows are used, drawn at random where there are more; the cost grows by their square.
        seed: Seed of draws and rows.
        progress: Is given how many curves are done, of how many.

    Returns:
        H and the share of the variance of each pair.

    Raises:
        DataError: If ``x`` is no table of three rows or more.
        ParameterError: If there are more than 20 inputs, or fewer than two, or another argument is out of its range.

    >>> from r2d2net import BayesianModel, fit
    >>> x = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    >>> posterior = fit(BayesianModel(torch.nn.Linear(3, 1)), (x, x[:, 0] + x[:, 1]), epochs=2, seed=0, verbose=False)
    >>> found = interactions(posterior, x, draws=5)  # of a linear network, which has none
    >>> found.pairs.tolist(), bool((found.share < 1e-6).all())
    ([[0, 1], [0, 2], [1, 2]], True)
    """
    require_whole("draws", draws)
    require(0 < level < 1, "level", level, "use a number between 0 and 1, such as 0.9")
    require(isinstance(rows, int) and rows >= 3, "rows", rows, "use a whole number from 3")
    table = as_tensors(x)
    if isinstance(table, tuple) or table.dim() != 2 or len(table) < 3:
        raise DataError("is no table of three rows or more", argument="x", fix="give one table (rows, columns)")
    inputs = [[i] for i in range(table.shape[1])] if groups is None else [list(group) for group in groups]
    known = all(group and all(isinstance(i, int) and 0 <= i < table.shape[1] for i in group) for group in inputs)
    require(known, "groups", groups, f"use lists of columns from 0 to {table.shape[1] - 1}, none of them empty")
    if not 2 <= len(inputs) <= MOST_INPUTS:
        fix = f"give the columns of 2 to {MOST_INPUTS} inputs"
        raise ParameterError(("are of ", Value(len(inputs)), " inputs"), argument="groups", fix=fix)
    order = torch.randperm(len(table), generator=torch.Generator().manual_seed(seed))
    table = table[order[:rows]]

    def predict(some: Tensor) -> Tensor:
        return _additive(posterior.predict(some, draws, seed=seed), posterior)

    pairs = list(combinations(range(len(inputs)), 2))
    total = len(inputs) + len(pairs)
    left_out = _Groups.of(table, seed)

    def curves(columns: list[int]) -> Tensor:
        return left_out.curves(sums_by_group(predict, table, columns, table[:, columns], left_out.member))

    own = []
    for done, group in enumerate(inputs, 1):
        own.append(curves(group))
        progress(done, total)
    spread = left_out.squares(left_out.centred(predict(table).unsqueeze(2).expand(-1, -1, left_out.variants, -1)))
    squares, shares = [], []
    for done, (j, k) in enumerate(pairs, len(inputs) + 1):
        joint = curves([*inputs[j], *inputs[k]])
        beyond = left_out.squares(joint - own[j] - own[k])
        squares.append(_ratio(beyond, left_out.squares(joint), posterior))
        shares.append(_ratio(beyond, spread, posterior))
        progress(done, total)
    h, share = torch.stack(squares, 1).sqrt(), torch.stack(shares, 1)  # (draws, pairs, 1 + groups) or (..., targets)
    tail = (1 - level) / 2
    return Interactions(torch.tensor(pairs), *_summary(h, tail), *_summary(share, tail))


class _Groups(NamedTuple):
    """Rows, and the same without one group of them after the other: the third dimension of curves.

    Attributes:
        member: 1 where a row is of a group, else 0, (rows, groups).
        kept: 1 where a row is used, (rows, 1 + groups); the first column uses all.
    """

    member: Tensor
    kept: Tensor

    @classmethod
    def of(cls, table: Tensor, seed: int) -> _Groups:
        """Divide rows, which are in random order, into groups."""
        count = min(GROUPS, len(table))
        group = torch.arange(len(table), device=table.device) % count
        member = torch.nn.functional.one_hot(group, count).double()
        return cls(member, torch.cat([torch.ones_like(member[:, :1]), 1 - member], 1))

    @property
    def variants(self) -> int:
        """One more than there are groups."""
        return self.kept.shape[1]

    def curves(self, sums: Tensor) -> Tensor:
        """Average over the rows that are used, and centre: (draws, values, 1 + groups, outputs)."""
        every = sums.sum(2, keepdim=True)
        return self.centred(torch.cat([every, every - sums], 2) / self.kept.sum(0)[:, None])

    def centred(self, curve: Tensor) -> Tensor:
        """Subtract the mean over the rows that are used; rows that are not become 0."""
        kept = self.kept[..., None]
        return (curve - (curve * kept).sum(1, keepdim=True) / kept.sum(0)) * kept

    def squares(self, curve: Tensor) -> Tensor:
        """Return the sums of squares over rows, (draws, 1 + groups, outputs)."""
        return curve.square().sum(1)


def _summary(values: Tensor, tail: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and ends of the interval of measures, whose third dimension is that of `_Groups`."""
    logs = values.clamp(min=SMALLEST).log()
    without = logs[:, :, 1:]
    variance = without.var(2, correction=0) * (without.shape[2] - 1)
    mixture = Regression(logs[:, :, 0], variance.clamp(min=SMALLEST))
    ends = [mixture.quantile(probability).exp() for probability in (tail, 1 - tail)]
    low, high = (end.where(end > 2 * SMALLEST, 0.0) for end in ends)
    return values[:, :, 0].mean(0), low, high


def _additive(prediction: Prediction, posterior: Posterior[Any]) -> Tensor:
    """Return predictions at each draw, (draws, rows, outputs): numbers, or of classes logits."""
    samples = prediction.samples.double()
    if not isinstance(prediction, Classification):
        return samples if samples.dim() == 3 else samples.unsqueeze(-1)
    if isinstance(posterior.model.likelihood, Ordinal):
        return torch.logit(samples.cumsum(-1)[..., :-1], eps=TINY)
    logits = samples.clamp(min=TINY).log()
    return logits - logits.mean(-1, keepdim=True)


def _ratio(part: Tensor, whole: Tensor, posterior: Posterior[Any]) -> Tensor:
    """Divide sums of squares: over all outputs of classes, of numbers each target by itself."""
    if posterior.model.likelihood.has_classes:
        part, whole = part.sum(-1), whole.sum(-1)
    shares = part / whole.clamp(min=torch.finfo(whole.dtype).tiny)
    return shares if shares.dim() == 2 or shares.shape[-1] > 1 else shares.squeeze(-1)
