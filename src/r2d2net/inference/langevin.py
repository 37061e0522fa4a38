"""Langevin dynamics on minibatch gradients, the prior's part solved exactly: the engine of SGLD and SGHMC.

    target    p(w | y, s)  ∝  p(y | x, w)^(1/T) prod_j N(w_j | 0, 1 / c_j),      s | w  by Gibbs sweeps

A step sees the gradient g of a batch's mean negative log likelihood. The prior's precision c_j = 1 / v_j(s) is constant
between two sweeps and may be 1e10: an explicit step would explode, and an implicit one give the weight too small
a variance, to which the next sweep would answer with a larger c_j, and so on to zero. So the force c_j w_j and its
noise are integrated in closed form: without data weights have exactly their prior's law, whatever the step size.

Step sizes are l_j = lr P_j: a step moves a weight by l_j g_j. The metric P is 1, or

    P_j = u_j / sqrt(q_j + mean of q over the tensor),      q_j a running mean of g_j^2,      u_j He's deviation,

learnt only while no draws are kept (Springenberg et al., 2016): those are of a chain with a constant metric, which
has the same target. Step sizes that the curvature does not bear are reduced, all by one factor (see `stability`). It is
renewed during the burn-in, every 8 to 64 steps, and at its end, and constant while draws are kept: so it changes how
far a step goes, and not the law that the chain has in the limit of small steps.

The batches' own noise is not corrected for: as l_j -> 0 it adds l_j N Var(g_j) / 2 to the temperature of SGLD, and
(2 - f) / (2 f) times that to SGHMC's of friction f.

A `Kernel` is what a step does. A method may explore by one, before draws are kept, and sample by another; `Timetable`
says when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from r2d2net.errors import Argument, ParameterError, require, require_whole
from r2d2net.inference.adam import EPSILON
from r2d2net.inference.base import Batch, Draws, Info, Trainer
from r2d2net.inference.collection import Collection, CollectionState, Kept, collected, first, keep, no_draws, room_for
from r2d2net.inference.curvature import largest_curvature, random_states, restore_random
from r2d2net.inference.descent import SHORT_RUN, Descent, Training, clip_gradients, require_one_of, while_standing
from r2d2net.inference.joint_step import JointStep, joint_step_of
from r2d2net.inference.scale_updates import START_SWEEPS, ZERO_SHARE, GibbsUpdate, Known, ScaleSweeps, off_zero
from r2d2net.inference.stability import Watch, cap, run_away, seen, start_watch
from r2d2net.inference.timetable import Timetable
from r2d2net.likelihoods.base import Noise, Unit
from r2d2net.model import BayesianModel, Slot, Tensors
from r2d2net.ranks import RowSplit

LARGEST_STEP = 0.1  # of runs of SHORT_RUN steps or fewer, in units of He's deviation
PLAIN_STEP = 0.01  # without a preconditioner
FEWEST_DRAWS = 100  # kept where the user does not say: so many, or up to twice as many
REFRESHES, LONGEST_PERIOD = 64, 32  # of step sizes: so many in a cycle, so many steps apart at most
RENEWAL = 8  # fewest steps between two measurements of the curvature in the burn-in; else two periods
SQUARES_RATE = 0.01  # least weight of a batch in the running mean of squared gradients


@dataclass(frozen=True, kw_only=True)
class Sampling(Training):
    """Settings shared by SGLD and SGHMC.

    Args:
        lr: Largest step size: a weight moves by it times the gradient of the mean loss. With the preconditioner, whose
            gradients are of size 1, in units of He's sqrt(2 / fan-in). None decides: 0.1 up to 800 steps, and less in
            longer runs as steps^(-1/2); 0.01 without preconditioner. Where the curvature of the loss does not bear
            it, steps are as large as it does (see `stability`).
        schedule: "cosine" lets the step size fall to a tenth over the burn-in, with which draws are then made;
            "constant" keeps it.
        temperature: Weight of the prior; 1 is Bayes' rule. The likelihood is raised to the power of one over it.
        sweep_every: Steps between two Gibbs sweeps of the scales of hierarchical priors.
        start, clip, autocast: As in `Training`. Clipped gradients are those of no target.
        preconditioner: "rms" learns a step size for every weight during the burn-in, "none" gives all the same.
        burn_in: Share of the steps, or of each cycle, before draws are kept.
        thin: Steps between two draws that are kept; None keeps 100 to 200 in all.
        cycles: Number of cycles: after each the step size is large again, to find another mode, and weights move
            without noise before draws are kept. Under hierarchical priors the noise stays on: without it weights fall
            to zero, their scales follow, and neither returns.
        memory: Most bytes that a chain's draws may take; where they would take more, they are thinned further.
        chains: Independent chains, run side by side: those of a small perceptron in one pass, others in processes.
    """

    optimizes: ClassVar[bool] = False

    preconditioner: Literal["rms", "none"] = "rms"
    burn_in: float = 0.5
    thin: int | None = None
    cycles: int | None = None
    memory: int = 1 << 30
    chains: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("preconditioner", self.preconditioner, ("rms", "none"))
        is_share = isinstance(self.burn_in, (int, float)) and 0 <= self.burn_in < 1
        require(is_share, "burn_in", self.burn_in, "use a share from 0 to below 1")
        for name in ("thin", "cycles", "memory", "chains"):
            value = getattr(self, name)
            if value is not None or name in ("memory", "chains"):
                require_whole(name, value)

    @property
    def runs(self) -> int:
        return self.chains

    def read(self, saved: Tensors, model: BayesianModel[Any], *, n: int, steps: int) -> Collection:
        return Collection.restored(model, saved, has_mean=self.has_mean(model))

    def has_mean(self, model: BayesianModel[Any]) -> bool:
        """Test whether the mean of a chain's draws is a useful network: several cycles find different solutions.

        Args:
            model: The model.

        Returns:
            True for a linear model or a single cycle.
        """
        return model.is_linear or (self.cycles or 1) == 1


class LangevinState(NamedTuple):
    """State of a chain; ``coefficients`` are those of a step, as the last sweep computed them."""

    step: Tensor  # number of steps taken, an int64 scalar on the CPU
    weights: Tensor  # (weights,)
    fixed: Tensor  # deterministic parameters
    velocity: Tensors  # of "weights" and "fixed"
    precision: Tensor  # c, (weights,)
    squares: Tensors  # q of "weights" and "fixed", where the metric is learnt
    coefficients: Tensors
    scales: dict[str, Any]  # parameter name -> the prior's scales
    noise: Noise
    buffers: Tensors
    watch: Watch
    kept: Kept


Gradients = dict[str, list[Tensor]]  # of "weights" and "fixed": those of each tensor, flat, (..., entries)


class Kernel(Protocol):
    """An integrator of one step; ``beta`` = T / N is the weight of the prior in a mean over rows.

    All it does is elementwise: the vectors of a state may be matrices that hold those of several chains as rows.
    """

    limit: ClassVar[float]  # largest product of step size and curvature at which the integrator is stable

    def prepare(self, state: LangevinState, steps: Tensors, beta: float) -> None:
        """Compute the coefficients of steps of sizes l ("weights", "fixed"), in place."""

    def move(self, state: LangevinState, gradients: Gradients, normal: Tensor) -> None:
        """Take one step in place; ``normal`` is standard normal noise, of the shape of the weights."""


class Langevin(Trainer[LangevinState]):
    """Langevin dynamics bound to a model.

    Args:
        settings: The method's settings.
        model: The model.
        exploring: What a step does before draws are kept.
        sampling: What a step does while they are.
        coefficients: Names of the vectors that the kernels prepare, each of the size of the weights.
        n: Number of training rows.
        steps: Number of steps of the whole run.
    """

    def __init__(
        self,
        settings: Sampling,
        model: BayesianModel[Any],
        exploring: Kernel,
        sampling: Kernel,
        coefficients: Sequence[str],
        *,
        n: int,
        steps: int,
    ) -> None:
        self.settings, self.model = settings, model
        self.descent = Descent(settings, model, n=n, steps=steps, default_lr=default_step(settings, steps))
        self.scales = ScaleSweeps(model, GibbsUpdate())
        self.exploring, self.sampling, self.names = exploring, sampling, tuple(coefficients)
        self.beta = settings.temperature / n
        if settings.cycles is not None and settings.cycles > steps // 2:
            problem = f"of {steps} steps: a cycle needs two or more"
            raise ParameterError(problem, argument="cycles", value=settings.cycles, fix="use fewer cycles")
        self.times = Timetable(steps, settings.cycles, settings.burn_in, settings.schedule == "cosine")
        self.learns_metric = settings.preconditioner == "rms"
        if self.learns_metric and self.times.exploring == 0:
            raise ParameterError(
                f"of {self.times.length} steps leaves the preconditioner nothing to learn from",
                argument="burn_in",
                value=settings.burn_in,
                fix=("use a longer ", Argument("burn_in"), ", or ", Argument("preconditioner", "none")),
            )
        sampled = self.times.sampled(steps)
        self.every = max(1, sampled // FEWEST_DRAWS) if settings.thin is None else settings.thin
        self.planned = sampled // self.every
        if self.planned == 0:
            raise ParameterError(
                (
                    f"keeps no draw: the burn-in leaves {sampled} of {steps} steps, and ",
                    Argument("thin", settings.thin),
                ),
                argument="algorithm",
                value=type(settings),
                fix=("use more ", Argument("epochs"), ", or less of these"),
            )
        # for a step's noise: fresh pages would cost more than what is done in them
        self.room = torch.empty(model.size, dtype=model.dtype, device=model.device)
        self.hierarchical = any(slot.prior is not None and slot.prior.has_scales for slot in model.bayesian)
        self.period = max(1, min(LONGEST_PERIOD, self.times.length // REFRESHES))
        self.joint: JointStep | None = joint_step_of(model, self.descent)  # for several chains: see `langevin_members`

    @property
    def store(self) -> int:
        """Bytes that the stored draws of a chain take, without buffers and noise."""
        network = (self.model.size + self.model.fixed_size) * self.room.element_size()
        return min(self.planned * network, self.settings.memory)

    def learning_rate(self, t: int) -> float:
        """Return the step size at step t of the run."""
        return self.descent.largest_step * self.times.step_size(t)

    def sweeps(self, t: int) -> bool:
        """Return whether the scales are refreshed at step t."""
        return self.hierarchical and (self.times.starts(t) or (t - 1) % self.settings.sweep_every == 0)

    def is_due(self, t: int) -> bool:
        """Return whether coefficients are recomputed at step t: with the scales, and as step size and metric change."""
        return self.sweeps(t) or self.times.starts(t) or (self.times.explores(t) and (t - 1) % self.period == 0)

    def measures_curvature(self, t: int) -> bool:
        """Return whether the curvature is measured at step t: at the start of a phase, and during the burn-in."""
        return self.times.starts(t) or (self.times.explores(t) and (t - 1) % max(RENEWAL, 2 * self.period) == 0)

    # --- start

    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> LangevinState:
        model = self.model
        weights, fixed = self.descent.start_weights(generator)
        weights = off_zero(model, weights, model.he_scale().mul_(ZERO_SHARE), generator)
        noise, buffers = model.likelihood.init(y, unit), model.buffers()
        network = Draws.sharing(weights[None], fixed, buffers, noise)

        def zeros() -> Tensors:
            return {"weights": torch.zeros_like(weights), "fixed": torch.zeros_like(fixed)}

        state = LangevinState(
            step=torch.zeros((), dtype=torch.int64),
            weights=weights,
            fixed=fixed,
            velocity=zeros(),
            precision=torch.ones_like(weights),
            squares=zeros() if self.learns_metric else {},
            coefficients={**{name: torch.ones_like(weights) for name in self.names}, "fixed": torch.ones_like(fixed)},
            scales=self.scales.start(generator),
            noise=noise,
            buffers=buffers,
            watch=start_watch(y, noise),
            kept=no_draws(room_for(self.planned, network, self.settings.memory), network, self.every),
        )
        self.scales.refresh(state.scales, state.precision, Known(weights), generator, START_SWEEPS)
        return state

    # --- one step

    def split_rows(self, split: RowSplit) -> None:
        self.descent.split, self.joint = split, None

    def step(self, state: LangevinState, batch: Batch, generator: torch.Generator) -> tuple[LangevinState, Info]:
        t = int(state.step) + 1
        x, y = batch
        masks = random_states(self.model.device) if self.measures_curvature(t) else None
        output, nll, gradients = self._gradients(state, x, y)
        noise = self.descent.observe(output, y, state.noise, self.descent.noise_rate(len(y), t))
        if self.settings.clip is not None:
            clip_gradients([*gradients["weights"], *gradients["fixed"]], self.settings.clip)
        self.learn_metric(state, gradients, t)
        if masks is not None:
            state.watch.curvature.copy_(self._curvature(state, x, y, gradients, masks))
        # diverged weights have no scales
        if self.is_due(t) and bool(torch.isfinite(nll + state.weights.sum())):
            if self.sweeps(t):
                self.scales.refresh(state.scales, state.precision, Known(state.weights), generator)
            self.prepare(state, t)
        self.kernel(t).move(state, gradients, self.room.normal_(generator=generator))
        state = state._replace(step=state.step + 1, noise=noise, watch=seen(state.watch, nll, noise, t))
        if not self.times.explores(t):
            state = state._replace(kept=keep(state.kept, self.present(state), self.times.sampled(t)))
        return state, Info(nll, self.learning_rate(t), self.settings.temperature)

    def kernel(self, t: int) -> Kernel:
        """Return the integrator of step t."""
        return self.exploring if self.times.explores(t) else self.sampling

    def learn_metric(self, state: LangevinState, gradients: Gradients, t: int) -> None:
        """Renew the running means of squared gradients by those of step t, in place, where they are learnt."""
        if not self.learns_metric or not self.times.explores(t):
            return
        rate = max(SQUARES_RATE, 1 / (t - self.times.sampled(t)))
        for name, squares in state.squares.items():
            for q, g in zip(split_like(squares, gradients[name]), gradients[name], strict=True):
                q.mul_(1 - rate).addcmul_(g, g, value=rate)

    def prepare(self, state: LangevinState, t: int) -> None:
        """Compute the coefficients of step t, in place."""
        lr, kernel = self.learning_rate(t), self.kernel(t)
        factor = cap(lr, state.watch.curvature, kernel.limit).unsqueeze(-1)  # one of each chain
        kernel.prepare(state, {name: step.mul_(factor) for name, step in self.step_sizes(state, lr).items()}, self.beta)
        if self.times.explores(t) and self.settings.cycles is not None:
            self._silence(state.coefficients["spread"])

    @while_standing
    @torch.enable_grad()
    def _gradients(self, state: LangevinState, x: Any, y: Tensor) -> tuple[Tensor, Tensor, Gradients]:
        """Return the output, the mean loss and its gradients."""
        model = self.model
        # Each tensor a leaf of its own: the gradient of a slice of the flat vector would be as long as the vector.
        leaves = {k: v.detach().requires_grad_() for k, v in model.parameters(state.weights, state.fixed).items()}
        model.train(model.net)
        with self.descent.autocast():
            output = model.call(model.net, {**leaves, **state.buffers}, x)
        output = output.to(state.weights.dtype)
        loss = -model.likelihood.log_prob(output, y, state.noise).mean()
        parts = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
        nll, (flat,) = self.descent.shared(loss.detach(), [[part.reshape(-1) for part in parts]], state.buffers, len(y))
        count = len(model.bayesian)
        return output.detach(), nll, {"weights": flat[:count], "fixed": flat[count:]}

    def step_sizes(self, state: LangevinState, lr: float) -> Tensors:
        """Return the step sizes l of the weights and of the deterministic parameters."""
        if not self.learns_metric:
            return {"weights": torch.full_like(state.weights, lr), "fixed": torch.full_like(state.fixed, lr)}
        return {
            "weights": metric(state.squares["weights"], self.descent.step_unit(), self.model.bayesian).mul_(lr),
            "fixed": metric(state.squares["fixed"], self.descent.fixed_step_unit(), self.model.fixed).mul_(lr),
        }

    def _curvature(self, state: LangevinState, x: Any, y: Tensor, gradients: Gradients, masks: list[Tensor]) -> Tensor:
        """Return the largest curvature of the batch's loss under the metric; Dropout repeats the masks of the step."""
        size, names, device = self.model.size, ("weights", "fixed"), self.model.device
        after = random_states(device)

        def gradient(shift: Tensor) -> Tensor:
            restore_random(masks, device)
            moved = state._replace(
                weights=state.weights + shift[:size],
                fixed=state.fixed + shift[size:],
                buffers={name: buffer.clone() for name, buffer in state.buffers.items()},
            )
            return together(self._gradients(moved, x, y)[2])

        def together(parts: Gradients) -> Tensor:
            return torch.cat([part for name in names for part in parts[name]])

        metric = torch.cat([self.step_sizes(state, 1.0)[name] for name in names])
        unit = torch.cat([self.model.he_scale(), self.model.fixed_he_scale()])
        found = largest_curvature(gradient, together(gradients), metric, unit)
        restore_random(after, device)
        return found

    def _silence(self, spread: Tensor) -> None:
        """Remove the noise of weights whose prior has no scales; others need it to follow their scales."""
        for slot in self.model.bayesian:
            if slot.prior is not None and not slot.prior.has_scales:
                slot.of(spread).zero_()

    # --- what the state says

    def source(self, state: LangevinState) -> Collection:
        """Return the stored draws; before the first is stored, the current network."""
        number = int(state.kept.number)
        draws = first(state.kept.draws, number) if number else self.present(state)
        buffers, noise = ({k: v[None] for k, v in tensors.items()} for tensors in (draws.buffers, draws.noise))
        none = torch.zeros(1, dtype=torch.int64)
        return self._collection(
            CollectionState(state.step, draws.weights[None], draws.fixed[None], buffers, noise, none)
        )

    def finish(self, state: LangevinState) -> Collection:
        kept = first(state.kept.draws, int(state.kept.number))
        return self._collection(collected(state.step, kept))

    def _collection(self, stored: CollectionState) -> Collection:
        return Collection(self.model, stored, has_mean=self.settings.has_mean(self.model))

    def run_away(self, state: LangevinState) -> str | None:
        return run_away(state.watch, state.noise) if not self.times.explores(int(state.step)) else None

    def present(self, state: LangevinState) -> Draws:
        return Draws.sharing(state.weights[None], state.fixed, state.buffers, state.noise)


