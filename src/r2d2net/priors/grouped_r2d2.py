"""The R2D2 prior for groups of inputs, each with its own share of the variance: what `R2D2.from_r2` builds of groups.

    w_j | psi_j, T_j ~ N(0, sigma0^2 psi_j T_j / 2),    T_j = phi_j W_g for an input j of group g,    psi_j ~ Exp(1/2)
    phi_g ~ Dirichlet(a_pi_g, ...) within each group,   W_g | xi ~ Gamma(m_g k, xi),   xi ~ Gamma((1 - sum_g m_g) k, 1)

W_g is the variance of group g in units of the noise, W = sum_g W_g. The shares of the target's variance are

    R2_g = W_g / (1 + W),      (R2_1, ..., R2_G, 1 - R2) ~ Dirichlet(m_1 k, ..., m_G k, (1 - sum_g m_g) k)

so R2_g ~ Beta(m_g k, (1 - m_g) k) has the mean m_g, and the total R2 = sum_g R2_g = W / (1 + W) is beta too: precision
k, mean sum_g m_g, which must be below 1. One group is the prior of `R2D2.from_r2`.

Within a group T_j = B_g G_j / xi, B_g ~ Beta(a_g, p_g a_pi_g - a_g), G_j ~ Gamma(a_pi_g, 1), a_g = m_g k. With the
auxiliary eta_g ~ Gamma(p_g a_pi_g - a_g, W_g) all conditionals are those of R2D2 with the rate xi + eta_g, and

    xi    ~ Gamma((1 - sum_g m_g) k + sum_g a_g, 1 + W),      eta_g ~ Gamma(p_g a_pi_g - a_g, W_g)
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Gamma
from torch.nn.functional import softplus

from r2d2net.distributions import standard_gamma
from r2d2net.distributions.gig_refresh import gig_refreshed
from r2d2net.distributions.inverse_gaussian import reciprocal_root
from r2d2net.distributions.primitives import fill_uniform
from r2d2net.errors import ParameterError, Value, require
from r2d2net.priors.base import (
    ContinuousScalePrior,
    ScaleMixturePrior,
    Shape,
    log_gamma_density,
    positive_finite,
    require_finite,
    require_groups,
    scale_parameter,
    shape_parameter,
    squared,
)
from r2d2net.priors.column_groups import checked_groups, number_of_inputs, resolved_groups
from r2d2net.priors.grouped_r2d2_factors import GroupedR2D2Factors
from r2d2net.priors.r2d2 import R2D2, R2D2Scales
from r2d2net.priors.r2d2_factors import R2D2Factors


class Part(NamedTuple):
    """One group: its prior as that of a layer by itself, and the columns of its inputs."""

    prior: R2D2  # a_pi_g, total a_g
    total: float  # a_g
    columns: Tensor  # int64, on the CPU

    def scales(self, scales: R2D2Scales) -> R2D2Scales:
        """Return the group's own scales."""
        return R2D2Scales(self.of(scales.T), self.of(scales.psi), scales.xi, self.of(scales.rate))

    def of(self, tensor: Tensor) -> Tensor:
        """Return the group's columns of a tensor in the shape of w, as a copy."""
        return tensor.index_select(-1, self.columns.to(tensor.device))

    def write(self, target: Tensor, values: Tensor) -> None:
        """Write values to the group's columns."""
        target.index_copy_(-1, self.columns.to(target.device), values)


