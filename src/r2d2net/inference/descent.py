"""What all algorithms that take gradient steps have in common: settings, step sizes, the noise and the prior's scales.

Steps are in units of He's deviation, so that one default serves layers of 1 and of 4,000 inputs. Their size rises over
the first steps, since Adam's first ones know no scale, and then falls to zero along half a cosine.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeGuard

import torch
from torch import Tensor

from r2d2net.errors import Argument, ParameterError, require, require_whole
from r2d2net.inference.adam import Moments, Step, adam_step
from r2d2net.inference.base import Method, Running, make_plain
from r2d2net.inference.vector_blocks import Pieces
from r2d2net.model import AnyPrior, BayesianModel, Slot

START_SWEEPS = 10  # refreshes of the scales at the start, so that they know the initial weights
NOISE_RATES = 0.01, 0.2  # bounds of a batch's weight in the running mean of squared residuals
RISE_SHARE = 0.05  # of the steps, over which the step size rises: Adam's first steps know no scale
LARGEST_STEP, SHORT_RUN = 0.3, 800  # largest step size, in units of He's deviation, of runs of so many steps or fewer
NO_BFLOAT16 = ("not implemented for 'BFloat16'", "could not create a primitive")  # how torch says that it cannot


@dataclass(frozen=True, kw_only=True)
class Training(Method):
    """Settings of every algorithm that takes gradient steps.

    Args:
        lr: Adam's largest step size for the weights and deterministic parameters, reached after 5% of the steps, as a
            share of He's sqrt(2 / fan-in): a wide layer takes small steps. None decides by the length of the run: 0.3
            up to 800 steps, and less in longer ones as steps^(-3/4).
        step_unit: "he", or "one" for steps of the same size in every layer, as Adam takes them elsewhere; give an lr
            then.
        schedule: "cosine" lets the step size fall to zero over the run, "constant" keeps it.
        temperature: Weight of the prior; 1 is Bayes' rule.
        sweep_every: Steps between two refreshes of the scales of hierarchical priors.
        start: "he" draws He-normal weights, "net" starts from the network's own (a trained network, say).
        clip: Largest norm of the likelihood's gradient; None does not clip.
        autocast: "bfloat16" runs training's forward pass, and so its backward pass, in `torch.autocast` of that dtype:
            for float32 networks on hardware that has it. Likelihood, prior and optimiser stay in float32.
            float16 is not offered: its small range needs a loss scaled up and rescaled when it overflows.
    """

    lr: float | None = None
    step_unit: Literal["he", "one"] = "he"
    schedule: Literal["cosine", "constant"] = "cosine"
    temperature: float = 1.0
    sweep_every: int = 8
    start: Literal["he", "net"] = "he"
    clip: float | None = None
    autocast: Literal["bfloat16"] | None = None

    def __post_init__(self) -> None:
        make_plain(self)
        for name in ("lr", "clip"):
            require_positive(name, getattr(self, name), optional=True)
        require_from_zero("temperature", self.temperature)
        require_whole("sweep_every", self.sweep_every)
        require_one_of("schedule", self.schedule, ("cosine", "constant"))
        require_one_of("step_unit", self.step_unit, ("he", "one"))
        fix = (Argument("step_unit", "one"), " needs one, such as 5e-4")
        require(self.step_unit == "he" or self.lr is not None, "lr", self.lr, fix)
        require_one_of("start", self.start, ("he", "net"))
        require(self.autocast in (None, "bfloat16"), "autocast", self.autocast, "use 'bfloat16' or None")


class Known(NamedTuple):
    """What is known of weights when their scales are refreshed: a draw of them, or means and E w^2."""

    weights: Tensor
    second_moment: Tensor | None = None


class Descent(Running):
    """Gradient steps bound to a model."""

    settings: Training

    def __init__(self, settings: Training, model: BayesianModel, *, n: int, steps: int) -> None:
        require(n >= 1, "n", n, "give the number of training rows")
        require(steps >= 1, "steps", steps, "give the number of steps of the whole run")
        casts = settings.autocast is None or model.dtype == torch.float32
        require(casts, "autocast", settings.autocast, f"it needs a float32 network, this one is {model.dtype}")
        self.settings, self.model, self.n, self.steps = settings, model, n, steps
        self.largest_step = self.default_lr() if settings.lr is None else settings.lr
        self.pieces = Pieces(model.bayesian, self.step_unit())
        self.fixed_pieces = Pieces(model.fixed, self.fixed_step_unit())

    def step_unit(self) -> Tensor:
        """Unit of each weight's steps; made when it is needed, as it is constant within a parameter."""
        unit = self.model.he_scale()
        return unit if self.settings.step_unit == "he" else unit.fill_(1)

    def fixed_step_unit(self) -> Tensor:
        """The same of deterministic parameters."""
        unit = self.model.fixed_he_scale()
        return unit if self.settings.step_unit == "he" else unit.fill_(1)

    def default_lr(self) -> float:
        """The largest step size of a run of this length."""
        return LARGEST_STEP * min(1.0, SHORT_RUN / self.steps) ** 0.75

    def learning_rate(self, t: int) -> float:
        """Step size at step t of the run."""
        rising = min(1.0, t / (RISE_SHARE * self.steps))
        if self.settings.schedule == "constant":
            return self.largest_step * rising
        return self.largest_step * rising * 0.5 * (1 + math.cos(math.pi * min(1.0, (t - 1) / self.steps)))

    def noise_rate(self, rows: int, t: int) -> float:
        """Weight of a batch in the running mean of squared residuals, which thus remembers about one epoch."""
        least, most = NOISE_RATES
        return max(min(most, max(least, rows / self.n)), 1 / t)

    def start_weights(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Bayesian weights and deterministic parameters at the start."""
        return self.model.he_start(generator) if self.settings.start == "he" else self.model.own_weights()

    # --- the prior's scales

    def start_scales(self, generator: torch.Generator) -> dict[str, Any]:
        """Draws from the prior: parameter name -> scales."""
        model = self.model
        return {
            slot.name: slot.prior.init_scales(slot.shape, generator, dtype=model.dtype, device=model.device)
            for slot in model.bayesian
            if slot.prior is not None
        }

    def refresh_all(
        self, scales: dict[str, Any], precision: Tensor, known: Known, generator: torch.Generator, sweeps: int = 1
    ) -> None:
        """Refresh every parameter's scales and its entries of the precision 1 / v, in place."""
        for slot in self.model.bayesian:
            assert slot.prior is not None
            if slot.prior.known_deviation is not None:
                slot.of(precision).fill_(slot.prior.known_deviation**-2)
                continue
            second = None if known.second_moment is None else slot.of(known.second_moment)
            here = Known(slot.of(known.weights), second)
            for _ in range(sweeps):
                scales[slot.name] = self.refresh(slot.prior, scales[slot.name], slot.of(precision), here, generator)

    @abstractmethod
    def refresh(self, prior: AnyPrior, scales: Any, precision: Tensor, known: Known, generator: torch.Generator) -> Any:
        """One refresh of a parameter's scales, with 1 / v written to ``precision``."""

    # --- steps

    def step_fixed(self, fixed: Tensor, gradient: Tensor, moments: Moments, t: int, lr: float) -> None:
        """Adam's step of the deterministic parameters."""
        cut = self.fixed_pieces
        for vector, g, first, second, unit in zip(*map(cut.of, (fixed, gradient, *moments)), cut.units, strict=True):
            adam_step(vector, g, Moments(first, second), Step.at(t, lr * unit))

    # --- the likelihood's gradient

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """The dtype of forward passes."""
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
            problem = f"does not suit this network here: {reason}"
            raise ParameterError(problem, argument="autocast", value="bfloat16", fix="leave it out") from error


def leaves_of(slots: Sequence[Slot], vector: Tensor) -> list[Tensor]:
    """The slots' tensors, each a leaf of its own: the gradient of a slice would be as long as the whole vector."""
    return [slot.of(vector).detach().requires_grad_() for slot in slots]


def gradients_of(loss: Tensor, groups: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
    """The loss's gradients in groups of leaves."""
    parts = iter(torch.autograd.grad(loss, list(chain(*groups)), materialize_grads=True))
    return [[next(parts) for _ in group] for group in groups]


def flat(parts: Sequence[Tensor], like: Tensor) -> Tensor:
    """One vector of tensors, of which there may be none."""
    return torch.cat([like.new_zeros(0), *(part.reshape(-1) for part in parts)])


def clip_gradients(gradients: list[Tensor], most: float) -> None:
    """Scale the gradients down to a joint norm of at most ``most``, in place and without a host round trip."""
    norm = torch.sqrt(sum((g.square().sum() for g in gradients), start=gradients[0].new_zeros(())))
    factor = (most / norm.clamp(min=1e-30)).clamp(max=1)
    for gradient in gradients:
        gradient.mul_(factor)


def _is_number(value: object) -> TypeGuard[float]:
    """Python's own numbers: others, such as numpy's, could not be saved, and True is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def require_positive(name: str, value: object, *, optional: bool = False) -> None:
    """Raise a one-line `ParameterError` unless ``value`` is a positive number, or None where it is optional."""
    fits = _is_number(value) and 0 < value < math.inf
    require(fits or (optional and value is None), name, value, "use a positive number, such as 0.1")


def require_from_zero(name: str, value: object) -> None:
    """Raise a one-line `ParameterError` unless ``value`` is zero or a positive number."""
    fits = _is_number(value) and 0 <= value < math.inf
    require(fits, name, value, "use 0 or a positive number")


def require_share(name: str, value: object, fix: str, *, ends: bool) -> None:
    """Raise a one-line `ParameterError` unless ``value`` is between 0 and 1, or one of these."""
    fits = _is_number(value) and (0 <= value <= 1 if ends else 0 < value < 1)
    require(fits, name, value, fix)


def require_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise a one-line `ParameterError` unless ``value`` is one of these words."""
    require(value in allowed, name, value, f"use one of {', '.join(allowed)}")
