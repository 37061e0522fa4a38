"""Coordinates in which one step size suits all weights: x = w sqrt(1/v(s) + h).

    p(w | s) = N(0, v(s))   becomes   p(x | s) = N(0, 1 + v h),      h_j = E (d log p(y | w) / dw_j)^2

v are the prior variances, which differ by many orders of magnitude and change as the scales s do; h is the precision
that the data add, learnt in the warm-up as a mean of squared gradients. (If the data alone say w ~ N(0, 1/H), then
1/v + h is between 3/4 and all of the posterior precision 1/v + H.) So a weight that the prior holds is moved in units
of its prior deviation, and one that the data hold in units of what they leave open, however large v is. With h = 0 this
is the non-centred form of a hierarchical model, with h >> 1/v the centred one.

The scales come in two ways: they are given while x moves, and drawn by the priors' sweeps in between (`GivenScales`,
for every prior), or they move along in unconstrained form, position = (x, u) (`JointScales`, where all are continuous).
Whatever the map from positions to weights is, it is fixed while a transition lasts; h is fixed after the warm-up.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from r2d2net.errors import Argument, ParameterError
from r2d2net.model import AnyPrior, BayesianModel, Slot
from r2d2net.priors.base import ContinuousScalePrior

EXACT = torch.float64  # of positions and scales, whatever the network's dtype
SWEEPS = 10  # over the scales at the start, so that they know the initial weights

Scales = dict[str, Any]  # parameter name -> the prior's scales
Map = Callable[[Tensor], tuple[Tensor, Tensor]]  # position -> its weights, and its log prior density but for a constant


class Frame(NamedTuple):
    """Parameters of the map from positions to weights, and statistics from which the next map is learnt."""

    scales: Scales  # those that are not part of the position
    curvature: Tensor  # h, (weights,)
    squares: Tensor  # mean of squared gradients, (weights,)
    seen: Tensor  # how many they are, an int64 scalar on the CPU


class Coordinates(ABC):
    """A map between positions of a sampler and weights."""

    def __init__(self, model: BayesianModel[Any]) -> None:
        self.model = model
        self.layers: list[tuple[Slot, AnyPrior]] = []  # with hierarchical priors
        self.known = torch.zeros(model.size, dtype=EXACT, device=model.device)  # log variances that are known
        for slot in model.bayesian:
            assert slot.prior is not None
            if slot.prior.known_deviation is not None:
                slot.of(self.known).fill_(2 * math.log(slot.prior.known_deviation))
            else:
                self.layers.append((slot, slot.prior))

    def start(self, weights: Tensor, generator: torch.Generator) -> tuple[Tensor, Frame]:
        """Return the position of given weights, and a frame with scales drawn given them and h = 0."""
        weights, none = weights.to(EXACT), torch.zeros_like(self.known)
        scales = {slot.name: self._from_prior(slot, prior, generator) for slot, prior in self.layers}
        for _ in range(SWEEPS):
            scales = self._swept(weights, scales, generator)
        return self._first(weights, Frame(scales, none, none, torch.zeros((), dtype=torch.int64)))

    @abstractmethod
    def at(self, frame: Frame) -> Map:
        """Return the differentiable map from a position to weights and log prior density in a frame."""

    def refresh(self, position: Tensor, frame: Frame, generator: torch.Generator) -> tuple[Tensor, Frame]:
        """Draw the scales that are not part of the position, and keep the weights."""
        return position, frame

    def observe(self, frame: Frame, gradient: Tensor, least_rate: float) -> Frame:
        """Add a gradient of the log likelihood to the mean of squares, with a weight of at least ``least_rate``."""
        seen = frame.seen + 1
        squares = torch.lerp(frame.squares, gradient.to(EXACT).square(), max(least_rate, 1 / int(seen)))
        return frame._replace(squares=squares, seen=seen)

    def adopt(self, position: Tensor, frame: Frame) -> tuple[Tensor, Frame, Tensor]:
        """Make the mean of squares the new h; return position, frame and the factors by which x has grown."""
        new = frame._replace(curvature=frame.squares)
        log_variance, size = self._log_variance(position, frame), self.model.size
        growth = torch.exp(_log_unit(log_variance, frame)[0] - _log_unit(log_variance, new)[0])
        return torch.cat([position[:size] * growth, position[size:]]), new, growth

    # --- scales

    @abstractmethod
    def _first(self, weights: Tensor, frame: Frame) -> tuple[Tensor, Frame]: ...

    @abstractmethod
    def _log_variance(self, position: Tensor, frame: Frame) -> Tensor:
        """Return log v of all weights."""

    def _from_prior(self, slot: Slot, prior: AnyPrior, generator: torch.Generator) -> Any:
        return prior.init_scales(slot.shape, generator, dtype=EXACT, device=self.model.device)

    def _swept(self, weights: Tensor, scales: Scales, generator: torch.Generator) -> Scales:
        return {s.name: prior.gibbs(s.of(weights), scales[s.name], generator) for s, prior in self.layers}

    def _together(self, log_variances: dict[str, Tensor]) -> Tensor:
        """Return log v of all weights, given those of the hierarchical priors."""
        if not log_variances:
            return self.known
        return torch.cat([log_variances.get(s.name, s.of(self.known)).reshape(-1) for s in self.model.bayesian])


def _log_unit(log_variance: Tensor, frame: Frame) -> tuple[Tensor, Tensor]:
    """Return log(w / x) = -log(1/v + h) / 2, and log(1 + v h)."""
    log_h = frame.curvature.clamp(min=torch.finfo(EXACT).tiny).log()
    surplus = softplus(log_variance + log_h, threshold=60)
    return 0.5 * (log_variance - surplus), surplus


class GivenScales(Coordinates):
    """Coordinates given the scales, which Gibbs sweeps of the priors draw."""

    def at(self, frame: Frame) -> Map:
        log_unit, surplus = _log_unit(self._log_variance(frame.curvature, frame), frame)
        unit, precision = log_unit.exp(), torch.exp(-surplus)
        return lambda x: (x * unit, -0.5 * (precision * x.square()).sum())

    def refresh(self, position: Tensor, frame: Frame, generator: torch.Generator) -> tuple[Tensor, Frame]:
        if not self.layers:
            return position, frame
        weights = self.at(frame)(position)[0]
        return self._first(weights, frame._replace(scales=self._swept(weights, frame.scales, generator)))

    def _first(self, weights: Tensor, frame: Frame) -> tuple[Tensor, Frame]:
        return weights * torch.exp(-_log_unit(self._log_variance(weights, frame), frame)[0]), frame

    def _log_variance(self, position: Tensor, frame: Frame) -> Tensor:
        return self._together({s.name: prior.variance(frame.scales[s.name]).log() for s, prior in self.layers})


class JointScales(Coordinates):
    """Joint coordinates of weights and unconstrained scales."""

    def __init__(self, model: BayesianModel[Any]) -> None:
        super().__init__(model)
        self.continuous: list[tuple[Slot, ContinuousScalePrior[Any]]] = []
        self.variables: list[tuple[Slot, str, torch.Size]] = []  # in the order in which they follow x
        for slot, prior in self.layers:
            if not isinstance(prior, ContinuousScalePrior):
                raise ParameterError(
                    f"does not suit the prior {type(prior).__name__} of {slot.name!r}, some of whose scales are "
                    "discrete",
                    argument="scales",
                    value="joint",
                    fix=("use ", Argument("scales", "gibbs")),
                )
            template = self._from_prior(slot, prior, torch.Generator(model.device).manual_seed(0))
            self.continuous.append((slot, prior))
            self.variables += [(slot, name, u.shape) for name, u in prior.unconstrained(template).items()]
        self.sizes = [model.size, *(shape.numel() for _, _, shape in self.variables)]

    def at(self, frame: Frame) -> Map:
        def weights_and_prior(position: Tensor) -> tuple[Tensor, Tensor]:
            x, u = self.parts(position)
            log_unit, surplus = _log_unit(self._log_variance_of(u), frame)
            log_prior = -0.5 * (torch.exp(-surplus) * x.square() + surplus).sum()
            for slot, prior in self.continuous:
                log_prior = log_prior + prior.log_prob_scales(u[slot.name])
            return x * log_unit.exp(), log_prior

        return weights_and_prior

    def parts(self, position: Tensor) -> tuple[Tensor, dict[str, dict[str, Tensor]]]:
        """Split a position into x and the unconstrained scales of each parameter with a hierarchical prior."""
        x, *rest = position.split(self.sizes)
        u: dict[str, dict[str, Tensor]] = {slot.name: {} for slot, _ in self.continuous}
        for (slot, name, shape), part in zip(self.variables, rest, strict=True):
            u[slot.name][name] = part.view(shape)
        return x, u

    def _first(self, weights: Tensor, frame: Frame) -> tuple[Tensor, Frame]:
        drawn = {slot.name: prior.unconstrained(frame.scales[slot.name]) for slot, prior in self.continuous}
        x = weights * torch.exp(-_log_unit(self._log_variance_of(drawn), frame)[0])
        flat = [drawn[slot.name][name].reshape(-1) for slot, name, _ in self.variables]
        return torch.cat([x, *flat]), frame._replace(scales={})

    def _log_variance(self, position: Tensor, frame: Frame) -> Tensor:
        return self._log_variance_of(self.parts(position)[1])

    def _log_variance_of(self, u: dict[str, dict[str, Tensor]]) -> Tensor:
        return self._together({slot.name: prior.log_variance(u[slot.name]) for slot, prior in self.continuous})
