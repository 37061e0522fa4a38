"""Microcanonical chains for networks, started by a short run of SVGI, the scales of the priors by Gibbs sweeps.

    p(w, s, e | y) ∝ p(y | w, e)^(1/temperature) p(w | s) p(s) p(e),      s the prior's scales, e the noise variance

1. SVGI for a few hundred steps (`svgi_start`): chains start at draws of its q, which also tells the data's precision
   lambda_j of each weight.
2. A sweep of all chains at once, whose networks share one batched pass (`network_batch`):
       w | s, e     steps of microcanonical dynamics on all rows (`microcanonical`), in coordinates w_j / a_j with
                    1 / a_j^2 = c_j(s) + lambda_j, so that a weight moves as far as its own posterior reaches, or in
                    those of the Gauss-Newton matrix at weights of the burn-in (`chain_metric`)
       e | w        the likelihood's own draw
       s | w        the prior's own Gibbs sweep, which renews c = 1 / v(s) and with it a
   The coordinates depend on s and not on w, and directions are uniform given everything else: each part leaves the
   joint posterior invariant.
3. Over the burn-in the step size is chosen such that the energy error of a step has a given variance, then it stays;
   where new scales make it too large all the same, the chain goes back, and on by smaller steps.

Steps have no Metropolis correction: their bias falls with the step size (the fourth power of it, for the energy), and
is small at the default (2% of a variance where it was measured). ``adjusted=True`` corrects every epoch's trajectory
and is exact.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from torch import Tensor

from r2d2net.errors import Argument, FitWarning, ParameterError, Shown, require, require_whole
from r2d2net.inference.base import Batch, Draws, Info, Method, Trainer, make_plain
from r2d2net.inference.chain_gibbs import ChainGibbs, ScaleState
from r2d2net.inference.chain_metric import REST, GaussNewton, Metric, metric_of
from r2d2net.inference.chain_potential import ChainPotential, row_log_likelihoods
from r2d2net.inference.chain_walk import Pace, Walkers, walk
from r2d2net.inference.collection import Collection, Kept, by_chain, first, keep, no_draws, of_chain, room_for
from r2d2net.inference.descent import STARTS, require_one_of, require_positive, require_share, settled_start
from r2d2net.inference.mean_field_family import VariationalState
from r2d2net.inference.microcanonical import (
    Point,
    Potential,
    StepSize,
    any_direction,
    chosen,
    first_step_size,
    leapfrog,
)
from r2d2net.inference.network_batch import FUSED
from r2d2net.inference.scale_updates import START_SWEEPS
from r2d2net.inference.split_r_hat import split_r_hat
from r2d2net.inference.svgi_start import SVGIStart
from r2d2net.likelihoods.base import Noise, Unit
from r2d2net.model import BayesianModel, Tensors
from r2d2net.nets.linear_path import LinearPath

START_STEPS = {"dense": 300, "own": 1000}  # of SVGI, by the prior that it has
START_SHARE = 0.3  # most that the start may take of the epochs
ENERGY_VARIANCE = 5e-4  # of a step, for each weight
ADJUSTED_ACCEPTANCE = 0.9  # of trajectories, at which their step size aims
LEAST_EPOCHS, MOST_EPOCHS, ROWS_OF_EPOCHS = 25, 45, 30_000  # by default: so many passes as make so many rows
RENEWALS = 0.0, 0.25, 0.5, 0.75  # of the burn-in, when the Gauss-Newton matrix is computed anew
LEAST_DRAWS = 4  # of a chain, for R-hat
POOR = 4.0  # R-hat above which the mixture of all chains is doubtful; default runs reach 1.2 to 2.5
MONITORED_ROWS = 64  # rows whose outputs R-hat compares


@dataclass(frozen=True, kw_only=True)
class MCLMC(Method):
    """Microcanonical Langevin Monte Carlo started by SVGI; an epoch is ``sweep_steps`` gradients and a Gibbs sweep.

    For networks and tables for which gradients of all rows are affordable. The first epochs are SVGI's. The history has
    ``r_hat`` of the outputs at the end: chains of networks seldom agree completely, and the mixture of all is the
    posterior.

    Args:
        chains: Chains, advanced side by side in one run.
        sweep_steps: Steps of an epoch, between two Gibbs sweeps of scales and noise.
        burn_in: Share of the chains' epochs in which step sizes are learnt; they are not kept.
        thin: Keep every so many-th epoch after them.
        start_prior: Prior of SVGI's run: "dense" for N(0, 2 / fan-in), "own" for the model's. None decides: "own" for
            classes and beside a linear path, else "dense".
        start_steps: Steps of SVGI; None for 300 under the dense prior and 1,000 under the model's own, and never more
            than 0.3 of the epochs.
        start: "he" starts SVGI at He-normal weights, "net" at the network's own,
            "auto" decides by whether the network was trained (see `network_start`).
        length: Length over which a direction is forgotten, in units of the square root of the number of weights.
        energy_variance: Variance of a step's energy error for each weight at which the step size aims.
        rows: Most rows of a gradient. Beyond, each epoch draws so many, with the gradient of all rows at its start as
            control variate (`chain_potential`): what is left of the error is of second order in how far chains move.
        directions: Directions in which weights move together, leading ones of the Gauss-Newton matrix; 0 moves each
            weight in a unit of its own. For chains that are to converge: two to three times the time of a step, and
            R-hat falls. Needs a network that passes each row alone.
        adjusted: Accept or refuse the trajectory of each epoch by Metropolis' rule: exact, slower, by all rows.
        temperature: Weight of the prior; 1 is Bayes' rule. The likelihood is raised to the power of one over it.
        memory: Most bytes that all draws may take; where they would take more, they are thinned further.
    """

    full_batch: ClassVar[bool] = True
    optimizes: ClassVar[bool] = False

    chains: int = 4
    sweep_steps: int = 40
    burn_in: float = 0.4
    thin: int = 1
    start_prior: Literal["dense", "own"] | None = None
    start_steps: int | None = None
    start: Literal["auto", "he", "net"] = "auto"
    length: float = 1.0
    energy_variance: float = ENERGY_VARIANCE
    rows: int = 4096
    directions: int = 0
    adjusted: bool = False
    temperature: float = 1.0
    memory: int = 1 << 30

    def __post_init__(self) -> None:
        make_plain(self)
        require_share("burn_in", self.burn_in, "use a number between 0 and 1", ends=False)
        for name in ("chains", "sweep_steps", "thin", "rows", "memory"):
            require_whole(name, getattr(self, name))
        require_whole("directions", self.directions, least=0)
        if self.start_steps is not None:
            require_whole("start_steps", self.start_steps)
        for name in ("length", "energy_variance", "temperature"):
            require_positive(name, getattr(self, name))
        if self.start_prior is not None:
            require_one_of("start_prior", self.start_prior, ("dense", "own"))
        require_one_of("start", self.start, STARTS)
        require(isinstance(self.adjusted, bool), "adjusted", self.adjusted, "use True or False")

    def default_epochs(self, n: int) -> int:
        return min(MOST_EPOCHS, max(LEAST_EPOCHS, ROWS_OF_EPOCHS // n))

    def settled(self, model: BayesianModel[Any]) -> Self:
        return settled_start(self, model)

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> MicrocanonicalChains:
        return MicrocanonicalChains(self, model, n=n, steps=steps)

    def read(self, saved: Tensors, model: BayesianModel[Any], *, n: int, steps: int) -> Collection:
        return Collection.restored(model, saved, draws_noise=True)


class MCLMCState(NamedTuple):
    """All that changes in a run; tensors of the chains have a first dimension of chains.

    Attributes:
        step: Number of epochs, an int64 scalar on the CPU.
        start: State of SVGI's run.
        weights: Weights of each chain, (chains, weights).
        direction: Direction in which each chain moves, (chains, weights).
        step_size: Step sizes and how they are learnt.
        prior: Scales of the priors, and the precision that follows from them.
        curvature: R of the metric, (chains, directions, weights).
        noise: Learnt parameters of the likelihood, (chains, ...).
        buffers: The network's buffers.
        divergences: Steps undone after the burn-in, (chains,), int64 on the CPU.
        r_hat: Largest R-hat of outputs and noise at the end; 0 before.
        kept: Stored draws, (draws, chains, ...).
    """

    step: Tensor
    start: VariationalState
    weights: Tensor
    direction: Tensor
    step_size: StepSize
    prior: ScaleState
    curvature: Tensor
    noise: Noise
    buffers: Tensors
    divergences: Tensor
    r_hat: Tensor
    kept: Kept


class MicrocanonicalChains(Trainer[MCLMCState]):
    """The chains, bound to a model."""

    def __init__(self, settings: MCLMC, model: BayesianModel[Any], *, n: int, steps: int) -> None:
        shown: dict[str, Any] = {"argument": "algorithm", "value": Shown("MCLMC")}
        if model.size < 2:
            raise ParameterError("needs two or more Bayesian weights", fix="use HMC", **shown)
        if settings.directions and any(isinstance(module, FUSED) for module in model.net.modules()):
            raise ParameterError(
                "needs a network that torch.func can differentiate row by row, without fused layers",
                argument="directions",
                value=settings.directions,
                fix=("use ", Argument("directions", 0)),
            )
        starts_as_own = model.likelihood.has_classes or isinstance(model.net, LinearPath)
        prior = settings.start_prior or ("own" if starts_as_own else "dense")
        wanted = START_STEPS[prior] if settings.start_steps is None else settings.start_steps
        self.start_epochs = min(math.ceil(wanted / settings.sweep_steps), max(1, math.floor(START_SHARE * steps)))
        start_steps = min(wanted, self.start_epochs * settings.sweep_steps)
        chain_epochs = steps - self.start_epochs
        self.burn_in = max(1, round(settings.burn_in * chain_epochs))
        left = max(0, chain_epochs - self.burn_in)
        self.planned = left // settings.thin
        if self.planned < 1:
            raise ParameterError(
                (
                    f"keeps no draw: start and burn-in leave {left} of {steps} epochs, and ",
                    Argument("thin", settings.thin),
                ),
                fix=("use more ", Argument("epochs"), ", or less of these"),
                **shown,
            )
        self.settings, self.model, self.n, self.steps = settings, model, n, steps
        self.draws_rows = n > settings.rows and not settings.adjusted
        self.svgi = SVGIStart(model, prior, settled_start(settings, model).start, n=n, steps=start_steps)
        self.start_steps = start_steps
        self.potential = ChainPotential(model, settings.chains, settings.temperature)
        self.newton = GaussNewton(model, settings.directions, settings.temperature)
        self.renewals = {round(share * self.burn_in) for share in RENEWALS} if settings.directions else set()
        self.gibbs = ChainGibbs(model, settings.chains, 1 / settings.temperature)
        self.pace = Pace(settings.sweep_steps, settings.length, settings.energy_variance)

    # --- start

    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> MCLMCState:
        model, chains = self.model, self.settings.chains
        start = self.svgi.trainer.init(y, generator, unit)
        weights = start.mean.expand(chains, -1).clone()
        noise = {name: tensor.expand(chains, *tensor.shape).clone() for name, tensor in start.noise.items()}
        state = MCLMCState(
            step=torch.zeros((), dtype=torch.int64),
            start=start,
            weights=weights,
            direction=torch.zeros_like(weights),
            step_size=first_step_size(chains, model.size, weights),
            prior=self.gibbs.init(generator),
            curvature=weights.new_zeros(chains, self.newton.directions, model.size),
            noise=noise,
            buffers=model.buffers(),
            divergences=torch.zeros(chains, dtype=torch.int64),
            r_hat=torch.zeros((), dtype=torch.float64),
            kept=Kept(*(torch.zeros((), dtype=torch.int64),) * 2, Draws(weights, weights, {}, {})),
        )
        networks = self._networks(state)
        room = room_for(self.planned, networks, self.settings.memory)
        return state._replace(kept=no_draws(room, networks, self.settings.thin))

    def _release(self, state: MCLMCState, batch: Batch, generator: torch.Generator) -> MCLMCState:
        """Place the chains at draws of SVGI's q, with scales that know them."""
        start, chains = state.start, self.settings.chains
        deviation = self.svgi.trainer.family.deviation(start, self.svgi.trainer.blocks)
        noise = torch.empty_like(state.weights).normal_(generator=generator)
        noises = {name: tensor.expand(chains, *tensor.shape).clone() for name, tensor in start.noise.items()}
        state = state._replace(
            weights=start.mean + deviation * noise,
            direction=any_direction(state.weights, generator),
            noise=noises,
            buffers=start.buffers,
        )
        prior = state.prior
        for _ in range(START_SWEEPS):
            prior = self.gibbs.draw_scales(prior, state.weights, generator)
        state = state._replace(prior=prior)
        if self.gibbs.path is None:
            return state
        return self._draw_given_weights(state, batch, self._outputs(state, batch[0]), generator, starts=True)

    # --- one epoch

    def step(self, state: MCLMCState, batch: Batch, generator: torch.Generator) -> tuple[MCLMCState, Info]:
        done = int(state.step)
        if done < self.start_epochs:
            start, loss = self.svgi.steps(state.start, batch, self.steps_of_start(done), generator)
            return self.after_start(state._replace(start=start), batch, generator), self._info(loss, 0.0)
        learns = self.learns(state)
        if done - self.start_epochs in self.renewals:
            state = self._renew_metric(state, batch)
        state, output = self._move(state, batch, generator, learns=learns)
        if self.draws_rows:
            output = self._outputs(state, batch[0])
        return self.after_move(state, output, batch, generator)

    def steps_of_start(self, done: int) -> int:
        """Return the number of SVGI's steps in an epoch after ``done`` others."""
        return max(1, min(self.settings.sweep_steps, self.start_steps - done * self.settings.sweep_steps))

    def learns(self, state: MCLMCState) -> bool:
        """Tell whether the chains are in their burn-in."""
        return int(state.step) < self.start_epochs + self.burn_in

    def after_start(self, state: MCLMCState, batch: Batch, generator: torch.Generator) -> MCLMCState:
        """End an epoch of SVGI's; after the last one the chains are placed."""
        state, start = state._replace(step=state.step + 1), state.start
        is_last = int(state.step) == self.start_epochs
        if is_last and bool(torch.isfinite(start.mean.sum() + start.rho.sum())):
            return self._release(state, batch, generator)
        return state

    def after_move(
        self, state: MCLMCState, output: Tensor, batch: Batch, generator: torch.Generator
    ) -> tuple[MCLMCState, Info]:
        """End an epoch of the chains, whose networks have these outputs: draw noise and scales, and keep the draw."""
        done, learns = int(state.step), self.learns(state)
        log_likelihoods = row_log_likelihoods(self.model.likelihood, batch[1], state.noise, self.settings.chains)
        nll = -log_likelihoods(output).mean()
        state = self._draw_given_weights(state, batch, output, generator)
        state = state._replace(step=state.step + 1)
        if not learns:
            state = state._replace(
                kept=keep(state.kept, self._networks(state), done + 1 - self.start_epochs - self.burn_in)
            )
        if done + 1 == self.steps:
            state = state._replace(r_hat=self._r_hat(state, batch[0]))
        return state, self._info(nll, float(state.step_size.value.mean()))

    def _info(self, nll: Tensor, lr: float) -> Info:
        return Info(nll, lr, self.settings.temperature)

    def _renew_metric(self, state: MCLMCState, batch: Batch) -> MCLMCState:
        """Compute the Gauss-Newton matrix at the present weights; only in the burn-in, as it depends on them."""
        precision = state.prior.precision + REST * state.start.rho.exp()
        given = (state.start.fixed, state.buffers, state.noise, batch)
        return state._replace(curvature=self.newton.at(state.weights, precision, *given))

    def _move(
        self, state: MCLMCState, batch: Batch, generator: torch.Generator, *, learns: bool
    ) -> tuple[MCLMCState, Tensor]:
        """Move the weights of all chains given scales and noise; return the outputs there too."""
        settings, prior, start = self.settings, state.prior, state.start
        given = (prior.precision, state.noise, start.fixed, state.buffers, batch)
        if not self.draws_rows:
            potential = self.potential.at(*given)
        else:
            order = torch.randperm(self.n, generator=generator, device=generator.device)
            potential = self.potential.near(state.weights, order[: settings.rows], *given)
        metric = metric_of(prior.precision, start.rho.exp(), state.curvature)
        point = potential(state.weights)
        if settings.adjusted:
            return self._move_exactly(state, potential, point, metric, generator, learns=learns)
        at = Walkers(point, state.direction, state.step_size, state.divergences)
        there = walk(potential, metric, at, self.pace, [generator], learns=learns)
        return there_in(state, there), there.point.output

    def _move_exactly(
        self,
        state: MCLMCState,
        potential: Potential,
        point: Point,
        metric: Metric,
        generator: torch.Generator,
        *,
        learns: bool,
    ) -> tuple[MCLMCState, Tensor]:
        """Move by one trajectory of a fresh direction and a drawn step size, accepted by Metropolis' rule."""
        factor = torch.empty_like(state.step_size.value).uniform_(0.5, 1.5, generator=generator)
        length, direction = state.step_size.value * factor, any_direction(state.weights, generator)
        old, error = point, torch.zeros_like(point.energy)
        for _ in range(self.settings.sweep_steps):
            point, direction, change = leapfrog(potential, point, direction, metric, length)
            error = error + change
        accepting = torch.exp(-error.nan_to_num(nan=math.inf)).clamp(max=1)
        takes = torch.empty_like(error).uniform_(generator=generator) < accepting
        point = chosen(takes, point, old)
        step_size = state.step_size
        if learns:
            rate = 2 / (1 + int(state.step) - self.start_epochs) ** 0.6
            value = step_size.value * torch.exp(rate * (accepting - ADJUSTED_ACCEPTANCE)).to(step_size.value.dtype)
            step_size = step_size._replace(value=value)
        return state._replace(weights=point.position, step_size=step_size), point.output

    def _draw_given_weights(
        self, state: MCLMCState, batch: Batch, output: Tensor, generator: torch.Generator, *, starts: bool = False
    ) -> MCLMCState:
        """Draw noise, scales and a linear path given the weights."""
        gibbs, (x, y), weights, noise = self.gibbs, batch, state.weights, state.noise
        prior = state.prior if starts else gibbs.draw_scales(state.prior, weights, generator)
        if gibbs.path is None:
            noise = gibbs.draw_noise(output, y, noise, generator)
        else:
            after = int(state.step) - self.start_epochs
            rate = 1 / math.sqrt(after + 1) if 0 <= after < self.burn_in else 0.0
            prior, weights, noise = gibbs.draw_path(prior, weights, output, (x, y), generator, rate, starts=starts)
        return state._replace(prior=prior, weights=weights, noise=noise)

    @torch.no_grad()
    def _outputs(self, state: MCLMCState, x: Any) -> Tensor:
        """Return the outputs of all chains for all rows."""
        return self.potential.outputs(state.weights, state.start.fixed, state.buffers, x)

    # --- what the state says

    def measures(self, state: MCLMCState) -> dict[str, float]:
        """Return R-hat at the end for the history."""
        return {"r_hat": float(state.r_hat)} if float(state.r_hat) > 0 else {}

    def finish(self, state: MCLMCState) -> Collection:
        """Return the stored draws; warn if the chains disagree more than those of short runs usually do."""
        if float(state.r_hat) > POOR:
            advice = f"the chains disagree after {int(state.step)} epochs (R-hat of outputs {float(state.r_hat):.3g})"
            warnings.warn(f"{advice}: use more epochs, such as {4 * self.steps}", FitWarning, stacklevel=2)
        return self.source(state)

    def present(self, state: MCLMCState) -> Draws:
        """Return the current network of the first chain."""
        return of_chain(self._networks(state), 0)

    def source(self, state: MCLMCState) -> Collection:
        """Return the stored draws; before there are any, the current network of each chain."""
        number = int(state.kept.number)
        draws = first(state.kept.draws, number) if number > 0 else self._networks(state)
        return Collection(self.model, by_chain(state.step, draws, state.divergences), draws_noise=True)

    def _networks(self, state: MCLMCState) -> Draws:
        """Return the network of each chain, tensors of shape (1, chains, ...); while SVGI runs, that of its means."""
        chains, start = self.settings.chains, state.start
        started = int(state.step) < self.start_epochs

        def shared(tensor: Tensor) -> Tensor:
            return tensor.expand(1, chains, *tensor.shape)

        weights = shared(start.mean) if started else state.weights[None]
        noise = (
            {k: shared(v) for k, v in start.noise.items()} if started else {k: v[None] for k, v in state.noise.items()}
        )
        buffers = start.buffers if started else state.buffers
        return Draws(weights, shared(start.fixed), {k: shared(v) for k, v in buffers.items()}, noise)

    @torch.no_grad()
    def _r_hat(self, state: MCLMCState, x: Any) -> Tensor:
        """Return the largest R-hat of the outputs for some rows and of the noise, over the stored draws."""
        number = int(state.kept.number)
        if number < LEAST_DRAWS:
            return state.r_hat
        rows = tuple(part[:MONITORED_ROWS] for part in x) if isinstance(x, tuple) else x[:MONITORED_ROWS]
        draws = first(state.kept.draws, number)
        fixed, buffers = state.start.fixed, state.buffers
        outputs = torch.stack(
            [self.potential.networks(weights, fixed, buffers, rows).flatten(1) for weights in draws.weights]
        )
        quantities = [outputs, *(tensor.flatten(2) for tensor in draws.noise.values())]
        compared = torch.cat([tensor.to(torch.float64) for tensor in quantities], -1)
        return split_r_hat(compared.transpose(0, 1)).max().cpu()


def there_in(state: MCLMCState, there: Walkers) -> MCLMCState:
    """Put where chains stand into their state.

    Args:
        state: The state.
        there: Where the chains stand.

    Returns:
        The state with it.
    """
    return state._replace(
        weights=there.point.position,
        direction=there.direction,
        step_size=there.step_size,
        divergences=there.divergences,
    )
