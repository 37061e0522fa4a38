"""The R2D2 prior: R2-induced Dirichlet decomposition (Zhang et al., 2022), the prior of R2D2-Net.

    w_j | psi_j, T_j ~ N(0, sigma0^2 psi_j T_j / 2),      T_j = phi_j omega,      psi_j ~ Exp(1/2)
    phi ~ Dirichlet(a_pi, ..., a_pi),      omega | xi ~ Gamma(p a_pi, xi),      xi ~ Gamma(b, 1)

A Dirichlet times a gamma of the matching shape is a vector of independent gammas, so given xi the T_j are
independent Gamma(a_pi, xi), and phi = T / sum T and omega = sum T are views of T. The conditionals are

    T_j   ~ giG(2 w_j^2 / (sigma0^2 psi_j), 2 xi, a_pi - 1/2)
    xi    ~ Gamma(p a_pi + b, 1 + omega)
    psi_j ~ giG(2 w_j^2 / (sigma0^2 T_j), 1, 1/2)

in this order; omega is never older than the T it sums. (The paper prints a_pi p - p/2 as the order of T and keeps
omega from before the draw of phi: both leave another distribution invariant.)

Integrating psi and xi out gives the double-exponential / beta-prime form of the marginal,

    w ~ Laplace(sigma0 sqrt(T / 2)),      T ~ BetaPrime(a_pi, b),

whose density behaves as |w|^(2 a_pi - 1) at zero and as |w|^-(1 + 2 b) in the tail.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast, overload

import torch
from torch import Tensor
from torch.distributions import Gamma
from torch.nn.functional import softplus

from r2d2net.cache_blocks import PIECE, fused, piece_size, pieces, require_flat, write
from r2d2net.distributions import (
    ReciprocalInverseGaussian,
    gig_moments,
    standard_gamma,
)
from r2d2net.distributions.gig_moments import moments, narrow_table
from r2d2net.distributions.gig_refresh import Hat, gig_refreshed, hat_of, working_dtype
from r2d2net.distributions.gig_sampler import BUFFERS, LOW_ORDER
from r2d2net.distributions.inverse_gaussian import reciprocal_root
from r2d2net.distributions.primitives import fill_uniform
from r2d2net.errors import Argument, ParameterError, require
from r2d2net.priors.adaptive_r2d2 import AdaptiveR2D2
from r2d2net.priors.base import (
    ContinuousScalePrior,
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
from r2d2net.priors.latent_noise import scale_for_r2
from r2d2net.priors.r2d2_blocks import cavi_blocks, gibbs_blocks
from r2d2net.priors.r2d2_density import beta_nodes, log_marginal
from r2d2net.priors.r2d2_factors import R2D2Factors

if TYPE_CHECKING:
    from r2d2net.priors.grouped_r2d2 import GroupedR2D2

ROOM = 1.1  # of p a_pi above a, where a cut leaves too few weights for less


class R2D2Scales(NamedTuple):
    """Scale variables of one layer.

    Attributes:
        T: Local variances T_j = phi_j omega, in the shape of w.
        psi: Local variables psi_j, in the shape of w.
        xi: Global variable xi, in the shape of groups.
        rate: Rate that the T_j share, in the shape of groups: xi, or xi + eta for `R2D2.from_r2`.
    """

    T: Tensor
    psi: Tensor
    xi: Tensor
    rate: Tensor

    @property
    def omega(self) -> Tensor:
        """The layer's total variance, sum_j T_j."""
        return self.T.sum_to_size(self.xi.shape)

    @property
    def phi(self) -> Tensor:
        """Each weight's share of the layer's total variance."""
        return self.T / self.omega


