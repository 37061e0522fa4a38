"""How the scales of the priors are refreshed, given what an algorithm knows of the weights.

    Gibbs               s ~ p(s | w)  at a draw w                            SVGI, SGLD, SGHMC
    coordinate ascent   q(s) = argmax of the bound, given E w^2              CAVI, SVI, MFVI, Radial, MAP

An algorithm is composed of one of these updates and whatever it does to the weights; both write the new prior
precision 1 / v (or its expectation) of every weight in place.

Gibbs sweeps may average. Let w ~ q and v ~ p(v | w). By Fisher's identity d/dw log p(w) = -E[w / v | w], where p(w) is
the prior with its scales integrated out. So the KL of q to p(w), as mu and s are both multiplied by 1 + e, has the
slope

    d/de KL = -1 + E[w^2 / v] = -1 + c E w^2,    c = E[(w^2 / E w^2) / v],

for each weight, as has a KL to N(0, 1 / c). The mean of 1 / v itself is larger, infinite for priors with a pole at
zero: 1 / v is large where the draw is near zero, and there the slope does not notice. With ``averaging`` the precision
is a running mean of (w^2 / E w^2) / v, so of c, to the extent that a sweep forgets the scales before it (one sweep is
no independent draw from p(v | w)); scales that weights share are drawn as ever.

Given a weight of exactly zero the scales of a shrinkage prior fall to zero too (1 / v of 1e34), and neither ever
returns. Networks have such weights at the start: biases, or the second matrix of a low-rank adapter. So Gibbs sweeps
never see them: `off_zero` puts a draw of the initial q(w) = N(0, d^2) in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from r2d2net.cache_blocks import PIECE
from r2d2net.model import AnyPrior, BayesianModel, Slot

START_SWEEPS = 10  # refreshes of the scales at the start, so that they know the initial weights
ZERO_SHARE = 0.1  # deviation of what a chain starts from in place of zero, as a share of He's

Scales = dict[str, Any]  # parameter name -> the prior's scales


class Known(NamedTuple):
    """Values of the weights given which their scales are refreshed: a draw, or means and E w^2, or a draw and E w^2."""

    weights: Tensor
    second_moment: Tensor | None = None

    def of(self, slot: Slot) -> Known:
        """Return the values of one parameter."""
        return Known(slot.of(self.weights), None if self.second_moment is None else slot.of(self.second_moment))


class ScaleUpdate(Protocol):
    """One refresh of the scales of one parameter."""

    @property
    def needs_draw(self) -> bool:
        """Whether the update conditions on a draw of the weights rather than on E w^2."""

    @property
    def averaging(self) -> float:
        """Weight of a refresh in the running mean of the precision; below 1 a draw needs E w^2 beside it."""

    def __call__(
        self, prior: AnyPrior, scales: Any, precision: Tensor, known: Known, generator: torch.Generator
    ) -> Any:
        """Return new scales, with 1 / v written to ``precision``; the old scales may be overwritten."""

    def several(
        self,
        prior: AnyPrior,
        scales: Sequence[Any],
        precisions: Sequence[Tensor],
        known: Sequence[Known],
        generators: Sequence[torch.Generator],
    ) -> Sequence[Any]:
        """Return the new scales of several parameters with the same prior, one after the other or together."""


def one_by_one(
    update: ScaleUpdate,
    prior: AnyPrior,
    scales: Sequence[Any],
    precisions: Sequence[Tensor],
    known: Sequence[Known],
    generators: Sequence[torch.Generator],
) -> list[Any]:
    """Return the new scales of several parameters with the same prior, refreshed one after the other."""
    return [update(prior, *each) for each in zip(scales, precisions, known, generators, strict=True)]


def are_large(tensors: Sequence[Tensor]) -> bool:
    """Return whether tensors are more numbers than a cache holds, so that nothing is gained by joining them."""
    return sum(tensor.numel() for tensor in tensors) > PIECE


@dataclass(frozen=True)
class GibbsUpdate:
    """A Gibbs sweep of the scales given a draw of the weights.

    Args:
        compiled: Use fused kernels.
        averaging: Weight of a sweep in the running mean of the precision (see the module's docstring); at 1, or where
            E w^2 is not known, the precision is that of the drawn scales.
    """

    compiled: bool = False
    needs_draw: bool = True
    averaging: float = 1.0

    def __call__(
        self, prior: AnyPrior, scales: Any, precision: Tensor, known: Known, generator: torch.Generator
    ) -> Any:
        if known.second_moment is None or self.averaging == 1:
            return prior.gibbs_(known.weights, scales, precision, generator, compiled=self.compiled)
        mean = precision.clone()
        scales = prior.gibbs_(known.weights, scales, precision, generator, compiled=self.compiled)
        self._average(mean, precision, known)
        return scales

    def several(
        self,
        prior: AnyPrior,
        scales: Sequence[Any],
        precisions: Sequence[Tensor],
        known: Sequence[Known],
        generators: Sequence[torch.Generator],
    ) -> Sequence[Any]:
        if self.compiled or are_large(precisions):
            return one_by_one(self, prior, scales, precisions, known, generators)
        means = [precision.clone() if self.averaging < 1 else precision for precision in precisions]
        new = prior.gibbs_blocks_([own.weights for own in known], scales, precisions, generators)
        for mean, precision, own in zip(means, precisions, known, strict=True):
            if self.averaging < 1 and own.second_moment is not None:
                self._average(mean, precision, own)
        return new

    def _average(self, mean: Tensor, precision: Tensor, known: Known) -> None:
        """Replace drawn precisions by the running mean that they renew."""
        assert known.second_moment is not None
        tiny = torch.finfo(precision.dtype).tiny
        # in this order: w^2 may be 0 where w^2 / v is not
        precision.mul_(known.weights).mul_(known.weights).div_(known.second_moment.clamp(min=tiny))
        torch.lerp(mean, precision, self.averaging, out=precision)


@dataclass(frozen=True)
class CoordinateUpdate:
    """A coordinate-ascent sweep of q(scales) given E w^2; of weights that are points, E w^2 = w^2."""

    compiled: bool = False
    needs_draw: bool = False
    averaging: float = 1.0

    def __call__(
        self, prior: AnyPrior, scales: Any, precision: Tensor, known: Known, generator: torch.Generator
    ) -> Any:
        second = known.weights.square() if known.second_moment is None else known.second_moment
        return prior.cavi_(second, scales, precision, compiled=self.compiled)

    def several(
        self,
        prior: AnyPrior,
        scales: Sequence[Any],
        precisions: Sequence[Tensor],
        known: Sequence[Known],
        generators: Sequence[torch.Generator],
    ) -> Sequence[Any]:
        if self.compiled or are_large(precisions):
            return one_by_one(self, prior, scales, precisions, known, generators)
        seconds = [own.weights.square() if own.second_moment is None else own.second_moment for own in known]
        return prior.cavi_blocks_(seconds, scales, precisions)


def off_zero(model: BayesianModel[Any], weights: Tensor, deviation: Tensor, generator: torch.Generator) -> Tensor:
    """Replace weights of exactly zero whose prior has scales to learn by draws of N(0, deviation^2).

    Args:
        model: The model.
        weights: Bayesian weights at the start, (weights,).
        deviation: Deviation of the draws, (weights,).
        generator: Source of the draws; it is not used where there is nothing to replace.

    Returns:
        The weights themselves if there is nothing to replace, else a changed copy.
    """
    changed = weights
    for slot in model.bayesian:
        if slot.prior is None or slot.prior.known_deviation is not None:
            continue
        own = slot.of(weights)
        is_zero = own == 0
        if bool(is_zero.any()):
            changed = weights.clone() if changed is weights else changed
            drawn = torch.empty_like(own).normal_(generator=generator).mul_(slot.of(deviation))
            slot.of(changed).copy_(torch.where(is_zero, drawn, own))
    return changed


class ScaleSweeps:
    """The scales of all priors of a model, and the update by which they are refreshed."""

    def __init__(self, model: BayesianModel[Any], update: ScaleUpdate) -> None:
        self.model, self.update = model, update

    def start(self, generator: torch.Generator) -> Scales:
        """Draw the scales of every parameter from its prior."""
        model = self.model
        return {
            slot.name: slot.prior.init_scales(slot.shape, generator, dtype=model.dtype, device=model.device)
            for slot in model.bayesian
            if slot.prior is not None
        }

    def refresh(
        self, scales: Scales, precision: Tensor, known: Known, generator: torch.Generator, sweeps: int = 1
    ) -> None:
        """Refresh every parameter's scales and its entries of the precision 1 / v, in place."""
        if sweeps == 1:
            refresh_jointly(self.update, [Sweep(self.model, scales, precision, known, generator)])
            return
        for slot in self.model.bayesian:
            assert slot.prior is not None
            own_precision = slot.of(precision)
            if slot.prior.known_deviation is not None:
                own_precision.fill_(slot.prior.known_deviation**-2)
                continue
            own = known.of(slot)
            for _ in range(sweeps):
                scales[slot.name] = self.update(slot.prior, scales[slot.name], own_precision, own, generator)


class Sweep(NamedTuple):
    """The scales of one network that are to be refreshed, in place.

    Attributes:
        model: The network's model.
        scales: Its scales by the names of the parameters.
        precision: Its prior precision 1 / v, (weights,).
        known: Values of its weights.
        generator: Source of randomness.
    """

    model: BayesianModel[Any]
    scales: Scales
    precision: Tensor
    known: Known
    generator: torch.Generator


def refresh_jointly(update: ScaleUpdate, networks: Sequence[Sweep]) -> None:
    """Refresh the scales of networks; neighbouring layers of one prior go together, of all networks if all have it.

    Args:
        update: How the scales are refreshed.
        networks: The networks, of one architecture; a parameter has scales to learn in all of them or in none.
    """
    runs: list[list[int]] = []  # slots with scales to learn; those next to each other with the same priors form a run
    for index, slot in enumerate(networks[0].model.bayesian):
        assert slot.prior is not None
        if slot.prior.known_deviation is not None:
            for network in networks:
                own = network.model.bayesian[index].prior
                assert own is not None
                assert own.known_deviation is not None
                slot.of(network.precision).fill_(own.known_deviation**-2)
        elif runs and all(net.model.bayesian[index].prior is net.model.bayesian[runs[-1][0]].prior for net in networks):
            runs[-1].append(index)
        else:
            runs.append([index])
    for run in runs:
        for prior, together in _by_prior(networks, run[0]):
            slots = [(network, network.model.bayesian[index]) for network in together for index in run]
            new = update.several(
                prior,
                [network.scales[slot.name] for network, slot in slots],
                [slot.of(network.precision) for network, slot in slots],
                [network.known.of(slot) for network, slot in slots],
                [network.generator for network, _ in slots],
            )
            for (network, slot), scales in zip(slots, new, strict=True):
                network.scales[slot.name] = scales


def _by_prior(networks: Sequence[Sweep], index: int) -> list[tuple[AnyPrior, list[Sweep]]]:
    """Sort networks by the prior of one of their parameters."""
    found: list[tuple[AnyPrior, list[Sweep]]] = []
    for network in networks:
        prior = network.model.bayesian[index].prior
        assert prior is not None
        same = next((together for known, together in found if known is prior), None)
        if same is None:
            found.append((prior, [network]))
        else:
            same.append(network)
    return found
