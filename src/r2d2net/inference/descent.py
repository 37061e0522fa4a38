"""What all algorithms that take gradient steps have in common: their settings, step sizes and start.

Steps are in units of He's deviation, so that one default serves layers of 1 and of 4,000 inputs. Their size rises over
the first steps, since Adam's first ones know no scale, and then falls to zero along half a cosine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from itertools import chain
from typing import Any, Literal, Self, TypeGuard, TypeVar

import torch
from torch import Tensor, nn

from r2d2net.cache_blocks import Blocks
from r2d2net.errors import Argument, ParameterError, require, require_whole
from r2d2net.inference.adam import Moments, Step, adam_step
from r2d2net.inference.base import Method, make_plain
from r2d2net.likelihoods.base import Noise
from r2d2net.model import BayesianModel, Slot, Tensors
from r2d2net.ranks import RowSplit

STARTS = "auto", "he", "net"
NOISE_RATES = 0.01, 0.2  # bounds of a batch's weight in the running mean of squared residuals
RISE_SHARE = 0.05  # of the steps, over which the step size rises: Adam's first steps know no scale
LARGEST_STEP, SHORT_RUN = 0.3, 800  # largest step size, in units of He's deviation, of runs of so many steps or fewer
REENTRANT = "use_reentrant=True"  # in torch's message of reentrant checkpointing
ResultT = TypeVar("ResultT")
ATTENTION_STEP = 0.03  # largest step size of networks with attention, which larger ones turn into constants
NO_BFLOAT16 = ("not implemented for 'BFloat16'", "could not create a primitive")  # how torch says that it cannot


SettingsT = TypeVar("SettingsT", bound=Any)  # a dataclass of settings with a field ``start``


@dataclass(frozen=True, kw_only=True)
class Training(Method):
    """Settings of every algorithm that takes gradient steps.

    Args:
        lr: Adam's largest step size for the weights and deterministic parameters, reached after 5% of the steps, as a
            share of He's sqrt(2 / fan-in): a wide layer takes small steps. None decides by the length of the run: 0.3
            up to 800 steps, and less in longer ones as steps^(-3/4); at most 0.03 for networks with attention.
        step_unit: "he", or "one" for steps of the same size in every layer, as Adam takes them elsewhere; give an lr
            then.
        schedule: "cosine" lets the step size fall to zero over the run, "constant" keeps it.
        temperature: Weight of the prior; 1 is Bayes' rule.
        sweep_every: Steps between two refreshes of the scales of hierarchical priors.
        start: "he" draws He-normal weights, "net" starts from the network's own, and "auto" decides by whether the
            network was trained (see `network_start`): `fit` says so unless it is as torch made it.
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
    start: Literal["auto", "he", "net"] = "auto"
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
        require_one_of("start", self.start, STARTS)
        require(self.autocast in (None, "bfloat16"), "autocast", self.autocast, "use 'bfloat16' or None")

    def settled(self, model: BayesianModel[Any]) -> Self:
        return settled_start(self, model)


def settled_start(settings: SettingsT, model: BayesianModel[Any]) -> SettingsT:
    """Return settings with ``start`` "he" or "net" where it is "auto"; several runs start apart, by "he".

    Args:
        settings: Settings with a field ``start``.
        model: The model.

    Returns:
        The settings.
    """
    if settings.start != "auto":
        return settings
    return replace(settings, start="he" if settings.runs > 1 else model.suited_start().name)


