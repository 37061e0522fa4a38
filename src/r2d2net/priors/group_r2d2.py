"""R2D2 with shares of variance for groups of weights: all weights of an input, of an output or of a filter.

    w_j | psi_j, T_g ~ N(0, sigma0^2 psi_j T_g / 2)  for j in group g,    psi_j ~ Exp(1/2)
    T_g | xi ~ Gamma(a_pi, xi),      xi ~ Gamma(b, 1)

As in R2D2, T_g = phi_g omega with phi ~ Dirichlet(a_pi, ..., a_pi) over the groups; R2D2 is the case of groups of one
weight, and a single weight has the same marginal density. A group whose T_g is near zero is gone as a whole, input,
unit or filter, which is what makes a network smaller and not only sparse. Within a group the psi_j are Laplace weights.

    T_g   | . ~ giG(sum_{j in g} 2 w_j^2 / (sigma0^2 psi_j), 2 xi, a_pi - n_g / 2),      n_g weights in group g
    xi    | . ~ Gamma(G a_pi + b, 1 + sum_g T_g),                                        G groups
    psi_j | . ~ giG(2 w_j^2 / (sigma0^2 T_g), 1, 1/2)

In coordinate ascent w^2 is replaced by E w^2, 1 / psi and 1 / T by their means, xi by its mean. `GroupedR2D2`, which
`R2D2.from_r2` makes, is another prior: it gives groups of columns a mean of R2.
"""

from __future__ import annotations

import copy
import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Exponential, Gamma, kl_divergence

from r2d2net.distributions import (
    GeneralizedInverseGaussian,
    ReciprocalInverseGaussian,
    gamma_mean_log,
    gig_moments,
    kl_gamma_random_rate,
    standard_gamma,
)
from r2d2net.priors.base import (
    ContinuousScalePrior,
    Factors,
    Shape,
    finite_square,
    log_gamma_density,
    positive_finite,
    require_finite,
    require_groups,
    scale_parameter,
    shape_parameter,
    squared,
)
from r2d2net.priors.r2d2 import R2D2
from r2d2net.priors.weight_groups import Groups, Sharing, groups_parameter, shape_of_groups


class GroupR2D2Scales(NamedTuple):
    """Scale variables of one layer.

    Attributes:
        T: Variances of the groups; of the dimensions of w those in which groups differ, and 1 in the others.
        psi: Local variables, in the shape of w.
        xi: Global variable, in the shape of groups of layers.
    """

    T: Tensor
    psi: Tensor
    xi: Tensor