def default_step(settings: Sampling, steps: int) -> float:
    """Return the largest step size of a run of this length, where the user gives none."""
    if settings.preconditioner == "none":
        return PLAIN_STEP
    return LARGEST_STEP * min(1.0, SHORT_RUN / steps) ** 0.5


def split_like(vector: Tensor, parts: Sequence[Tensor]) -> Sequence[Tensor]:
    """Split a vector, or the vectors of several chains, into views as long as the given parts."""
    return vector.split([part.shape[-1] for part in parts], -1)


def descend(vector: Tensor, gradients: Sequence[Tensor], factor: Tensor) -> None:
    """Subtract factor * gradient from a vector in place, tensor by tensor, without a copy of the gradients."""
    for part, g, f in zip(split_like(vector, gradients), gradients, split_like(factor, gradients), strict=True):
        part.addcmul_(g, f, value=-1)


def metric(squares: Tensor, unit: Tensor, slots: Sequence[Slot]) -> Tensor:
    """Return the metric P_j = u_j / sqrt(q_j + mean of q over the tensor), of one chain or several."""
    damped = squares.clone()
    for slot in slots:
        own = damped[..., slot.start : slot.stop]
        own.add_(own.mean(-1, keepdim=True))
    return damped.clamp_(min=EPSILON**2).rsqrt_().mul_(unit)
