"""Exact Gibbs sampling of one linear layer for regression or classes, with a beta prior on R2.

    y = b + X w + e,      e_i ~ N(0, sigma^2),      w_j ~ N(0, sigma^2 g^2 v_j),      v the variances of w's prior
    R2 = tau^2 / (1 + tau^2) ~ Beta(mean precision, (1 - mean) precision),      tau^2 = g^2 sum_j v_j mean(x_j^2)

The scale g, the noise and all weights are drawn as one block given the scales of the prior, then the scales given these
(`linear_sweep`, on the algebra of `linear_problem`); the intercept b is integrated out under a flat prior, and drawn
for each kept draw: b | w, sigma^2 ~ N(mean(y) - mean(x)' w, sigma^2 / n). Classes are the same with logistic noise,
made normal by Polya-Gamma variables (`linear_classes`). Nothing is approximated: what is left is the Monte Carlo
error, which R-hat measures as the chains run (`split_r_hat`).

sigma^2 ~ IG(a0, b0). With fewer than 4 degrees of freedom (2 to 4 rows and an intercept) predictions would have no
moments under a0 near 0, and the prior is informative: see `linear_few_rows`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from r2d2net.errors import Argument, DataError, ParameterError, Shown, Value, require_whole
from r2d2net.inference.base import Batch, Draws, Info, Method, Trainer, make_plain
from r2d2net.inference.collection import Kept, by_chain, first, keep, no_draws, of_chain, room_for
from r2d2net.inference.descent import require_positive, require_share
from r2d2net.inference.linear_classes import ClassChains
from r2d2net.inference.linear_collection import LinearCollection, LinearState
from r2d2net.inference.linear_few_rows import noise_prior
from r2d2net.inference.linear_loo import Moments
from r2d2net.inference.linear_problem import EXACT
from r2d2net.inference.linear_spread import choose_spread
from r2d2net.inference.linear_sweep import Hyper
from r2d2net.inference.linear_targets import Classes, targets_of
from r2d2net.inference.row_keys import row_keys
from r2d2net.inference.split_r_hat import split_r_hat
from r2d2net.likelihoods.base import Noise, Unit
from r2d2net.model import AnyPrior, BayesianModel, Slot, Tensors
from r2d2net.priors import ScaleMixturePrior

CONVERGED = 1.01  # largest R-hat at which a run ends before its budget
POOR = 1.1  # R-hat above which the posterior is not to be trusted
LEAST_SWEEPS = 400  # after the burn-in, of all chains together, before R-hat is looked at
LEAST_DRAWS = 8  # that a chain must have kept by then
LOOK_GROWTH = 1.1  # each look comes after this many times the sweeps of the one before
LOO_EVERY = 3  # kept draws of which the first gives leave-one-out moments
LOO_MEMORY = 0.25  # share of the memory that they may take
MONITORED_ROWS = 64  # rows whose fitted values R-hat compares


@dataclass(frozen=True, kw_only=True)
class LinearGibbs(Method):
    """Exact Gibbs sampling of one linear layer; the ``epochs`` of `fit` are the most sweeps that it takes.

    For a network of one Linear layer, any prior on its weights, and a Gaussian likelihood whose noise is learnt, or a
    Categorical or Bernoulli one. A run ends before its budget once R-hat of fitted values and noise is at most 1.01;
    the history has ``r_hat``. A few thousand ``epochs`` are a good budget. Each output has its own scales and noise;
    two classes have those of their log odds. The prior of the weights says how the variance is shared; how much there
    is of it is given by the prior on R2, in units of the noise, which for classes is logistic. The bias has a flat
    prior, or for classes a wide normal one at the mean input, whatever prior the model gives it.

    Args:
        chains: Chains, advanced side by side in one run.
        mean_r2: Prior mean of R2, the share of the variance that the layer explains; by default that of the prior of
            the weights where it is made by `R2D2.from_r2`, and else 1/2.
        precision_r2: Precision of R2 ~ Beta(mean precision, (1 - mean) precision); by default that of such a prior, and
            else 2, which with mean 1/2 is uniform.
        noise_shape: Shape of the noise variance's prior IG(shape, rate), in units of the target as the network sees it.
            With fewer than 4 degrees of freedom what is missing to 4 is added, with a noise variance of 1/2.
        noise_rate: Rate of it.
        intercept_scale: Standard deviation of the classes' intercepts at the mean input; a flat prior would have no
            posterior where one class has all rows.
        burn_in: Share of the budget that is not kept.
        thin: Keep every so many-th sweep after them.
        calibrate: For classes with no more rows than inputs, choose by leave-one-out log loss how widely the draws
            spread around their mean (`linear_spread`; ``posterior.source.spread`` has it); False for exact Bayes.
        loo_draws: Most draws of a chain whose leave-one-out moments are stored for `diagnostics.loo`; 0 for none.
        memory: Most bytes that all draws may take; where they would take more, they are thinned further.
    """

    full_batch: ClassVar[bool] = True
    optimizes: ClassVar[bool] = False
    suits_every_net: ClassVar[bool] = False
    takes_missing: ClassVar[bool] = False

    chains: int = 4
    mean_r2: float | None = None
    precision_r2: float | None = None
    noise_shape: float = 1e-3
    noise_rate: float = 1e-3
    intercept_scale: float = 5.0
    burn_in: float = 0.25
    thin: int = 1
    calibrate: bool = True
    loo_draws: int = 250
    memory: int = 1 << 30

    def __post_init__(self) -> None:
        make_plain(self)
        if self.mean_r2 is not None:
            require_share("mean_r2", self.mean_r2, "use a number between 0 and 1", ends=False)
        require_share("burn_in", self.burn_in, "use a number between 0 and 1", ends=False)
        if self.precision_r2 is not None:
            require_positive("precision_r2", self.precision_r2)
        for name in ("noise_shape", "noise_rate", "intercept_scale"):
            require_positive(name, getattr(self, name))
        for name in ("chains", "thin", "memory"):
            require_whole(name, getattr(self, name))
        require_whole("loo_draws", self.loo_draws, least=0)

    def default_epochs(self, n: int) -> int:
        return 1000

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> LinearChains:
        return LinearChains(self, model, n=n, steps=steps)

    def read(self, saved: Tensors, model: BayesianModel[Any], *, n: int, steps: int) -> LinearCollection:
        return LinearCollection.read(model, saved)


class LinearGibbsState(NamedTuple):
    """All that changes in a run.

    Attributes:
        step: Number of sweeps, an int64 scalar on the CPU.
        chains: The chains, in float64; rows of weights of the first chain come first.
        noise: sigma^2 as the history shows it, (chains, outputs); none for classes.
        r_hat: Largest R-hat at the last look; 0 before the first.
        buffers: The network's buffers.
        kept: Stored draws, (draws, chains, ...).
        loo: Stored leave-one-out moments, (draws, chains, outputs, n).
        row_keys: Numbers by which rows are recognised, in the order of the moments, (n,); zeros before the first step.
    """

    step: Tensor
    chains: ClassChains
    noise: Noise
    r_hat: Tensor
    buffers: Tensors
    kept: Kept
    loo: Kept[Moments]
    row_keys: Tensor


class LinearChains(Trainer[LinearGibbsState]):
    """The chains, bound to a model."""

    def __init__(self, settings: LinearGibbs, model: BayesianModel[Any], *, n: int, steps: int) -> None:
        self.weight, self.bias = _require_linear(model)
        assert self.weight.prior is not None
        shapes = _r2_shapes(settings, self.weight.prior)
        has_bias = self.bias is not None
        noise = noise_prior(settings.noise_shape, settings.noise_rate, n - int(has_bias))
        hyper = Hyper(self.weight.prior, *shapes, *noise)
        self.targets = targets_of(
            model, hyper, self.weight.shape[0], intercept=has_bias, intercept_scale=settings.intercept_scale
        )
        if n < self.targets.least_rows:
            raise DataError(("the data have ", Value(n), " row"), fix="LinearGibbs needs two or more beside a bias")
        self.burn_in = round(settings.burn_in * steps)
        self.planned = (steps - self.burn_in) // settings.thin
        if self.planned == 0:
            raise ParameterError(
                (
                    f"keeps no draw: the burn-in leaves {steps - self.burn_in} of {steps} sweeps, and ",
                    Argument("thin", settings.thin),
                ),
                argument="algorithm",
                value=Shown("LinearGibbs"),
                fix=("use more ", Argument("epochs"), ", or less of these"),
            )
        self.settings, self.model, self.steps, self.n = settings, model, steps, n
        self._rows: tuple[Tensor, Any, Tensor, Tensor] | None = None  # sorted targets, problem, monitored rows, keys

    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> LinearGibbsState:
        chains = self.targets.first(self.settings.chains, self.weight.shape[1], generator)
        state = LinearGibbsState(
            step=torch.zeros((), dtype=torch.int64),
            chains=chains,
            noise=self.targets.noise(chains),
            r_hat=torch.zeros((), dtype=EXACT),
            buffers=self.model.buffers(),
            kept=Kept(*(torch.zeros((), dtype=torch.int64),) * 2, self._networks_of(chains, {})),
            loo=self._no_moments(),
            row_keys=torch.zeros(self.n, dtype=EXACT, device=self.model.device),
        )
        networks = self._networks(state)
        room = room_for(self.planned, networks, self.settings.memory)
        return state._replace(kept=no_draws(room, networks, self.settings.thin))

    def step(self, state: LinearGibbsState, batch: Batch, generator: torch.Generator) -> tuple[LinearGibbsState, Info]:
        state = self.started(state, batch, generator)
        problem = self.problem_of(batch)
        chains = self.targets.sweep(problem, state.chains, generator, self.learning_rate(int(state.step)))
        return self.after_sweep(state, chains, batch, generator)

    def problem_of(self, batch: Batch) -> Any:
        """Return the data as `linear_problem` or `linear_classes` has them, whatever the order of the batch."""
        return self._problem(*batch)[0]

    def learning_rate(self, done: int) -> float:
        """Return the speed at which Metropolis steps are learnt in the sweep after ``done`` others."""
        return 1 / math.sqrt(done + 1) if done < self.burn_in else 0.0

    def started(self, state: LinearGibbsState, batch: Batch, generator: torch.Generator) -> LinearGibbsState:
        """Return the state with chains at their start, if it is that before the first sweep."""
        if int(state.step) > 0:
            return state
        return self.at_start(state, self.targets.start(self.problem_of(batch), state.chains, generator))

    def at_start(self, state: LinearGibbsState, chains: ClassChains) -> LinearGibbsState:
        """Return the state with chains at their start, after a call of `problem_of`."""
        return state._replace(chains=chains, row_keys=self._rows[3] if self._rows else state.row_keys)

    def after_sweep(
        self, state: LinearGibbsState, chains: ClassChains, batch: Batch, generator: torch.Generator
    ) -> tuple[LinearGibbsState, Info]:
        """End a sweep that led the chains here: keep the draw, and look at R-hat where it is due."""
        x, y = batch
        problem, monitored = self._problem(x, y)
        state = state._replace(step=state.step + 1, chains=chains, noise=self.targets.noise(chains))
        networks, after = self._networks(state), int(state.step) - self.burn_in
        if after > 0:
            state = state._replace(kept=keep(state.kept, networks, after))
            if len(state.loo.draws.mean) and after % int(state.loo.every) == 0:
                moments = self.targets.moments(problem, chains, generator)
                moments = Moments(*(values[None].to(self.model.dtype) for values in moments))
                state = state._replace(loo=keep(state.loo, moments, after))
        if self._looks(after):
            state = state._replace(r_hat=self._r_hat(state, monitored))
        chain = of_chain(networks, 0)
        tensors = {slot.name: slot.of(chain.weights[0]) for slot in self.model.bayesian}
        tensors |= {slot.name: slot.of(chain.fixed[0]) for slot in self.model.fixed}
        self.model.net.eval()
        with torch.no_grad():
            output = self.model.call(self.model.net, {**tensors, **state.buffers}, x)
        noise = {name: tensor[0] for name, tensor in chain.noise.items()}
        return state, Info(-self.model.likelihood.log_prob(output, y, noise).mean(), 0.0, 1.0)

    def is_done(self, state: LinearGibbsState) -> bool:
        """Whether R-hat of fitted values and noise is small enough at the last look."""
        return 0 < float(state.r_hat) <= CONVERGED

    def measures(self, state: LinearGibbsState) -> dict[str, float]:
        """Return R-hat of the last look for the history."""
        return {"r_hat": float(state.r_hat)} if float(state.r_hat) > 0 else {}

    def source(self, state: LinearGibbsState, spread: float = 1.0) -> LinearCollection:
        """Return the stored draws; during the burn-in, the current network of each chain.

        Args:
            state: The state.
            spread: Spread c of the draws around their mean.

        Returns:
            The draws.
        """
        number = int(state.kept.number)
        draws = first(state.kept.draws, number) if number > 0 else self._networks(state)

        divergences = torch.zeros(self.settings.chains, dtype=torch.int64)
        stored = by_chain(state.step, draws, divergences)
        kept = (values[: int(state.loo.number)] for values in state.loo.draws)
        moments = Moments(*(values.transpose(0, 1).contiguous() for values in kept))
        c = torch.tensor(spread, dtype=EXACT)
        return LinearCollection(self.model, LinearState(*stored, c, moments, state.row_keys))

    def finish(self, state: LinearGibbsState) -> LinearCollection:
        """Return the stored draws with their spread; warn if the chains disagree."""
        if float(state.r_hat) > POOR:
            advice = f"the chains disagree after {int(state.step)} sweeps (R-hat {float(state.r_hat):.3g})"
            warnings.warn(f"{advice}: use more epochs, such as {4 * self.steps}", stacklevel=2)
        moments, spread = Moments(*(values[: int(state.loo.number)] for values in state.loo.draws)), 1.0
        wide = self.weight.shape[1] >= self.n  # elsewhere draws do not spread in directions that no row has
        if self.settings.calibrate and wide and isinstance(self.targets, Classes) and len(moments.mean):
            spread = choose_spread(*(values.flatten(0, 2) for values in moments))
        return self.source(state, spread)

    def _no_moments(self) -> Kept[Moments]:
        """Allocate memory for leave-one-out moments, as many as the memory cap allows."""
        shape = (self.settings.chains, self.targets.left_out, self.n)
        size = 2 * math.prod(shape) * torch.finfo(self.model.dtype).bits // 8
        room = min(
            self.settings.loo_draws, math.ceil(self.planned / LOO_EVERY), int(LOO_MEMORY * self.settings.memory / size)
        )
        room = 2 * (room // 2) if room > 1 and self.targets.leaves_out else 0
        empty = Moments(
            *(torch.zeros(room, *shape, dtype=self.model.dtype, device=self.model.device) for _ in range(2))
        )
        return Kept(torch.zeros((), dtype=torch.int64), torch.tensor(LOO_EVERY * self.settings.thin), empty)

    # --- the data

    def _problem(self, x: Any, y: Tensor) -> tuple[Any, Tensor]:
        """Return the data in an order that does not depend on that of the batch, and the rows that R-hat compares.

        Batches come in a new order every time; sums over their rows, and so a resumed run, would differ in last bits.
        """
        targets = y.sort(0).values
        if self._rows is None or not torch.equal(self._rows[0], targets):
            x = _design(x, self.weight.shape[1])
            if y.dim() == 2 and y.shape[1] != self.weight.shape[0] + (not self.targets.leaves_out):
                fix = f"give it {y.shape[1]} outputs"
                raise ParameterError(f"has {self.weight.shape[0]} outputs", argument="net", fix=fix)
            keys, order = row_keys(x, y).sort()
            problem = self.targets.problem(x[order], y[order])
            rows = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))[:MONITORED_ROWS].to(y.device)
            self._rows = targets, problem, problem.x[rows], keys
        return self._rows[1:3]

    # --- convergence

    def _looks(self, after: int) -> bool:
        """Whether R-hat is computed after so many sweeps beyond the burn-in: at growing distances, and at the end."""
        if after + self.burn_in == self.steps:
            return True
        if after * self.settings.chains < LEAST_SWEEPS or after < 2:
            return False
        looks, before = (math.floor(math.log(k) / math.log(LOOK_GROWTH)) for k in (after, after - 1))
        return looks > before

    def _r_hat(self, state: LinearGibbsState, rows: Tensor) -> Tensor:
        draws = self.source(state).state
        if draws.weights.shape[1] < LEAST_DRAWS:
            return state.r_hat
        weights = self.weight.of(draws.weights).to(EXACT)
        return split_r_hat(self.targets.monitored(weights @ rows.T, draws.noise)).max().cpu()

    # --- networks

    def _networks(self, state: LinearGibbsState) -> Draws:
        return self._networks_of(state.chains, state.buffers)

    def _networks_of(self, chains: ClassChains, buffers: Tensors) -> Draws:
        """Return the network of each chain in the model's dtype, tensors of shape (1, chains, ...)."""
        model, number, outputs = self.model, self.settings.chains, self.weight.shape[0]
        weights, fixed = (chains.intercept.new_zeros(number, size) for size in (model.size, model.fixed_size))
        weights[:, self.weight.start : self.weight.stop] = self.targets.layer(chains.linear.weights).reshape(number, -1)
        if self.bias is not None:
            place = fixed if self.bias.prior is None else weights
            place[:, self.bias.start : self.bias.stop] = self.targets.layer(chains.intercept).reshape(number, outputs)
        noise = {name: tensor[None].to(model.dtype) for name, tensor in self.targets.noise(chains).items()}
        shared = {name: tensor.expand(1, number, *tensor.shape) for name, tensor in buffers.items()}
        return Draws(weights[None].to(model.dtype), fixed[None].to(model.dtype), shared, noise)


