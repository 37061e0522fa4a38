"""SVGI that carries on with new rows: what earlier rows said stands in for them as a normal likelihood.

Under q(w) = N(m, s^2) and the prior's N(0, 1 / c), what the rows so far said of a weight is the normal factor with

    precision  l = 1 / s^2 - c        shift  h = l m + c m        (log factor -l w^2 / 2 + h w)

where c m, the pull of the prior, is taken as sqrt(l) at most: it moves the factor's mean by no more than its deviation,
as c belongs to one draw of the scales, which may be anywhere.

With n new rows beside N earlier ones a step minimises, in place of the mean loss of a batch,

    n / (N + n) nll + (l w^2 / 2 - h w) / (N + n)               and the KL has the weight 1 / (N + n)

so that q moves from where it is to the posterior of all rows (streaming variational Bayes; Broderick et al., 2013). The
sweeps go on, so scales know all rows through q. A running mean of what the likelihood learns, such as the noise
variance, tends to n / (N + n) of that of the new rows and N / (N + n) of what it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.inference.base import Batch, Info, Method, flatten, unflatten
from r2d2net.inference.mean_field_family import FREE, MeanFieldDraws, VariationalState
from r2d2net.inference.scale_updates import GibbsUpdate
from r2d2net.inference.svgi import SVGI
from r2d2net.inference.variational import MeanField
from r2d2net.likelihoods.base import Unit
from r2d2net.model import BayesianModel

FEW_STEPS = 300  # fewer are smaller in proportion


class Past(NamedTuple):
    """What is known of earlier rows.

    Attributes:
        state: The state of the run so far.
        precision: Precision l of each weight that the rows gave.
        shift: h of each weight.
        rows: Number N of the rows.
    """

    state: VariationalState
    precision: Tensor
    shift: Tensor
    rows: int

    @classmethod
    def of(cls, source: MeanFieldDraws, rows: int) -> Past:
        """Take what a posterior knows.

        Args:
            source: The posterior's source of draws.
            rows: Number of rows that it is of.
        """
        state = source.state
        if source.family.form is FREE:
            precision = state.rho.exp()
        else:
            precision = (source.deviation().square().reciprocal() - state.precision).clamp(min=0)
        most = precision.sqrt()
        pull = torch.minimum(torch.maximum(state.precision * state.mean, -most), most)
        return cls(state, precision, precision * state.mean + pull, rows)


@dataclass(frozen=True)
class CarryOn(Method):
    """SVGI from where a posterior is, to that of its rows and new ones.

    Args:
        settings: The settings of the run so far.
        past: What is known of its rows.
    """

    settings: SVGI
    past: Past

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> CarriedOn:
        return CarriedOn(self, model, n=n, steps=steps)


class CarriedOn(MeanField):
    """SVGI of new rows, bound to a model."""

    def __init__(self, method: CarryOn, model: BayesianModel[Any], *, n: int, steps: int) -> None:
        self.past, self.total = method.past, method.past.rows + n
        self.share = n / self.total
        settings = replace(method.settings, warm_up=0.0, compile=False)  # q need not be found first
        update = GibbsUpdate(averaging=settings.averaging_of(model, self.total))
        super().__init__(settings, model, update, n=self.total, steps=steps)
        if settings.lr is None:  # few steps as large as at a start would leave q anywhere
            self.descent.largest_step *= min(1.0, steps / FEW_STEPS)
        self.joint = None  # whose loss is the mean of the batch alone

    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> VariationalState:
        """Return the state of the run so far, with the moments of Adam set back."""
        state = unflatten(self.past.state, {name: part.clone() for name, part in flatten(self.past.state).items()})
        for first, second in state.moments.values():
            first.zero_()
            second.zero_()
        return state._replace(step=torch.zeros((), dtype=torch.int64))

    def step(self, state: VariationalState, batch: Batch, generator: torch.Generator) -> tuple[VariationalState, Info]:
        before, rate = state.noise, self.descent.noise_rate(len(batch[1]), int(state.step) + 1)
        state, info = super().step(state, batch, generator)
        old = self.past.state.noise
        kept = {name: torch.lerp(before[name], old[name], rate) for name in before}
        noise = {name: torch.lerp(kept[name], new, self.share) for name, new in state.noise.items()}
        return state._replace(noise=noise), info

    def objective(self, loss: Tensor, leaves: Sequence[Sequence[Tensor]]) -> Tensor:
        """Return the loss of the batch and that of what stands for earlier rows."""
        total = self.share * loss
        for slot, *parts in zip(self.model.bayesian, *leaves, strict=True):
            precision, shift = slot.of(self.past.precision), slot.of(self.past.shift)
            squares = sum((part.square() for part in parts), start=torch.zeros_like(precision))
            total = total + (precision * squares / 2 - shift * parts[0]).sum() / self.total
        return total