class GroupedR2D2(ContinuousScalePrior[R2D2Scales]):
    """R2D2 with a mean of R2 for each group of inputs; `R2D2.from_r2` builds it and describes the arguments.

    The last dimension of the weights is that of the inputs. Scales are those of `R2D2`; ``rate`` has the shape of w.

    Args:
        groups: Inputs of each group, as column numbers or names; each input in one group.
        mean_r2: Mean share of the target's variance of each group.
        precision_r2: Precision k of all shares.
        concentration: Dirichlet concentration of each group.
        sigma0: Standard deviation of the noise to which R2 compares the signal.
    """

    for_inputs = True

    def __init__(
        self,
        groups: Mapping[str, Sequence[int | str]],
        mean_r2: Mapping[str, float],
        precision_r2: float,
        concentration: Mapping[str, float],
        sigma0: float = 1.0,
    ) -> None:
        self.groups = checked_groups(groups)
        self.precision_r2 = shape_parameter("precision_r2", precision_r2)
        self.mean_r2 = {name: mean_r2[name] for name in self.groups}
        self.concentration = {name: shape_parameter("concentration", concentration[name]) for name in self.groups}
        self.sigma0 = scale_parameter("sigma0", sigma0)
        for value in self.mean_r2.values():
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            require(is_number and 0 < value < 1, "mean_r2", value, "use a number between 0 and 1 for each group")
        total = math.fsum(self.mean_r2.values())
        if total >= 1:
            problem = ("adds up to ", Value(total, ".4g"), " over the groups, and they share one variance")
            raise ParameterError(problem, argument="mean_r2", fix="use shares whose sum is below 1")
        self._a = [self.mean_r2[name] * self.precision_r2 for name in self.groups]
        self._b = (1 - total) * self.precision_r2
        self._count = number_of_inputs(self.groups)
        self.parts = tuple(
            Part(R2D2(a_pi, self._b, self.sigma0, total=a), a, torch.tensor(members, dtype=torch.int64))
            for a, a_pi, members in zip(self._a, self.concentration.values(), self.groups.values(), strict=True)
            if self._count is not None
        )

    def __repr__(self) -> str:
        each = (f"{name}: {len(own)} inputs, mean R2 {self.mean_r2[name]:.3g}" for name, own in self.groups.items())
        return f"GroupedR2D2({'; '.join(each)}; precision {self.precision_r2:g})"

    def hyperparameters(self) -> dict[str, Any]:
        names = ("groups", "mean_r2", "precision_r2", "concentration", "sigma0")
        return {name: getattr(self, name) for name in names}

    @property
    def r2_shapes(self) -> tuple[float, float]:
        return math.fsum(self._a), self._b

    @property
    def inputs(self) -> int | None:
        return self._count

    def elsewhere(self) -> ScaleMixturePrior[Any]:
        """Return the prior of the weights that do not take the inputs."""
        return R2D2()

    def for_columns(self, places: Mapping[str, Sequence[int]] | None) -> GroupedR2D2:
        """Replace names of columns by numbers of inputs.

        Args:
            places: The inputs of each column of a table; None for inputs without names.

        Returns:
            The prior with groups of numbers.

        Raises:
            ParameterError: If a group names a column that there is not.
        """
        groups = resolved_groups(self.groups, places)
        return GroupedR2D2(groups, self.mean_r2, self.precision_r2, self.concentration, self.sigma0)

    def require_layer(self, name: str, shape: Shape) -> None:
        if len(shape) != 2:
            fix = "give another prior to it, or take R2D2.from_r2 without groups"
            problem = f"has groups of inputs, which {name!r} of shape {tuple(shape)} does not have"
            raise ParameterError(problem, argument="prior", value=self, fix=fix)
        for _ in self._in_layer(shape):
            pass

    def kept(self, keep: Tensor) -> GroupedR2D2:
        prior, column_of = copy.copy(self), torch.arange(keep.shape[-1], device=keep.device).expand(keep.shape)[keep]
        own = [torch.nonzero(torch.isin(column_of.cpu(), part.columns)).reshape(-1) for part in self.parts]
        left = [k for k, places in enumerate(own) if len(places)]  # groups without weights say nothing of xi
        names = list(self.groups)
        prior.groups = {names[k]: own[k].tolist() for k in left}
        prior.parts = tuple(
            self.parts[k]._replace(prior=self.parts[k].prior.smaller((len(own[k]),)), columns=own[k]) for k in left
        )
        prior._a = [self._a[k] for k in left]
        prior._count = len(column_of)
        return prior

    def smaller(self, shape: Shape) -> GroupedR2D2:
        rows = math.prod(shape[:-1])
        least = {
            name: part.prior.smaller((rows, len(part.columns))).a_pi
            for name, part in zip(self.groups, self.parts, strict=True)
        }
        if least == self.concentration:
            return self
        return GroupedR2D2(self.groups, self.mean_r2, self.precision_r2, least, self.sigma0)

    def _in_layer(self, shape: Shape, shared: int = 1) -> Iterator[tuple[Part, float]]:
        """Iterate over groups and the number of their weights for each global scale, in a layer of this shape."""
        if self._count is None:
            resolved_groups(self.groups, None)  # refuses names
        if len(shape) == 0 or shape[-1] != self._count:
            inputs = shape[-1] if len(shape) else 1
            more = inputs > (self._count or 0)
            problem = ("has groups of ", Value(self._count), f" inputs, and the layer takes {inputs}")
            fix = "put those that are left out into a group" if more else "leave out those that there are not"
            raise ParameterError(problem, argument="groups", fix=fix)
        rows = math.prod(shape[:-1])
        for name, part in zip(self.groups, self.parts, strict=True):
            count = rows * len(part.columns) / max(1, shared)
            if count * part.prior.a_pi <= part.total:
                least = part.total / max(1, count)
                problem = ("of ", Value(name), f" is too small for {count:g} weights")
                fix = f"use more than mean_r2 * precision_r2 / weights = {least:.6g} for it"
                raise ParameterError(problem, argument="concentration", fix=fix)
            yield part, count

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
        self._require_shared(groups)
        t, shared = (torch.ones(tuple(s), dtype=dtype, device=device) for s in (shape, groups))
        psi, rate = torch.empty_like(t).exponential_(0.5, generator=generator), torch.empty_like(t)
        xi = standard_gamma(self._b * shared, generator)
        for part, count in self._in_layer(shape, shared.numel()):
            own, excess = part.of(t), part.prior.rate_shapes(count)[1]
            odds = standard_gamma(excess * shared, generator) / standard_gamma(part.total * shared, generator)
            own_rate = (xi * (1 + odds)).expand(own.shape)  # xi / B_g
            part.write(t, standard_gamma(part.prior.a_pi * own, generator) / own_rate)
            part.write(rate, own_rate)
        t, psi, xi, rate = (positive_finite(value) for value in (t, psi, xi, rate))
        return R2D2Scales(t, psi, xi, rate)

    def _require_shared(self, groups: Shape) -> None:
        fits = len(groups) == 0 or groups[-1] == 1
        require(fits, "groups", tuple(groups), "inputs share global scales: let the last dimension be 1")

    def variance(self, scales: R2D2Scales) -> Tensor:
        return positive_finite((self.sigma0**2 / 2 * scales.psi) * scales.T)

    def gibbs(self, w: Tensor, scales: R2D2Scales, generator: torch.Generator | None = None) -> R2D2Scales:
        square, noise = self._squares_and_noise(w, generator)
        t = self._draw_t(square, scales, noise)
        return self._draw_rates(R2D2Scales(t, self._draw_psi(square, t, noise), scales.xi, scales.rate), generator)

    def gibbs_reversed(self, w: Tensor, scales: R2D2Scales, generator: torch.Generator | None = None) -> R2D2Scales:
        square, noise = self._squares_and_noise(w, generator)
        scales = self._draw_rates(scales._replace(psi=self._draw_psi(square, scales.T, noise)), generator)
        return scales._replace(T=self._draw_t(square, scales, noise))

    def _squares_and_noise(self, w: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Return (w / sigma0)^2, and normal and uniform noise, (4, ...)."""
        square = squared(require_finite("w", w.detach()) / self.sigma0)
        noise = torch.empty(4, *square.shape, dtype=square.dtype, device=square.device)
        noise[0].normal_(generator=generator)
        fill_uniform(noise[1:].view(3, -1), generator)
        return square, noise

    def _draw_psi(self, square: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        return positive_finite(reciprocal_root(positive_finite(2 * square / t), 1.0, noise[0], noise[3]))

    def _draw_t(self, square: Tensor, scales: R2D2Scales, noise: Tensor) -> Tensor:
        """Draw T given psi and the rates; each keeps its value where its proposal is rejected."""
        t = scales.T.clone()
        for part in self.parts:
            own = part.scales(scales)
            chi, rho, lam = part.prior._t_conditional(part.of(square), own)
            old, chi, rho, u, v = (value.reshape(-1) for value in (own.T, chi, rho, *map(part.of, noise[1:3])))
            part.write(t, positive_finite(gig_refreshed(old, chi, rho, lam, u, v).view(own.T.shape)))
        return t

    def _draw_rates(self, scales: R2D2Scales, generator: torch.Generator | None) -> R2D2Scales:
        xi, etas = (
            [positive_finite(standard_gamma(q.concentration, generator) / q.rate) for q in several]
            for several in self._rate_conditionals([part.of(scales.T) for part in self.parts], scales.xi)
        )
        return scales._replace(xi=xi[0], rate=self._rate(xi[0], etas, scales.T))

    def _rate_conditionals(self, t: Sequence[Tensor], xi: Tensor) -> tuple[list[Gamma], list[Gamma]]:
        """xi | T, and eta_g | T of each group, given T, or E T, of each group."""
        omegas = [positive_finite(own).sum_to_size(xi.shape) for own in t]
        total = torch.stack(omegas).sum(0)
        shape = torch.full_like(total, math.fsum(self._a) + self._b)
        etas = []
        for part, own, omega in zip(self.parts, t, omegas, strict=True):
            excess = part.prior.rate_shapes(own.numel() / max(1, omega.numel()))[1]
            etas.append(Gamma(torch.full_like(omega, excess), positive_finite(omega), validate_args=False))
        return [Gamma(shape, 1 + total, validate_args=False)], etas

    def _rate(self, xi: Tensor, etas: Sequence[Tensor], like: Tensor) -> Tensor:
        """Return xi + eta_g of each weight's group, in the shape of w."""
        rate = torch.empty_like(like)
        for part, eta in zip(self.parts, etas, strict=True):
            part.write(rate, positive_finite(xi + eta).expand(*like.shape[:-1], len(part.columns)))
        return rate

    def cavi(self, second_moment: Tensor, scales: R2D2Scales) -> GroupedR2D2Factors:
        local = []
        for part in self.parts:
            own = part.scales(scales)
            local.append(part.prior.local_factors(part.of(second_moment), own))
        (xi,), etas = self._rate_conditionals([mean_t for *_, mean_t in local], scales.xi)
        t_point, psi_point, factors = torch.empty_like(scales.T), torch.empty_like(scales.T), []
        for part, (psi, t, point, _), eta in zip(self.parts, local, etas, strict=True):
            part.write(t_point, point.T)
            part.write(psi_point, point.psi)
            own = R2D2Scales(point.T, point.psi, xi.mean, xi.mean + eta.mean)
            factors.append(R2D2Factors(part.prior, own, psi, t, xi, eta))
        rate = self._rate(xi.mean, [eta.mean for eta in etas], scales.T)
        return GroupedR2D2Factors(self, R2D2Scales(t_point, psi_point, xi.mean, rate), factors)

    def log_prob(self, w: Tensor) -> Tensor:
        density = torch.empty_like(w)
        for part, count in self._in_layer(w.shape):
            part.write(density, part.prior.log_prob(part.of(w), weights=round(count)))
        return density

    def unconstrained(self, scales: R2D2Scales) -> dict[str, Tensor]:
        """Convert scales to logarithms of G_j = T_j rate, psi_j and xi, and logit B_g, B_g = xi / rate, of groups."""
        u = {"log_g": scales.T.log() + scales.rate.log(), "log_psi": scales.psi.log(), "log_xi": scales.xi.log()}
        for k, part in enumerate(self.parts):
            rate = _shared_value(part.of(scales.rate), scales.xi.shape)
            u[f"logit_b{k}"] = scales.xi.log() - positive_finite(rate - scales.xi).log()
        return u

    def log_prob_scales(self, u: dict[str, Tensor]) -> Tensor:
        total = log_gamma_density(u["log_psi"], 1.0, 0.5).sum() + log_gamma_density(u["log_xi"], self._b).sum()
        for k, (part, count) in enumerate(self._in_layer(u["log_g"].shape, u["log_xi"].numel())):
            a, e, logit = part.total, part.prior.rate_shapes(count)[1], u[f"logit_b{k}"]
            log_b, log_rest = -softplus(-logit, threshold=60), -softplus(logit, threshold=60)
            log_beta = math.lgamma(a) + math.lgamma(e) - math.lgamma(a + e)
            total = total + log_gamma_density(part.of(u["log_g"]), part.prior.a_pi).sum()
            total = total + (a * log_b + e * log_rest - log_beta).sum()
        return total

    def log_variance(self, u: dict[str, Tensor]) -> Tensor:
        log_v = math.log(self.sigma0**2 / 2) + u["log_psi"] + u["log_g"] - u["log_xi"]
        columns = torch.cat([part.columns for part in self.parts]).to(log_v.device)
        log_odds = [
            softplus(-u[f"logit_b{k}"], threshold=60).expand(*log_v.shape[:-1], len(part.columns))
            for k, part in enumerate(self.parts)
        ]
        return log_v - torch.cat(log_odds, -1).index_select(-1, columns.argsort())


def grouped_from_r2(
    groups: Mapping[str, Sequence[Any]], mean_r2: Any, precision_r2: float, concentration: Any, sigma0: float
) -> GroupedR2D2:
    """Build the prior from the arguments of `R2D2.from_r2`, of which one number may stand for all groups.

    Args:
        groups: Columns of each group.
        mean_r2: Mean R2 of each group, or of all inputs, which groups share equally.
        precision_r2: Precision of all shares.
        concentration: Concentration of each group, or of all.
        sigma0: Standard deviation of the noise.

    Returns:
        The prior.

    Raises:
        ParameterError: If an argument lies outside its range.
    """
    names = list(checked_groups(groups))
    if not isinstance(mean_r2, Mapping):
        is_number = isinstance(mean_r2, Real) and not isinstance(mean_r2, bool)
        fix = "use a number between 0 and 1, or one for each group by its name"
        require(is_number and 0 < mean_r2 < 1, "mean_r2", mean_r2, fix)
        mean_r2 = dict.fromkeys(names, float(mean_r2) / len(names))
    if not isinstance(concentration, Mapping):
        concentration = dict.fromkeys(names, concentration)
    for argument, values in (("mean_r2", mean_r2), ("concentration", concentration)):
        wrong = [name for name in names if name not in values] or [name for name in values if name not in names]
        if wrong:
            lacks = wrong[0] in names
            problem = ("lacks the group " if lacks else "names an unknown group, ", Value(wrong[0]))
            raise ParameterError(problem, argument=argument, fix=f"the groups are {', '.join(map(repr, names))}")
    return GroupedR2D2(groups, mean_r2, precision_r2, concentration, sigma0)


def _shared_value(values: Tensor, groups: Shape) -> Tensor:
    """Return the value that all weights of a global scale have in common, in the shape of groups."""
    padded = (1,) * (values.dim() - len(groups)) + tuple(groups)
    shared = [dim for dim, size in enumerate(padded) if size == 1]
    return (values.amax(shared, keepdim=True) if shared else values).view(tuple(groups))
