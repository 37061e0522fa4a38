"""The inverse Gaussian and its reciprocal.

    Y ~ InverseGaussian(mu, k):               density proportional to y^(-3/2) exp(-k (y - mu)^2 / (2 mu^2 y))
    X ~ ReciprocalInverseGaussian(chi, rho):  giG(chi, rho, 1/2); 1/X ~ InverseGaussian(sqrt(rho/chi), rho)

The sampler takes the larger root of Michael, Schucany and Haas (Am. Stat. 30, 1976) in a form without cancellation:
with t = sqrt(chi rho), n = N(0,1)^2 / 2 and b = t + n + sqrt(n (n + 2 t)), rho X is b with probability b / (b + t) and
t^2 / b otherwise. At chi = 0 it is the gamma distribution (t = 0), where no inverse-Gaussian form exists.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all

from r2d2net.distributions.exponential_integral import scaled_expint
from r2d2net.distributions.generalized_inverse_gaussian import GeneralizedInverseGaussian
from r2d2net.distributions.primitives import require_nonnegative, require_positive, where_negative

CPU_CHUNK = 1 << 15


class ReciprocalInverseGaussian(Distribution):
    """giG(chi, rho, 1/2), whose moments are elementary: E X = (1 + t) / rho, E 1/X = sqrt(rho / chi).

    Args:
        chi: Coefficient of 1/x, finite and >= 0; at 0 the distribution is a gamma.
        rho: Coefficient of x, finite and > 0.
        validate_args: Check the values given to `log_prob` against the support; None for torch's default.

    Raises:
        ParameterError: If ``chi`` is not finite and >= 0, or ``rho`` not finite and > 0.

    Example:
        >>> psi = ReciprocalInverseGaussian(torch.tensor([0.0, 4.0]), 1.0)
        >>> psi.mean, psi.mean_inverse
        (tensor([1., 3.]), tensor([   inf, 0.5000]))
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "chi": constraints.nonnegative,
        "rho": constraints.positive,
    }
    support = constraints.positive
    has_rsample = False

    def __init__(self, chi: Tensor | float, rho: Tensor | float = 1.0, validate_args: bool | None = None) -> None:
        self.chi, self.rho = broadcast_all(chi, rho)
        require_nonnegative(chi=self.chi)
        require_positive(rho=self.rho)
        super().__init__(self.chi.shape, validate_args=False)
        self._validate_args = Distribution._validate_args if validate_args is None else validate_args

    def expand(
        self, batch_shape: Sequence[int], _instance: ReciprocalInverseGaussian | None = None
    ) -> ReciprocalInverseGaussian:
        new = self._get_checked_instance(ReciprocalInverseGaussian, _instance)
        shape = torch.Size(batch_shape)
        new.chi, new.rho = self.chi.expand(shape), self.rho.expand(shape)
        super(ReciprocalInverseGaussian, new).__init__(shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def gig(self) -> GeneralizedInverseGaussian:
        """The same distribution as a generalised inverse Gaussian."""
        return GeneralizedInverseGaussian(self.chi, self.rho, 0.5)

    @property
    def _root(self) -> Tensor:
        return torch.sqrt(self.chi) * torch.sqrt(self.rho)

    def sample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        shape = torch.Size(sample_shape) + self.batch_shape
        with torch.no_grad():
            return sample_reciprocal(self.chi.detach().expand(shape), self.rho.detach(), generator)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        # -(rho x - t)^2 / (2 rho x): the square keeps what the two exponentials would cancel
        chi, rho, x = self.chi.double(), self.rho.double(), value.double()
        gap = torch.sqrt(rho * x) - torch.sqrt(chi / x)
        density = 0.5 * (torch.log(rho) - torch.log(x) - math.log(2 * math.pi) - gap.square())
        return density.to(torch.promote_types(self.chi.dtype, value.dtype))

    @property
    def mean(self) -> Tensor:
        return (1 + self._root) / self.rho

    @property
    def mean_inverse(self) -> Tensor:
        """E[1/X] = sqrt(rho / chi)."""
        return torch.sqrt(self.rho) / torch.sqrt(self.chi)

    @property
    def mean_log(self) -> Tensor:
        """E[log X] = log sqrt(chi / rho) + e^{2t} E1(2t), and the gamma limit at chi = 0."""
        safe = torch.where(self.chi == 0, 1.0, self.chi)
        t = torch.sqrt(safe) * torch.sqrt(self.rho)
        value = 0.5 * (torch.log(safe) - torch.log(self.rho)) + scaled_expint(2 * t)
        limit = torch.digamma(torch.tensor(0.5, dtype=torch.float64)).item() + math.log(2) - torch.log(self.rho)
        return torch.where(self.chi == 0, limit, value)

    @property
    def variance(self) -> Tensor:
        return (2 + self._root) / self.rho.square()

    def entropy(self) -> Tensor:
        # -E log f = (log(2 pi) - log rho + E log X + E (rho X - t)^2 / (rho X)) / 2, and the last mean is 1
        return 0.5 * (math.log(2 * math.pi) - torch.log(self.rho) + self.mean_log + 1)


class InverseGaussian(Distribution):
    """Inverse Gaussian with mean ``loc`` and shape ``concentration``: variance loc^3 / concentration.

    Args:
        loc: Mean, finite and > 0.
        concentration: Shape, finite and > 0.
        validate_args: Check the values given to `log_prob` against the support; None for torch's default.

    Raises:
        ParameterError: If a parameter is not finite and > 0.

    Example:
        >>> InverseGaussian(2.0, 4.0).variance
        tensor(2.)
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "loc": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive
    has_rsample = False

    def __init__(self, loc: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        require_positive(loc=self.loc, concentration=self.concentration)
        super().__init__(self.loc.shape, validate_args=False)
        self._validate_args = Distribution._validate_args if validate_args is None else validate_args

    def expand(self, batch_shape: Sequence[int], _instance: InverseGaussian | None = None) -> InverseGaussian:
        new = self._get_checked_instance(InverseGaussian, _instance)
        shape = torch.Size(batch_shape)
        new.loc, new.concentration = self.loc.expand(shape), self.concentration.expand(shape)
        super(InverseGaussian, new).__init__(shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def reciprocal(self) -> ReciprocalInverseGaussian:
        """The distribution of 1/Y, in float64: concentration / loc^2 leaves float32 easily."""
        loc, concentration = self.loc.double(), self.concentration.double()
        return ReciprocalInverseGaussian(concentration / loc.square(), concentration)

    def sample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        limits = torch.finfo(self.loc.dtype)
        draws = self.reciprocal.sample(sample_shape, generator).reciprocal_()
        return draws.clamp_(min=limits.tiny, max=limits.max).to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        loc, concentration, y = self.loc.double(), self.concentration.double(), value.double()
        gap = (y / loc - 1).square() * concentration / y
        density = 0.5 * (torch.log(concentration / (2 * math.pi)) - 3 * torch.log(y) - gap)
        density = torch.where(y == math.inf, -math.inf, density)
        return density.to(torch.promote_types(self.loc.dtype, value.dtype))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mean_inverse(self) -> Tensor:
        """E[1/Y] = 1/loc + 1/concentration."""
        return 1 / self.loc + 1 / self.concentration

    @property
    def mean_log(self) -> Tensor:
        """E[log Y]."""
        return -self.reciprocal.mean_log.to(self.loc.dtype)

    @property
    def variance(self) -> Tensor:
        return (self.loc.double() ** 3 / self.concentration.double()).to(self.loc.dtype)

    def entropy(self) -> Tensor:
        return 0.5 * (math.log(2 * math.pi) - torch.log(self.concentration) + 3 * self.mean_log + 1)


def sample_reciprocal(chi: Tensor, rho: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Draw from giG(chi, rho, 1/2) in the shape of ``chi``, chunk by chunk so that temporaries stay in the cache."""
    out = torch.empty(chi.shape, dtype=chi.dtype, device=chi.device)
    flat, chi_f = out.view(-1), chi.reshape(-1)
    rho_f = rho if rho.dim() == 0 else rho.expand(chi.shape).reshape(-1)
    chunk = CPU_CHUNK if chi.device.type == "cpu" else max(1, out.numel())
    normal = torch.empty(min(chunk, out.numel()), dtype=chi.dtype, device=chi.device)
    for start in range(0, out.numel(), chunk):
        x = flat[start : start + chunk]
        c, r = chi_f[start : start + chunk], rho_f if rho_f.dim() == 0 else rho_f[start : start + chunk]
        n = normal[: x.numel()].normal_(generator=generator)
        x.copy_(reciprocal_root(c, r, n, x.uniform_(generator=generator)))
    limits = torch.finfo(out.dtype)
    return out.clamp_(min=limits.tiny, max=limits.max)


def reciprocal_root(chi: Tensor, rho: Tensor | float, n: Tensor, u: Tensor) -> Tensor:
    """Transform standard normals n, which are overwritten, and uniforms u to draws from giG(chi, rho, 1/2)."""
    t = torch.sqrt(chi).mul_(rho**0.5)
    n.square_().mul_(0.5)
    larger = torch.add(n, t, alpha=2).mul_(n).sqrt_().add_(n).add_(t)
    excess = torch.add(larger, t, out=n).mul_(u).neg_().add_(larger)  # negative with probability t / (b + t)
    # log-free choice of the root: the smaller one is t^2 / b
    smaller = torch.div(t, larger).mul_(t)
    return where_negative(excess, smaller, larger).div_(rho)
