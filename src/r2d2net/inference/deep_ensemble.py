"""Deep ensembles (Lakshminarayanan, Pritzel and Blundell, 2017): networks trained from different starts, averaged.

A member is a run of MAP with its own start and order of rows; `fit` has them run side by side in processes. For
regression the authors let networks predict their noise too: that is the likelihood `Heteroscedastic` here. Their
adversarial training is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from r2d2net.errors import require_whole
from r2d2net.inference.base import Running
from r2d2net.inference.collection import Collection, CollectionState, collected
from r2d2net.inference.descent import Training
from r2d2net.inference.point import Point, PointState
from r2d2net.model import BayesianModel


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

    def build(self, model: BayesianModel, *, n: int, steps: int) -> Member:
        return Member(self, model, n=n, steps=steps)

    def reader(self, model: BayesianModel, *, n: int, steps: int) -> Running:
        return Collection(model, has_mean=False)


class Member(Point):
    """One member of an ensemble, bound to a model."""

    def finish(self, state: PointState) -> tuple[Running, CollectionState]:
        return Collection(self.model, has_mean=False), collected(state.step, self.center(state))
