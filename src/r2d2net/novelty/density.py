"""A Gaussian density of the statistics of rows at one depth, and how far rows lie out in it.

    z = (values, log(spreads + floor)),      d(z) = |W (z - m)|,      W' W = S^-1

with m and S the mean and covariance of training rows, S shrunk as by Ledoit and Wolf (2004). The logarithm makes a
smooth image, whose deviations are a tenth of the usual ones, as unusual as one with ten times as much: by the
deviations themselves it would lie near the centre. The floor, a thousandth of the mean spread, keeps it finite for
flat images.

Statistics that do not vary over the training rows are left out, and of more than `WIDEST` as many random projections
are taken.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from r2d2net.novelty.layer_statistics import Statistics

WIDEST = 256
FLOOR = 1e-3


class Density(NamedTuple):
    """The density, all in float64 on the CPU.

    Attributes:
        floor: Smallest spreads that count, (spreads,).
        center: m, (statistics,).
        whitener: W, (dimensions, statistics); no dimension where no statistic varies.
    """

    floor: Tensor
    center: Tensor
    whitener: Tensor

    def distance(self, statistics: Statistics) -> Tensor:
        """Compute how far out rows lie.

        Args:
            statistics: Statistics of the rows.

        Returns:
            Mahalanobis's distance, (rows,).
        """
        return ((_joined(statistics, self.floor) - self.center) @ self.whitener.T).norm(dim=1)


def fit_density(statistics: Statistics, seed: int = 0) -> Density:
    """Fit the density to the statistics of training rows.

    Args:
        statistics: The statistics, of two rows or more.
        seed: Seed of the random projections.

    Returns:
        The density.
    """
    floor = (FLOOR * statistics.spreads.mean(0)).clamp(min=torch.finfo(torch.float32).tiny)
    z = _joined(statistics, floor)
    center, deviation = z.mean(0), z.std(0, correction=0)
    varies = deviation > 1e-6 * (z.abs().amax(0) + FLOOR * deviation.amax())
    places = varies.nonzero()[:, 0]
    projection = z.new_zeros(len(places), len(center))
    projection[torch.arange(len(places)), places] = 1 / deviation[places]
    if len(places) > WIDEST:
        generator = torch.Generator().manual_seed(seed)
        signs = torch.randn(WIDEST, len(places), generator=generator, dtype=z.dtype)
        projection = signs @ projection / len(places) ** 0.5
    if len(places) == 0:
        return Density(floor, center, projection)
    root = torch.linalg.cholesky(shrunk_covariance((z - center) @ projection.T))
    return Density(floor, center, torch.linalg.solve_triangular(root, projection, upper=False))


def shrunk_covariance(z: Tensor) -> Tensor:
    """Estimate a covariance by Ledoit and Wolf's shrinkage towards a multiple m I of the identity.

    With S the covariance of n rows, p columns and z_k a row,

        (1 - r) S + r m I,    m = tr S / p,    r = min(1, sum_k |z_k z_k' - S|^2 / n^2 / |S - m I|^2)

    Args:
        z: Centred rows, (n, p).

    Returns:
        The covariance, (p, p), which can be inverted.
    """
    rows, columns = z.shape
    covariance = z.T @ z / rows
    identity = torch.eye(columns, dtype=z.dtype)
    mean = covariance.trace() / columns
    apart = (covariance - mean * identity).square().sum()
    noise = (z.square().sum(1).square().sum() / rows - covariance.square().sum()) / rows
    share = float((noise / apart).clamp(0, 1)) if apart > 0 else 0.0
    ridge = 1e-10 * mean  # where columns are copies of each other
    return (1 - share) * covariance + (share * mean + ridge) * identity


def _joined(statistics: Statistics, floor: Tensor) -> Tensor:
    return torch.cat([statistics.values, (statistics.spreads + floor).log()], 1)
