"""Normal weights whose standard deviation is a product of half-Cauchy scales, local or global.

    w_j ~ N(0, prod_k x_k^2),      x_k ~ C+(0, b_k)

The horseshoe is one local times one global scale, the horseshoe+ two local ones times a global one. Each
half-Cauchy is split by an auxiliary variable (Makalic and Schmidt, 2016) so that every conditional is an
inverse gamma, with IG(shape, rate) the law of rate / Gamma(shape, 1):

    x^2 | a ~ IG(1/2, 1/a),   a ~ IG(1/2, 1/b^2)
    x^2 | . ~ IG((n+1)/2, 1/a + 1/2 sum_j w_j^2 / (other scales)^2),   a | . ~ IG(1, 1/x^2 + 1/b^2)

where n is the number of weights that share x. Rates depend on the other variables through their reciprocals
only. So one sweep serves both modes: Gibbs replaces each variable by a draw, coordinate ascent by
rate / shape = 1 / E[1/x^2].
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Self, TypeVar

import torch
from torch import Tensor
from torch.distributions import Gamma

from r2d2net.distributions import gamma_mean_log, kl_gamma_random_rate, standard_gamma
from r2d2net.priors.base import (
    ContinuousScalePrior,
    Factors,
    Shape,
    finite_square,
    positive_finite,
    require_groups,
    squared,
)
from r2d2net.priors.scale_quadrature import NORMAL, log_scale_mixture
from r2d2net.priors.weight_groups import Groups, Sharing, shape_of_groups

ScalesT = TypeVar("ScalesT", bound=NamedTuple)
Update = Callable[[float | Tensor, Tensor], Tensor]  # (shape, rate) of an inverse gamma -> the variable's new value


class HalfCauchyScale(NamedTuple):
    """One factor x ~ C+(0, b) of the standard deviation; ``b=None`` fixes x = 1.

    It is of the layer (global), of each weight, or of each group of weights (`weight_groups`) where groups are named.
    """

    b: float | None
    is_global: bool
    groups: Groups | None = None
    sharing: Sharing = Sharing()

    def kept(self, keep: Tensor) -> HalfCauchyScale:
        """Return the factor of a layer without some of its weights (see `ScaleMixturePrior.kept`)."""
        if self.groups is None:
            return self
        return self._replace(sharing=Sharing.of_kept(keep, self.shape(keep.shape, ())))

    def shape(self, weights: Shape, layers: Shape) -> tuple[int, ...]:
        """Return the shape of the factor, given those of the weights and of the scales of layers."""
        if self.sharing.numbers is not None:
            return self.sharing.shape(weights)
        if self.groups is not None:
            return shape_of_groups(weights, layers, self.groups)
        return tuple(layers if self.is_global else weights)


class HalfCauchyProduct(ContinuousScalePrior[ScalesT]):
    """Base of the horseshoe family: a subclass names its factors and its scales.

    Args:
        make_scales: Builds the scales from x^2 and a of the first factor, then of the second, and so on.
        factors: The half-Cauchy scales, a local one first.
    """

    def __init__(self, make_scales: Callable[[Iterable[Tensor]], ScalesT], factors: Sequence[HalfCauchyScale]) -> None:
        self._make_scales = make_scales
        self._factors = tuple(factors)

    @property
    def _free(self) -> list[tuple[int, float]]:
        """Places and medians of the factors that are not fixed."""
        return [(k, factor.b) for k, factor in enumerate(self._factors) if factor.b is not None]

    def kept(self, keep: Tensor) -> Self:
        prior = copy.copy(self)
        prior._factors = tuple(factor.kept(keep) for factor in self._factors)
        return prior

    def _spread(self, values: Iterable[Tensor]) -> list[Tensor]:
        """Return the values of all factors for each weight."""
        return [factor.sharing.spread(value) for factor, value in zip(self._factors, values, strict=True)]

    def init_scales(
        self,
        shape: Shape,
        generator: torch.Generator | None = None,
        *,
        groups: Shape = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> ScalesT:
        require_groups(shape, groups)
        values: list[Tensor] = []
        for factor in self._factors:
            ones, b = torch.ones(factor.shape(shape, groups), dtype=dtype, device=device), factor.b
            if b is None:
                values += [ones, ones]
            else:
                auxiliary = draw_inverse_gamma(0.5, ones / b**2, generator)
                values += [draw_inverse_gamma(0.5, 1 / auxiliary, generator), auxiliary]
        return self._make_scales(values)

    def variance(self, scales: ScalesT) -> Tensor:
        return _product(self._spread(list(scales)[::2]))

    def log_prob(self, w: Tensor) -> Tensor:
        free = [factor.b for factor in self._factors if factor.b is not None]
        unit = math.prod(free)
        log_mixing = _LOG_MIXING[len(free)]
        return log_scale_mixture(w / unit, NORMAL, log_mixing, tail_rate=1.0) - math.log(unit)

    def gibbs(self, w: Tensor, scales: ScalesT, generator: torch.Generator | None = None) -> ScalesT:
        return self._sweep(squared(w), scales, lambda shape, rate: draw_inverse_gamma(shape, rate, generator))

    def gibbs_reversed(self, w: Tensor, scales: ScalesT, generator: torch.Generator | None = None) -> ScalesT:
        def draw(shape: float | Tensor, rate: Tensor) -> Tensor:
            return draw_inverse_gamma(shape, rate, generator)

        return self._sweep(squared(w), scales, draw, backwards=True)

    def cavi(self, second_moment: Tensor, scales: ScalesT) -> HalfCauchyFactors[ScalesT]:
        precisions: list[Gamma] = []

        def update(shape: float | Tensor, rate: Tensor) -> Tensor:
            precisions.append(Gamma(shape, rate, validate_args=False))
            return positive_finite(rate / shape)

        scales = self._sweep(finite_square(second_moment), scales, update)
        free = [factor for factor in self._factors if factor.b is not None]
        return HalfCauchyFactors(scales, precisions[::2], precisions[1::2], free)

    def unconstrained(self, scales: ScalesT) -> dict[str, Tensor]:
        """Logs of the free x_k; their auxiliary variables are integrated out."""
        squares = list(scales)[::2]
        return {f"log_x{k}": squares[k].log() / 2 for k, b in self._free}

    def log_prob_scales(self, u: dict[str, Tensor]) -> Tensor:
        scaled = [u[f"log_x{k}"] - math.log(b) for k, b in self._free]
        parts = [_LOG_MIXING[1](log_x).sum() for log_x in scaled]
        return sum(parts[1:], parts[0])

    def log_variance(self, u: dict[str, Tensor]) -> Tensor:
        logs = [self._factors[k].sharing.spread(u[f"log_x{k}"]) for k, _ in self._free]  # a local one first
        return 2 * sum(logs[1:], logs[0])

    def _sweep(self, square: Tensor, scales: ScalesT, update: Update, *, backwards: bool = False) -> ScalesT:
        """Visit every variable once, each conditional given the newest values of all others."""
        variances, auxiliaries = list(scales)[::2], list(scales)[1::2]

        def visit_variance(k: int, b: float) -> None:
            own, each = self._factors[k].sharing, self._spread(variances)
            others = _product(each[:k] + each[k + 1 :])
            rate = 1 / auxiliaries[k] + own.total(square / 2 / others, variances[k])
            variances[k] = update((own.members(square, variances[k]) + 1) / 2, positive_finite(rate))

        def visit_auxiliary(k: int, b: float) -> None:
            auxiliaries[k] = update(1.0, positive_finite(1 / variances[k] + 1 / b**2))

        visits = [(visit, k, b) for k, b in self._free for visit in (visit_variance, visit_auxiliary)]
        for visit, k, b in reversed(visits) if backwards else visits:
            visit(k, b)
        pairs = zip(variances, auxiliaries, strict=True)
        return self._make_scales(value for pair in pairs for value in pair)


class HalfCauchyFactors(Factors[ScalesT]):
    """Independent gamma factors for the reciprocals 1/x^2 and 1/a of every free scale."""

    def __init__(
        self,
        scales: ScalesT,
        precisions: Sequence[Gamma],
        auxiliaries: Sequence[Gamma],
        factors: Sequence[HalfCauchyScale],
    ) -> None:
        self._scales = scales
        self.precisions = tuple(precisions)  # q(1/x_k^2)
        self.auxiliaries = tuple(auxiliaries)  # q(1/a_k)
        self._free = tuple(factors)

    @property
    def scales(self) -> ScalesT:
        return self._scales

    @property
    def precision(self) -> Tensor:
        return 1 / _product([own.sharing.spread(1 / q.mean) for own, q in self._each()])

    def _each(self) -> Iterable[tuple[HalfCauchyScale, Gamma]]:
        return zip(self._free, self.precisions, strict=True)

    def log_variance(self) -> Tensor:
        terms = [own.sharing.spread(-gamma_mean_log(q)) for own, q in self._each()]
        return sum(terms[1:], terms[0])

    def kl(self) -> Tensor:
        total = self.precisions[0].rate.new_zeros(())
        for (factor, precision), auxiliary in zip(self._each(), self.auxiliaries, strict=True):
            # 1/x^2 | a ~ Gamma(1/2, 1/a) has a random rate, 1/a ~ Gamma(1/2, 1/b^2) a known one
            link = kl_gamma_random_rate(precision, 0.5, auxiliary.mean, gamma_mean_log(auxiliary))
            assert factor.b is not None
            known = auxiliary.rate.new_tensor(factor.b**-2)
            root = kl_gamma_random_rate(auxiliary, 0.5, known, known.log())
            total = total + link.sum() + root.sum()
        return total


def draw_inverse_gamma(shape: float | Tensor, rate: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw one value for each rate; the common shape 1 needs no gamma sampler."""
    if isinstance(shape, torch.Tensor):
        gamma = standard_gamma(shape.to(rate.dtype).expand(rate.shape), generator)
    elif shape == 1:
        gamma = torch.empty_like(rate).exponential_(generator=generator)
    else:
        gamma = standard_gamma(torch.full_like(rate, shape), generator)
    return positive_finite(rate / gamma)


