"""A step of q(w) by the native kernels: the draw, and the update of means and rho, each in one pass over memory.

    w = mu + s e,    1 / s^2 = c + exp(rho)                       drawn by a key of 64 bits from the run's generator
    mu, rho          by `adam.adam_step` and `adam.proximal_step`, as `mean_field_family.FREE` has them

What the kernels compute is what torch computes but for rounding and for the random numbers. They take float32 networks
on the CPU, normal noise and variance="free"; scales of priors other than R2D2 are refreshed by torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from r2d2net.cache_blocks import Blocks
from r2d2net.errors import ParameterError, Shown
from r2d2net.inference.adam import EPSILON, Step
from r2d2net.inference.mean_field_family import FREE, Family, NormalNoise, VariationalState
from r2d2net.inference.scale_updates import CoordinateUpdate, GibbsUpdate, Known, ScaleUpdate, one_by_one
from r2d2net.model import AnyPrior, BayesianModel
from r2d2net.native import library
from r2d2net.priors.r2d2 import R2D2
from r2d2net.priors.r2d2_native import native_cavi_, native_gibbs_


def native_problem(model: BayesianModel[Any], family: Family) -> tuple[str, str] | None:
    """Tell why the kernels do not suit a model.

    Args:
        model: The model.
        family: The family of q(w).

    Returns:
        The problem and its fix, or None if they suit it.
    """
    if family.form is not FREE or not isinstance(family.noise, NormalNoise):
        return "has no kernels for this q(w)", "it needs SVGI, CAVI or MFVI with variance='free'; leave it out"
    if model.dtype != torch.float32 or model.device.type != "cpu":
        kind = f"does not suit a {model.dtype} network on {model.device.type}"
        return kind, "it needs float32 on the CPU; leave it out"
    problem = library.problem()
    return None if problem is None else (problem, f"{library.BUILD}, or leave it out")


class NativeStep:
    """The kernels bound to a model.

    Args:
        model: The model.
        family: The family of q(w).

    Raises:
        ParameterError: If the kernels do not suit the model, or are not built.
    """

    def __init__(self, model: BayesianModel[Any], family: Family) -> None:
        found = native_problem(model, family)
        if found is not None:
            problem, fix = found
            raise ParameterError(problem, argument="compile", value="native", fix=Shown(fix))

    def draw(self, state: VariationalState, generator: torch.Generator) -> Tensor:
        """Draw all weights."""
        return library.draw(state.mean, state.rho, state.precision, library.new_key(generator))

    def second_moment(self, state: VariationalState) -> Tensor:
        """Return E w^2 under q."""
        return library.second_moment(state.mean, state.rho, state.precision)

    def update(
        self,
        state: VariationalState,
        blocks: Blocks,
        gradients: tuple[Sequence[Tensor], Iterable[Tensor]],
        rates: tuple[int, float, float],
        beta: float,
        *,
        at_draw: bool,
    ) -> None:
        """Move means and rho in place.

        Args:
            state: The state.
            blocks: How vectors of weights are cut.
            gradients: Gradients in the means and in log s by block; with ``at_draw`` the second is the draw itself.
            rates: Number of the step and its sizes in the units of the means and of rho.
            beta: Weight of the KL.
            at_draw: Whether the gradient in log s is to be made of a draw.
        """
        t, lr, rho_lr = rates
        vectors = state.mean, state.rho, *state.moments["mean"], *state.moments["rho"]
        cuts = zip(*map(blocks.of, (state.precision, *vectors)), *gradients, blocks.units, strict=True)
        for precision, *changed, in_mean, in_log, unit in cuts:
            step = numbers(Step.at(t, lr * float(unit)), rho_lr, beta)
            library.update(step, at_draw, precision, in_mean, in_log, *changed)


def numbers(step: Step, rho_lr: float, beta: float) -> library.Step:
    """Return the numbers of a step as the kernel takes them."""
    first, second = float(step.first), float(step.second)
    lr = float(step.lr)
    least_square = (EPSILON * second) ** 2
    return library.Step(lr / first, rho_lr / first, 1 / second, EPSILON, least_square, lr * second * beta, beta)


class NativeScales:
    """Refreshes of R2D2's scales by the kernels; averaged ones, and those of other priors, by torch.

    Args:
        update: The update by torch.
    """

    def __init__(self, update: ScaleUpdate) -> None:
        self.update, self.needs_draw, self.averaging = update, update.needs_draw, update.averaging

    def __call__(
        self, prior: AnyPrior, scales: Any, precision: Tensor, known: Known, generator: torch.Generator
    ) -> Any:
        if type(prior) is R2D2 and isinstance(self.update, GibbsUpdate) and self.averaging == 1:
            return native_gibbs_(prior, known.weights, scales, precision, generator)
        if type(prior) is R2D2 and isinstance(self.update, CoordinateUpdate) and known.second_moment is not None:
            return native_cavi_(prior, known.second_moment, scales, precision)
        return self.update(prior, scales, precision, known, generator)

    def several(
        self,
        prior: AnyPrior,
        scales: Sequence[Any],
        precisions: Sequence[Tensor],
        known: Sequence[Known],
        generators: Sequence[torch.Generator],
    ) -> Sequence[Any]:
        return one_by_one(self, prior, scales, precisions, known, generators)
