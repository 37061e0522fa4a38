"""The contract of a shrinkage prior: a Gaussian scale mixture over the weights of one layer.

    w_j | s ~ N(0, v_j(s)),      s ~ p(s)

A prior knows its scale variables ``s``, their conditionals and their KL; it knows nothing of networks or of
inference. An algorithm sees only this contract, so every prior works with every algorithm.

Scales are a NamedTuple of tensors. Local scales have the shape of ``w``. Global scales have the shape
``groups``, which must broadcast to that of ``w``: ``()`` (the default) is one global scale for the whole
tensor, ``(B, 1)`` is one for each row of a ``(B, p)`` tensor, that is B layers of p weights side by side.

One scales type serves both inference modes:

* Gibbs: the fields are draws.
* Coordinate ascent: the fields are the point values at which the Gibbs conditionals, with w^2 replaced by
  E[w^2], are the optimal variational factors. ``1 / variance(scales)`` is then the expected precision E[1/v].
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, Self, TypeVar

import torch
from torch import Tensor

from r2d2net import devices
from r2d2net.errors import ParameterError, Value, is_number, require

Shape = Sequence[int]
ScalesT = TypeVar("ScalesT", bound=NamedTuple)


class Factors(ABC, Generic[ScalesT]):
    """The variational factors q(s) after one coordinate-ascent sweep."""

    @property
    @abstractmethod
    def scales(self) -> ScalesT:
        """Point values that stand for q(s) in the next sweep (see the module's docstring)."""

    @property
    @abstractmethod
    def precision(self) -> Tensor:
        """E_q[1 / v], in the shape of w: the factor c of the penalty c (mu^2 + s^2) / 2."""

    @abstractmethod
    def log_variance(self) -> Tensor:
        """Compute the expected logarithm of the prior variance.

        Returns:
            E_q[log v], in the shape of w.
        """

    @abstractmethod
    def kl(self) -> Tensor:
        """Compute the divergence of the factors from the prior of the scales.

        Returns:
            KL(q(s) || p(s)) summed over all scale variables, a scalar.
        """

    def bound(self, second_moment: Tensor) -> Tensor:
        """Compute the prior's part of the ELBO; with the entropy of q(w) it is -KL(q(w) q(s) || p(w, s)).

        Args:
            second_moment: E_q[w^2], in the shape of w.

        Returns:
            E_q[log N(w | 0, v)] - KL(q(s) || p(s)), a scalar.
        """
        log_normal = -0.5 * (math.log(2 * math.pi) + self.log_variance() + self.precision * second_moment)
        return log_normal.sum() - self.kl()


class ScaleMixturePrior(ABC, Generic[ScalesT]):
    """A Gaussian scale mixture over the weights of one layer; subclasses are immutable.

    Attributes:
        has_finite_mode: Whether the density of a layer's weights is finite everywhere, zero included, and the
            precision of `cavi` at w^2 is the slope of its logarithm, -d log p(w) / dw = precision * w. Training to
            one point (MAP and what builds on it) needs both.
        has_exact_factors: Whether the factors of a single weight are the exact posterior of its scales, so that
            their bound is log p(w). Otherwise the factors are an approximation, and the bound is lower.
        draws_scales_jointly: Whether `gibbs` draws from p(s | w) itself, whatever the scales were before.
        for_inputs: Whether the prior is about inputs, and so for the weights that take them; `elsewhere` is the prior
            of all others.
    """

    has_finite_mode: bool = False
    has_exact_factors: bool = False
    draws_scales_jointly: bool = False
    for_inputs: bool = False

    @property
    def known_deviation(self) -> float | None:
        """Standard deviation of every weight where it is a known constant; None where there are scales to learn."""
        return None

    @property
    def r2_shapes(self) -> tuple[float, float] | None:
        """Shapes of the beta distribution that the prior gives R2 by its definition; None where it gives none."""
        return None

    @property
    def inputs(self) -> int | None:
        """Number of inputs of a prior that is about inputs; None for any number."""
        return None

    def elsewhere(self) -> ScaleMixturePrior[Any]:
        """Return the prior of the weights that take no inputs, for a prior that is about inputs.

        Returns:
            The prior itself, unless it is `for_inputs`.
        """
        return self

    def for_columns(self, places: Mapping[str, Sequence[int]] | None) -> ScaleMixturePrior[ScalesT]:
        """Replace names of a table's columns, which a prior may have as arguments, by numbers of inputs.

        Args:
            places: The inputs of each column; None for inputs without names.

        Returns:
            The prior itself, unless it names columns.

        Raises:
            ParameterError: If it names a column that there is not.
        """
        return self

    def kept(self, keep: Tensor) -> ScaleMixturePrior[ScalesT]:
        """Return the prior of the weights of a layer that are left when the others are zero for good.

        They are a layer of one dimension, ``w[keep]``, and so are those of the scales that have a weight left. A weight
        that is gone is no observation of the scales that it shared: counts and sums are over those that are left. By
        default it is the prior itself, whose scales are of single weights and of the whole layer; a prior of groups
        defines its own.

        Args:
            keep: Which weights are left, a boolean tensor in the shape of the layer.

        Returns:
            The prior of the layer of the weights that are left.
        """
        return self

    def smaller(self, shape: Shape) -> ScaleMixturePrior[ScalesT]:
        """Return the prior of a layer that has lost units; by default the prior itself.

        Args:
            shape: Shape of what is left of the layer.

        Returns:
            The prior.
        """
        return self

    def require_layer(self, name: str, shape: Shape) -> None:
        """Refuse a parameter that cannot have the prior; by default none.

        Args:
            name: Name of the parameter.
            shape: Its shape.

        Raises:
            ParameterError: If it cannot.
        """

    @property
    def has_scales(self) -> bool:
        """Whether there are scale variables that an algorithm must refresh as the weights change."""
        return self.known_deviation is None

    @abstractmethod
    def init_scales(
        self,
        shape: Shape,
        generator: torch.Generator | None = None,
        *,
        groups: Shape = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> ScalesT:
        """Draw the scale variables of a layer from the prior.

        Args:
            shape: Shape of the layer's weights.
            generator: Source of randomness; None for torch's global generator.
            groups: Shape of the global scales, which must broadcast to ``shape``.
            dtype: Floating dtype; None for torch's default.
            device: Device; None for torch's default.

        Returns:
            The scale variables.

        Raises:
            ParameterError: If ``groups`` does not broadcast to ``shape``.
        """

    @abstractmethod
    def variance(self, scales: ScalesT) -> Tensor:
        """Compute the prior variance of each weight given the scales.

        Args:
            scales: Scale variables of the layer.

        Returns:
            v(s), in the shape of w; positive and finite.
        """

    @abstractmethod
    def log_prob(self, w: Tensor) -> Tensor:
        """Compute the marginal log density of a single weight, with all scales integrated out.

        Args:
            w: Weights, of any shape.

        Returns:
            The log density of each element.
        """

    @abstractmethod
    def gibbs(self, w: Tensor, scales: ScalesT, generator: torch.Generator | None = None) -> ScalesT:
        """Draw new scales by one Gibbs sweep, which leaves p(s | w) invariant.

        Args:
            w: Weights of the layer.
            scales: Current scales.
            generator: Source of randomness, on the weights' device; None for torch's global generator.

        Returns:
            The new scales.
        """

    def gibbs_reversed(self, w: Tensor, scales: ScalesT, generator: torch.Generator | None = None) -> ScalesT:
        """Draw new scales by the sweep of `gibbs` in reverse order.

        A sweep through several variables in a fixed order is not reversible; one in an order drawn at random from both
        is. A Metropolis correction of a sweep needs that. This is for priors with `draws_scales_jointly`, whose sweep
        is its own reverse; others override it.

        Args:
            w: Weights of the layer.
            scales: Current scales.
            generator: Source of randomness, on the weights' device; None for torch's global generator.

        Returns:
            The new scales.

        Raises:
            ParameterError: If the prior has not said how its sweep is reversed.
        """
        if not self.draws_scales_jointly:
            fix = "define its gibbs_reversed, or say draws_scales_jointly = True"
            raise ParameterError("has no reversed sweep", argument="prior", value=self, fix=fix)
        return self.gibbs(w, scales, generator)

    @abstractmethod
    def cavi(self, second_moment: Tensor, scales: ScalesT) -> Factors[ScalesT]:
        """Update q(s) by one coordinate-ascent sweep, which never lowers the bound.

        Args:
            second_moment: E_q[w^2], in the shape of w.
            scales: Point values of the factors before the sweep.

        Returns:
            The factors after the sweep.
        """

    def gibbs_(
        self,
        w: Tensor,
        scales: ScalesT,
        precision: Tensor,
        generator: torch.Generator | None = None,
        *,
        compiled: bool = False,
    ) -> ScalesT:
        """Draw new scales as `gibbs` does, in place where the prior can; the old scales may be overwritten.

        Args:
            w: Weights of the layer.
            scales: Current scales, which may be overwritten.
            precision: Tensor in the shape of w to which the new 1 / v is written.
            generator: Source of randomness, on the weights' device; None for torch's global generator.
            compiled: Use kernels fused by torch.compile, where the prior has any.

        Returns:
            The new scales.
        """
        scales = self.gibbs(w, scales, generator)
        torch.reciprocal(self.variance(scales), out=precision)
        return scales

    def cavi_(self, second_moment: Tensor, scales: ScalesT, precision: Tensor, *, compiled: bool = False) -> ScalesT:
        """Update the scales as `cavi` does, in place where the prior can; the old scales may be overwritten.

        Args:
            second_moment: E_q[w^2], in the shape of w.
            scales: Point values of the factors before the sweep, which may be overwritten.
            precision: Tensor in the shape of w to which E[1 / v] is written.
            compiled: Use kernels fused by torch.compile, where the prior has any.

        Returns:
            The point values of the factors after the sweep.
        """
        scales = self.cavi(second_moment, scales).scales
        torch.reciprocal(self.variance(scales), out=precision)
        return scales

    def gibbs_blocks_(
        self,
        weights: Sequence[Tensor],
        scales: Sequence[ScalesT],
        precisions: Sequence[Tensor],
        generators: Sequence[torch.Generator | None],
    ) -> list[ScalesT]:
        """Draw new scales of several layers as `gibbs_` does for each, together where the prior can.

        Args:
            weights: Weights of each layer.
            scales: Current scales of each layer, which may be overwritten.
            precisions: Tensor of each layer to which the new 1 / v is written.
            generators: Source of randomness of each layer, used in the order of the layers.

        Returns:
            The new scales of each layer.
        """
        each = zip(weights, scales, precisions, generators, strict=True)
        return [self.gibbs_(w, own, precision, generator) for w, own, precision, generator in each]

    def cavi_blocks_(
        self, second_moments: Sequence[Tensor], scales: Sequence[ScalesT], precisions: Sequence[Tensor]
    ) -> list[ScalesT]:
        """Update the scales of several layers as `cavi_` does for each, together where the prior can.

        Args:
            second_moments: E_q[w^2] of each layer.
            scales: Point values of each layer before the sweep, which may be overwritten.
            precisions: Tensor of each layer to which E[1 / v] is written.

        Returns:
            The point values of each layer after the sweep.
        """
        each = zip(second_moments, scales, precisions, strict=True)
        return [self.cavi_(second, own, precision) for second, own, precision in each]

    def sample(
        self,
        shape: Shape,
        generator: torch.Generator | None = None,
        *,
        groups: Shape = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """Draw the weights of a layer, which share the global scales, from the prior.

        Args:
            shape: Shape of the layer's weights.
            generator: Source of randomness; None for torch's global generator.
            groups: Shape of the global scales, which must broadcast to ``shape``.
            dtype: Floating dtype; None for torch's default.
            device: Device; None for torch's default.

        Returns:
            The weights.
        """
        scales = self.init_scales(shape, generator, groups=groups, dtype=dtype, device=device)
        deviation = self.variance(scales).sqrt()
        noise = torch.empty_like(deviation).normal_(generator=generator)
        return deviation * noise

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value}" for name, value in self.hyperparameters().items())
        return f"{type(self).__name__}({arguments})"

    def hyperparameters(self) -> dict[str, Any]:
        """List the hyperparameters, by default all attributes without a leading underscore.

        Returns:
            The hyperparameters by name, in a form that JSON can hold.
        """
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    @classmethod
    def from_hyperparameters(cls, **values: Any) -> Self:
        """Build a prior from its hyperparameters, as `load` does for a saved run.

        Args:
            **values: Hyperparameters by name, as `hyperparameters` returned them.

        Returns:
            The prior.
        """
        return cls(**values)


class ContinuousScalePrior(ScaleMixturePrior[ScalesT]):
    """A prior whose scale variables are all continuous, and so have an unconstrained form for gradient samplers.

    The form is a dict u of tensors that take any real value and are independent a priori. With w = z sqrt(v(u)) and z
    standard normal, nothing in the prior of (u, z) then ties a global scale to the many variables below it.
    """

    @abstractmethod
    def unconstrained(self, scales: ScalesT) -> dict[str, Tensor]:
        """Convert scales to their unconstrained form.

        Args:
            scales: Scale variables of a layer.

        Returns:
            u by name; local variables in the shape of w, global ones in the shape of groups.
        """

    @abstractmethod
    def log_prob_scales(self, u: dict[str, Tensor]) -> Tensor:
        """Compute the joint log density of the unconstrained scales, differentiably.

        Args:
            u: Unconstrained scales by name.

        Returns:
            The log density, a scalar.
        """

    @abstractmethod
    def log_variance(self, u: dict[str, Tensor]) -> Tensor:
        """Compute the logarithm of the prior variance, differentiably.

        Args:
            u: Unconstrained scales by name.

        Returns:
            log v(u), in the shape of w.
        """


def log_gamma_density(log_x: Tensor, shape: float, rate: float = 1.0) -> Tensor:
    """Compute the log density of log x for x ~ Gamma(shape, rate), element by element.

    >>> log_gamma_density(torch.zeros(1), 1.0)  # e^-1
    tensor([-1.])
    """
    constant = shape * math.log(rate) - math.lgamma(shape)
    return constant + shape * log_x - rate * log_x.exp()


def scale_parameter(argument: str, value: float) -> float:
    """Check that a scale lies in the range where its square is representable in float32, and return it as a float.

    >>> scale_parameter("scale", "wide")
    Traceback (most recent call last):
    ...
    r2d2net.errors.ParameterError: scale='wide' is out of range: use a number between 1e-15 and 1e+15
    """
    return _number(argument, value, 1e-15, 1e15)


def shape_parameter(argument: str, value: float) -> float:
    """Check that a shape or concentration lies in its range, and return it as a float."""
    return _number(argument, value, 1e-8, 1e6)


def _number(argument: str, value: float, low: float, high: float) -> float:
    fix = f"use a number between {low:g} and {high:g}"
    require(is_number(value) and low <= float(value) <= high, argument, value, fix)
    return float(value)


def require_groups(shape: Shape, groups: Shape) -> None:
    """Raise a `ParameterError` unless one global scale per group fits weights of this shape.

    >>> require_groups((10, 3), (10, 1))
    >>> require_groups((10, 3), (10,))
    Traceback (most recent call last):
    ...
    r2d2net.errors.ParameterError: groups=(10,) is out of range: use a shape that broadcasts to (10, 3)
    """
    shape, groups = tuple(shape), tuple(groups)
    padded = (1,) * (len(shape) - len(groups)) + groups
    fits = len(padded) == len(shape) and all(g in (1, n) for g, n in zip(padded, shape, strict=True))
    require(fits, "groups", groups, f"use a shape that broadcasts to {shape}")


def require_finite(argument: str, values: Tensor) -> Tensor:
    """Return the values; raise a `ParameterError` if one of them is infinite or nan.

    Those on an accelerator are not looked at, for which the host would wait: of a run it looks at the end of an epoch.
    """
    if values.numel() and not devices.waits(values.device):
        low, high = torch.aminmax(values)
        if not bool(torch.isfinite(low) & torch.isfinite(high)):
            problem = ("reaches from ", Value(float(low)), f" to {float(high)}")
            raise ParameterError(problem, argument=argument, fix="it must be finite")
    return values


def squared(w: Tensor) -> Tensor:
    """Compute w^2 for use in a conditional: in the range of `finite_square` and detached from the autograd graph.

    >>> squared(torch.tensor([0.0, 2.0, 1e30]))
    tensor([1.1755e-38, 4.0000e+00, 7.9228e+28])
    """
    return finite_square(w.detach().square())


def finite_square(square: Tensor) -> Tensor:
    """Keep w^2 or E[w^2] inside the range where every conditional stays finite, whatever the dtype.

    The conditionals of a spiky prior are improper at w = 0 exactly, and squares leave float32 beyond
    1e19: both ends are moved to the nearest square at which the scales are still finite.
    """
    limits = torch.finfo(square.dtype)
    return square.clamp(min=limits.tiny, max=limits.max**0.75)


def positive_finite(scale: Tensor) -> Tensor:
    """Keep a scale where both it and its reciprocal are positive normal numbers of its dtype.

    >>> positive_finite(torch.tensor([0.0, 2.0, float("inf")]))
    tensor([1.1755e-38, 2.0000e+00, 8.5071e+37])
    """
    tiny = torch.finfo(scale.dtype).tiny
    return scale.clamp(min=tiny, max=1 / tiny)