class R2D2(ContinuousScalePrior[R2D2Scales]):
    """The R2D2 prior.

    Args:
        a_pi: Dirichlet concentration. Small values share the variance among few weights: below 1/2 the density has
            a pole at zero, above it none. The default 0.1 is a compromise: on linear problems 0.02 was best where 5%
            of the weights matter, 0.6 where all do.
        b: Tail exponent: density |w|^-(1 + 2b). 1/2 gives the tails of the horseshoe, less gives heavier ones.
        sigma0: Scale of the weights, fixed; w / sigma0 has the prior with sigma0 = 1.
        total: Shape of omega's gamma where it is not p a_pi; see `from_r2`.

    Presets: `R2D2.paper` has the paper's setting, `R2D2.from_r2` is defined by a prior of R2, and `R2D2.adaptive` needs
    no tuning.

    Example:
        >>> prior = R2D2()
        >>> scales = prior.init_scales((3, 4), torch.Generator().manual_seed(0))
        >>> scales.phi.shape, scales.xi.shape
        (torch.Size([3, 4]), torch.Size([]))
    """

    def __init__(self, a_pi: float = 0.1, b: float = 0.5, sigma0: float = 1.0, total: float | None = None) -> None:
        self.a_pi, self.b = shape_parameter("a_pi", a_pi), shape_parameter("b", b)
        self.sigma0 = scale_parameter("sigma0", sigma0)
        self.total = None if total is None else shape_parameter("total", total)

    @classmethod
    def paper(cls) -> R2D2:
        """Build the prior of the paper's setting: no pole at zero, tails no heavier than the horseshoe's.

        Returns:
            The prior with a_pi = 0.6 and b = 0.5.
        """
        return cls(a_pi=0.6, b=0.5)

    @overload
    @classmethod
    def from_r2(
        cls,
        mean_r2: float = 0.5,
        precision_r2: float = 2.0,
        concentration: float = 0.2,
        sigma0: float = 1.0,
        *,
        groups: None = None,
        likelihood: Any = None,
        classes: int | None = None,
        mean_count: float | None = None,
        size: float | None = None,
    ) -> R2D2: ...

    @overload
    @classmethod
    def from_r2(
        cls,
        mean_r2: float | Mapping[str, float] = 0.5,
        precision_r2: float = 2.0,
        concentration: float | Mapping[str, float] = 0.2,
        sigma0: float = 1.0,
        *,
        groups: Mapping[str, Sequence[Any]],
        likelihood: Any = None,
        classes: int | None = None,
        mean_count: float | None = None,
        size: float | None = None,
    ) -> GroupedR2D2: ...

    @classmethod
    def from_r2(
        cls,
        mean_r2: float | Mapping[str, float] = 0.5,
        precision_r2: float = 2.0,
        concentration: float | Mapping[str, float] = 0.2,
        sigma0: float = 1.0,
        *,
        groups: Mapping[str, Sequence[Any]] | None = None,
        likelihood: Any = None,
        classes: int | None = None,
        mean_count: float | None = None,
        size: float | None = None,
    ) -> R2D2 | GroupedR2D2:
        """Build the prior under which R2 = omega / (1 + omega) of every layer has a given beta distribution.

        A layer of p weights needs p * concentration > mean_r2 * precision_r2. There T_j = B G_j / xi with
        B ~ Beta(a, p a_pi - a), G_j ~ Gamma(a_pi, 1), so that with an auxiliary eta ~ Gamma(p a_pi - a, omega) every
        conditional keeps its form, with the rate xi + eta in place of xi.

        With ``groups`` each group of inputs has its own mean R2, as shares of one variance: they add up to the R2 of
        all inputs, and all are beta with one precision (`r2d2net.priors.grouped_r2d2`). Such a prior is for the weights
        that take the inputs; the other layers of a network have ``R2D2()``.

        Args:
            mean_r2: Prior mean of R2, between 0 and 1; with groups that of each group, whose sum is below 1, or that of
                all inputs, which groups share equally.
            precision_r2: Precision of R2 ~ Beta(mean precision, (1 - mean) precision); 2 with mean 1/2 is uniform.
            concentration: Dirichlet concentration a_pi of each weight's share; with groups it may differ among them.
            sigma0: Standard deviation of the noise to which R2 compares the signal.
            groups: Columns of each group: their numbers, or names where an estimator is fitted to a DataFrame, in which
                all inputs of a category belong to its column. Every column is in one group.
            likelihood: Likelihood of the targets, by name or as an object: R2 is then that on the scale of the output
                (`r2d2net.priors.latent_noise`), and sigma0 follows from it. By default, and for numbers, sigma0 counts.
            classes: Number of classes of a categorical likelihood.
            mean_count: A typical mean count of a Poisson or negative binomial likelihood.
            size: Concentration of a negative binomial likelihood, or shape of a gamma one.

        Returns:
            The prior.

        Raises:
            ParameterError: If an argument lies outside its range.

        Example:
            >>> R2D2.from_r2(0.5, 2.0, concentration=0.2)
            R2D2(a_pi=0.2, b=1.0, sigma0=1.0, total=1.0)
            >>> R2D2.from_r2({"genes": 0.2, "clinical": 0.3}, groups={"genes": range(20), "clinical": range(20, 24)})
            GroupedR2D2(genes: 20 inputs, mean R2 0.2; clinical: 4 inputs, mean R2 0.3; precision 2)
        """
        unit = scale_for_r2(
            "gaussian" if likelihood is None else likelihood, classes=classes, mean_count=mean_count, size=size
        )
        if unit != 1.0:
            if sigma0 != 1.0:
                problem = ("does not go with ", Argument("likelihood", likelihood), ", from which it follows")
                raise ParameterError(problem, argument="sigma0", value=sigma0, fix="leave one of them out")
            sigma0 = unit
        if groups is not None:
            from r2d2net.priors.grouped_r2d2 import grouped_from_r2

            return grouped_from_r2(groups, mean_r2, precision_r2, concentration, sigma0)
        is_number, mean = isinstance(mean_r2, Real) and not isinstance(mean_r2, bool), cast("float", mean_r2)
        require(is_number and 0 < mean < 1, "mean_r2", mean_r2, "use a number between 0 and 1")
        precision_r2 = shape_parameter("precision_r2", precision_r2)
        a_pi = shape_parameter("concentration", cast("float", concentration))
        return cls(a_pi, (1 - mean) * precision_r2, sigma0, total=mean * precision_r2)

    @classmethod
    def adaptive(cls, *, floor: bool = True) -> AdaptiveR2D2:
        """Build the prior that learns its own a_pi and scale; see `AdaptiveR2D2`.

        Args:
            floor: Add the ridge floor, which lets a layer be Gaussian; without it a_pi = 0.1 and only the scale is
                learnt. Validation shows which of the two suits a network.

        Returns:
            The prior.

        Example:
            >>> R2D2.adaptive(floor=False)
            AdaptiveR2D2(a=(0.1,), kappa=(1.0,), floor=False)
        """
        return AdaptiveR2D2() if floor else AdaptiveR2D2(a=0.1, floor=False)

    @property
    def r2_shapes(self) -> tuple[float, float] | None:
        return None if self.total is None else (self.total, self.b)

    def hyperparameters(self) -> dict[str, float]:
        values = {"a_pi": self.a_pi, "b": self.b, "sigma0": self.sigma0}
        return values if self.total is None else {**values, "total": self.total}

    @classmethod
    def from_hyperparameters(cls, **values: Any) -> Self:
        total = values.pop("total", None)
        prior = cls(**values)
        if total is not None:
            prior.total = total
        return prior

    def kept(self, keep: Tensor) -> Self:
        return self.smaller((int(keep.sum()),))

    def smaller(self, shape: Shape) -> Self:
        """Return the prior of what a cut leaves of a layer: R2 has the same law.

        Args:
            shape: Shape of what is left.

        Returns:
            The prior; where k weights are too few, k a_pi <= a, with a_pi raised to `raised_concentration`.
        """
        count = math.prod(shape)
        if self.total is None or count * self.a_pi > self.total:
            return self
        prior = copy.copy(self)
        prior.a_pi = raised_concentration(self.total, count)
        return prior

    def init_scales(
        self,
        shape: Shape,
        generator: torch.Generator | None = None,
        *,
        groups: Shape = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> R2D2Scales:
        require_groups(shape, groups)
        local, shared = (torch.ones(tuple(s), dtype=dtype, device=device) for s in (shape, groups))
        xi = standard_gamma(self.b * shared, generator)
        rate = xi
        if self.total is not None:  # rate = xi / B, B ~ Beta(a, p a_pi - a)
            numerator = standard_gamma(self.total * shared, generator)
            excess = self._excess(local.numel() / max(1, shared.numel()))
            rate = xi * (1 + standard_gamma(excess * shared, generator) / numerator)
        t = positive_finite(standard_gamma(self.a_pi * local, generator) / rate)
        psi = positive_finite(torch.empty_like(local).exponential_(0.5, generator=generator))
        return R2D2Scales(t, psi, positive_finite(xi), positive_finite(rate))

    def variance(self, scales: R2D2Scales) -> Tensor:
        return positive_finite((self.sigma0**2 / 2 * scales.psi) * scales.T)

    def gibbs(self, w: Tensor, scales: R2D2Scales, generator: torch.Generator | None = None) -> R2D2Scales:
        flat = torch.contiguous_format
        copied = scales._replace(T=scales.T.clone(memory_format=flat), psi=scales.psi.clone(memory_format=flat))
        return self.gibbs_(w, copied, torch.empty_like(copied.T), generator)

    def gibbs_(
        self,
        w: Tensor,
        scales: R2D2Scales,
        precision: Tensor,
        generator: torch.Generator | None = None,
        *,
        compiled: bool = False,
    ) -> R2D2Scales:
        """Draw new scales in place, block by block.

        psi is independent of xi given (T, w), so one pass draws T and psi; xi, which needs all of T, comes last. T_j
        keeps its value where its proposal is rejected (`gig_refresh`).
        """
        omega = self.gibbs_local_(w, scales, precision, generator, compiled=compiled)
        return self.gibbs_shared(scales, omega, w.numel() / max(1, omega.numel()), generator)

    # --- the two halves of a sweep, for layers of which processes have parts (`layer_parts.Divisible`)

    def gibbs_local_(
        self,
        w: Tensor,
        scales: R2D2Scales,
        precision: Tensor,
        generator: torch.Generator | None = None,
        *,
        compiled: bool = False,
    ) -> Tensor:
        """Draw T and psi of a part of a layer in place, given its rate.

        Args:
            w: Weights of the part.
            scales: Its scales, of which T and psi are overwritten.
            precision: Tensor to which the new 1 / v is written.
            generator: Source of randomness; None for torch's global generator.
            compiled: Use kernels fused by torch.compile.

        Returns:
            The part's omega, the sum of its T.
        """
        w = require_finite("w", w.detach())
        require_flat(T=scales.T, psi=scales.psi, precision=precision)
        size = piece_size(w)
        noise = torch.empty(4 * size, dtype=w.dtype, device=w.device)
        buffers = None if compiled else torch.empty(BUFFERS, size, dtype=w.dtype, device=w.device)
        for t, psi, out, weights, rate in pieces(size, scales.T, scales.psi, precision, w, scales.rate):
            normal, uniform = noise[: t.numel()], noise[t.numel() : 4 * t.numel()].view(3, -1)
            normal.normal_(generator=generator)
            fill_uniform(uniform, generator)
            block = R2D2Scales(t, psi, rate, rate)
            if compiled:
                lam = self.a_pi - 0.5
                chi = self._t_conditional(squared(weights / self.sigma0), block)[0] if abs(lam) < LOW_ORDER else weights
                hat = hat_of(lam, working_dtype(chi, 2 * rate, lam), w.device)
                fused(R2D2._gibbs_piece)(self, weights, block, out, normal, uniform, hat=hat)
            else:
                self._gibbs_piece(weights, block, out, normal, uniform, buffers=buffers)
        return scales.omega

    def gibbs_shared(
        self, scales: R2D2Scales, total: Tensor, count: float, generator: torch.Generator | None = None
    ) -> R2D2Scales:
        """Draw xi, and with it the rate, given omega of the whole layer.

        Args:
            scales: Scales of a part.
            total: The layer's omega.
            count: Number of weights of the layer.
            generator: Source of randomness; None for torch's global generator.

        Returns:
            The scales with new xi and rate.
        """
        xi, rate = self._draw_rates(total, count, generator)
        return scales._replace(xi=xi, rate=rate)

    def cavi_local_(
        self, second_moment: Tensor, scales: R2D2Scales, precision: Tensor, *, compiled: bool = False
    ) -> Tensor:
        """Update the factors of T and psi of a part of a layer in place, given its rate.

        Args:
            second_moment: E w^2 of the part.
            scales: Its point values, of which T and psi are overwritten.
            precision: Tensor to which E[1 / v] is written.
            compiled: Use kernels fused by torch.compile.

        Returns:
            The sum of the part's E T.
        """
        second_moment = require_finite("second_moment", second_moment.detach())
        require_flat(T=scales.T, psi=scales.psi, precision=precision)
        omega = torch.zeros_like(scales.xi)
        narrow = second_moment.dtype == torch.float32
        table = narrow_table(abs(self.a_pi - 0.5), second_moment.device) if compiled and narrow else None
        update = fused(R2D2._cavi_piece) if compiled and narrow else R2D2._cavi_piece
        size = piece_size(second_moment)
        for t, psi, out, second, rate in pieces(size, scales.T, scales.psi, precision, second_moment, scales.rate):
            omega += update(self, second, R2D2Scales(t, psi, rate, rate), out, table)
        return omega

    def cavi_shared(self, scales: R2D2Scales, total: Tensor, count: float) -> R2D2Scales:
        """Update the factor of xi, and with it the rate, given E omega of the whole layer.

        Args:
            scales: Point values of a part.
            total: The layer's E omega.
            count: Number of weights of the layer.

        Returns:
            The point values with new xi and rate.
        """
        xi, eta = self._rate_conditionals(total, count)
        return scales._replace(xi=xi.mean, rate=_mean_rate(xi, eta))

    def gibbs_reversed(self, w: Tensor, scales: R2D2Scales, generator: torch.Generator | None = None) -> R2D2Scales:
        w = require_finite("w", w.detach())
        square = squared(w / self.sigma0)
        normal, uniform = torch.empty_like(square).normal_(generator=generator), torch.empty(3, *w.shape).to(square)
        fill_uniform(uniform, generator)
        u, v, choice = uniform
        psi = positive_finite(reciprocal_root(*self._psi_conditional(square, scales.T), normal, choice))
        xi, rate = self._draw_rates(scales.omega, w.numel() / max(1, scales.xi.numel()), generator)
        chi, rho, lam = self._t_conditional(square, scales._replace(psi=psi, rate=rate))
        old, chi, rho, u, v = (x.reshape(-1) for x in (scales.T, chi, rho.expand(w.shape), u, v))
        t = gig_refreshed(old, chi, rho, lam, u, v).view(w.shape)
        return R2D2Scales(positive_finite(t), psi, xi, rate)

    def _gibbs_piece(
        self,
        w: Tensor,
        scales: R2D2Scales,
        precision: Tensor,
        normal: Tensor,
        uniform: Tensor,
        *,
        hat: Hat | None = None,
        buffers: Tensor | None = None,
    ) -> None:
        """Draw T, psi and 1/v of a block of weights in place; the noise is overwritten."""
        square = squared(w / self.sigma0)
        u, v, choice = uniform
        t_given = self._t_conditional(square, scales)
        t = positive_finite(gig_refreshed(scales.T, *t_given, u, v, hat=hat, buffers=buffers))
        psi = positive_finite(reciprocal_root(*self._psi_conditional(square, t), normal, choice))
        write((scales.T, scales.psi, precision), (t, psi, 1 / self.variance(scales._replace(T=t, psi=psi))))

    def cavi_(
        self, second_moment: Tensor, scales: R2D2Scales, precision: Tensor, *, compiled: bool = False
    ) -> R2D2Scales:
        if scales.xi.dim():
            return super().cavi_(second_moment, scales, precision)
        omega = self.cavi_local_(second_moment, scales, precision, compiled=compiled)
        return self.cavi_shared(scales, omega, second_moment.numel())

    def _cavi_piece(
        self, second_moment: Tensor, scales: R2D2Scales, precision: Tensor, table: tuple[Tensor, ...] | None
    ) -> Tensor:
        """Update T, psi and E[1/v] of a block of weights in place; return the sum of their E T."""
        return self._cavi_means(second_moment, scales, precision, table).sum()

    def _cavi_means(
        self, second_moment: Tensor, scales: R2D2Scales, precision: Tensor, table: tuple[Tensor, ...] | None
    ) -> Tensor:
        """Update T, psi and E[1/v] of a block of weights in place; return their E T."""
        square = finite_square(second_moment / self.sigma0**2)
        chi, rho = self._psi_conditional(square, scales.T)
        new = scales._replace(psi=positive_finite(torch.sqrt(chi) / math.sqrt(rho)))  # 1 / E[1/psi]
        mean, mean_inverse = moments(*self._t_conditional(square, new), table)
        new = new._replace(T=positive_finite(1 / mean_inverse))
        write((scales.T, scales.psi, precision), (new.T, new.psi, 1 / self.variance(new)))
        return positive_finite(mean)

    def gibbs_blocks_(
        self,
        weights: Sequence[Tensor],
        scales: Sequence[R2D2Scales],
        precisions: Sequence[Tensor],
        generators: Sequence[torch.Generator | None],
    ) -> list[R2D2Scales]:
        if type(self).gibbs_ is R2D2.gibbs_ and _are_small(weights, scales):
            return gibbs_blocks(self, weights, scales, precisions, generators)
        return super().gibbs_blocks_(weights, scales, precisions, generators)

    def cavi_blocks_(
        self, second_moments: Sequence[Tensor], scales: Sequence[R2D2Scales], precisions: Sequence[Tensor]
    ) -> list[R2D2Scales]:
        if type(self).cavi_ is R2D2.cavi_ and _are_small(second_moments, scales):
            return cavi_blocks(self, second_moments, scales, precisions)
        return super().cavi_blocks_(second_moments, scales, precisions)

    def cavi(self, second_moment: Tensor, scales: R2D2Scales) -> R2D2Factors:
        psi, t, point, mean_t = self.local_factors(second_moment, scales)
        omega = mean_t.sum_to_size(scales.xi.shape)
        xi, eta = self._rate_conditionals(omega, mean_t.numel() / max(1, omega.numel()))
        return R2D2Factors(self, point._replace(xi=xi.mean, rate=_mean_rate(xi, eta)), psi, t, xi, eta)

    def local_factors(
        self, second_moment: Tensor, scales: R2D2Scales
    ) -> tuple[ReciprocalInverseGaussian, tuple[Tensor, Tensor, float], R2D2Scales, Tensor]:
        """Update q(psi) and q(T) given the rates.

        Args:
            second_moment: E w^2.
            scales: Point values before the update.

        Returns:
            q(psi), the parameters of q(T), the point values with the new psi and T, and E T.
        """
        square = finite_square(second_moment / self.sigma0**2)
        psi = ReciprocalInverseGaussian(*self._psi_conditional(square, scales.T))
        scales = scales._replace(psi=positive_finite(torch.sqrt(psi.chi)))  # 1 / E[1/psi]
        t = self._t_conditional(square, scales)
        mean_t, mean_inverse_t = gig_moments(*t)
        return psi, t, scales._replace(T=positive_finite(1 / mean_inverse_t)), positive_finite(mean_t)

    def log_prob(self, w: Tensor, weights: int | None = None) -> Tensor:
        """Compute the marginal log density of a single weight, with all scales integrated out.

        Args:
            w: Weights, of any shape.
            weights: Number p of weights in the layer, by default that of ``w``; only a prior made with `from_r2`
                depends on it.

        Returns:
            The log density of each element.
        """
        if self.total is None:
            return log_marginal(w / self.sigma0, self.a_pi, self.b) - math.log(self.sigma0)
        log_weights, log_b = beta_nodes(self.total, self._excess(w.numel() if weights is None else weights), w)
        terms = [
            weight - 0.5 * at + log_marginal(w / self.sigma0 * torch.exp(-0.5 * at), self.a_pi, self.b)
            for weight, at in zip(log_weights, log_b, strict=True)
        ]
        return torch.logsumexp(torch.stack(terms), 0) - math.log(self.sigma0)

    def unconstrained(self, scales: R2D2Scales) -> dict[str, Tensor]:
        """Convert scales to logarithms of G_j = T_j rate, psi_j and xi, and for `from_r2` to logit B, B = xi / rate."""
        u = {
            "log_g": scales.T.log() + scales.rate.log(),
            "log_psi": scales.psi.log(),
            "log_xi": scales.xi.log(),
        }
        if self.total is not None:
            u["logit_b"] = scales.xi.log() - positive_finite(scales.rate - scales.xi).log()
        return u

    def log_prob_scales(self, u: dict[str, Tensor]) -> Tensor:
        total = log_gamma_density(u["log_g"], self.a_pi).sum() + log_gamma_density(u["log_psi"], 1.0, 0.5).sum()
        total = total + log_gamma_density(u["log_xi"], self.b).sum()
        if self.total is None:
            return total
        a, e = self.total, self._excess(u["log_g"].numel() / max(1, u["log_xi"].numel()))
        log_b, log_rest = -softplus(-u["logit_b"], threshold=60), -softplus(u["logit_b"], threshold=60)
        return total + (a * log_b + e * log_rest + math.lgamma(a + e) - math.lgamma(a) - math.lgamma(e)).sum()

    def log_variance(self, u: dict[str, Tensor]) -> Tensor:
        log_v = math.log(self.sigma0**2 / 2) + u["log_psi"] + u["log_g"] - u["log_xi"]
        return log_v if self.total is None else log_v - softplus(-u["logit_b"], threshold=60)

    def _t_conditional(self, square: Tensor, scales: R2D2Scales) -> tuple[Tensor, Tensor, float]:
        """(chi, rho, lam) of T | w, psi, rate; ``square`` is (w / sigma0)^2."""
        return positive_finite(2 * square / scales.psi), positive_finite(2 * scales.rate), self.a_pi - 0.5

    def _psi_conditional(self, square: Tensor, t: Tensor) -> tuple[Tensor, float]:
        """(chi, rho) of psi | w, T."""
        return positive_finite(2 * square / t), 1.0

    def _rate_conditionals(self, omega: Tensor, count: float) -> tuple[Gamma, Gamma | None]:
        """xi | T and, where the total shape is free, eta | T."""
        shapes = self.rate_shapes(count)
        xi = Gamma(torch.full_like(omega, shapes[0]), 1 + omega, validate_args=False)
        if self.total is None:
            return xi, None
        return xi, Gamma(torch.full_like(omega, shapes[1]), omega, validate_args=False)

    def rate_shapes(self, count: float) -> list[float]:
        """Return the shapes of the gamma distributions of xi and, where the total shape is free, of eta.

        Args:
            count: Number of weights of the layer.

        Returns:
            The shapes.
        """
        if self.total is None:
            return [count * self.a_pi + self.b]
        return [self.total + self.b, self._excess(count)]

    def _draw_rates(self, omega: Tensor, count: float, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        xi, eta = (
            None if q is None else positive_finite(standard_gamma(q.concentration, generator) / q.rate)
            for q in self._rate_conditionals(omega, count)
        )
        assert xi is not None
        return xi, xi if eta is None else positive_finite(xi + eta)

    def _excess(self, count: float) -> float:
        """p a_pi - a, the shape of eta."""
        assert self.total is not None
        excess = count * self.a_pi - self.total
        if excess <= 0:
            raise ParameterError(
                f"is too small for a layer of {count:g} weights",
                argument="concentration",
                value=self.a_pi,
                fix=f"use more than mean_r2 * precision_r2 / weights = {self.total / max(1, count):.6g}",
            )
        return excess


def raised_concentration(total: float, count: float) -> float:
    """Return the concentration of few weights of which the total shape is given: k a_pi = 1.1 a, just above the least.

    Args:
        total: Total shape a.
        count: Number k of weights.

    Returns:
        The concentration a_pi.
    """
    return ROOM * total / count


def _are_small(tensors: Sequence[Tensor], scales: Sequence[R2D2Scales]) -> bool:
    """Return whether several layers without groups are few enough elements for one block."""
    few = len(tensors) > 1 and sum(tensor.numel() for tensor in tensors) <= PIECE
    return few and all(own.xi.dim() == 0 for own in scales)


def _mean_rate(xi: Gamma, eta: Gamma | None) -> Tensor:
    return xi.mean if eta is None else xi.mean + eta.mean
