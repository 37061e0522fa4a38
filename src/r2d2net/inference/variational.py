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

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from r2d2net.errors import require, require_whole
from r2d2net.inference.adam import Moments, adam_step, no_moments
from r2d2net.inference.base import Batch, Draws, Info
from r2d2net.inference.descent import (
    START_SWEEPS,
    Descent,
    Training,
    clip_gradients,
    flat_gradients,
    leaves_of,
    require_one_of,
    require_positive,
)
from r2d2net.inference.local_reparametrization import LocalReparametrization, is_cheap_for
from r2d2net.inference.pieces import Pieces
from r2d2net.likelihoods.base import Noise, Unit
from r2d2net.model import BayesianModel, Tensors

WARM_UP_SHARE = 0.6
WARM_UP_ROWS_PER_INPUT = 20
RHO_SHARE = 1 / 3  # step size of rho as a share of that of the means


class Piece(NamedTuple):
    """Some of the weights, all that a step changes of them, and what their gradients are."""

    mean: Tensor
    rho: Tensor
    precision: Tensor
    scale: Tensor  # s
    g_mean: Tensor
    g_rho: Tensor
    mean_first: Tensor
    mean_second: Tensor
    rho_first: Tensor
    rho_second: Tensor
    unit: Tensor | float

    def step_mean(self, t: int, lr: float, *, precision: Tensor | None = None, weight: float = 0.0) -> None:
        """Adam's step of the means, and the proximal one of a precision."""
        moments = Moments(self.mean_first, self.mean_second)
        adam_step(self.mean, self.g_mean, moments, t, lr, self.unit, precision=precision, weight=weight)

    def step_rho(self, gradient: Tensor, t: int, lr: float) -> None:
        """Adam's step of rho."""
        adam_step(self.rho, gradient, Moments(self.rho_first, self.rho_second), t, lr)


class VariationalState(NamedTuple):
    """All that changes in training."""

    step: Tensor  # number of steps taken, an int64 scalar on the CPU
    mean: Tensor  # (weights,)
    rho: Tensor  # (weights,)
    fixed: Tensor  # deterministic parameters
    precision: Tensor  # 1 / v, (weights,)
    moments: dict[str, Moments]
    scales: dict[str, Any]  # parameter name -> the prior's scales
    noise: Noise
    buffers: Tensors


