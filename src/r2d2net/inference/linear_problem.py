"""Linear regression given how the prior variance is shared: scale, noise and weights in closed form.

    y = X w + e,      e_i ~ N(0, sigma^2),      w_j ~ N(0, sigma^2 tau^2 q_j),      sum_j q_j mean(x_j^2) = 1

X and y are centred where there is an intercept under a flat prior: d = n - 1 degrees of freedom are left, and d = n
without one. With M = I + tau^2 X diag(q) X' and sigma^2 ~ IG(a, b), first w and then sigma^2 is integrated out:

    log p(y | tau)     = -1/2 log|M| - (a + d/2) log(b + y' M^-1 y / 2)
    sigma^2 | tau, y   ~ IG(a + d/2, b + y' M^-1 y / 2)

    n < p:   w = u + tau^2 diag(q) X' M^-1 (y - X u - sigma e),   u ~ N(0, sigma^2 tau^2 diag(q)),   e ~ N(0, I)
    p <= n:  w ~ N(tau^2 D N^-1 D X'y, sigma^2 tau^2 D N^-1 D),   D = diag(q)^1/2,   N = I + tau^2 D X'X D,
             log|M| = log|N|,   y' M^-1 y = y'y - tau^2 (D X'y)' N^-1 (D X'y),   X'X computed once

M and N never have more than min(n, p) rows. `Spectrum` holds their eigenvalues, which serve every tau at once;
`Factors` has the Cholesky factor for one tau, which is cheaper where they are large. Both are for a batch of chains,
each with its own q, tau, sigma and column of y. For classes each chain has rows of its own, T X and T y in place of X
and y (`linear_rows`), which are never formed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from r2d2net.inference.linear_rows import WeightedRows, fitted_values, row_sums

EXACT = torch.float64


class LinearProblem(NamedTuple):
    """Data of a linear regression, in float64; or of one for each chain (`linear_members`).

    Attributes:
        x: Inputs, (n, p), centred if there is an intercept; (chains, n, p) where each chain has its own.
        y: Targets, (n, outputs), centred if there is an intercept; then (n, chains).
        x_mean: Means that were taken off the inputs, (p,); then (chains, p).
        y_mean: Means that were taken off the targets, (outputs,); then (chains,).
        mean_square: Mean of x_j^2, (p,), ones where no input varies at all; then (chains, p).
        degrees: Degrees of freedom d of the residuals.
        gram: X'X, where p <= n; then (chains, p, p).
    """

    x: Tensor
    y: Tensor
    x_mean: Tensor
    y_mean: Tensor
    mean_square: Tensor
    degrees: float
    gram: Tensor | None


def linear_problem(x: Tensor, y: Tensor, *, intercept: bool, weights: Tensor | None = None) -> LinearProblem:
    """Prepare the data of a linear regression.

    Args:
        x: Inputs, (n, p).
        y: Targets, (n, outputs).
        intercept: Whether there is an intercept under a flat prior.
        weights: Weights of the rows, (n,): a row of weight 2 is two rows, and so sqrt(2) times one; None for none.

    Returns:
        The problem.
    """
    x, y = x.to(EXACT), y.to(EXACT)
    if weights is not None:
        return _weighted_problem(x, y, weights.to(EXACT), intercept=intercept)
    (n, p), share = x.shape, float(intercept)
    x_mean, y_mean = share * x.mean(0), share * y.mean(0)
    x, y = x - x_mean, y - y_mean
    mean_square = x.square().mean(0)
    if not bool(mean_square.sum() > 0):
        mean_square = torch.ones_like(mean_square)
    return LinearProblem(x, y, x_mean, y_mean, mean_square, n - int(intercept), x.T @ x if p <= n else None)


def _weighted_problem(x: Tensor, y: Tensor, weights: Tensor, *, intercept: bool) -> LinearProblem:
    total, share = float(weights.sum()), float(intercept)
    x_mean, y_mean = share * (weights @ x) / total, share * (weights @ y) / total
    roots = weights.sqrt().unsqueeze(1)
    x, y = roots * (x - x_mean), roots * (y - y_mean)
    mean_square = x.square().sum(0) / total
    if not bool(mean_square.sum() > 0):
        mean_square = torch.ones_like(mean_square)
    gram = x.T @ x if x.shape[1] <= x.shape[0] else None
    return LinearProblem(x, y, x_mean, y_mean, mean_square, total - int(intercept), gram)


class ByShares:
    """The problem given shares q of a batch of chains.

    Args:
        x: Inputs of all chains, (n, p), or of each, (chains, n, p).
        y: Targets of each chain, (chains, n); T y for weighted rows.
        shares: q of each chain, (chains, p).
        gram: X'X where p <= n and the rows have no weights.
        rows: Weights of the rows of each chain; None for ones.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        shares: Tensor,
        *,
        gram: Tensor | None = None,
        rows: WeightedRows | None = None,
    ) -> None:
        self.x, self.y, self.shares, self.roots, self.rows = x, y, shares, shares.sqrt(), rows
        self.by_rows = x.shape[-2] < x.shape[-1]
        if self.by_rows:
            kernel = (x * shares.unsqueeze(-2)) @ x.mT
            self.matrix, self.target = kernel if rows is None else rows.around(kernel), y
        else:
            inner = (x.mT @ x if gram is None else gram) if rows is None else rows.gram(x)
            self.matrix = self.roots.unsqueeze(-1) * inner * self.roots.unsqueeze(-2)
            self.target = self.roots * self._back(y)

    def _forth(self, weights: Tensor) -> Tensor:
        """Compute T X w, (chains, n)."""
        fitted = fitted_values(self.x, weights)
        return fitted if self.rows is None else self.rows.forth(fitted)

    def _back(self, residuals: Tensor) -> Tensor:
        """Compute X' T' r, (chains, p)."""
        return row_sums(self.x, residuals if self.rows is None else self.rows.back(residuals))

    def _quadratic(self, tau: Tensor, solved: Tensor) -> Tensor:
        """Compute y' M^-1 y from the target's own quadratic form, (chains, ...)."""
        if self.by_rows:
            return solved
        whole = self.y.square().sum(-1).reshape(-1, *[1] * (tau.dim() - 1))
        return (whole - tau.square() * solved).clamp(min=0)  # below zero by rounding alone

    def _draw_by_rows(
        self, tau: Tensor, deviation: Tensor, solve: Callable[[Tensor], Tensor], generator: torch.Generator
    ) -> Tensor:
        """Draw w by way of M, n x n; ``solve`` multiplies by M^-1."""
        u = deviation * tau * self.roots * torch.empty_like(self.shares).normal_(generator=generator)
        noise = deviation * torch.empty_like(self.y).normal_(generator=generator)
        return u + tau.square() * self.shares * self._back(solve(self.y - self._forth(u) - noise))


