"""Stochastic variational Gibbs inference: gradient steps on q(w), Gibbs sweeps of the scales given a draw of w.

The paper's algorithm, corrected: the ELBO has a KL gradient, the prior's sigma0 is fixed, the conditionals are the
right ones and every scale is as fresh as the sweep requires. It works with every prior of the library.

A step's KL is that of q(w) to N(0, v) at the scales drawn last, and 1 / v is largest when the draw of w happened to lie
near zero. With many weights for each row this shrinks what the data could have told from zero. There, under the R2D2
prior, the precision is a running mean over sweeps of (w^2 / E w^2) / v, which belongs to the KL to the prior with its
scales integrated out (see `scale_updates`). With more rows single draws tell better which weights are zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from r2d2net.errors import require
from r2d2net.inference.descent import require_positive
from r2d2net.inference.scale_updates import GibbsUpdate
from r2d2net.inference.variational import MeanField, Variational
from r2d2net.model import BayesianModel
from r2d2net.priors import R2D2

FEW_ROWS, WEIGHTS_PER_ROW = 1000, 5  # at most so many rows, and at least so many weights for each: rows are few
SHARE_OF_SWEEP = 0.1  # of the running mean, where rows are few
SHARE_WITH_ATTENTION = 0.02  # the same in networks with attention


@dataclass(frozen=True, kw_only=True)
class SVGI(Variational):
    """Stochastic variational Gibbs inference; the other arguments are those of `Variational`.

    Args:
        averaging: Weight of a sweep in the running mean of the prior precisions, in (0, 1]; at 1 the last draw stands
            alone, as in the paper. None takes 0.1 (0.02 for networks with attention) with at most 1,000 rows and at
            least 5 weights for each of them, where these have R2D2 priors and ``variance="free"``; else 1.
    """

    averaging: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("averaging", self.averaging, optional=True)
        require(self.averaging is None or self.averaging <= 1, "averaging", self.averaging, "use a number in (0, 1]")

    def averaging_of(self, model: BayesianModel[Any], n: int) -> float:
        """Return the weight of a sweep in the running mean of the precisions.

        Args:
            model: The model.
            n: Number of training rows.

        Returns:
            The user's number, or the default for so many rows.
        """
        if self.averaging is not None:
            return self.averaging
        share = SHARE_WITH_ATTENTION if model.has_attention else SHARE_OF_SWEEP
        return share if self.variance == "free" and averages(model, n) else 1.0

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> MeanField:
        update = GibbsUpdate(self.compile is True, averaging=self.averaging_of(model, n))
        return MeanField(self, model, update, n=n, steps=steps)


def averages(model: BayesianModel[Any], rows: int) -> bool:
    """Return whether sweeps are averaged by default: rows are few and all scales to learn are of R2D2 priors.

    Args:
        model: The model.
        rows: Number of training rows.

    Returns:
        Whether there are at most 1,000 rows and at least 5 weights for each, and no other prior has scales. Under the
        horseshoe and the adaptive prior averages were no better: see `results/benchmarks/few-rows-averaging.json`.
    """
    priors = [slot.prior for slot in model.bayesian if slot.prior is not None and slot.prior.has_scales]
    few = rows <= FEW_ROWS and model.size >= WEIGHTS_PER_ROW * rows
    return few and all(isinstance(prior, R2D2) for prior in priors)