def _product(variances: Sequence[Tensor]) -> Tensor:
    """Multiply variances and keep every partial product inside the dtype's range."""
    product = variances[0]
    for variance in variances[1:]:
        product = positive_finite(product * variance)
    return product


def _log_cosh(u: Tensor) -> Tensor:
    return u.abs() + torch.log1p((-2 * u.abs()).exp()) - math.log(2)


def _log_sinhc(u: Tensor) -> Tensor:
    """log(sinh(u) / u); a series where the quotient is 0/0."""
    small = u.abs() < 0.02
    y = u.square()
    series = y / 6 * (1 - y / 30 * (1 - 4 * y / 63))
    far = torch.where(small, 1.0, u.abs())
    return torch.where(small, series, far + torch.log(-torch.expm1(-2 * far)) - torch.log(2 * far))


# Log density of u = log of a product of standard half-Cauchys, by how many they are: 1/(pi cosh u), its
# convolution 2u/(pi^2 sinh u), and (4u^2 + pi^2)/(2 pi^3 cosh u).
_LOG_MIXING: dict[int, Callable[[Tensor], Tensor]] = {
    1: lambda u: -_log_cosh(u) - math.log(math.pi),
    2: lambda u: -_log_sinhc(u) + math.log(2) - 2 * math.log(math.pi),
    3: lambda u: (4 * u.square() + math.pi**2).log() - _log_cosh(u) - math.log(2 * math.pi**3),
}
