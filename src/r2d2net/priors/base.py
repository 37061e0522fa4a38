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
from collections.abc import Sequence
from numbers import Real
from typing import Any, Generic, NamedTuple, Self, TypeVar

import torch
from torch import Tensor

from r2d2net.errors import ParameterError, Value, require

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
        """E_q[log v], in the shape of w."""

    @abstractmethod
    def kl(self) -> Tensor:
        """KL(q(s) || p(s)) summed over all scale variables, a scalar."""

    def bound(self, second_moment: Tensor) -> Tensor:
        """The prior's share of the ELBO, E_q[log N(w | 0, v)] - KL(q(s) || p(s)), a scalar.

        Adding the entropy of q(w) gives minus the whole KL(q(w) q(s) || p(w, s)).
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
    """

    has_finite_mode: bool = False
    has_exact_factors: bool = False

    @property
    def known_deviation(self) -> float | None:
        """The standard deviation of every weight where it is a known constant; None where there are scales to learn."""
        return None

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
        """Draw the scale variables of a layer of this shape from the prior."""

    @abstractmethod
    def variance(self, scales: ScalesT) -> Tensor:
        """v(s): the prior variance of each weight; positive and finite."""

    @abstractmethod
    def log_prob(self, w: Tensor) -> Tensor:
        """Marginal log density of a single weight, all scales integrated out; element by element."""

    @abstractmethod
    def gibbs(self, w: Tensor, scales: ScalesT, generator: torch.Generator | None = None) -> ScalesT:
        """One sweep over the scale variables that leaves p(s | w) invariant."""

    @abstractmethod
    def cavi(self, second_moment: Tensor, scales: ScalesT) -> Factors[ScalesT]:
        """One coordinate-ascent sweep over q(s) given E_q[w^2]; never lowers the bound."""

    def gibbs_(
        self,
        w: Tensor,
        scales: ScalesT,
        precision: Tensor,
        generator: torch.Generator | None = None,
        *,
        compiled: bool = False,
    ) -> ScalesT:
        """`gibbs`, with the new 1 / v written to ``precision``; the old scales may be overwritten.

        ``compiled`` asks for fused kernels where the prior has any.
        """
        scales = self.gibbs(w, scales, generator)
        torch.reciprocal(self.variance(scales), out=precision)
        return scales

    def cavi_(self, second_moment: Tensor, scales: ScalesT, precision: Tensor, *, compiled: bool = False) -> ScalesT:
        """The scales of `cavi`, with E[1 / v] written to ``precision``; the old scales may be overwritten."""
        scales = self.cavi(second_moment, scales).scales
        torch.reciprocal(self.variance(scales), out=precision)
        return scales

    def sample(
        self,
        shape: Shape,
        generator: torch.Generator | None = None,
        *,
        groups: Shape = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """Draw the weights of a layer from the prior; they share its global scales."""
        scales = self.init_scales(shape, generator, groups=groups, dtype=dtype, device=device)
        deviation = self.variance(scales).sqrt()
        noise = torch.empty_like(deviation).normal_(generator=generator)
        return deviation * noise

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value}" for name, value in self.hyperparameters().items())
        return f"{type(self).__name__}({arguments})"

    def hyperparameters(self) -> dict[str, Any]:
        """The constructor's arguments, as plain numbers: by default all attributes without a leading underscore."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    @classmethod
    def from_hyperparameters(cls, **values: Any) -> Self:
        """Build the prior of which `hyperparameters` told; a saved run is loaded by it."""
        return cls(**values)


class ContinuousScalePrior(ScaleMixturePrior[ScalesT]):
    """A prior whose scale variables are all continuous, and so have an unconstrained form for gradient samplers.

    The form is a dict u of tensors that take any real value and are independent a priori. With w = z sqrt(v(u)) and z
    standard normal, nothing in the prior of (u, z) then ties a global scale to the many variables below it.
    """

    @abstractmethod
    def unconstrained(self, scales: ScalesT) -> dict[str, Tensor]:
        """u for drawn scales; variables of the layer in the shape of w, those of groups in theirs."""

    @abstractmethod
    def log_prob_scales(self, u: dict[str, Tensor]) -> Tensor:
        """Joint log density of u, a scalar; differentiable."""

    @abstractmethod
    def log_variance(self, u: dict[str, Tensor]) -> Tensor:
        """log v(u), in the shape of w; differentiable."""


def log_gamma_density(log_x: Tensor, shape: float, rate: float = 1.0) -> Tensor:
    """Log density of log x for x ~ Gamma(shape, rate), element by element.

    >>> log_gamma_density(torch.zeros(1), 1.0)  # e^-1
    tensor([-1.])
    """
    constant = shape * math.log(rate) - math.lgamma(shape)
    return constant + shape * log_x - rate * log_x.exp()


def scale_parameter(argument: str, value: float) -> float:
    """A scale inside the range where its square is harmless in float32, as a float; else one clear error.

    >>> scale_parameter("scale", "wide")
    Traceback (most recent call last):
    ...
    r2d2net.errors.ParameterError: scale='wide' is out of range: use a number between 1e-15 and 1e+15
    """
    return _number(argument, value, 1e-15, 1e15)


def shape_parameter(argument: str, value: float) -> float:
    """A shape or concentration, as a float; else one clear error."""
    return _number(argument, value, 1e-8, 1e6)


def _number(argument: str, value: float, low: float, high: float) -> float:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    fix = f"use a number between {low:g} and {high:g}"
    require(is_number and low <= float(value) <= high, argument, value, fix)
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
    """The values themselves; a `ParameterError` if one of them is infinite or no number."""
    if values.numel():
        low, high = torch.aminmax(values)
        if not bool(torch.isfinite(low) & torch.isfinite(high)):
            problem = ("reaches from ", Value(float(low)), f" to {float(high)}")
            raise ParameterError(problem, argument=argument, fix="it must be finite")
    return values


def squared(w: Tensor) -> Tensor:
    """w^2 as a value to condition on: inside the range of `finite_square`, outside the autograd graph.

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
