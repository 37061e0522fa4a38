"""Rows of a linear regression that have weights, and an intercept under a normal prior that is integrated out.

    z_i = b + x_i' w + e_i,      e_i ~ N(0, 1 / omega_i),      b ~ N(0, s^2)

With a_i = sqrt(omega_i) the scaled targets a_i z_i have covariance C = I + s^2 a a' around a_i x_i' w, so

    T z ~ N(T X w, I),      T = C^-1/2 diag(a),      C^-1/2 = I - r a a',   r = (1 - 1 / sqrt(1 + s^2 a'a)) / a'a
    T' T = diag(omega) - h omega omega',   h = s^2 / (1 + s^2 sum_i omega_i)

T is never formed: it is a diagonal matrix and a matrix of rank one. All is for a batch of chains, each with its own
weights, and with inputs that all share, X (n, p), or with its own, (chains, n, p). Without an intercept s = 0.
"""

from __future__ import annotations

from torch import Tensor


def fitted_values(x: Tensor, weights: Tensor) -> Tensor:
    """Compute X w of each chain.

    Args:
        x: Inputs, (n, p), or those of each chain, (chains, n, p).
        weights: Weights, (chains, p).

    Returns:
        The products, (chains, n).
    """
    return weights @ x.T if x.dim() == 2 else (x @ weights.unsqueeze(-1)).squeeze(-1)


def row_sums(x: Tensor, values: Tensor) -> Tensor:
    """Compute X' r of each chain.

    Args:
        x: Inputs, (n, p), or those of each chain, (chains, n, p).
        values: One number for each row, (chains, n).

    Returns:
        The products, (chains, p).
    """
    return values @ x if x.dim() == 2 else (values.unsqueeze(-2) @ x).squeeze(-2)


def at_means(x_mean: Tensor, weights: Tensor) -> Tensor:
    """Compute mean(x)' w of each row of weights.

    Args:
        x_mean: Means of the inputs, (p,), or those of each row of weights, (rows, p).
        weights: Weights, (rows, p).

    Returns:
        The products, (rows,).
    """
    return weights @ x_mean if x_mean.dim() == 1 else (weights * x_mean).sum(-1)


class WeightedRows:
    """The operator T of each chain.

    Args:
        omega: Weights of the rows, (chains, n).
        intercept_scale: Standard deviation s of the intercept; 0 without one.
    """

    def __init__(self, omega: Tensor, intercept_scale: float) -> None:
        self.omega, self.roots = omega, omega.sqrt()
        total, variance = omega.sum(-1, keepdim=True), intercept_scale**2
        self.rank_one = variance / (1 + variance * total)
        spread = (1 + variance * total).sqrt()
        self.ratio = variance / (spread * (1 + spread))  # (1 - 1 / spread) / total, without its difference

    def _contract(self, vectors: Tensor) -> Tensor:
        """Multiply by C^-1/2."""
        return vectors - self.ratio * self.roots * (self.roots * vectors).sum(-1, keepdim=True)

    def forth(self, vectors: Tensor) -> Tensor:
        """Multiply by T.

        Args:
            vectors: One vector of each chain, (chains, n).

        Returns:
            The products, (chains, n).
        """
        return self._contract(self.roots * vectors)

    def back(self, vectors: Tensor) -> Tensor:
        """Multiply by the transpose of T.

        Args:
            vectors: One vector of each chain, (chains, n).

        Returns:
            The products, (chains, n).
        """
        return self.roots * self._contract(vectors)

    def around(self, matrices: Tensor) -> Tensor:
        """Compute T A T' for symmetric matrices A.

        Args:
            matrices: One matrix of each chain, (chains, n, n).

        Returns:
            The products, (chains, n, n).
        """
        scaled = self.roots.unsqueeze(-1) * matrices * self.roots.unsqueeze(-2)
        ratio, column = self.ratio.unsqueeze(-1), self.roots.unsqueeze(-1)
        product = scaled @ column
        inner = (column * product).sum(-2, keepdim=True)
        right = ratio * (product - ratio * inner * column / 2)
        return scaled - right @ column.mT - column @ right.mT

    def gram(self, x: Tensor) -> Tensor:
        """Compute X' T' T X.

        Args:
            x: Inputs, (n, p) or (chains, n, p).

        Returns:
            The products, (chains, p, p).
        """
        total = row_sums(x, self.omega).unsqueeze(-1)
        return (x.mT * self.omega.unsqueeze(-2)) @ x - self.rank_one.unsqueeze(-1) * total @ total.mT

    def weigh(self, x: Tensor) -> Tensor:
        """Compute T' T X.

        Args:
            x: Inputs, (n, p) or (chains, n, p).

        Returns:
            The products, (chains, n, p).
        """
        common = self.rank_one.unsqueeze(-1) * row_sums(x, self.omega).unsqueeze(-2)
        return self.omega.unsqueeze(-1) * (x - common)

    def square_diagonal(self) -> Tensor:
        """Compute the diagonal of T' T.

        Returns:
            The diagonals, (chains, n).
        """
        return self.omega * (1 - self.rank_one * self.omega)

    def diagonal_within(self, matrices: Tensor) -> Tensor:
        """Compute the diagonal of T' A T for symmetric matrices A.

        Args:
            matrices: One matrix of each chain, (chains, n, n).

        Returns:
            The diagonals, (chains, n).
        """
        product = (matrices @ self.roots.unsqueeze(-1)).squeeze(-1)
        inner = (self.roots * product).sum(-1, keepdim=True)
        change = self.ratio * self.roots * (self.ratio * inner * self.roots - 2 * product)
        return self.omega * (matrices.diagonal(dim1=-2, dim2=-1) + change)
