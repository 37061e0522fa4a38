"""A network with a linear path, the path fitted first: y = A x + f(x), A exactly, then f by SVGI on what A leaves.

1. A by the sweeps of `LinearGibbs`, as if f were zero: y = b + A x + e, e ~ N(0, sigma^2). Every draw leaves each row
   out in closed form (`linear_loo`); over draws, with weights proportional to 1 / p(y_i | y_-i, draw), these are

       m_i = E[y_i | y_-i],      V_i = Var[y_i | y_-i] = sigma^2 + what the other rows leave uncertain of b + A x_i

2. f by SVGI on the residuals r_i = y_i - m_i (+ mean of b, which f can represent and A cannot), with learnt noise v.
   Residuals of fitted values would be too small where a row fits itself: with p >= n they can be zero, and f would
   have nothing to learn from. Those of left-out values are what A's prediction misses at new rows.

The left-out residuals contain the error of A: their variance about f is v = mean (sigma^2 + error of A), so draws of A
with noise v would count that error twice; A's mean with noise v counts it once, as if it were the same at every x. And
sigma^2 of the first stage contains what f explains in the second. Both are put right by one number for each output: of
the residuals' variance u, f leaves v, and what the first stage predicts is scaled by that share. With V = mean_i V_i,

    c = min(1, v / u),   A'_k = mean(A) + sqrt(c) (A_k - mean(A)),
    sigma'_k^2 = c ((1 + 1/n) sigma_k^2 + max(0, u - V))

Given f, A has a covariance proportional to the noise variance (A_j ~ N(0, sigma^2 g^2 v_j)), so that spread and noise
fall by the same factor as f explains more; 1/n is the variance of b. The predictive variance about f, averaged over
rows, is then c max(u, V): v where the residuals are as large as the first stage predicts them (u = V) or larger, each
uncertainty counted once, and intervals are wider where A is less certain. Where inputs outnumber rows, u falls short of
V: every draw of the scales has seen the row that is left out, and no weights undo that; V is the variance that holds.
Where f explains nothing, c is about 1 and the posterior is that of `LinearGibbs`. If in the end a network
whose Bayesian weights are all zero leaves less of the residuals than f does, it is taken for f: so f does no harm where
the targets are a line to the last digits, which a draw of f cannot be.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from torch import Tensor

from r2d2net.errors import DataError, ParameterError, Shown, Value, require_whole
from r2d2net.inference.base import Batch, Info, Method, Trainer, copied, make_plain
from r2d2net.inference.descent import STARTS, require_one_of, require_share, settled_start
from r2d2net.inference.linear_gibbs import LinearChains, LinearGibbs, LinearGibbsState
from r2d2net.inference.mean_field_family import VariationalState
from r2d2net.inference.pareto_smoothing import pareto_weights
from r2d2net.inference.path_draws import PathDraws, PathState
from r2d2net.inference.path_parts import Parts, parts_of
from r2d2net.inference.row_keys import row_keys
from r2d2net.inference.svgi_start import SVGIStart
from r2d2net.likelihoods.base import Noise, Unit
from r2d2net.model import BayesianModel, Tensors

EPOCHS = 40
NOTHING = 60.0  # rho of weights that are held at zero: deviations of e^-30
ROWS_AT_ONCE = 1 << 22  # numbers of draws times rows, in memory at a time
POOR = 1.2  # R-hat of the linear fit above which more sweeps are advised: its predictions hardly depend on less
LEAST_VARIANCE = 1e-12  # of rows left out
LEAST_NOISE = 1e-6  # of standardised targets


@dataclass(frozen=True, kw_only=True)
class LinearFirst(Method):
    """Exact linear fit, then SVGI of the network beside it; an epoch is ``epoch_steps`` sweeps or gradient steps.

    For networks with a linear path (`nets.LinearPath`, ``mlp(..., linear=True)``) and a Gaussian likelihood whose noise
    is learnt. The first epochs are sweeps of A, as `LinearGibbs` takes them; the others are steps of SVGI on the
    residuals of left-out rows, each on up to 128 rows. By default they are 600 sweeps and 1,000 steps. The posterior
    has stored draws of A and new draws of the network; how their uncertainties are joined is in the module's
    docstring. It supposes inputs with means of zero, as `fit` makes them. The history has ``r_hat`` of the linear fit.

    Args:
        linear_share: Share of the epochs that the linear fit takes, at least one of each kind.
        epoch_steps: Sweeps or gradient steps of an epoch.
        chains: Chains of the linear fit, advanced side by side.
        burn_in: Share of its sweeps that is not kept.
        start: "he" starts SVGI at He-normal weights, "net" at the network's own,
            "auto" decides by whether the network was trained (see `network_start`).
        memory: Most bytes that all draws of A may take; where they would take more, they are thinned.
    """

    full_batch: ClassVar[bool] = True
    optimizes: ClassVar[bool] = False
    suits_every_net: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = False
    takes_missing: ClassVar[bool] = False
    needs_linear_path: ClassVar[bool] = True

    linear_share: float = 0.375
    epoch_steps: int = 40
    chains: int = 4
    burn_in: float = 0.25
    start: Literal["auto", "he", "net"] = "auto"
    memory: int = 1 << 30

    def __post_init__(self) -> None:
        make_plain(self)
        require_share("linear_share", self.linear_share, "use a number between 0 and 1", ends=False)
        require_share("burn_in", self.burn_in, "use a number between 0 and 1", ends=False)
        for name in ("epoch_steps", "chains", "memory"):
            require_whole(name, getattr(self, name))
        require_one_of("start", self.start, STARTS)

    def default_epochs(self, n: int) -> int:
        return EPOCHS

    def settled(self, model: BayesianModel[Any]) -> Self:
        return settled_start(self, model)

    def build(self, model: BayesianModel[Any], *, n: int, steps: int) -> TwoStages:
        return TwoStages(self, model, n=n, steps=steps)

    def read(self, saved: Tensors, model: BayesianModel[Any], *, n: int, steps: int) -> PathDraws:
        return PathDraws.read(model, parts_of(model, "LinearFirst"), saved)


class LinearFirstState(NamedTuple):
    """All that changes in a run.

    Attributes:
        step: Number of epochs, an int64 scalar on the CPU.
        linear: State of the linear fit.
        beside: State of SVGI's run.
        residuals: Residuals of left-out rows, in the order of their keys, (n, outputs); zeros before they are known.
        left_out: Mean V of their variances, (outputs,); zeros before.
        noise: sigma^2 as the history shows it, (outputs,).
    """

    step: Tensor
    linear: LinearGibbsState
    beside: VariationalState
    residuals: Tensor
    left_out: Tensor
    noise: Noise


class TwoStages(Trainer[LinearFirstState]):
    """Both fits, bound to a model."""

    def __init__(self, settings: LinearFirst, model: BayesianModel[Any], *, n: int, steps: int) -> None:
        self.parts: Parts = parts_of(model, "LinearFirst")
        if n < 2:
            raise DataError(("the data have ", Value(n), " row"), fix="LinearFirst needs two or more")
        if steps < 2:
            raise ParameterError("is out of range", argument="epochs", value=steps, fix="LinearFirst needs two or more")
        self.linear_epochs = min(steps - 1, max(1, round(settings.linear_share * steps)))
        sweeps, rest = (epochs * settings.epoch_steps for epochs in (self.linear_epochs, steps - self.linear_epochs))
        gibbs = LinearGibbs(chains=settings.chains, burn_in=settings.burn_in, memory=settings.memory)
        if sweeps - round(settings.burn_in * sweeps) < 6:  # two left-out moments, of every third draw
            problem = f"leaves no rows out in {sweeps} sweeps"
            raise ParameterError(problem, argument="algorithm", value=Shown("LinearFirst"), fix="use more epochs")
        self.linear: LinearChains = gibbs.build(self.parts.layer, n=n, steps=sweeps)
        self.svgi = SVGIStart(self.parts.beside, "own", settled_start(settings, model).start, n=n, steps=rest)
        self.settings, self.model, self.n, self.steps = settings, model, n, steps

    # --- start

    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> LinearFirstState:
        outputs = self.parts.slot.shape[0]
        place: dict[str, Any] = {"dtype": self.model.dtype, "device": self.model.device}
        linear = self.linear.init(y, generator, unit)
        if len(linear.loo.draws.mean) == 0:
            fix = "left-out rows need more"
            raise ParameterError("is out of range", argument="memory", value=self.settings.memory, fix=fix)
        return LinearFirstState(
            step=torch.zeros((), dtype=torch.int64),
            linear=linear,
            beside=self.svgi.trainer.init(y, generator, unit),
            residuals=torch.zeros(self.n, outputs, **place),
            left_out=torch.zeros(outputs, **place),
            noise={"variance": torch.ones(outputs, **place)},
        )

    # --- one epoch

    def step(self, state: LinearFirstState, batch: Batch, generator: torch.Generator) -> tuple[LinearFirstState, Info]:
        x, y = batch
        number = self.settings.epoch_steps
        if int(state.step) < self.linear_epochs:
            linear = state.linear
            for _ in range(number):
                linear, _ = self.linear.step(linear, (x.flatten(1), y), generator)
            state = state._replace(linear=linear, step=state.step + 1)
            if int(state.step) == self.linear_epochs:
                state = self._leave_out(state, x, y)
        else:
            order = _order(x, y)
            beside, _ = self.svgi.steps(state.beside, (x[order], state.residuals), number, generator)
            state = state._replace(beside=beside, step=state.step + 1)
            if int(state.step) == self.steps:
                state = state._replace(beside=self._better_of_none(state, x[order]))
        center = self.source(state).center()
        with torch.no_grad():
            output = self.model.forward(center.weights[0], center.fixed[0], _first(center.buffers), x)
        noise = _first(center.noise)
        state = state._replace(noise=noise)
        return state, Info(-self.model.likelihood.log_prob(output, y, noise).mean(), 0.0, 1.0)

    def _leave_out(self, state: LinearFirstState, x: Tensor, y: Tensor) -> LinearFirstState:
        """Compute the residuals of left-out rows and the mean of their variances, and let SVGI's noise know them."""
        dtype = self.model.dtype
        target = y[_order(x, y)].double()
        moments = [values[: int(state.linear.loo.number)].flatten(0, 1) for values in state.linear.loo.draws]
        mean, variance = left_out(moments[0], moments[1], target)
        residuals = target - mean + self._intercept(state.linear).double()
        noise = {"variance": residuals.var(0, correction=0).clamp(min=LEAST_NOISE).to(dtype)}
        return state._replace(
            residuals=residuals.to(dtype),
            left_out=variance.mean(0).clamp(min=LEAST_VARIANCE).to(dtype),
            beside=state.beside._replace(noise=noise),
        )

    def _better_of_none(self, state: LinearFirstState, x: Tensor) -> VariationalState:
        """Return what SVGI has found, or weights of zero if they leave less of the residuals."""
        beside, none = state.beside, without_weights(state.beside)
        with torch.no_grad():
            output = self.parts.beside.forward(none.mean, none.fixed, none.buffers, x)
        left = (state.residuals - output.reshape(state.residuals.shape)).square().mean(0).clamp(min=LEAST_NOISE)
        if bool(left.log().sum() < beside.noise["variance"].log().sum()):
            return none._replace(noise={"variance": left})
        return beside

    def _intercept(self, linear: LinearGibbsState) -> Tensor:
        """Return the posterior mean of b, (outputs,)."""
        assert self.linear.bias is not None
        return self.linear.bias.of(self.linear.source(linear).center().weights[0])

    # --- what the state says

    def measures(self, state: LinearFirstState) -> dict[str, float]:
        """Return R-hat of the linear fit for the history."""
        return self.linear.measures(state.linear)

    def source(self, state: LinearFirstState) -> PathDraws:
        """Return draws of A with draws of f; while A is fitted, f is zero."""
        drawn = self.linear.source(state.linear).state
        path = self.linear.weight.of(drawn.weights).flatten(0, 1)  # (draws, outputs, inputs)
        variance = drawn.noise["variance"].flatten(0, 1)
        beside, trainer = state.beside, self.svgi.trainer
        if int(state.step) < self.linear_epochs or float(state.left_out.sum()) == 0:
            beside = without_weights(beside)
        else:
            residual, center = state.residuals.var(0, correction=0).clamp(min=LEAST_NOISE), path.mean(0)
            share = (beside.noise["variance"] / residual).clamp(max=1)
            path = center + share.sqrt().unsqueeze(-1) * (path - center)
            variance = share * ((1 + 1 / self.n) * variance + (residual - state.left_out).clamp(min=0))
        buffers = Parts.outer_names(beside.buffers)
        deviation = trainer.family.deviation(beside, trainer.blocks)
        stored = (path.flatten(1), beside.mean, deviation, beside.fixed, buffers, {"variance": variance})
        return PathDraws(self.model, self.parts, PathState(state.step, *stored))

    def finish(self, state: LinearFirstState) -> PathDraws:
        """Return the draws; warn if the chains of the linear fit disagree."""
        r_hat = float(state.linear.r_hat)
        if r_hat > POOR:
            advice = f"the chains of the linear fit disagree after {int(state.linear.step)} sweeps (R-hat {r_hat:.3g})"
            warnings.warn(f"{advice}: use more epochs, such as {4 * self.steps}", stacklevel=2)
        return self.source(state._replace(beside=copied(state.beside)))


