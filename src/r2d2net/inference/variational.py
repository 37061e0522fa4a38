"""Mean-field Gaussian inference over the weights, whatever the prior: the engine of SVGI, CAVI, SVI and MFVI.

    q(w_j) = N(mu_j, s_j^2),    1 / s_j^2 = c_j + lambda_j,  lambda_j = exp(rho_j)    "free"
                                s_j = softplus(rho_j) sqrt(v_j)                       "scaled", the paper's

minimise per datum    -E_q[log p(y | x, w)] + (temperature / N) KL(q(w) q(scales) || p(w, scales)),

with c_j = 1 / v_j the prior precision of each weight and lambda_j what the data add to it: the optimal variance has
this form. So a weight without data follows its prior at once when a sweep of the scales moves it, up or down. Were
log s_j the parameter, its fall would be quick and its rise slow: weights once near zero would never leave it.

One step: draw w, take the gradients g_mu, g_s of the negative log likelihood in mu and s, then

    d/dmu  = g_mu + beta c mu                                        beta = temperature / N
    d/drho = -(lambda s^2 / 2) (g_s s - beta lambda s^2)

No automatic differentiation goes through the KL. The term in c is proximal (see `adam`); of d/drho Adam gets the last
factor, which is zero where d/drho is and does not vanish where the prior rules. Every ``sweep_every`` steps the scales
are refreshed and with them c.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import Tensor

from r2d2net import devices
from r2d2net.cache_blocks import Whole, fused
from r2d2net.errors import is_number, require, require_whole
from r2d2net.inference.adam import Step, no_moments
from r2d2net.inference.base import Batch, DrawSource, Info, Trainer
from r2d2net.inference.descent import (
    Descent,
    Training,
    clip_gradients,
    flat,
    gradients_of,
    leaves_of,
    require_one_of,
    require_positive,
    while_standing,
)
from r2d2net.inference.graphed_step import graphed_step_of
from r2d2net.inference.joint_step import JointStep, Rows, Sizes, joint_step_of
from r2d2net.inference.local_reparametrization import LocalReparametrization, is_cheap_for
from r2d2net.inference.mean_field_family import (
    FREE,
    SCALED,
    Family,
    MeanFieldDraws,
    Piece,
    VariationalState,
    draw_by,
    in_log_scale,
    update_by_numbers,
)
from r2d2net.inference.native_step import NativeScales, NativeStep, native_problem
from r2d2net.inference.scale_updates import START_SWEEPS, Known, ScaleSweeps, ScaleUpdate, off_zero
from r2d2net.likelihoods.base import Noise, Unit
from r2d2net.model import BayesianModel, Tensors
from r2d2net.ranks import RowSplit

WARM_UP = 0.6  # share of the steps
LARGE = 1 << 20  # weights, from which deviations are computed twice in a step and not kept: a float a weight less
ATTENTION_WARM_UP = 1.0  # the same of networks with attention, which are constant for many steps at first
ATTENTION_SHARE = 0.1  # of the initial deviation, in networks with attention
RHO_SHARE = 1 / 3  # step size of rho as a share of that of the means


def _finite(weights: Tensor) -> Tensor:
    """Return weights with numbers in place of nan, given which every prior has scales."""
    return torch.nan_to_num(weights, nan=1.0, posinf=1e15, neginf=-1e15)


class Gradients(NamedTuple):
    """Gradients of the loss in means and log deviations (by block) and deterministic parameters, and the loss value."""

    mean: Sequence[Tensor]
    rho: Iterable[Tensor]  # a block is computed when it is needed, while the cache still holds its inputs
    fixed: Tensor
    nll: Tensor

    def owned(self) -> Gradients:
        """Return gradients that may be changed in place: autograd shares a tensor between leaves that are added."""
        return Gradients([g.clone() for g in self.mean], list(self.rho), self.fixed, self.nll)

    def add_(self, others: Gradients) -> None:
        """Add the gradients of another draw."""
        for mine, theirs in zip(self.tensors(), others.tensors(), strict=True):
            mine.add_(theirs)

    def div_(self, draws: int) -> None:
        """Divide sums over draws by their number."""
        for tensor in self.tensors():
            tensor.div_(draws)

    def tensors(self) -> list[Tensor]:
        """Return all tensors."""
        return [*self.mean, *self.rho, self.fixed, self.nll]


@dataclass(frozen=True, kw_only=True)
class Variational(Training):
    """Settings shared by SVGI, CAVI, SVI, MFVI and Radial; the others are those of `Training`.

    Args:
        lr_rho: Largest step size for rho; by default a third of lr (SVI and Radial: a twentieth).
        variance: "free" or "scaled" (see the module's docstring).
        initial_scale: s at the start, as a share of He's sqrt(2 / fan-in); networks with attention start at a tenth of
            it, since noise in many layers of one width adds up, but for adapters of zero, which would stay there.
        warm_up: Share of the steps over which the KL's weight rises from 0 to 1; None takes 0.6, however few the rows,
            and 1 for networks with attention.
            Without it a network of few rows is shrunk to a constant before the likelihood is heard, and stays there:
            see `results/benchmarks/few-rows.json`.
        draws: Weight draws averaged in each step.
        compile: True fuses a step's update and the sweeps by torch.compile. The first step then waits for a compiler,
            which the machine must have; a long run of a large network is the quicker for it. "native" takes kernels
            that are compiled when the package is installed (see `native_step`), with random numbers of their own: for
            float32 networks on the CPU, SVGI, CAVI and MFVI. "auto" takes them where they are built and suit the
            network, so that numbers may depend on the machine; `posterior.settings` then says "native" or False.
            "graphs" records the step of a small perceptron on a CUDA device as a CUDA graph (see `graphed_step`).
        estimator: "local" draws the activations of Linear and Conv layers that a pass calls once, "weights" the
            weights; the former costs up to twice as much a step and its gradients have less noise. None decides:
            "local" where all Bayesian weights are of linear layers and no more than 100,000, without attention.
    """

    lr_rho: float | None = None
    variance: Literal["free", "scaled"] = "free"
    initial_scale: float = 0.1
    warm_up: float | None = None
    draws: int = 1
    compile: bool | Literal["native", "graphs", "auto"] = False
    estimator: Literal["weights", "local"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("lr_rho", self.lr_rho, optional=True)
        require_positive("initial_scale", self.initial_scale)
        require_whole("draws", self.draws)
        known = isinstance(self.compile, bool) or self.compile in ("native", "graphs", "auto")
        require(known, "compile", self.compile, "use True, False, 'native', 'graphs' or 'auto'")
        require_one_of("variance", self.variance, ("free", "scaled"))
        if self.estimator is not None:
            require_one_of("estimator", self.estimator, ("weights", "local"))
        if self.warm_up is not None:
            require(
                is_number(self.warm_up) and 0 <= self.warm_up <= 1,
                "warm_up",
                self.warm_up,
                "use a share between 0 and 1",
            )

    @property
    def family(self) -> Family:
        """The family of q(w): normal, with the deviations that the settings name."""
        return Family({"free": FREE, "scaled": SCALED}[self.variance])

    def settled(self, model: BayesianModel[Any]) -> Self:
        settled = super().settled(model)
        if settled.compile != "auto":
            return settled
        return replace(settled, compile="native" if native_problem(model, self.family) is None else False)

    def read(self, saved: Tensors, model: BayesianModel[Any], *, n: int, steps: int) -> DrawSource[Any]:
        # a finished run needs no kernels, which the machine that reads it may not have
        read = replace(self, compile=False) if isinstance(self.compile, str) else self
        return super(Variational, read).read(saved, model, n=n, steps=steps)


class MeanField(Trainer[VariationalState]):
    """Mean-field inference bound to a model.

    Args:
        settings: The algorithm's settings.
        model: The model.
        update: How the scales of the priors are refreshed.
        rho_share: Step size of rho as a share of that of the means, where the user gives no ``lr_rho``.
        n: Number of training rows.
        steps: Number of steps of the whole run.
    """

    def __init__(
        self,
        settings: Variational,
        model: BayesianModel[Any],
        update: ScaleUpdate,
        rho_share: float = RHO_SHARE,
        *,
        n: int,
        steps: int,
    ) -> None:
        settings = settings.settled(model)
        self.settings, self.model, self.rho_share = settings, model, rho_share
        self.descent = Descent(settings, model, n=n, steps=steps)
        self.family = settings.family
        self.native = NativeStep(model, self.family) if settings.compile == "native" else None
        self.scales = ScaleSweeps(model, update if self.native is None else NativeScales(update))
        self.blocks = Whole(self.descent.step_unit()) if settings.compile is True else self.descent.blocks
        local = is_cheap_for(model) if settings.estimator is None else settings.estimator == "local"
        self.local = LocalReparametrization(model) if local else None
        rising = ATTENTION_WARM_UP if model.has_attention else WARM_UP
        self.warm_up = rising if settings.warm_up is None else settings.warm_up
        is_plain = settings.draws == 1 and settings.compile in (False, "graphs")
        self.joint: JointStep | None = joint_step_of(model, self.descent) if is_plain else None
        graphs = settings.compile == "graphs"
        self.graphed = graphed_step_of(model, self.joint, self.family) if graphs else None
        self.rows = Rows()
        self.own_temperature: Callable[[int], float] | None = None

    # --- start

    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> VariationalState:
        """Return the state before the first step."""
        model = self.model
        mean, fixed = self.descent.start_weights(generator)
        scales = self.scales.start(generator)  # first, as it needs much room
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
        start = self._first_deviation(mean)
        if self.scales.update.needs_draw:
            known = Known(off_zero(model, mean, start, generator))
        else:
            known = Known(mean, start.square().addcmul_(mean, mean))
        self.scales.refresh(state.scales, state.precision, known, generator, START_SWEEPS)
        del known
        for rho, *block in zip(*map(self.blocks.of, (state.rho, start, state.precision)), strict=True):
            rho.copy_(self.family.form.start(*block))
        return state

    def _first_deviation(self, mean: Tensor) -> Tensor:
        """Return the initial deviations: a tenth in networks with attention, but for weights of exactly zero.

        Those are of adapters, and at no solution yet. Sure that they are zero, their prior would keep them there.
        """
        share = self.settings.initial_scale
        if not self.model.has_attention:
            return self.model.he_scale().mul_(share)
        wide, start = self.model.he_scale().mul_(share), self.model.he_scale().mul_(share * ATTENTION_SHARE)
        for slot in self.model.bayesian:
            if slot.prior is not None and slot.prior.known_deviation is None:
                own = slot.of(start)
                own.copy_(torch.where(slot.of(mean) == 0, slot.of(wide), own))
        return start

    # --- one step

    def split_rows(self, split: RowSplit) -> None:
        self.descent.split, self.joint, self.graphed = split, None, None

    @property
    def draws_apart(self) -> bool:
        """Whether each of several processes draws weights of its own in a step."""
        return self.descent.split is not None and self.descent.split.apart

    def step(self, state: VariationalState, batch: Batch, generator: torch.Generator) -> tuple[VariationalState, Info]:
        t = int(state.step) + 1
        drawn, noise, nll = self._descend(state, batch, generator, t)
        state = state._replace(step=state.step + 1, noise=noise)
        info = Info(nll, self.descent.learning_rate(t), self.temperature(t))
        if t % self.settings.sweep_every == 0 and self.can_sweep(state, nll):
            self.sweep(state, drawn, generator)
        return state, info

    def can_sweep(self, state: VariationalState, nll: Tensor) -> bool:
        """Tell whether the run is finite: no prior has scales for the weights of one that diverged.

        Args:
            state: The state.
            nll: Loss of the last batch.

        Returns:
            Whether it is; on an accelerator, for which the host would have to wait, always True.
        """
        return devices.waits(state.mean.device) or bool(torch.isfinite(nll + state.mean.sum() + state.rho.sum()))

    def sweep(self, state: VariationalState, drawn: Tensor | None, generator: torch.Generator) -> None:
        """Refresh the scales given the moments of q, the step's draw of the weights, or a new draw and the moments."""
        update = self.scales.update
        if update.averaging < 1:
            known = Known(self.draw(state, generator)[0], self.family.second_moment(state, self.blocks))
        elif update.needs_draw:
            known = Known(self.draw(state, generator)[0] if drawn is None else drawn)
        else:
            known = Known(state.mean, self.second_moment(state))
        if devices.waits(state.mean.device):  # that a run diverged shows when the epoch ends
            second = known.second_moment
            known = Known(_finite(known.weights), None if second is None else _finite(second))
        self.scales.refresh(state.scales, state.precision, known, generator)

    def second_moment(self, state: VariationalState) -> Tensor:
        """Return E w^2 under q."""
        if self.native is not None:
            return self.native.second_moment(state)
        return self.family.second_moment(state, self.blocks)

    def draw(self, state: VariationalState, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """Draw all weights; return them with their deviations, or None for these in very large networks."""
        if self.native is not None:
            return self.native.draw(state, generator), None
        cut, weights = self.blocks, self.family.noise.draw(self.model, generator)
        scale = torch.empty_like(weights) if self.model.size <= LARGE else None
        rooms = map(torch.empty_like, cut.of(weights)) if scale is None else cut.of(scale)
        for block in zip(rooms, *map(cut.of, (weights, state.mean, state.rho, state.precision)), strict=True):
            self.compiled(draw_by)(self.family.form, *block)
        return weights, scale

    def _draw_or_deviation(
        self, state: VariationalState, generator: torch.Generator
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return a draw of all weights and their deviations; the latter alone where activations are to be drawn."""
        if self.local is not None:
            return None, self.family.deviation(state, self.blocks)
        return self.draw(state, generator)

    def _descend(
        self, state: VariationalState, batch: Batch, generator: torch.Generator, t: int
    ) -> tuple[Tensor | None, Noise, Tensor]:
        """Take a step of q(w); return the draw of the weights if a sweep needs it, the noise and the loss."""
        settings = self.settings
        x, y = batch
        noise = state.noise
        if self.joint is not None and self.joint.takes(x):
            return self._descend_jointly(state, x, y, generator, t)
        keep = self.scales.update.needs_draw and t % settings.sweep_every == 0 and not self.draws_apart
        for_rows = self.descent.row_generator(generator, t)
        for_weights = for_rows if self.draws_apart else generator
        drawn, scale = self._draw_or_deviation(state, for_weights)
        rate = self.descent.noise_rate(len(y), t) / settings.draws
        output, gradients = self._gradients(state, drawn, scale, x, y, for_rows, keep=keep)
        noise = self.descent.observe(output, y, noise, rate)  # at once: the output may be a view of the draw
        if settings.draws > 1 or settings.clip is not None:
            gradients = gradients.owned()
        for _ in range(settings.draws - 1):
            drawn = None if drawn is None else self.draw(state, for_weights)[0]
            output, others = self._gradients(state, drawn, scale, x, y, for_rows, keep=keep)
            noise = self.descent.observe(output, y, noise, rate)
            gradients.add_(others)
        if settings.draws > 1:
            gradients.div_(settings.draws)
        if settings.clip is not None:
            clip_gradients([*gradients.mean, *gradients.rho, gradients.fixed], settings.clip)
        self.move(state, gradients, scale, self.sizes(t, len(y)), at_draw=self._defers(drawn))
        return drawn if keep else None, noise, gradients.nll

    def move(
        self,
        state: VariationalState,
        gradients: Gradients,
        scale: Tensor | None,
        sizes: Sizes,
        *,
        at_draw: bool = False,
    ) -> None:
        """Move q(w) and the deterministic parameters by the likelihood's gradients and those of the KL, in place.

        Args:
            state: The state.
            gradients: Gradients of the mean loss of a batch.
            scale: Deviations of the weights, which are overwritten; None computes them block by block.
            sizes: Number and sizes of the step.
            at_draw: Whether ``gradients.rho`` are draws, of which native kernels make the gradients.
        """
        moments, t, lr = state.moments, sizes.t, sizes.lr
        if self.native is not None:
            rates = t, lr, sizes.lr_rho
            self.native.update(state, self.blocks, (gradients.mean, gradients.rho), rates, sizes.beta, at_draw=at_draw)
            self.descent.step_fixed(state.fixed, gradients.fixed, moments["fixed"], t, lr)
            return
        scales = self.family.deviations(state, self.blocks) if scale is None else self.blocks.of(scale)
        vectors = state.mean, state.rho, state.precision, *moments["mean"], *moments["rho"]
        lists = scales, *map(self.blocks.of, vectors), gradients.mean, gradients.rho, self.blocks.units
        for *piece, unit in zip(*lists, strict=True):
            self._update(Piece(*piece), unit, sizes)
        self.descent.step_fixed(state.fixed, gradients.fixed, moments["fixed"], t, lr)

    def _descend_jointly(
        self, state: VariationalState, x: Tensor, y: Tensor, generator: torch.Generator, t: int
    ) -> tuple[Tensor | None, Noise, Tensor]:
        """Take a step of q(w) as the only one of several posteriors."""
        assert self.joint is not None
        noise = {name: tensor.unsqueeze(0) for name, tensor in state.noise.items()}
        matrices, rows, sizes = self.rows.of(state), (x.unsqueeze(0), y.unsqueeze(0)), self.sizes(t, len(y))
        local = self.local is not None
        if self.graphed is not None:
            drawn, noise, nll = self.graphed(matrices, noise, rows, generator, sizes, local=local)
        else:
            moves = self.joint.moves(sizes)
            drawn, noise, nll = self.joint.mean_field(
                self.family, matrices, noise, rows, [generator], moves, local=local
            )
        noise = {name: tensor.squeeze(0) for name, tensor in noise.items()}
        return None if drawn is None else drawn.squeeze(0), noise, nll.squeeze(0)

    def draws_globally(self, batch: Batch) -> bool:
        return self.joint is None or not self.joint.takes(batch[0])

    def sizes(self, t: int, rows: int) -> Sizes:
        """Return the sizes of step t, of a batch of so many rows."""
        lr, beta = self.descent.learning_rate(t), self.temperature(t) / self.descent.n
        return Sizes(t, lr, self.rho_rate(lr), beta, self.descent.noise_rate(rows, t))

    def _update(self, piece: Piece, unit: float | Tensor, sizes: Sizes) -> None:
        t, lr, beta, rho_step = sizes.t, sizes.lr, sizes.beta, Step.at(sizes.t, sizes.lr_rho)
        if isinstance(unit, Tensor):
            numbers = torch.tensor([*Step.at(t, lr)[:4], *rho_step[:4], beta], dtype=unit.dtype, device=unit.device)
            fused(update_by_numbers)(self.family.form, piece, unit, numbers)
        else:
            self.family.form.update(piece, Step.at(t, lr * unit), rho_step, beta)

    def _gradients(
        self,
        state: VariationalState,
        drawn: Tensor | None,
        scale: Tensor | None,
        x: Any,
        y: Tensor,
        generator: torch.Generator,
        *,
        keep: bool = False,
    ) -> tuple[Tensor, Gradients]:
        """Return the output and the gradients at a draw of the weights, or of the activations where there is none.

        The gradients overwrite the draw unless it is to be kept.
        """
        cut = self.blocks
        in_log: Iterator[Tensor]
        if drawn is None:
            assert scale is not None
            output, loss, (g_mean, g_scale, g_fixed) = self._backward(state, (state.mean, scale), x, y, generator)
            in_mean = cut.gathered(g_mean)
            in_log = map(torch.mul, cut.gathered(g_scale), cut.of(scale))
        else:
            output, loss, (g_mean, *g_log, g_fixed) = self._backward(state, (drawn,), x, y, generator)
            in_mean = cut.gathered(g_mean)
            if g_log:
                return output, Gradients(in_mean, cut.gathered(g_log[0]), flat(g_fixed, loss), loss)
            if self._defers(drawn):
                return output, Gradients(in_mean, cut.of(drawn), flat(g_fixed, loss), loss)
            rooms = [None] * len(in_mean) if keep else cut.of(drawn)
            in_log = map(self.compiled(in_log_scale), cut.of(drawn), cut.of(state.mean), in_mean, rooms)
        return output, Gradients(in_mean, in_log, flat(g_fixed, loss), loss)

    def _defers(self, drawn: Tensor | None) -> bool:
        """Whether the native update makes the gradient in log s of the draw itself: that of one draw, not clipped."""
        one = self.settings.draws == 1 and self.settings.clip is None
        return self.native is not None and drawn is not None and one and not self.draws_apart

    @while_standing
    @torch.enable_grad()
    def _backward(
        self, state: VariationalState, vectors: tuple[Tensor, ...], x: Any, y: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, list[list[Tensor]]]:
        """Return output, loss and gradients at drawn weights, or at means and deviations of drawn activations.

        Where each of several processes has drawn weights of its own there are gradients in log s too.
        """
        model = self.model
        leaves = [leaves_of(model.bayesian, vector) for vector in vectors]
        fixed = leaves_of(model.fixed, state.fixed)
        with self.descent.autocast():
            if len(leaves) == 1:
                names = [slot.name for slot in (*model.bayesian, *model.fixed)]
                model.train(model.net)
                parameters = dict(zip(names, (*leaves[0], *fixed), strict=True))
                output = model.call(model.net, {**parameters, **state.buffers}, x)
            else:
                assert self.local is not None
                output = self.local.forward(leaves[0], leaves[1], fixed, state.buffers, x, generator)
        output = output.to(state.mean.dtype)
        loss = -model.likelihood.log_prob(output, y, state.noise).mean()
        gradients = gradients_of(self.objective(loss, leaves), [*leaves, fixed])
        if self.local is not None:
            self.local.require_no_repetition()
        if self.draws_apart and len(leaves) == 1:
            draws = zip(model.bayesian, gradients[0], strict=True)
            in_log = [(slot.of(vectors[0]) - slot.of(state.mean)).mul_(g) for slot, g in draws]
            gradients.insert(1, in_log)
        loss, gradients = self.descent.shared(loss.detach(), gradients, state.buffers, len(y))
        return output.detach(), loss, gradients

    def objective(self, loss: Tensor, leaves: Sequence[Sequence[Tensor]]) -> Tensor:
        """Return what a step minimises, the KL apart.

        Args:
            loss: Mean negative log likelihood of the batch.
            leaves: Drawn weights by parameter; or their means, and their deviations.

        Returns:
            The loss itself.
        """
        return loss

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, compiled if the settings say so."""
        return fused(function) if self.settings.compile is True else function

    def rho_rate(self, lr: float) -> float:
        """Return the step size of rho, given ``lr``, that of the means."""
        settings = self.settings
        return lr * (self.rho_share if settings.lr_rho is None else settings.lr_rho / self.descent.largest_step)

    def with_schedule(
        self, lr: Callable[[int], float] | None = None, temperature: Callable[[int], float] | None = None
    ) -> Self:
        """Build the same trainer with step sizes and a weight of the KL of one's own.

        Args:
            lr: Gives the step size of step 1, 2, ..., in the units of the settings' ``step_unit``; None keeps that of
                the settings.
            temperature: Gives the weight of the KL; None keeps that of the settings.

        Returns:
            The new trainer.
        """
        changed = copy.copy(self)
        changed.own_temperature = self.own_temperature if temperature is None else temperature
        if lr is not None:
            changed.descent = copy.copy(self.descent)
            changed.descent.own_schedule = lr
        return changed

    def temperature(self, t: int) -> float:
        """Return the weight of the KL at step t."""
        if self.own_temperature is not None:
            return self.own_temperature(t)
        rising = min(1.0, t / (self.warm_up * self.descent.steps)) if self.warm_up > 0 else 1.0
        return self.settings.temperature * rising

    def source(self, state: VariationalState) -> MeanFieldDraws:
        return MeanFieldDraws(self.model, state, self.family, self.blocks)
