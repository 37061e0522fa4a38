"""Ordinal likelihood: classes in an order, as marks or degrees, by one output and learnt thresholds (cumulative logit).

    P(y <= k | w) = sigmoid(c_k - f(x)),   c_0 = -inf < c_1 < ... < c_(K-1) < c_K = inf,   k = 1, ..., K
    P(y = k | w)  = sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b)),   a = c_(k-1) - f,  b = c_k - f

(McCullagh, 1980; classes are numbered from 0 in targets). Thresholds begin at the logits of the cumulative shares of
the classes, which is the best constant prediction. The middle one stays there: the network's bias is the location, and
a second one would only drift. Gaps between thresholds have the prior Exp(1 / 5). Given the outputs, thresholds of one
parity are independent given the others, and chains draw each by a slice sampler (Neal, 2003), odd and even ones in
turn; variational steps follow the scores, each over its mean square.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from r2d2net.errors import Argument, DataError, ParameterError, Shown, Value
from r2d2net.likelihoods.base import Likelihood, Noise, Unit, variance_over_rows
from r2d2net.likelihoods.discrete import class_labels
from r2d2net.prediction import Classification
from r2d2net.priors.latent_noise import LOGISTIC

LEAST_GAP = 1e-3
MEAN_GAP = 5.0  # of the prior
LONGEST = 0.4  # of a variational step, as a share of the gap it closes
SHRINKS = 100
WIDTH = 10.0  # of a slice at first, over the root of the rows beside a threshold: about five deviations


@dataclass(frozen=True)
class Ordinal(Likelihood[Classification]):
    """y is one of K classes 0, 1, ..., K-1 in an order; the network gives one number, and thresholds are learnt.

    The learnt parameter is ``thresholds``, c_1 < ... < c_(K-1). The network needs a bias.

    Args:
        classes: K, at least 2; or the labels from the lowest to the highest, which `R2D2Classifier` reads.

    Raises:
        ParameterError: If there are fewer than two classes, or a label twice.

    >>> output, y = torch.zeros(3, 1), torch.tensor([0, 1, 2])
    >>> Ordinal(3).log_prob(output, y, {"thresholds": torch.tensor([-1.0, 1.0])}).exp()
    tensor([0.2689, 0.4621, 0.2689])
    """

    classes: int | tuple[str | int | float, ...]
    has_classes = True
    takes_noise_by_row = True

    def __post_init__(self) -> None:
        given = self.classes
        if isinstance(given, Sequence) and not isinstance(given, str):
            object.__setattr__(self, "classes", tuple(given))  # frozen; JSON makes lists of tuples
            wrong = len(set(given)) < len(given) or len(given) < 2
        else:
            wrong = isinstance(given, bool) or not isinstance(given, int) or given < 2
        if wrong:
            fix = "use a number from 2, or two labels or more in their order"
            raise ParameterError("are no classes", argument="classes", value=given, fix=fix)

    @property
    def count(self) -> int:
        """K, the number of classes."""
        return self.classes if isinstance(self.classes, int) else len(self.classes)

    @property
    def labels(self) -> tuple[str | int | float, ...] | None:
        """The labels from the lowest to the highest; None where there is only their number."""
        return None if isinstance(self.classes, int) else self.classes

    def target(self, y: Tensor) -> Tensor:
        labels = class_labels(y, "an ordinal likelihood")
        if labels.numel() and int(labels.max()) >= self.count:
            fix = f"the classes are 0, ..., {self.count - 1}: give more of them, or other targets"
            raise DataError(("holds class ", Value(int(labels.max()))), argument="y", fix=fix)
        return labels

    def outputs(self, y: Tensor) -> int | None:
        return 1

    def require_width(self, width: int, y: Tensor) -> None:
        if width != 1:
            problem = ("gives ", Value(width), " outputs, the likelihood Ordinal needs one")
            categorical = Argument("likelihood", Shown("rn.likelihoods.Categorical()"))
            fix = ("let net end in 1, or give ", categorical, " for classes without an order")
            raise DataError(problem, argument="net", fix=fix)

    def init(self, y: Tensor, unit: Unit | None = None) -> Noise:
        counts = torch.bincount(y.reshape(-1).long(), minlength=self.count).double() + 0.5
        shares = (counts.cumsum(0) / counts.sum())[:-1]
        return {"thresholds": torch.logit(shares).to(torch.get_default_dtype())}

    def observe(self, output: Tensor, y: Tensor, noise: Noise, rate: float) -> Noise:
        old = noise["thresholds"]
        thresholds, y = old.detach().double(), y.long()
        upper, lower = _ends(thresholds)
        f = _one_column(output.detach(), y).double()
        gaps = torch.expm1(upper - lower).reciprocal()  # 0 at the infinite ends
        raised = torch.sigmoid(f - upper[y]) + gaps[y]  # slope of a row's log probability by the threshold above it
        lowered = -torch.sigmoid(lower[y] - f) - gaps[y]
        slope, square = (
            torch.zeros(self.count + 1, dtype=torch.float64, device=y.device)
            .index_add(0, y + 1, raised**power)
            .index_add(0, y, lowered**power)[1:-1]
            / len(y)
            for power in (1, 2)
        )
        step = rate * slope / square.clamp(min=1e-12)
        room = torch.where(step > 0, (upper - lower)[1:], (upper - lower)[:-1]).clamp(max=1.0)
        step = torch.minimum(torch.maximum(step, -LONGEST * room), LONGEST * room)
        step[self.anchor] = 0.0
        return {"thresholds": self._apart(thresholds + step).to(old.dtype)}

    def gibbs(
        self,
        output: Tensor,
        y: Tensor,
        noise: Noise,
        generator: torch.Generator | None = None,
        weight: float = 1.0,
    ) -> Noise:
        old = noise["thresholds"]
        new, y = old.detach().double().clone(), y.long()
        f = _one_column(output.detach(), y).double()
        counts = torch.bincount(y, minlength=self.count).double()
        widths = WIDTH / (1 + counts[1:] + counts[:-1]).sqrt()
        places = torch.arange(self.count - 1, device=y.device)
        for parity in (0, 1):
            moved = places[(places % 2 == parity) & (places != self.anchor)]
            if len(moved) == 0:
                continue

            def log_density(proposed: Tensor, moved: Tensor = moved, parity: int = parity) -> Tensor:
                at = new.clone()
                at[moved] = proposed
                upper, lower = _ends(at)
                rows = weight * _log_prob(f, upper[y], lower[y])
                owner = torch.where(y % 2 == parity, y, y - 1)  # of the thresholds beside a row the one of this parity
                inside = (owner >= 0) & (owner < self.count - 1)
                total = torch.zeros_like(at).index_add(0, owner[inside], rows[inside])
                low, high = at[0].item(), at[-1].item()
                total[0] += low / MEAN_GAP  # of the gaps, whose sum the thresholds within do not change
                total[-1] -= high / MEAN_GAP
                is_out = (upper - lower)[:-1].minimum((upper - lower)[1:]) <= 0
                return total.masked_fill(is_out, -math.inf)[moved]

            new[moved] = _slice(log_density, new[moved], widths[moved], generator)
        return {"thresholds": self._apart(new).to(old.dtype)}

    def log_prob(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        y = y.long()
        upper, lower = _ends(noise["thresholds"])
        if upper.dim() == 1:
            above, below = upper[y], lower[y]
        else:
            above, below = (ends.gather(1, y.unsqueeze(1)).squeeze(1) for ends in (upper, lower))
        return _log_prob(_one_column(output, y), above, below)

    def predict(self, outputs: Tensor, noise: Noise, unit: Unit) -> Classification:
        upper, lower = _ends(noise["thresholds"].unsqueeze(-2))
        return Classification(_log_prob(outputs, upper, lower).exp())

    def explained_and_noise(self, outputs: Tensor, noise: Noise) -> tuple[Tensor, Tensor]:
        explained = variance_over_rows(outputs)
        return explained, torch.full_like(explained, LOGISTIC)

    @property
    def anchor(self) -> int:
        """Place of the threshold that stays where it begins."""
        return (self.count - 1) // 2

    def _apart(self, thresholds: Tensor) -> Tensor:
        """Move thresholds away from the middle one where they are closer than `LEAST_GAP`."""
        middle = thresholds[self.anchor]
        above = thresholds[self.anchor :].diff().clamp(min=LEAST_GAP).cumsum(0)
        below = thresholds[: self.anchor + 1].diff().clamp(min=LEAST_GAP).flip(0).cumsum(0).flip(0)
        return torch.cat([middle - below, middle[None], middle + above])


def _ends(thresholds: Tensor) -> tuple[Tensor, Tensor]:
    """Return the thresholds above and below each class, with the infinite ones."""
    end = torch.full_like(thresholds[..., :1], math.inf)
    return torch.cat([thresholds, end], -1), torch.cat([-end, thresholds], -1)


def _log_prob(f: Tensor, upper: Tensor, lower: Tensor) -> Tensor:
    """Return the log probability that f plus logistic noise lies between two thresholds."""
    within = torch.log(-torch.expm1(lower - upper))
    return functional.logsigmoid(upper - f) + functional.logsigmoid(f - lower) + within


def _one_column(output: Tensor, y: Tensor) -> Tensor:
    if output.numel() != len(y):
        problem = ("the network's output has shape ", Value(tuple(output.shape)))
        raise DataError(problem, fix=f"it must be ({len(y)}, 1)")
    return output.reshape(len(y))


def _slice(
    log_density: Callable[[Tensor], Tensor], start: Tensor, width: Tensor, generator: torch.Generator | None
) -> Tensor:
    """Draw each of independent numbers by one step of a slice sampler, which leaves its density invariant.

    The first slice has a given width, at a random place about the number; it shrinks until a proposal is taken.

    Args:
        log_density: Returns the log density of each number, but for constants.
        start: Where they are.
        width: Of the first slice of each number.
        generator: Source of randomness.

    Returns:
        Where they go.
    """

    def uniform() -> Tensor:
        return torch.rand(start.shape, generator=generator, dtype=start.dtype, device=start.device)

    level = log_density(start) + torch.log1p(-uniform())
    low = start - width * uniform()
    high = low + width
    new, settled = start.clone(), torch.zeros_like(start, dtype=torch.bool)
    for _ in range(SHRINKS):
        proposed = torch.where(settled, new, low + (high - low) * uniform())
        taken = ~settled & (log_density(proposed) > level)
        new, settled = torch.where(taken, proposed, new), settled | taken
        if bool(settled.all()):
            break
        low = torch.where(~settled & (proposed < start), proposed, low)
        high = torch.where(~settled & (proposed >= start), proposed, high)
    return new