class Descent:
    """Gradient steps bound to a model: their sizes and units, and what starts and surrounds them.

    Args:
        settings: The algorithm's settings.
        model: The model.
        n: Number of training rows.
        steps: Number of steps of the whole run.
        default_lr: Largest step size where the user gives none; by default that of `default_lr`.
    """

    def __init__(
        self, settings: Training, model: BayesianModel[Any], *, n: int, steps: int, default_lr: float | None = None
    ) -> None:
        require(n >= 1, "n", n, "give the number of training rows")
        require(steps >= 1, "steps", steps, "give the number of steps of the whole run")
        casts = settings.autocast is None or model.dtype == torch.float32
        require(casts, "autocast", settings.autocast, f"it needs a float32 network, this one is {model.dtype}")
        self.settings, self.model, self.n, self.steps = settled_start(settings, model), model, n, steps
        if settings.lr is not None:
            self.largest_step = settings.lr
        else:
            own = default_step(steps)
            own = min(own, ATTENTION_STEP) if model.has_attention else own
            self.largest_step = own if default_lr is None else default_lr
        self.own_schedule: Callable[[int], float] | None = None
        self.blocks = Blocks(spans_of(model.bayesian), self.step_unit())
        self.fixed_blocks = Blocks(spans_of(model.fixed), self.fixed_step_unit())
        self.split: RowSplit | None = None  # where the rows of a step are split among processes

    def step_unit(self) -> Tensor:
        """Return the unit of each weight's steps; made when it is needed, as it is constant within a parameter."""
        unit = self.model.he_scale()
        return unit if self.settings.step_unit == "he" else unit.fill_(1)

    def fixed_step_unit(self) -> Tensor:
        """Return the unit of the steps of each deterministic parameter."""
        unit = self.model.fixed_he_scale()
        return unit if self.settings.step_unit == "he" else unit.fill_(1)

    def learning_rate(self, t: int) -> float:
        """Return the step size at step t of the run."""
        if self.own_schedule is not None:
            return self.own_schedule(t)
        rising = self.rising(t)
        if self.settings.schedule == "constant":
            return self.largest_step * rising
        return self.largest_step * rising * 0.5 * (1 + math.cos(math.pi * min(1.0, (t - 1) / self.steps)))

    def rising(self, t: int) -> float:
        """Return the step size at step t as a share of the largest, were it not to fall."""
        return min(1.0, t / (RISE_SHARE * self.steps))

    def noise_rate(self, rows: int, t: int) -> float:
        """Return the weight of a batch in the running mean of squared residuals, which remembers about one epoch."""
        least, most = NOISE_RATES
        rows = rows if self.split is None else rows * self.split.ranks.size
        return max(min(most, max(least, rows / self.n)), 1 / t)

    def observe(self, output: Tensor, y: Tensor, noise: Noise, rate: float) -> Noise:
        """Return what the likelihood learns of a batch; of one whose rows are split, the mean over the processes."""
        new = self.model.likelihood.observe(output, y, noise, rate)
        if self.split is None or not new:
            return new
        return dict(zip(new, self.split.averaged(list(new.values()), len(y)), strict=True))

    def row_generator(self, generator: torch.Generator, t: int) -> torch.Generator:
        """Return the source of what is drawn for rows in step t: the process's own where the rows are split."""
        return generator if self.split is None else self.split.generator(t, self.model.device)

    def shared(
        self, loss: Tensor, gradients: list[list[Tensor]], buffers: Tensors, rows: int
    ) -> tuple[Tensor, list[list[Tensor]]]:
        """Average loss, gradients and running statistics of layers over the processes, if the rows are split.

        Args:
            loss: Mean loss of the process's rows.
            gradients: Its gradients, in groups.
            buffers: Buffers after the forward pass, changed in place.
            rows: Number of the rows.

        Returns:
            Loss and gradients of all rows of the step, by one message.
        """
        if self.split is None:
            return loss, gradients
        moving = [buffers[name] for name in running_statistics(self.model.net) if name in buffers]
        parts = iter(self.split.averaged([loss, *chain(*gradients), *moving], rows))
        loss, gradients = next(parts), [[next(parts) for _ in group] for group in gradients]
        for buffer, mean in zip(moving, parts, strict=True):
            buffer.copy_(mean)
        return loss, gradients

    def start_weights(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return Bayesian weights and deterministic parameters at the start."""
        return self.model.he_start(generator) if self.settings.start == "he" else self.model.own_weights()

    def step_fixed(self, fixed: Tensor, gradient: Tensor, moments: Moments, t: int, lr: float) -> None:
        """Take Adam's step of the deterministic parameters, in place."""
        cut = self.fixed_blocks
        for vector, g, first, second, unit in zip(*map(cut.of, (fixed, gradient, *moments)), cut.units, strict=True):
            adam_step(vector, g, Moments(first, second), Step.at(t, lr * unit))

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """Run forward passes in the dtype that the settings name."""
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


def running_statistics(net: nn.Module) -> list[str]:
    """Return the names of the running means and variances of normalisation layers.

    >>> running_statistics(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    ['1.running_mean', '1.running_var']
    """
    names = ("running_mean", "running_var")
    return [
        f"{name}.{own}".lstrip(".")
        for name, module in net.named_modules()
        for own in names
        if isinstance(getattr(module, own, None), Tensor)
    ]


def spans_of(slots: Sequence[Slot]) -> list[tuple[int, int]]:
    """Return the bounds of each parameter in its flat vector."""
    return [(slot.start, slot.stop) for slot in slots]


def default_step(steps: int) -> float:
    """Return the largest step size of a run of this length, in units of He's deviation."""
    return LARGEST_STEP * min(1.0, SHORT_RUN / steps) ** 0.75


def leaves_of(slots: Sequence[Slot], vector: Tensor) -> list[Tensor]:
    """Return the slots' tensors as separate autograd leaves: the gradient of a slice is as long as the whole vector."""
    return [slot.of(vector).detach().requires_grad_() for slot in slots]


def while_standing(method: Callable[..., ResultT]) -> Callable[..., ResultT]:
    """Let drawn parameters stand in the network throughout a trainer's method, the backward pass too."""

    @wraps(method)
    def standing(trainer: Any, *arguments: Any, **named: Any) -> ResultT:
        with trainer.model.standing():
            try:
                return method(trainer, *arguments, **named)
            except RuntimeError as error:
                if REENTRANT not in str(error):
                    raise
                fix = "call torch.utils.checkpoint with use_reentrant=False"
                raise ParameterError("uses reentrant gradient checkpointing", argument="net", fix=fix) from error

    return standing


def gradients_of(loss: Tensor, groups: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
    """Return the gradients of the loss with respect to groups of leaves."""
    parts = iter(torch.autograd.grad(loss, list(chain(*groups)), materialize_grads=True))
    return [[next(parts) for _ in group] for group in groups]


def flat(parts: Sequence[Tensor], like: Tensor) -> Tensor:
    """Concatenate tensors, possibly none, to one vector."""
    return torch.cat([like.new_zeros(0), *(part.reshape(-1) for part in parts)])


def clip_gradients(gradients: list[Tensor], most: float) -> None:
    """Scale the gradients down to a joint norm of at most ``most``, in place and without a host round trip."""
    norm = torch.sqrt(sum((g.square().sum() for g in gradients), start=gradients[0].new_zeros(())))
    factor = (most / norm.clamp(min=1e-30)).clamp(max=1)
    for gradient in gradients:
        gradient.mul_(factor)


def _is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a Python int or float; numpy numbers cannot be saved, and bool is no number here."""
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
    """Raise a one-line `ParameterError` unless ``value`` is a fraction: in [0, 1] with ``ends``, else in (0, 1)."""
    fits = _is_number(value) and (0 <= value <= 1 if ends else 0 < value < 1)
    require(fits, name, value, fix)


def require_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise a one-line `ParameterError` unless ``value`` is one of the names in ``allowed``."""
    require(value in allowed, name, value, f"use one of {', '.join(allowed)}")