class Spectrum(ByShares):
    """The problem given shares q, by the eigenvalues of X diag(q) X' or D X'X D."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        values, self.vectors = torch.linalg.eigh(self.matrix)
        self.values = values.clamp(min=0)
        self.rotated = _times(self.vectors.mT, self.target)

    def energy(self, tau: Tensor) -> tuple[Tensor, Tensor]:
        """Compute y' M^-1 y and log|M| / 2.

        Args:
            tau: Several values for each chain, (chains, values).

        Returns:
            Both, (chains, values).
        """
        spread = 1 + tau.square().unsqueeze(-1) * self.values.unsqueeze(-2)
        solved = (self.rotated.square().unsqueeze(-2) / spread).sum(-1)
        return self._quadratic(tau, solved), spread.log().sum(-1) / 2

    def draw(self, tau: Tensor, variance: Tensor, generator: torch.Generator) -> Tensor:
        """Draw the weights.

        Args:
            tau: Scale of each chain, (chains,).
            variance: Noise variance of each chain, (chains,).
            generator: Source of randomness.

        Returns:
            The weights, (chains, p).
        """
        tau, deviation = tau.unsqueeze(-1), variance.sqrt().unsqueeze(-1)
        spread = 1 + tau.square() * self.values
        if self.by_rows:
            solve = lambda vector: _times(self.vectors, _times(self.vectors.mT, vector) / spread)  # noqa: E731
            return self._draw_by_rows(tau, deviation, solve, generator)
        noise = torch.empty_like(self.rotated).normal_(generator=generator)
        rotated = tau * self.rotated / spread + deviation * noise / spread.sqrt()
        return self.roots * tau * _times(self.vectors, rotated)


class Factors(ByShares):
    """The problem given shares q, by the Cholesky factor of M or N at one tau of each chain."""

    def factor(self, tau: Tensor) -> Tensor:
        """Factorise M or N.

        Args:
            tau: Scale of each chain, (chains,).

        Returns:
            The lower factors, (chains, min(n, p), min(n, p)).
        """
        matrix = tau.square()[:, None, None] * self.matrix
        matrix.diagonal(dim1=-2, dim2=-1).add_(1)
        return torch.linalg.cholesky(matrix)

    def energy(self, tau: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
        """Compute y' M^-1 y and log|M| / 2.

        Args:
            tau: Scale of each chain, (chains,).
            factor: What `factor` returned for it.

        Returns:
            Both, (chains,).
        """
        solved = torch.linalg.solve_triangular(factor, self.target.unsqueeze(-1), upper=False)
        quadratic = self._quadratic(tau, solved.square().sum((-2, -1)))
        return quadratic, factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def draw(self, tau: Tensor, factor: Tensor, variance: Tensor, generator: torch.Generator) -> Tensor:
        """Draw the weights.

        Args:
            tau: Scale of each chain, (chains,).
            factor: What `factor` returned for it.
            variance: Noise variance of each chain, (chains,).
            generator: Source of randomness.

        Returns:
            The weights, (chains, p).
        """
        tau, deviation = tau.unsqueeze(-1), variance.sqrt().unsqueeze(-1)
        solve = lambda vector: torch.cholesky_solve(vector.unsqueeze(-1), factor).squeeze(-1)  # noqa: E731
        if self.by_rows:
            return self._draw_by_rows(tau, deviation, solve, generator)
        noise = torch.empty_like(self.target).normal_(generator=generator).unsqueeze(-1)
        spread = torch.linalg.solve_triangular(factor.mT, noise, upper=True).squeeze(-1)
        return self.roots * tau * (tau * solve(self.target) + deviation * spread)


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)