class GroupR2D2(ContinuousScalePrior[GroupR2D2Scales]):
    """The R2D2 prior over groups of weights.

    Args:
        a_pi: Dirichlet concentration of the groups' shares: small values leave the variance to few groups.
        b: Tail exponent: density |w|^-(1 + 2b), as in `R2D2`.
        sigma0: Scale of the weights, fixed.
        groups: "inputs" for one share for all weights of an input, "outputs" for those of an output unit or filter,
            "filters" for the filters of convolutions and the inputs of linear layers.

    Example:
        >>> scales = GroupR2D2(groups="inputs").init_scales((5, 3), torch.Generator().manual_seed(0))
        >>> scales.T.shape, scales.psi.shape
        (torch.Size([1, 3]), torch.Size([5, 3]))
    """

    def __init__(self, a_pi: float = 0.1, b: float = 0.5, sigma0: float = 1.0, groups: Groups = "inputs") -> None:
        self.a_pi, self.b = shape_parameter("a_pi", a_pi), shape_parameter("b", b)
        self.sigma0 = scale_parameter("sigma0", sigma0)
        self.groups = groups_parameter(groups)
        self._sharing = Sharing()

    def kept(self, keep: Tensor) -> GroupR2D2:
        prior = copy.copy(self)
        prior._sharing = Sharing.of_kept(keep, shape_of_groups(keep.shape, (), self.groups))
        return prior

    def _group_shape(self, shape: Shape, layers: Shape) -> tuple[int, ...]:
        """Return the shape of T, given those of the weights and of the scales of layers."""
        is_broadcast = self._sharing.numbers is None
        return shape_of_groups(shape, layers, self.groups) if is_broadcast else self._sharing.shape(shape)

    def init_scales(
        self,
        shape: Shape,
        generator: torch.Generator | None = None,
        *,
        groups: Shape = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> GroupR2D2Scales:
        require_groups(shape, groups)
        shapes = (shape, self._group_shape(shape, groups), groups)
        local, grouped, shared = (torch.ones(tuple(s), dtype=dtype, device=device) for s in shapes)
        xi = standard_gamma(self.b * shared, generator)
        t = positive_finite(standard_gamma(self.a_pi * grouped, generator) / xi)
        psi = positive_finite(torch.empty_like(local).exponential_(0.5, generator=generator))
        return GroupR2D2Scales(t, psi, positive_finite(xi))

    def variance(self, scales: GroupR2D2Scales) -> Tensor:
        return positive_finite((self.sigma0**2 / 2 * scales.psi) * self._sharing.spread(scales.T))

    def log_prob(self, w: Tensor) -> Tensor:
        return R2D2(self.a_pi, self.b, self.sigma0).log_prob(w)

    def gibbs(self, w: Tensor, scales: GroupR2D2Scales, generator: torch.Generator | None = None) -> GroupR2D2Scales:
        square = squared(require_finite("w", w.detach()) / self.sigma0)
        t = self._draw_t(square, scales, generator)
        xi = self._draw_xi(t, scales, generator)
        return GroupR2D2Scales(t, self._draw_psi(square, t, generator), xi)

    def gibbs_reversed(
        self, w: Tensor, scales: GroupR2D2Scales, generator: torch.Generator | None = None
    ) -> GroupR2D2Scales:
        square = squared(require_finite("w", w.detach()) / self.sigma0)
        psi = self._draw_psi(square, scales.T, generator)
        xi = self._draw_xi(scales.T, scales, generator)
        scales = GroupR2D2Scales(scales.T, psi, xi)
        return scales._replace(T=self._draw_t(square, scales, generator))

    def _draw_t(self, square: Tensor, scales: GroupR2D2Scales, generator: torch.Generator | None) -> Tensor:
        law = GeneralizedInverseGaussian(*self._t_conditional(square, scales))
        return positive_finite(law.sample(generator=generator).to(square.dtype))

    def _draw_xi(self, t: Tensor, scales: GroupR2D2Scales, generator: torch.Generator | None) -> Tensor:
        law = self._xi_conditional(t, scales)
        return positive_finite(standard_gamma(law.concentration, generator) / law.rate)

    def _draw_psi(self, square: Tensor, t: Tensor, generator: torch.Generator | None) -> Tensor:
        law = ReciprocalInverseGaussian(*self._psi_conditional(square, t))
        return positive_finite(law.sample(generator=generator))

    def cavi(self, second_moment: Tensor, scales: GroupR2D2Scales) -> GroupR2D2Factors:
        square = finite_square(second_moment / self.sigma0**2)
        psi = ReciprocalInverseGaussian(*self._psi_conditional(square, scales.T))
        point = scales._replace(psi=positive_finite(torch.sqrt(psi.chi)))  # 1 / E[1 / psi]
        t = self._t_conditional(square, point)
        mean, mean_inverse = _moments(*t)
        xi = self._xi_conditional(positive_finite(mean).to(square.dtype), scales)
        point = point._replace(T=positive_finite((1 / mean_inverse).to(square.dtype)), xi=positive_finite(xi.mean))
        return GroupR2D2Factors(self, point, psi, t, xi)

    def _t_conditional(self, square: Tensor, scales: GroupR2D2Scales) -> tuple[Tensor, Tensor, float | Tensor]:
        """(chi, rho, lam) of T | w, psi, xi in float64; ``square`` is (w / sigma0)^2."""
        each = positive_finite(2 * square / scales.psi).to(torch.float64)
        chi = positive_finite(self._sharing.total(each, scales.T))
        members = self._sharing.members(each, scales.T)
        return chi, positive_finite(2 * scales.xi).to(torch.float64), self.a_pi - members / 2

    def _psi_conditional(self, square: Tensor, t: Tensor) -> tuple[Tensor, float]:
        """(chi, rho) of psi | w, T."""
        return positive_finite(2 * square / self._sharing.spread(t)), 1.0

    def _xi_conditional(self, t: Tensor, scales: GroupR2D2Scales) -> Gamma:
        """xi | T; in coordinate ascent ``t`` is E T."""
        total = t.sum_to_size(scales.xi.shape)
        shape = t.numel() / max(1, total.numel()) * self.a_pi + self.b
        return Gamma(torch.full_like(total, shape), 1 + total, validate_args=False)

    # --- scales in unconstrained form: G_g = T_g xi, psi_j and xi are independent

    def unconstrained(self, scales: GroupR2D2Scales) -> dict[str, Tensor]:
        log_t, log_xi = scales.T.log(), scales.xi.log()
        return {"log_g": log_t + log_xi, "log_psi": scales.psi.log(), "log_xi": log_xi}

    def log_prob_scales(self, u: dict[str, Tensor]) -> Tensor:
        local = log_gamma_density(u["log_g"], self.a_pi).sum() + log_gamma_density(u["log_psi"], 1.0, 0.5).sum()
        return local + log_gamma_density(u["log_xi"], self.b).sum()

    def log_variance(self, u: dict[str, Tensor]) -> Tensor:
        log_g = self._sharing.spread(u["log_g"])
        return math.log(self.sigma0**2 / 2) + u["log_psi"] + log_g - u["log_xi"]


def _moments(chi: Tensor, rho: Tensor, lam: float | Tensor) -> tuple[Tensor, Tensor]:
    """Return E T and E 1/T; groups of one size have one order, for which there is a table."""
    if isinstance(lam, float):
        return gig_moments(chi, rho, lam)
    law = GeneralizedInverseGaussian(chi, rho, lam)
    return law.mean, law.mean_inverse


class GroupR2D2Factors(Factors[GroupR2D2Scales]):
    """q(psi) q(T) q(xi)."""

    def __init__(
        self,
        prior: GroupR2D2,
        scales: GroupR2D2Scales,
        psi: ReciprocalInverseGaussian,
        t: tuple[Tensor, Tensor, float | Tensor],
        xi: Gamma,
    ) -> None:
        self._prior, self._scales, self._t = prior, scales, t
        self.psi, self.xi = psi, xi

    @property
    def T(self) -> GeneralizedInverseGaussian:  # noqa: N802 (the paper's symbol)
        """q(T), in float64."""
        return GeneralizedInverseGaussian(*self._t)

    @property
    def scales(self) -> GroupR2D2Scales:
        return self._scales

    @property
    def precision(self) -> Tensor:
        return 1 / self._prior.variance(self._scales)

    def log_variance(self) -> Tensor:
        log_t = self.T.mean_log.to(self.psi.chi.dtype)
        return math.log(self._prior.sigma0**2 / 2) + self.psi.mean_log + self._prior._sharing.spread(log_t)

    def kl(self) -> Tensor:
        like = self.psi.chi
        half, ones = like.new_tensor(0.5), torch.ones_like(self.xi.concentration)
        mean, mean_log = (value.to(torch.float64) for value in (self.xi.mean, gamma_mean_log(self.xi)))
        link = kl_gamma_random_rate(self.T, self._prior.a_pi, mean, mean_log).sum().to(like.dtype)
        root = kl_divergence(self.xi, Gamma(self._prior.b * ones, ones)).sum()
        return kl_divergence(self.psi, Exponential(half)).sum() + link + root
