"""Deep ensembles (Lakshminarayanan, Pritzel and Blundell, 2017): networks trained from different starts, averaged.

A member is a run of MAP with its own start and order of rows; `fit` has them run side by side in processes. For
regression the authors let networks predict their noise too: that is the likelihood `Heteroscedastic` here. Their
adversarial training is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from r2d2net.errors import Argument, ParameterError, require_whole
from r2d2net.inference.collection import Collection, collected
from r2d2net.inference.descent import Training
from r2d2net.inference.point import Point, PointState
from r2d2net.model import BayesianModel, Tensors


@dataclass(frozen=True, kw_only=True)
class DeepEnsemble(Training):
    """Deep ensembles; the other arguments are those of `Training`, the priors those of `MAP`.

    Args:
        members: Networks of the ensemble.
    """

    suits_every_prior = False

    members: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("members", self.members)

    @property
    def runs(self) -> int:
        return self.members

    def require_batches(self, per_epoch: int) -> None:
        if self.members > 1 and self.start == "net" and per_epoch == 1:
            problem = "with all rows in one batch trains equal members"
            raise ParameterError(problem, argument="start", value="net", fix=("use ", Argument("start", "he")))

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> Member:
        return Member(self, model, n=n, steps=steps)

    def read(self, saved: Tensors, model: BayesianModel[Any], *, n: int, steps: int) -> Collection:
        return Collection.restored(model, saved, has_mean=False, are_chains=False)


class Member(Point):
    """One member of an ensemble, bound to a model."""

    def finish(self, state: PointState) -> Collection:
        draws = collected(state.step, self.source(state).center())
        return Collection(self.model, draws, has_mean=False, are_chains=False)
