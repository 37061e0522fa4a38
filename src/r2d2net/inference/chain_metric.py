"""Coordinates z in which the posterior of a chain's weights is about as wide in every direction: w = A z.

    diagonal        A = diag(a),                                    1 / a_j^2 = c_j + lambda_j
    Gauss-Newton    A = diag(a) (I + V diag((1 + e)^(-1/2) - 1) V'),      1 / a_j^2 = c_j + lambda_j / 10

c is the prior's precision and lambda the data's precision of each weight alone, as SVGI's q has it. e and V are the
eigenvalues and eigenvectors of diag(a) R'R diag(a), where R'R is the leading part of the generalised Gauss-Newton
matrix of the negative log likelihood at some weights,

    G = sum_i J_i' H_i J_i,      J_i = d outputs_i / dw,      H_i = -d^2 log p(y_i | outputs_i) / d outputs_i^2

so that A A' = (diag(1 / a^2) + R'R)^-1. Where weights depend on each other, as those of two layers do, the diagonal
allows steps as short as the narrowest direction wants. A tenth of lambda stays for directions that G does not see at
these weights, such as those of units that are at rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import jacrev, vmap

from r2d2net.inference.base import Batch
from r2d2net.likelihoods.base import Noise
from r2d2net.model import BayesianModel, Tensors

EXACT = torch.float64  # of products and eigenvalues: prior precisions differ by many orders of magnitude
REST = 0.1  # of the data's precision of single weights, beside the Gauss-Newton matrix
ROOM = 1 << 22  # numbers of the Jacobians that are computed at a time
LEAST = 1e-10  # eigenvalue over the largest, below which a direction is rounding error


class Metric(NamedTuple):
    """The map A of each chain.

    Attributes:
        deviation: a, (chains, d).
        basis: V, orthonormal columns, (chains, d, k); None for the diagonal.
        factor: (1 + e)^(-1/2) - 1, (chains, k); None for the diagonal.
    """

    deviation: Tensor
    basis: Tensor | None = None
    factor: Tensor | None = None

    def to_weights(self, z: Tensor) -> Tensor:
        """Compute A z, the motion of the weights.

        Args:
            z: Motion in the coordinates, (chains, d).

        Returns:
            The motion, (chains, d).
        """
        return self.deviation * self._stretched(z)

    def to_gradient(self, gradient: Tensor) -> Tensor:
        """Compute A' g, the gradient in the coordinates.

        Args:
            gradient: Gradient in the weights, (chains, d).

        Returns:
            The gradient in z, (chains, d).
        """
        return self._stretched(self.deviation * gradient)

    def _stretched(self, z: Tensor) -> Tensor:
        if self.basis is None or self.factor is None:
            return z
        along = torch.bmm(z.unsqueeze(1), self.basis).squeeze(1) * self.factor
        return torch.baddbmm(z.unsqueeze(2), self.basis, along.unsqueeze(2)).squeeze(2)


def metric_of(prior_precision: Tensor, data_precision: Tensor, curvature: Tensor) -> Metric:
    """Build the map of each chain.

    Args:
        prior_precision: c, (chains, d).
        data_precision: lambda, (d,).
        curvature: R, (chains, k, d); k = 0 for the diagonal.

    Returns:
        The map.
    """
    if curvature.shape[1] == 0:
        return Metric(torch.rsqrt(prior_precision + data_precision))
    deviation = torch.rsqrt(prior_precision + REST * data_precision)
    values, basis = leading(curvature.to(EXACT) * deviation.to(EXACT).unsqueeze(1), curvature.shape[1])
    dtype = prior_precision.dtype
    return Metric(deviation, basis.to(dtype).contiguous(), (torch.rsqrt(1 + values) - 1).to(dtype))


def leading(rows: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Compute the leading eigenvalues and eigenvectors of B'B.

    Args:
        rows: B, (chains, rows, d), float64.
        number: Most eigenvalues that are wanted.

    Returns:
        The eigenvalues, (chains, k), and the eigenvectors, (chains, d, k); both are 0 where B'B has no more directions.
    """
    count, d = rows.shape[1:]
    if d <= count:
        values, basis = torch.linalg.eigh(rows.mT @ rows)
        values, basis = values[:, -number:].clamp(min=0), basis[..., -number:]
        return values, basis
    values, sides = torch.linalg.eigh(rows @ rows.mT)
    values, sides = values[:, -number:], sides[..., -number:]
    is_direction = values > LEAST * values[:, -1:].clamp(min=torch.finfo(EXACT).tiny)
    values = values.where(is_direction, 0)
    lengths = torch.where(is_direction, values.clamp(min=torch.finfo(EXACT).tiny).rsqrt(), 0)
    return values, rows.mT @ (sides * lengths.unsqueeze(1))