@dataclass(frozen=True, kw_only=True)
class Variational(Training):
    """Settings shared by SVGI, CAVI, SVI, MFVI and Radial; the others are those of `Training`.

    Args:
        lr_rho: Largest step size for rho; by default a third of lr (SVI and Radial: a twentieth).
        variance: "free" or "scaled" (see the module's docstring).
        initial_scale: s at the start, as a share of He's sqrt(2 / fan-in).
        warm_up: Share of the steps over which the KL's weight rises from 0 to 1. None decides: 0.6 where there are
            at least 20 rows for each input of the first layer, of which a convolution has as many as its patch, else
            0: with few rows the prior must be there from the start.
        draws: Weight draws averaged in each step.
        estimator: "local" draws the activations of Linear and Conv layers, "weights" the weights; the former costs
            up to twice as much a step and its gradients have less noise. None decides: "local" where all Bayesian
            weights are of linear layers and no more than 100,000.
    """

    lr_rho: float | None = None
    variance: Literal["free", "scaled"] = "free"
    initial_scale: float = 0.1
    warm_up: float | None = None
    draws: int = 1
    estimator: Literal["weights", "local"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("lr_rho", self.lr_rho, optional=True)
        require_positive("initial_scale", self.initial_scale)
        require_whole("draws", self.draws)
        require_one_of("variance", self.variance, ("free", "scaled"))
        if self.estimator is not None:
            require_one_of("estimator", self.estimator, ("weights", "local"))
        if self.warm_up is not None:
            require(0 <= self.warm_up <= 1, "warm_up", self.warm_up, "use a share between 0 and 1")


class MeanField(Descent):
    """Mean-field inference bound to a model; subclasses say how scales are refreshed."""

    settings: Variational
    rho_share = RHO_SHARE  # where the user gives no lr_rho

    def __init__(self, settings: Variational, model: BayesianModel, *, n: int, steps: int) -> None:
        super().__init__(settings, model, n=n, steps=steps)
        self.pieces = Pieces(model.bayesian, self.step_unit)
        local = is_cheap_for(model) if settings.estimator is None else settings.estimator == "local"
        self.local = LocalReparametrization(model) if local else None
        self.warm_up = settings.warm_up
        if self.warm_up is None:
            many = n >= WARM_UP_ROWS_PER_INPUT * model.first_fan_in()
            self.warm_up = WARM_UP_SHARE if many else 0.0

    # --- start

    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> VariationalState:
        """The state before the first step; ``y`` are the training targets, standardised by ``unit``."""
        model = self.model
        mean, fixed = self.start_weights(generator)
        start = self.settings.initial_scale * self.unit
        state = VariationalState(
            step=torch.zeros((), dtype=torch.int64),
            mean=mean,
            rho=torch.zeros_like(mean),
            fixed=fixed,
            precision=torch.ones_like(mean),
            moments={"mean": no_moments(mean), "rho": no_moments(mean), "fixed": no_moments(fixed)},
            scales=self.start_scales(generator),
            noise=model.likelihood.init(y, unit),
            buffers=model.buffers(),
        )
        self.refresh_all(state.scales, state.precision, mean, mean, start, generator, sweeps=START_SWEEPS)
        state.rho.copy_(self.start_rho(start, state.precision))
        return state

    def start_rho(self, scale: Tensor, precision: Tensor) -> Tensor:
        """rho at the start, for deviations of about ``scale``."""
        if self.settings.variance == "free":
            return -2 * torch.log(scale)
        return torch.log(torch.expm1((scale * precision.sqrt()).clamp(1e-4, 10.0)))

    # --- one step

    def step(self, state: VariationalState, batch: Batch, generator: torch.Generator) -> tuple[VariationalState, Info]:
        t = int(state.step) + 1
        lr, beta = self.learning_rate(t), self.temperature(t) / self.n
        nll, noise = self._descend(state, batch, generator, t, lr, beta)
        state = state._replace(step=state.step + 1, noise=noise)
        if t % self.settings.sweep_every == 0:
            scale = self.deviation(state)
            if not bool(torch.isfinite(nll + state.mean.sum() + scale.sum())):
                return state, Info(nll, lr, self.temperature(t))  # diverged: no prior has scales for such weights
            drawn = self.unit_noise(generator).mul_(scale).add_(state.mean)
            self.refresh_all(state.scales, state.precision, drawn, state.mean, scale, generator)
        return state, Info(nll, lr, self.temperature(t))

    def _descend(
        self, state: VariationalState, batch: Batch, generator: torch.Generator, t: int, lr: float, beta: float
    ) -> tuple[Tensor, Noise]:
        settings, likelihood = self.settings, self.model.likelihood
        x, y = batch
        noise = state.noise
        scale = torch.empty_like(state.rho)
        for some in zip(*map(self.pieces.of, (scale, state.rho, state.precision)), strict=True):
            self.deviation_of(*some)
        output, gradients = self._gradients(state, scale, x, y, generator)
        for k in range(settings.draws):
            if k:
                output, others = self._gradients(state, scale, x, y, generator)
                for total, part in zip(gradients, others, strict=True):
                    total.add_(part)
            noise = likelihood.observe(output, y, noise, self.noise_rate(len(y), t) / settings.draws)
        if settings.draws > 1:
            for total in gradients:
                total.div_(settings.draws)
        g_mean, g_rho, g_fixed, nll = gradients
        if settings.clip is not None:
            clip_gradients([g_mean, g_rho, g_fixed], settings.clip)
        vectors = map(self.pieces.of, self._vectors(state, scale, g_mean, g_rho))
        for piece in zip(*vectors, self.pieces.units, strict=True):
            self.update(Piece(*piece), t, lr, beta)
        if state.fixed.numel():
            adam_step(state.fixed, g_fixed, state.moments["fixed"], t, lr, self.fixed_step_unit)
        return nll, noise

    @staticmethod
    def _vectors(state: VariationalState, scale: Tensor, g_mean: Tensor, g_rho: Tensor) -> tuple[Tensor, ...]:
        moments = state.moments
        return state.mean, state.rho, state.precision, scale, g_mean, g_rho, *moments["mean"], *moments["rho"]

    def update(self, piece: Piece, t: int, lr: float, beta: float) -> None:
        """Move means and rho by the likelihood's gradients in mu and log s."""
        piece.step_mean(t, lr, precision=piece.precision, weight=beta)
        if self.settings.variance == "free":
            kept = torch.mul(piece.scale, piece.scale).mul_(piece.precision)  # 1 - lambda s^2
            piece.step_rho(kept.mul_(-beta).add_(beta).sub_(piece.g_rho), t, self.rho_rate(lr))
        else:  # s = softplus(rho) sqrt(v), whose KL in rho is that to a unit normal
            sigma, slope = softplus(piece.rho), torch.sigmoid(piece.rho)
            piece.step_rho((piece.g_rho / sigma).add_(beta * (sigma - 1 / sigma)).mul_(slope), t, self.rho_rate(lr))

    def _gradients(
        self, state: VariationalState, scale: Tensor, x: Any, y: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor, Tensor]]:
        """The output at one draw, and the loss's gradients in mu, log s and the fixed parameters, and itself."""
        if self.local is not None:
            output, loss, (g_mean, g_scale, g_fixed) = self._backward(state, (state.mean, scale), x, y, generator)
            return output, (g_mean, g_scale.mul_(scale), g_fixed, loss)
        weights = self.unit_noise(generator)
        for drawn, s, mean in zip(*map(self.pieces.of, (weights, scale, state.mean)), strict=True):
            drawn.mul_(s).add_(mean)
        output, loss, (g_mean, g_fixed) = self._backward(state, (weights,), x, y, generator)
        return output, (g_mean, weights.sub_(state.mean).mul_(g_mean), g_fixed, loss)

    @torch.enable_grad()
    def _backward(
        self, state: VariationalState, vectors: tuple[Tensor, ...], x: Any, y: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Output and loss at drawn weights, or at mean and deviation, and the gradients in these and what is fixed."""
        model = self.model
        leaves = [leaves_of(model.bayesian, vector) for vector in vectors]
        fixed = leaves_of(model.fixed, state.fixed)
        with self.autocast():
            if self.local is None:
                names = [slot.name for slot in (*model.bayesian, *model.fixed)]
                model.net.train()
                parameters = dict(zip(names, (*leaves[0], *fixed), strict=True))
                output = model.call(model.net, {**parameters, **state.buffers}, x)
            else:
                output = self.local.forward(leaves[0], leaves[1], fixed, state.buffers, x, generator)
        output = output.to(state.mean.dtype)
        loss = -model.likelihood.log_prob(output, y, state.noise).mean()
        return output.detach(), loss.detach(), flat_gradients(loss, [*leaves, fixed])

    def rho_rate(self, lr: float) -> float:
        """Step size of rho where that of the means is ``lr``."""
        settings = self.settings
        return lr * (self.rho_share if settings.lr_rho is None else settings.lr_rho / self.largest_step)

    def temperature(self, t: int) -> float:
        """Weight of the KL at step t."""
        assert self.warm_up is not None
        rising = min(1.0, t / (self.warm_up * self.steps)) if self.warm_up > 0 else 1.0
        return self.settings.temperature * rising

    # --- what the state says

    def deviation(self, state: VariationalState) -> Tensor:
        """s_j, the standard deviation of each weight under q."""
        return self.deviation_of(torch.empty_like(state.rho), state.rho, state.precision)

    def deviation_of(self, out: Tensor, rho: Tensor, precision: Tensor) -> Tensor:
        """The same of some weights, written to ``out``."""
        if self.settings.variance == "free":
            return torch.exp(rho, out=out).add_(precision).rsqrt_()
        return torch.div(softplus(rho), precision.sqrt(), out=out)

    def draws(
        self,
        state: VariationalState,
        n: int,
        generator: torch.Generator | None = None,
        at_once: int | None = None,
    ) -> Iterator[Draws]:
        deviation = self.deviation(state)
        for start in range(0, n, n if at_once is None else at_once):
            count = min(n - start, n if at_once is None else at_once)
            weights = self.unit_noise(generator, count).mul_(deviation).add_(state.mean)
            yield Draws.sharing(weights, state.fixed, state.buffers, state.noise)

    def unit_noise(self, generator: torch.Generator | None, *draws: int) -> Tensor:
        """(w - mu) / s under q, of mean 0 and variance 1: standard normal, (*draws, weights)."""
        model = self.model
        return torch.empty(*draws, model.size, dtype=model.dtype, device=model.device).normal_(generator=generator)

    def center(self, state: VariationalState) -> Draws:
        return Draws.sharing(state.mean[None], state.fixed, state.buffers, state.noise)

    def kl(self, state: VariationalState) -> Tensor:
        """KL(q(w) q(scales) || p(w, scales)) in nats, over all weights and scale variables.

        q(scales) is the coordinate-ascent factor at the present q(w), so -nll N - kl is a true lower bound of the
        evidence in every mode.
        """
        scale = self.deviation(state)
        total = -self.entropy(scale)
        moment = state.mean.square() + scale.square()
        for slot in self.model.bayesian:
            assert slot.prior is not None
            second = slot.of(moment)
            total = total - slot.prior.cavi(second, state.scales[slot.name]).bound(second)
        return total

    def entropy(self, deviation: Tensor) -> Tensor:
        """Entropy of q(w) in nats."""
        return 0.5 * (math.log(2 * math.pi) + 1) * deviation.numel() + torch.log(deviation).sum()
