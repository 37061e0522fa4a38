"""Mean-field Gaussian inference over the weights, whatever the prior: the engine of SVGI, CAVI and SVI.

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
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from r2d2net.errors import ParameterError, require, require_whole
from r2d2net.inference.adam import Moments, adam_step, no_moments, shrink_mean
from r2d2net.inference.base import Batch, Info
from r2d2net.inference.local_reparametrization import LocalReparametrization
from r2d2net.likelihoods.base import Noise, Unit
from r2d2net.model import BayesianModel, Slot, Tensors
from r2d2net.priors import Gaussian

START_SWEEPS = 10  # refreshes of the scales at the start, so that they know the initial weights
NOISE_RATES = 0.01, 0.2  # bounds of a batch's weight in the running mean of squared residuals
WARM_UP_SHARE = 0.6
RISE_SHARE = 0.05  # of the steps, over which the step size rises: Adam's first steps know no scale
LARGEST_STEP, SHORT_RUN = 0.3, 800  # largest step size, in units of He's deviation, of runs of so many steps or fewer
WARM_UP_ROWS_PER_INPUT = 20
RHO_SHARE = 1 / 3  # step size of rho as a share of that of the means
NO_BFLOAT16 = ("not implemented for 'BFloat16'", "could not create a primitive")  # how torch says that it cannot


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
class Variational:
    """Settings shared by SVGI, CAVI and SVI.

    Args:
        lr: Adam's largest step size for the means and deterministic parameters, reached after 5% of the steps, as a
            share of He's sqrt(2 / fan-in): a wide layer takes small steps. None decides by the length of the run: 0.3
            up to 800 steps, and less in longer ones as steps^(-3/4).
        lr_rho: Largest step size for rho; by default a third of lr.
        schedule: "cosine" lets the step size fall to zero over the run, "constant" keeps it.
        temperature: Weight of the KL; 1 is the evidence lower bound.
        sweep_every: Steps between two refreshes of the scales.
        variance: "free" or "scaled" (see the module's docstring).
        initial_scale: s at the start, as a share of He's sqrt(2 / fan-in).
        start: "he" draws He-normal means, "net" starts from the network's own weights (a trained network, say).
        warm_up: Share of the steps over which the KL's weight rises from 0 to 1. None decides: 0.6 where there are
            at least 20 rows for each input, else 0 (with few rows the prior must be there from the start).
        draws: Weight draws averaged in each step.
        clip: Largest norm of the likelihood's gradient; None does not clip.
        estimator: "local" draws the activations of Linear and Conv layers, "weights" the weights; the former costs
            up to twice as much a step and its gradients have less noise.
        autocast: "bfloat16" runs training's forward pass, and so its backward pass, in `torch.autocast` of that dtype:
            for float32 networks on hardware that has it. Likelihood, KL, precisions and optimiser stay in float32.
            float16 is not offered: its small range needs a loss scaled up and rescaled when it overflows.
    """

    lr: float | None = None
    lr_rho: float | None = None
    schedule: Literal["cosine", "constant"] = "cosine"
    temperature: float = 1.0
    sweep_every: int = 8
    variance: Literal["free", "scaled"] = "free"
    initial_scale: float = 0.1
    start: Literal["he", "net"] = "he"
    warm_up: float | None = None
    draws: int = 1
    clip: float | None = None
    estimator: Literal["weights", "local"] = "local"
    autocast: Literal["bfloat16"] | None = None

    def __post_init__(self) -> None:
        optional = {"lr": self.lr, "lr_rho": self.lr_rho, "clip": self.clip}
        positive = {"initial_scale": self.initial_scale} | {k: v for k, v in optional.items() if v is not None}
        for name, value in positive.items():
            # Python's own numbers: others, such as numpy's, could not be saved
            fits = isinstance(value, (int, float)) and 0 < value < math.inf
            require(fits, name, repr(value), "use a positive number, such as 0.1")
        require(0 <= self.temperature < math.inf, "temperature", self.temperature, "use 0 or a positive number")
        for name in ("sweep_every", "draws"):
            require_whole(name, getattr(self, name))
        choices = {"schedule": ("cosine", "constant"), "variance": ("free", "scaled"), "start": ("he", "net")}
        choices["estimator"] = ("weights", "local")
        for name, allowed in choices.items():
            require(getattr(self, name) in allowed, name, repr(getattr(self, name)), f"use one of {', '.join(allowed)}")
        require(self.autocast in (None, "bfloat16"), "autocast", repr(self.autocast), "use 'bfloat16' or None")
        if self.warm_up is not None:
            require(0 <= self.warm_up <= 1, "warm_up", self.warm_up, "use a share between 0 and 1")


class MeanField(ABC):
    """Mean-field inference bound to a model; subclasses say how scales are refreshed."""

    def __init__(
        self, settings: Variational, model: BayesianModel, *, n: int, steps: int, inputs: int | None = None
    ) -> None:
        require(n >= 1, "n", n, "give the number of training rows")
        require(steps >= 1, "steps", steps, "give the number of steps of the whole run")
        casts = settings.autocast is None or model.dtype == torch.float32
        require(casts, "autocast", repr(settings.autocast), f"it needs a float32 network, this one is {model.dtype}")
        self.settings, self.model, self.n, self.steps = settings, model, n, steps
        self.largest_step = LARGEST_STEP * min(1.0, SHORT_RUN / steps) ** 0.75 if settings.lr is None else settings.lr
        self.unit, self.fixed_unit = model.he_scale(), model.fixed_he_scale()
        self.local = LocalReparametrization(model) if settings.estimator == "local" else None
        self.warm_up = settings.warm_up
        if self.warm_up is None:
            many = inputs is not None and n >= WARM_UP_ROWS_PER_INPUT * inputs
            self.warm_up = WARM_UP_SHARE if many else 0.0

    # --- start

    def init(self, y: Tensor, generator: torch.Generator, unit: Unit | None = None) -> VariationalState:
        """The state before the first step; ``y`` are the training targets, standardised by ``unit``."""
        model, settings = self.model, self.settings
        mean, fixed = model.he_start(generator) if settings.start == "he" else model.own_weights()
        start = settings.initial_scale * self.unit
        scales = {
            slot.name: slot.prior.init_scales(slot.shape, generator, dtype=model.dtype, device=model.device)
            for slot in model.bayesian
            if slot.prior is not None
        }
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
        for slot in model.bayesian:
            self._refresh(slot, state, mean, start, generator, sweeps=START_SWEEPS)
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
            drawn = torch.empty_like(state.mean).normal_(generator=generator).mul_(scale).add_(state.mean)
            for slot in self.model.bayesian:
                self._refresh(slot, state, drawn, scale, generator)
        return state, Info(nll, lr, self.temperature(t))

    def _descend(
        self, state: VariationalState, batch: Batch, generator: torch.Generator, t: int, lr: float, beta: float
    ) -> tuple[Tensor, Noise]:
        settings, model = self.settings, self.model
        x, y = batch
        scale = self.deviation(state)
        g_mean, g_scale = torch.zeros_like(state.mean), torch.zeros_like(state.mean)
        g_fixed = torch.zeros_like(state.fixed)
        nll = torch.zeros((), dtype=state.mean.dtype, device=state.mean.device)
        noise = state.noise
        for _ in range(settings.draws):
            output, gradients = self._gradients(state, scale, x, y, generator)
            for total, part in zip((g_mean, g_scale, g_fixed, nll), gradients, strict=True):
                total.add_(part, alpha=1 / settings.draws)
            rate = max(self.noise_rate(len(y)), 1 / t) / settings.draws
            noise = model.likelihood.observe(output, y, noise, rate)
        if settings.clip is not None:
            _clip([g_mean, g_scale, g_fixed], settings.clip)
        if settings.variance == "free":
            self.update(state, g_mean, g_scale.mul_(scale), scale, t, lr, beta)
        else:
            self._update_scaled(state, g_mean, g_scale, t, lr, beta)
        if state.fixed.numel():
            adam_step(state.fixed, g_fixed, state.moments["fixed"], t, lr, self.fixed_unit)
        return nll, noise

    def update(
        self, state: VariationalState, g_mean: Tensor, g_rho: Tensor, scale: Tensor, t: int, lr: float, beta: float
    ) -> None:
        """Move means and rho by the likelihood's gradients in mu and log s."""
        eta = adam_step(state.mean, g_mean, state.moments["mean"], t, lr, self.unit)
        shrink_mean(state.mean, eta, state.precision, beta)
        added = torch.exp(state.rho).mul_(scale).mul_(scale)
        adam_step(state.rho, added.mul_(beta).sub_(g_rho), state.moments["rho"], t, self.rho_rate(lr))

    def _update_scaled(
        self, state: VariationalState, g_mean: Tensor, g_scale: Tensor, t: int, lr: float, beta: float
    ) -> None:
        """The same for s = softplus(rho) sqrt(v), whose KL in rho is that to a unit normal."""
        eta = adam_step(state.mean, g_mean, state.moments["mean"], t, lr, self.unit)
        shrink_mean(state.mean, eta, state.precision, beta)
        sigma, slope = softplus(state.rho), torch.sigmoid(state.rho)
        gradient = g_scale.div_(state.precision.sqrt()).add_(beta * (sigma - 1 / sigma)).mul_(slope)
        adam_step(state.rho, gradient, state.moments["rho"], t, self.rho_rate(lr))

    @torch.enable_grad()
    def _gradients(
        self, state: VariationalState, scale: Tensor, x: Any, y: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor, Tensor]]:
        """The output at one draw, and the loss's gradients in means, deviations and fixed parameters, and itself."""
        fixed = state.fixed.clone().requires_grad_()
        if self.local is None:
            epsilon = torch.empty_like(state.mean).normal_(generator=generator)
            weights = torch.addcmul(state.mean, scale, epsilon).requires_grad_()
            with self._autocast():
                output = self.model.forward(weights, fixed, state.buffers, x, training=True)
            output = output.to(weights.dtype)
            loss = -self.model.likelihood.log_prob(output, y, state.noise).mean()
            g, g_fixed = torch.autograd.grad(loss, (weights, fixed), materialize_grads=True)
            return output.detach(), (g, g * epsilon, g_fixed, loss.detach())
        mean, deviation = state.mean.detach().requires_grad_(), scale.detach().requires_grad_()
        with self._autocast():
            output = self.local.forward(mean, deviation, fixed, state.buffers, x, generator)
        output = output.to(mean.dtype)
        loss = -self.model.likelihood.log_prob(output, y, state.noise).mean()
        g_mean, g_scale, g_fixed = torch.autograd.grad(loss, (mean, deviation, fixed), materialize_grads=True)
        return output.detach(), (g_mean, g_scale, g_fixed, loss.detach())

    @contextmanager
    def _autocast(self) -> Iterator[None]:
        if self.settings.autocast is None:
            yield
            return
        try:
            with torch.autocast(self.model.device.type, torch.bfloat16):
                yield
        except RuntimeError as error:
            if not any(sign in str(error) for sign in NO_BFLOAT16):
                raise
            reason = str(error).splitlines()[0]
            raise ParameterError(f"autocast='bfloat16' does not suit this network here: {reason}") from error

    def noise_rate(self, rows: int) -> float:
        """Weight of a batch in the running mean of squared residuals, which thus remembers about one epoch."""
        least, most = NOISE_RATES
        return min(most, max(least, rows / self.n))

    def rho_rate(self, lr: float) -> float:
        """Step size of rho where that of the means is ``lr``."""
        settings = self.settings
        return lr * (RHO_SHARE if settings.lr_rho is None else settings.lr_rho / self.largest_step)

    def learning_rate(self, t: int) -> float:
        """Step size at step t of the run."""
        rising = min(1.0, t / (RISE_SHARE * self.steps))
        if self.settings.schedule == "constant":
            return self.largest_step * rising
        return self.largest_step * rising * 0.5 * (1 + math.cos(math.pi * min(1.0, (t - 1) / self.steps)))

    def temperature(self, t: int) -> float:
        """Weight of the KL at step t."""
        assert self.warm_up is not None
        rising = min(1.0, t / (self.warm_up * self.steps)) if self.warm_up > 0 else 1.0
        return self.settings.temperature * rising

    # --- scales

    def _refresh(
        self,
        slot: Slot,
        state: VariationalState,
        drawn: Tensor,
        scale: Tensor,
        generator: torch.Generator,
        sweeps: int = 1,
    ) -> None:
        """Refresh one parameter's scales and write its precision."""
        assert slot.prior is not None
        scales = state.scales[slot.name]
        if not isinstance(slot.prior, Gaussian):
            for _ in range(sweeps):
                scales = self.refresh(slot, scales, drawn, state.mean, scale, generator)
            state.scales[slot.name] = scales
        slot.of(state.precision).copy_(1 / slot.prior.variance(scales))

    @abstractmethod
    def refresh(
        self, slot: Slot, scales: Any, drawn: Tensor, mean: Tensor, scale: Tensor, generator: torch.Generator
    ) -> Any:
        """One refresh of a parameter's scales given a draw of all weights, their means and deviations."""

    # --- what the state says

    def deviation(self, state: VariationalState) -> Tensor:
        """s_j, the standard deviation of each weight under q."""
        if self.settings.variance == "free":
            return torch.rsqrt(torch.exp(state.rho).add_(state.precision))
        return softplus(state.rho) / state.precision.sqrt()

    def mean(self, state: VariationalState) -> Tensor:
        """E_q[w]."""
        return state.mean

    def sample(self, state: VariationalState, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws of all weights, (n, weights)."""
        noise = torch.empty(n, *state.mean.shape, dtype=state.mean.dtype, device=state.mean.device)
        return noise.normal_(generator=generator).mul_(self.deviation(state)).add_(state.mean)

    def kl(self, state: VariationalState) -> Tensor:
        """KL(q(w) q(scales) || p(w, scales)) in nats, over all weights and scale variables.

        q(scales) is the coordinate-ascent factor at the present q(w), so -nll N - kl is a true lower bound of the
        evidence in every mode.
        """
        scale = self.deviation(state)
        total = -0.5 * (math.log(2 * math.pi) + 1) * state.mean.numel() - torch.log(scale).sum()
        moment = state.mean.square() + scale.square()
        for slot in self.model.bayesian:
            assert slot.prior is not None
            second = slot.of(moment)
            total = total - slot.prior.cavi(second, state.scales[slot.name]).bound(second)
        return total


def _clip(gradients: list[Tensor], most: float) -> None:
    """Scale the gradients down to a joint norm of at most ``most``, in place and without a host round trip."""
    norm = torch.sqrt(sum((g.square().sum() for g in gradients), start=gradients[0].new_zeros(())))
    factor = (most / norm.clamp(min=1e-30)).clamp(max=1)
    for gradient in gradients:
        gradient.mul_(factor)