def without_weights(beside: VariationalState) -> VariationalState:
    """Return the state with all Bayesian weights held at zero.

    Args:
        beside: State of SVGI's run.

    Returns:
        The new state.
    """
    return beside._replace(mean=torch.zeros_like(beside.mean), rho=torch.full_like(beside.rho, NOTHING))


def left_out(mean: Tensor, variance: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Compute means and variances of rows left out, from those given each draw of the scales.

    Args:
        mean: E[y_i | y_-i, draw], (draws, outputs, n).
        variance: Var[y_i | y_-i, draw], of the same shape.
        y: Targets, (n, outputs).

    Returns:
        Means and variances over draws, (n, outputs).
    """
    means, variances = [], []
    for rows in torch.arange(len(y), device=y.device).split(max(1, ROWS_AT_ONCE // len(mean))):
        m, v = mean[..., rows].double(), variance[..., rows].double()
        log_p = -(y[rows].T - m).square() / v / 2 - (2 * math.pi * v).log() / 2
        weights, _ = pareto_weights(-log_p)
        center = (weights * m).sum(0)
        means.append(center.T)
        variances.append((weights * (v + (m - center).square())).sum(0).T)
    return torch.cat(means), torch.cat(variances)


def _order(x: Tensor, y: Tensor) -> Tensor:
    """Return the order of the rows by their keys, which is that of `LinearGibbs`."""
    return row_keys(x.flatten(1), y).sort().indices


def _first(tensors: Tensors) -> Tensors:
    return {name: tensor[0] for name, tensor in tensors.items()}
