"""Mean-field inference whose state is divided among processes, so that a network may be larger than one of them holds.

    rank r has    mu, rho, c, both moments of each, and the scales, of its slice of the weights: 1/k of them
    a step        draws e whole, w = mu + s e on each slice, gathers w; gradients of own rows; sums them to their owners

A weight costs a rank about 9 floats / k of state and 2 in a step: the draw and its gradient. The numbers are those of
`variational.MeanField` on as many ranks, up to the order of sums: e comes whole from the common generator, and sweeps
use it in turn (`sharded_sweeps`). Weights are drawn, never activations: the moments of these would take four vectors.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from r2d2net import devices
from r2d2net.cache_blocks import PIECE, Blocks
from r2d2net.errors import Argument, ParameterError, Shown
from r2d2net.inference.adam import no_moments
from r2d2net.inference.base import Batch, Draws, Info, Method, Trainer, unflatten
from r2d2net.inference.descent import flat, gradients_of, leaves_of, running_statistics, while_standing
from r2d2net.inference.mean_field_family import MeanFieldDraws, VariationalState, draw_by, in_log_scale
from r2d2net.inference.scale_updates import START_SWEEPS, Known, off_zero
from r2d2net.inference.sharded_state import ShardedState
from r2d2net.inference.sharded_sweeps import ShardedSweeps, spans_of
from r2d2net.inference.variational import ATTENTION_SHARE, Gradients, MeanField, Variational, _finite
from r2d2net.likelihoods.base import Noise, Unit
from r2d2net.model import Tensors
from r2d2net.ranks import RowSplit, Slices, bounds_of


def drawing_weights(method: Method) -> Method:
    """Return the settings for a run whose state may be divided among processes: they draw weights.

    Args:
        method: The algorithm.

    Returns:
        Its settings, with ``estimator="weights"``.

    Raises:
        ParameterError: If its state cannot be divided.
    """
    name = Shown(type(method).__name__)
    if not isinstance(method, Variational):
        fix = ("use svgi, cavi, svi, mfvi or radial, or ", Argument("ranks", "auto"))
        raise ParameterError("cannot divide its state among processes", argument="algorithm", value=name, fix=fix)
    for setting, value, needed in (("estimator", method.estimator, "weights"), ("compile", method.compile, False)):
        if value not in (None, needed, "auto"):
            problem = "does not go with a state divided among processes"
            raise ParameterError(problem, argument=setting, value=value, fix=f"use {needed!r}")
    return replace(method, estimator="weights", compile=False)


class ShardedMeanField(Trainer[VariationalState]):
    """Mean-field inference bound to a model and to the processes that divide its state.

    Args:
        trainer: The same for one process.
        split: The processes, among which the rows of a step are split too.
    """

    def __init__(self, trainer: MeanField, split: RowSplit) -> None:
        model, ranks = trainer.model, split.ranks
        self.model, self.settings, self.ranks = model, trainer.settings, ranks
        self.family, self.whole_blocks = trainer.family, trainer.blocks
        self.slices = Slices(ranks, bounds_of(spans_of(model), ranks.size, PIECE))
        self.sweeps = ShardedSweeps(model, trainer.scales.update, self.slices)
        self.tensors = ShardedState(self.slices, self.sweeps)
        spans = [(part.own.start, part.own.stop) for part in self.sweeps.parts if part.size]
        self.blocks = Blocks(spans, self.slices.of(trainer.descent.step_unit()))
        trainer.split_rows(split)
        self.inner = copy.copy(trainer)  # moves a slice as it would a whole vector
        self.inner.blocks, self.inner.local = self.blocks, None
        self.descent = trainer.descent

    # --- start

    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> VariationalState:
        model, own = self.model, self.slices.of
        weights, fixed = self.descent.start_weights(generator)
        scales = self.sweeps.start(generator)
        mean = own(weights).clone()
        start = model.he_scale().mul_(self.settings.initial_scale * (ATTENTION_SHARE if model.has_attention else 1))
        if self.sweeps.update.needs_draw:
            weights = off_zero(model, weights, start, generator)
        known = Known(own(weights).clone())
        start = own(start).clone()
        del weights
        if not self.sweeps.update.needs_draw:
            known = Known(mean, start.square().addcmul_(mean, mean))
        state = VariationalState(
            step=torch.zeros((), dtype=torch.int64),
            mean=mean,
            rho=torch.zeros_like(mean),
            fixed=fixed,
            precision=torch.ones_like(mean),
            moments={"mean": no_moments(mean), "rho": no_moments(mean), "fixed": no_moments(fixed)},
            scales=scales,
            noise=model.likelihood.init(y, unit),
            buffers=model.buffers(),
        )
        self.sweeps.refresh(state.scales, state.precision, known, generator, START_SWEEPS)
        for rho, *block in zip(*map(self.blocks.of, (state.rho, start, state.precision)), strict=True):
            rho.copy_(self.family.form.start(*block))
        return state

    # --- one step

    def step(self, state: VariationalState, batch: Batch, generator: torch.Generator) -> tuple[VariationalState, Info]:
        t, settings = int(state.step) + 1, self.settings
        sweeps = t % settings.sweep_every == 0
        keep = sweeps and self.sweeps.update.needs_draw and self.sweeps.update.averaging == 1
        drawn, noise, nll = self._descend(state, batch, generator, t, keep=keep)
        state = state._replace(step=state.step + 1, noise=noise)
        info = Info(nll, self.descent.learning_rate(t), self.inner.temperature(t))
        if sweeps and self._can_sweep(state, nll):
            self._sweep(state, drawn, generator)
        return state, info

    def _descend(
        self, state: VariationalState, batch: Batch, generator: torch.Generator, t: int, *, keep: bool
    ) -> tuple[Tensor | None, Noise, Tensor]:
        """Take a step of q(w); return this rank's slice of the draw if it is to be kept, the noise and the loss."""
        x, y = batch
        draws = self.settings.draws
        total = float(self.ranks.sum_(torch.tensor(float(len(y)), dtype=torch.float64, device=self.ranks.device)))
        rate, noise = self.descent.noise_rate(len(y), t) / draws, state.noise
        drawn, gradients = None, None
        for turn in range(draws):
            drawn = self._draw(state, generator)
            output, found = self._gradients(state, drawn, x, y, len(y) / total, keep=keep and turn == draws - 1)
            noise = self.descent.observe(output, y, noise, rate)
            if draws > 1:
                found = Gradients([g.clone() for g in found.mean], list(found.rho), found.fixed, found.nll)
            if gradients is None:
                gradients = found
            else:
                gradients.add_(found)
        assert gradients is not None
        if draws > 1:
            gradients.div_(draws)
        if self.settings.clip is not None:
            gradients = self._clipped(gradients, self.settings.clip)
        own = self.slices.of(drawn).clone() if keep and drawn is not None else None
        self.inner.move(state, gradients, None, self.inner.sizes(t, len(y)))
        return own, noise, gradients.nll

    def _draw(self, state: VariationalState, generator: torch.Generator, *, gather: bool = True) -> Tensor:
        """Draw all weights: those of this rank's slice, and by `gather` those of the others."""
        weights = self.family.noise.draw(self.model, generator)
        vectors = self.slices.of(weights), state.mean, state.rho, state.precision
        for block in zip(*map(self.blocks.of, vectors), strict=True):
            draw_by(self.family.form, torch.empty_like(block[0]), *block)
        if gather:
            self.slices.gather_(weights)
        return weights

    @while_standing
    @torch.enable_grad()
    def _gradients(
        self, state: VariationalState, drawn: Tensor, x: Any, y: Tensor, share: float, *, keep: bool
    ) -> tuple[Tensor, Gradients]:
        """Return the output for this rank's rows, and the gradients of all rows in its slice at drawn weights."""
        model = self.model
        leaves, fixed = leaves_of(model.bayesian, drawn), leaves_of(model.fixed, state.fixed)
        with self.descent.autocast():
            model.train(model.net)
            names = [slot.name for slot in (*model.bayesian, *model.fixed)]
            parameters = dict(zip(names, (*leaves, *fixed), strict=True))
            output = model.call(model.net, {**parameters, **state.buffers}, x).to(state.mean.dtype)
        loss = -model.likelihood.log_prob(output, y, state.noise).mean()
        in_weights, in_fixed = gradients_of(share * loss, [leaves, fixed])
        moving = [state.buffers[name] for name in running_statistics(model.net) if name in state.buffers]
        own = self._summed(share, [loss.detach(), *moving], in_fixed)
        for buffer, mean in zip(moving, own[1 : len(moving) + 1], strict=True):
            buffer.copy_(mean)
        spans = [(slot.start, slot.stop) for slot in model.bayesian]
        in_mean = self.blocks.gathered(self.slices.sums(in_weights, spans))
        return output.detach(), Gradients(
            in_mean, self._in_log(state, drawn, in_mean, keep), flat(own[len(moving) + 1 :], own[0]), own[0]
        )

    def _summed(self, share: float, means: Sequence[Tensor], sums: Sequence[Tensor]) -> list[Tensor]:
        """Return means over the ranks of some tensors and sums of others, by one message for each dtype."""
        weighted = [*(mean * share for mean in means), *sums]
        return [total.mul_(self.ranks.size) for total in self.ranks.averaged(weighted, 1)]

    def _in_log(
        self, state: VariationalState, drawn: Tensor, in_mean: Sequence[Tensor], keep: bool
    ) -> Iterator[Tensor]:
        """Yield the gradients in log s, block by block, in the memory of the draw unless it is to be kept."""
        blocks = self.blocks.of(self.slices.of(drawn))
        rooms = [None] * len(blocks) if keep else blocks
        return map(in_log_scale, blocks, self.blocks.of(state.mean), in_mean, rooms)

    def _clipped(self, gradients: Gradients, most: float) -> Gradients:
        """Return gradients scaled down to a joint norm of at most ``most`` over all ranks."""
        own = [g.clone() for g in (*gradients.mean, *gradients.rho)]
        square = self.ranks.sum_(sum((g.square().sum() for g in own), start=gradients.nll.new_zeros(())))
        factor = (most / (square + gradients.fixed.square().sum()).sqrt().clamp(min=1e-30)).clamp(max=1)
        half = len(own) // 2
        scaled = [g.mul_(factor) for g in own]
        return Gradients(scaled[:half], scaled[half:], gradients.fixed * factor, gradients.nll)

    # --- sweeps

    def _can_sweep(self, state: VariationalState, nll: Tensor) -> bool:
        """Tell whether the run is finite on all ranks, which all of them answer alike."""
        if devices.waits(state.mean.device):
            return True
        finite = torch.isfinite(nll + state.mean.sum() + state.rho.sum())
        return float(self.ranks.sum_((~finite).float().to(self.ranks.device))) == 0

    def _sweep(self, state: VariationalState, drawn: Tensor | None, generator: torch.Generator) -> None:
        update = self.sweeps.update
        if update.averaging < 1:
            own = self.slices.of(self._draw(state, generator, gather=False)).clone()
            known = Known(own, self.family.second_moment(state, self.blocks))
        elif update.needs_draw:
            assert drawn is not None
            known = Known(drawn)
        else:
            known = Known(state.mean, self.family.second_moment(state, self.blocks))
        if devices.waits(state.mean.device):
            second = known.second_moment
            known = Known(_finite(known.weights), None if second is None else _finite(second))
        self.sweeps.refresh(state.scales, state.precision, known, generator)

    # --- what others see of the state

    def source(self, state: VariationalState) -> MeanFieldDraws:
        """Build the distribution of networks on every rank, without what only training needs; all ranks call this."""
        names = "mean", "rho", "precision"
        whole = self.tensors.whole(state, everywhere=True, only=names)
        mean, rho, precision = (whole[name] for name in names)
        state = state._replace(mean=mean, rho=rho, precision=precision, scales={}, moments={})
        return MeanFieldDraws(self.model, state, self.family, self.whole_blocks)

    def finish(self, state: VariationalState) -> MeanFieldDraws:
        """Build the posterior's source of draws, whole, on every rank; all ranks call this."""
        whole: Tensors = self.tensors.whole(state, everywhere=True)
        return MeanFieldDraws(self.model, unflatten(self.tensors.form(state), whole), self.family, self.whole_blocks)

    def kl(self, state: VariationalState) -> None:
        """Return None: the divergence from the prior needs whole layers."""

    def present(self, state: VariationalState) -> Draws:
        """Return this rank's slice of the network of the means, and zeros around it; ranks do not wait here."""
        weights = torch.zeros(self.model.size, dtype=state.mean.dtype, device=state.mean.device)
        self.slices.of(weights).copy_(state.mean)
        return Draws.sharing(weights[None], state.fixed, state.buffers, state.noise)