def _r2_shapes(settings: LinearGibbs, prior: AnyPrior) -> tuple[float, float]:
    """Return the shapes of R2's beta distribution: as the settings say, or else as the prior of the weights does."""
    first, second = prior.r2_shapes or (1.0, 1.0)
    mean = first / (first + second) if settings.mean_r2 is None else settings.mean_r2
    precision = first + second if settings.precision_r2 is None else settings.precision_r2
    return mean * precision, (1 - mean) * precision


def _design(x: Any, inputs: int) -> Tensor:
    """Return the inputs of the linear layer, (n, p)."""
    design = x.flatten(1) if isinstance(x, Tensor) and x.dim() > 1 else x
    if not isinstance(design, Tensor) or design.dim() != 2 or design.shape[1] != inputs:
        shape = tuple(design.shape) if isinstance(design, Tensor) else Shown("a tuple of tensors")
        raise DataError(("x has shape ", Value(shape)), fix=f"LinearGibbs needs rows of {inputs} numbers")
    return design


def _require_linear(model: BayesianModel[Any]) -> tuple[Slot, Slot | None]:
    """Return the places of weight and bias; raise an error of one line for any other model."""
    shown: dict[str, Any] = {"argument": "algorithm", "value": Shown("LinearGibbs")}
    if not model.is_linear:
        fix = "use nn.Linear, or mlp without hidden layers, or another algorithm, such as SVGI"
        raise ParameterError("needs a network of one Linear layer", fix=fix, **shown)
    if model.frozen:
        problem, unfrozen = f"draws every parameter, and {min(model.frozen)!r} is frozen", Argument("frozen", ())
        raise ParameterError(problem, fix=("give BayesianModel ", unfrozen), **shown)
    if len(model.bayesian[0].shape) != 2:
        fix = "give the weight matrix a prior"
        raise ParameterError(f"needs a prior on {model.fixed[0].name!r}", fix=fix, **shown)
    prior = model.bayesian[0].prior
    assert prior is not None
    if not prior.draws_scales_jointly and type(prior).gibbs_reversed is ScaleMixturePrior.gibbs_reversed:
        fix = "define its gibbs_reversed"
        raise ParameterError(f"needs the reversed sweep of the prior {type(prior).__name__}", fix=fix, **shown)
    bias = next((slot for slot in (*model.bayesian, *model.fixed) if len(slot.shape) == 1), None)
    return model.bayesian[0], bias
