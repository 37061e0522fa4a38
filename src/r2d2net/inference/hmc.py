"""Hamiltonian Monte Carlo by the No-U-Turn sampler on the log joint of all rows: the paper's oracle.

    p(w, s, e | y) ∝ p(y | w, e)^(1/temperature) p(w | s) p(s) p(e),      s the prior's scales, e the noise variance

A step is one transition of `nuts` in `coordinates` that suit all weights, then an exact draw of the noise variance,
where it is learnt, and of the scales that are left:

    gibbs:  w | s, e by NUTS,  e | w,  s | w by the prior's own sweep          any prior
    joint:  (w, s) | e by NUTS,  e | w                                         priors with continuous scales

All is float64 but the network itself: the energy of a trajectory is a sum over all rows and weights, of which the
fractions of a nat decide what is accepted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from torch import Tensor

from r2d2net.errors import Argument, ParameterError, Shown, require_whole
from r2d2net.inference.base import Batch, Draws, Info, Method, Trainer, make_plain
from r2d2net.inference.collection import Collection, Kept, collected, first, keep, no_draws, room_for
from r2d2net.inference.coordinates import EXACT, Frame, GivenScales, JointScales
from r2d2net.inference.descent import STARTS, require_one_of, require_positive, require_share, settled_start
from r2d2net.inference.nuts import NutsSettings, NutsState, require_pyro, start, transition
from r2d2net.inference.scale_updates import ZERO_SHARE, off_zero
from r2d2net.likelihoods.base import Noise, Unit
from r2d2net.model import BayesianModel, Tensors
from r2d2net.ranks import ALONE, Ranks, RowSplit
from r2d2net.ranks.row_split import for_all, of_all

FORGETTING = 0.1  # weight of a transition in the mean of squared gradients as long as the chain is on its way in


@dataclass(frozen=True, kw_only=True)
class HMC(Method):
    """Hamiltonian Monte Carlo by NUTS; the ``epochs`` of `fit` are a chain's transitions, warm-up included.

    Args:
        burn_in: Share of the transitions that adapt step size and mass matrix; they are not kept.
        thin: Keep every so many-th transition after them.
        memory: Most bytes that a chain's draws may take; where they would take more, they are thinned further.
        chains: Independent chains, run side by side in processes.
        scales: How the scales of hierarchical priors are drawn: by "gibbs" sweeps, for every prior, or by NUTS in a
            "joint" space with the weights, for priors with continuous scales.
        target_accept: Acceptance rate at which the step size aims: nearer to 1 where transitions diverge.
        max_tree_depth: A transition takes at most 2^depth - 1 gradients of all rows.
        temperature: Weight of the prior; 1 is Bayes' rule. The likelihood is raised to the power of one over it.
        start: "he" starts at He-normal weights, "net" at the network's own,
            "auto" decides by whether the network was trained (see `network_start`).
    """

    full_batch: ClassVar[bool] = True
    optimizes: ClassVar[bool] = False

    burn_in: float = 0.5
    thin: int = 1
    memory: int = 1 << 30
    chains: int = 4
    scales: Literal["gibbs", "joint"] = "gibbs"
    target_accept: float = 0.8
    max_tree_depth: int = 10
    temperature: float = 1.0
    start: Literal["auto", "he", "net"] = "auto"

    def __post_init__(self) -> None:
        make_plain(self)
        for name in ("burn_in", "target_accept"):
            require_share(name, getattr(self, name), "use a number between 0 and 1", ends=False)
        for name in ("thin", "memory", "chains", "max_tree_depth"):
            require_whole(name, getattr(self, name))
        require_positive("temperature", self.temperature)
        require_one_of("scales", self.scales, ("gibbs", "joint"))
        require_one_of("start", self.start, STARTS)

    @property
    def runs(self) -> int:
        return self.chains

    def default_epochs(self, n: int) -> int:
        return 300

    def settled(self, model: BayesianModel[Any]) -> Self:
        return settled_start(self, model)

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> Chain:
        return Chain(self, model, n=n, steps=steps)

    def read(self, saved: Tensors, model: BayesianModel[Any], *, n: int, steps: int) -> Collection:
        return Collection.restored(model, saved, draws_noise=True)


class HMCState(NamedTuple):
    """State of a chain: all that changes between transitions."""

    step: Tensor  # number of transitions, an int64 scalar on the CPU
    position: Tensor  # where NUTS stands
    frame: Frame  # what the position means
    noise: Noise
    buffers: Tensors
    nuts: NutsState
    kept: Kept


class Chain(Trainer[HMCState]):
    """One chain of HMC, bound to a model."""

    draws_for_rows = False  # pyro draws for all processes alike

    def __init__(self, settings: HMC, model: BayesianModel[Any], *, n: int, steps: int) -> None:
        self.ranks: Ranks = ALONE
        require_pyro()
        warm_up = round(settings.burn_in * steps)
        if warm_up == 0:
            raise ParameterError(
                f"of {steps} transitions leaves none to learn the step size from",
                argument="burn_in",
                value=settings.burn_in,
                fix=("use more ", Argument("epochs")),
            )
        self.planned = (steps - warm_up) // settings.thin
        if self.planned == 0:
            raise ParameterError(
                (
                    f"keeps no draw: the burn-in leaves {steps - warm_up} of {steps} transitions, and ",
                    Argument("thin", settings.thin),
                ),
                argument="algorithm",
                value=Shown("HMC"),
                fix=("use more ", Argument("epochs"), ", or less of these"),
            )
        if model.fixed:
            raise ParameterError(
                f"needs a prior on every parameter, and {model.fixed[0].name!r} has none",
                argument="algorithm",
                value=Shown("HMC"),
                fix=(
                    *("give BayesianModel ", Argument("norm", Shown("Gaussian(1.0)")), " for normalisation layers, "),
                    *(Argument("bias", Shown("Gaussian(1.0)")), " for biases"),
                ),
            )
        self.settings, self.model = settled_start(settings, model), model
        self.nuts = NutsSettings(warm_up, settings.target_accept, settings.max_tree_depth)
        self.coordinates = JointScales(model) if settings.scales == "joint" else GivenScales(model)

    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> HMCState:
        model = self.model
        weights, fixed = model.he_start(generator) if self.settings.start == "he" else model.own_weights()
        weights = off_zero(model, weights, model.he_scale().mul_(ZERO_SHARE), generator)
        noise, buffers = model.likelihood.init(y, unit), model.buffers()
        position, frame = self.coordinates.start(weights, generator)
        network = Draws.sharing(weights[None], fixed, buffers, noise)
        room = room_for(self.planned, network, self.settings.memory)
        return HMCState(
            step=torch.zeros((), dtype=torch.int64),
            position=position,
            frame=frame,
            noise=noise,
            buffers=buffers,
            nuts=start(position),
            kept=no_draws(room, network, self.settings.thin),
        )

    def split_rows(self, split: RowSplit) -> None:
        self.ranks = split.ranks

    def step(self, state: HMCState, batch: Batch, generator: torch.Generator) -> tuple[HMCState, Info]:
        (x, y), likelihood = batch, self.model.likelihood
        self.model.net.eval()
        meaning = self.coordinates.at(state.frame)

        def log_joint(position: Tensor) -> Tensor:
            weights, log_prior = meaning(position)
            return self._log_likelihood(self._output(weights, state, x), y, state.noise) + log_prior

        position, nuts = transition(log_joint, state.position, state.nuts, self.nuts)
        frame, weights = state.frame, meaning(position)[0]
        if int(nuts.transitions) < self.nuts.warm_up:
            with torch.enable_grad():
                leaf = weights.detach().requires_grad_()
                fit = self._log_likelihood(self._output(leaf, state, x), y, state.noise)
            (gradient,) = torch.autograd.grad(fit, leaf)
            position, frame, nuts = self._learn(position, frame, nuts, state.nuts, gradient)
        with torch.no_grad():
            output = self._output(weights, state, x)
        if self.ranks.size > 1:
            output, y = self.ranks.gathered(output), self.ranks.gathered(y)
        noise = likelihood.gibbs(output, y, state.noise, generator, 1 / self.settings.temperature)
        position, frame = self.coordinates.refresh(position, frame, generator)
        state = state._replace(step=state.step + 1, position=position, frame=frame, noise=noise, nuts=nuts)
        after = int(state.step) - self.nuts.warm_up
        if after > 0:
            state = state._replace(kept=keep(state.kept, self._network(state, weights), after))
        nll = -likelihood.log_prob(output, y, noise).mean()
        return state, Info(nll, nuts.step_size.item(), self.settings.temperature)

    def _learn(
        self, position: Tensor, frame: Frame, nuts: NutsState, before: NutsState, gradient: Tensor
    ) -> tuple[Tensor, Frame, NutsState]:
        """Learn h at every transition until the mass matrix is adapted, and then with every update of that."""
        early, renewed = int(before.window) == 0, int(before.summed) > int(nuts.summed)
        frame = self.coordinates.observe(frame, gradient, FORGETTING if early else 0.0)
        if early or renewed:
            position, frame, growth = self.coordinates.adopt(position, frame)
        if renewed:  # learnt from the old coordinates: what it means for the weights stays as it is
            inverse_mass = nuts.inverse_mass.clone()
            inverse_mass[: self.model.size] *= growth.square()
            nuts = nuts._replace(inverse_mass=inverse_mass)
        if int(nuts.window) > int(before.window):
            frame = frame._replace(seen=torch.zeros_like(frame.seen))
        return position, frame, nuts

    def _log_likelihood(self, output: Tensor, y: Tensor, noise: Noise) -> Tensor:
        rows = self.model.likelihood.log_prob(output, y, noise)
        total = rows.to(EXACT).sum() / self.settings.temperature
        return total if self.ranks.size == 1 else of_all(total, self.ranks)

    def _output(self, weights: Tensor, state: HMCState, x: Any) -> Tensor:
        """Return the network's output in evaluation mode, as in predictions."""
        model = self.model
        # One split: the gradient of each of many slices of the flat vector would be as long as the vector.
        weights = weights if self.ranks.size == 1 else for_all(weights, self.ranks)
        parts = weights.to(model.dtype).split([slot.shape.numel() for slot in model.bayesian])
        named = {slot.name: part.view(slot.shape) for slot, part in zip(model.bayesian, parts, strict=True)}
        return model.call(model.net, {**named, **state.buffers}, x)

    def _network(self, state: HMCState, weights: Tensor) -> Draws:
        weights = weights.to(self.model.dtype)
        return Draws.sharing(weights[None], weights.new_zeros(0), state.buffers, state.noise)

    # --- what the state says

    def source(self, state: HMCState) -> Collection:
        """Return the stored draws; during the burn-in, the current network."""
        if int(state.kept.number) > 0:
            kept = first(state.kept.draws, int(state.kept.number))
            stored = collected(state.step, kept, int(state.nuts.divergences))
        else:
            stored = collected(state.step, self._network(state, self.coordinates.at(state.frame)(state.position)[0]))
        return Collection(self.model, stored, draws_noise=True)