class GaussNewton:
    """The leading part R of the Gauss-Newton matrix of every chain, bound to a model.

    Rows of data must be independent: each is passed through the network alone.

    Args:
        model: The model.
        directions: Rows of R: so many directions in which weights move together.
        temperature: Weight of the prior.
    """

    def __init__(self, model: BayesianModel[Any], directions: int, temperature: float) -> None:
        self.model, self.directions, self.temperature = model, min(directions, model.size), temperature
        self.sizes = [slot.shape.numel() for slot in model.bayesian]

    def at(
        self, weights: Tensor, precision: Tensor, fixed: Tensor, buffers: Tensors, noise: Noise, batch: Batch
    ) -> Tensor:
        """Compute R at given weights, by as many rows, evenly spaced, as there is room for.

        Args:
            weights: Weights of the chains, (chains, d).
            precision: 1 / a^2: the directions that lead in these coordinates are taken, (chains, d).
            fixed: Deterministic parameters.
            buffers: Buffers by name.
            noise: Learnt parameters of the likelihood, (chains, ...).
            batch: Inputs and targets of all rows.

        Returns:
            R, (chains, directions, d); rows of zeros where the matrix has fewer directions.
        """
        x, y = batch
        model, n, d = self.model, len(y), self.model.size
        model.net.eval()
        shared = {**{slot.name: slot.of(fixed) for slot in model.fixed}, **buffers}
        width = model.likelihood.outputs(y) or 1
        index = torch.linspace(0, n - 1, max(1, min(n, ROOM // (d * width))), device=y.device).round().long()
        inputs = tuple(part[index] for part in x) if isinstance(x, tuple) else x[index]
        root_count = (n / (len(index) * self.temperature)) ** 0.5

        def outputs(own: Tensor, row: Any) -> Tensor:
            parts = own.split(self.sizes)
            named = {slot.name: part.reshape(slot.shape) for slot, part in zip(model.bayesian, parts, strict=True)}
            alone = tuple(part[None] for part in row) if isinstance(row, tuple) else row[None]
            found: Tensor = model.call(model.net, {**named, **shared}, alone)
            return found.flatten()

        chains = []
        for i, own in enumerate(weights):
            deviation = precision[i].to(EXACT).rsqrt()
            jacobians = vmap(jacrev(outputs), in_dims=(None, 0))(own, inputs)  # (rows, width, d)
            values = vmap(outputs, in_dims=(None, 0))(own, inputs)
            roots = self._curvature_roots(values, y[index], {name: tensor[i] for name, tensor in noise.items()})
            scaled = (roots @ jacobians).flatten(0, 1).to(EXACT) * root_count * deviation
            eigenvalues, basis = leading(scaled.nan_to_num(0, 0, 0)[None], self.directions)
            kept = (basis[0] * eigenvalues[0].sqrt()).mT / deviation
            chains.append(torch.cat([kept, kept.new_zeros(self.directions - len(kept), d)]))
        return torch.stack(chains).to(weights.dtype)

    def _curvature_roots(self, values: Tensor, y: Tensor, noise: Noise) -> Tensor:
        """Return S of each row with S'S = H, (rows, width, width); negative curvature counts as none."""
        log_prob = self.model.likelihood.log_prob

        def loss(value: Tensor, target: Tensor) -> Tensor:
            return -log_prob(value[None], target[None], noise).sum()

        curvature = vmap(jacrev(jacrev(loss)))(values, y)
        eigenvalues, vectors = torch.linalg.eigh(curvature)
        return (vectors * eigenvalues.clamp(min=0).sqrt().unsqueeze(1)).mT
