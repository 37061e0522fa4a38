"""Which rows are unlike the training rows, at a known rate of false alarms.

The distance of a row is Mahalanobis's in the network's inputs, d^2 = (x - m)' S^-1 (x - m), with the covariance of
Ledoit and Wolf (2004), which can be inverted also where inputs are many or add up to one. Whether a distance is large,
rows tell that it was not learnt from: the training rows are cut into ten folds, and each row's distance is that by the
mean and covariance of the other nine. The typicality of a new row is its conformal p-value,

    p = (1 + number of those n distances >= d) / (n + 1).

A row is flagged where p <= ALARM. Of new rows that come from where the training rows came from, a share of about ALARM
is flagged, whatever their distribution. (That is exact if the distances come from rows apart; by folds it holds but
for the change that a tenth of the rows makes to m and S. The share that any one model flags varies around ALARM with
standard deviation sqrt(ALARM (1 - ALARM) / n), n training rows.)

Fewer than 1 / ALARM - 1 rows have no p-value that is so small without an assumption on the tail of the distances. Then
a row beyond the largest training distance has that of a tail that falls as d^-2,

    p = (d_max / d)^2 / (n + 1),      flagged where d > d_max / sqrt(ALARM (n + 1)),

3.2 times the largest of ten distances, 1.4 times that of fifty. The rate of false alarms is ALARM if P(D > d) falls as
d^-2, whatever the scale, and less if it falls faster.

With more inputs p than rows n, S = (1 - r) X'X / n + l I of n centred rows X is never built: by Woodbury's identity

    l z' S^-1 z = |z|^2 - |B z|^2,      B = L^-1 X,    L L' = X X' + (l n / (1 - r)) I,

which takes n^2 p operations in place of p^3, and n p numbers in the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from r2d2net import checkpoint
from r2d2net.columns.cell_parsing import Values
from r2d2net.errors import CheckpointError
from r2d2net.manifest import Parts, opened
from r2d2net.saved_values import require_values

ALARM = 0.01
FEWEST = round(1 / ALARM) - 1  # rows from which a p-value is so small without an assumption
TAIL = 2.0  # power by which the tail of the distances of fewer rows is taken to fall
FOLDS = 10
TINY = float(np.finfo(np.float64).tiny)
MOST_ROWS = 20_000  # of the training rows, by which distances are learnt
FILE = "novelty.safetensors"


@dataclass(frozen=True)
class Novelty:
    """What typical rows look like.

    Attributes:
        center: m, (inputs,).
        whitener: A matrix W with W'W = S^-1, (inputs, inputs); with ``diagonal`` W'W is what S^-1 is smaller by than a
            diagonal matrix, (rows, inputs).
        distances: Those of the training rows, each by the other folds, ascending.
        diagonal: Square roots g of that diagonal, (inputs,), where inputs are more than rows: d^2 = |g z|^2 - |W z|^2.
    """

    center: Values
    whitener: Values
    distances: Values
    diagonal: Values | None = None

    def typicality(self, x: Values) -> Values:
        """Return the share of rows like the training rows that lie as far out as each row.

        Args:
            x: Encoded rows.

        Returns:
            Conformal p-values in (0, 1].
        """
        distances, n = _distances(x, _Metric(self.center, self.whitener, self.diagonal)), len(self.distances)
        share = np.asarray((1 + n - np.searchsorted(self.distances, distances)) / (n + 1), dtype=np.float64)
        if n >= FEWEST:
            return share
        largest = self.distances[-1]  # 0 where all training rows are the same
        ratio = np.where(distances <= largest, 1.0, largest / np.maximum(distances, TINY))
        return np.asarray(np.maximum(share * ratio**TAIL, TINY), dtype=np.float64)

    def save(self, folder: Path) -> None:
        """Write the file of the run folder."""
        tensors = {name: torch.from_numpy(values) for name, values in vars(self).items() if values is not None}
        checkpoint.write(folder / FILE, tensors, {})

    @classmethod
    def load(cls, folder: Path, inputs: int) -> Novelty:
        """Read the file of a run folder.

        Args:
            folder: The run folder.
            inputs: The number of inputs of its network.

        Raises:
            CheckpointError: The file is of another run or version.
        """
        with opened(folder) as parts:
            return cls.of_parts(parts, inputs)

    @classmethod
    def of_parts(cls, parts: Parts, inputs: int) -> Novelty:
        """Read the part of an open run folder.

        Args:
            parts: The parts of the folder.
            inputs: The number of inputs of its network.

        Raises:
            CheckpointError: The file is of another run or version.
        """
        path = parts.folder / FILE
        tensors, _ = parts.tensors(FILE)
        require_values(tensors, path)
        try:
            novelty = cls(**{name: tensor.numpy() for name, tensor in tensors.items()})
            fits = novelty.center.shape == (inputs,) and (
                novelty.whitener.shape == (inputs, inputs)
                if novelty.diagonal is None
                else novelty.diagonal.shape == (inputs,) and novelty.whitener.shape[1:] == (inputs,)
            )
            ascending = (
                novelty.distances.ndim == 1
                and len(novelty.distances) > 0
                and bool((np.diff(novelty.distances) >= 0).all())
            )
            are_numbers = all(values is None or values.dtype == np.float64 for values in vars(novelty).values())
        except (TypeError, AttributeError) as error:
            raise CheckpointError(f"is not of this version of r2d2net: {error}", value=path) from error
        if not fits:
            raise CheckpointError("is of a run with other inputs", value=path, fix="fit again")
        if not (ascending and are_numbers):
            raise CheckpointError("holds no distances in ascending order", value=path, fix="fit again")
        return novelty


def is_unlike(typicality: Values) -> np.ndarray:
    """Return which rows are flagged as unlike the training rows, by their typicality."""
    return np.asarray(typicality <= ALARM)


def learn_novelty(x: Values, seed: int) -> Novelty:
    """Learn what typical rows look like.

    Args:
        x: Encoded training rows.
        seed: Seed by which they are cut into folds.
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(x))[:MOST_ROWS]
    folds = min(FOLDS, len(rows))
    distances = np.empty(len(rows))
    for fold in range(folds):
        held = np.arange(len(rows)) % folds == fold
        distances[held] = _distances(x[rows[held]], _metric_of(x[rows[~held]]))
    metric = _metric_of(x[rows])
    return Novelty(metric.center, metric.whitener, np.sort(distances), metric.diagonal)


class _Metric(NamedTuple):
    """How distances are measured (see `Novelty`)."""

    center: Values
    whitener: Values
    diagonal: Values | None


def _metric_of(x: Values) -> _Metric:
    from scipy.linalg import cholesky, solve_triangular

    same = (x == x[0]).all(0)  # their means and deviations may be off by rounding
    center, scale = np.where(same, x[0], x.mean(0)), np.where(same, 0.0, x.std(0))
    # shrinkage is towards equal variances; a level that these rows lack has none of its own
    scale = np.where(scale > 0, scale, scale[scale > 0].min(initial=1.0))
    own = (x - center) / scale
    rows, columns = x.shape
    if columns > rows:
        share, mean = shrinkage_of(own)
        level = share * mean + max(1e-10 * columns * mean, 1e-300)
        inner = own @ own.T * ((1 - share) / rows)
        inner.flat[:: rows + 1] += level
        root = cholesky(inner, lower=True, overwrite_a=True)
        whitener = solve_triangular(root, own * np.sqrt((1 - share) / (rows * level)), lower=True) / scale
        return _Metric(center, whitener, 1 / (scale * np.sqrt(level)))
    covariance = ledoit_wolf(own)
    covariance.flat[:: columns + 1] += max(1e-10 * float(np.trace(covariance)), 1e-300)  # if it is singular
    root = cholesky(covariance, lower=True, overwrite_a=True)  # several times faster than by eigenvalues
    return _Metric(center, solve_triangular(root, np.diag(1 / scale), lower=True, overwrite_b=True), None)


def _distances(x: Values, metric: _Metric) -> Values:
    centred = x - metric.center
    own = np.linalg.norm(centred @ metric.whitener.T, axis=1)
    if metric.diagonal is None:
        return own
    squares = np.square(centred * metric.diagonal).sum(1) - np.square(own)
    return np.sqrt(np.maximum(squares, 0))


def shrinkage_of(x: Values) -> tuple[float, float]:
    """Compute the share r and the level m of `ledoit_wolf`.

    Args:
        x: Centred rows, (rows, columns).

    Returns:
        r and m.
    """
    rows, columns = x.shape
    squares = x**2
    product = x @ x.T if rows < columns else x.T @ x  # both have the same sum of squares
    traces = squares.sum(0) / rows
    mean = traces.sum() / columns
    square = (product**2).sum() / rows**2
    spread = ((squares.sum(1) ** 2).sum() / rows - square) / (columns * rows)  # |x_k x_k'|^2 = |x_k|^4
    distance = (square - 2 * mean * traces.sum() + columns * mean**2) / columns
    share = min(spread, distance) / distance if spread > 0 and distance > 0 else 0.0
    return float(share), float(mean)


def ledoit_wolf(x: Values) -> Values:
    """Estimate a covariance by Ledoit and Wolf's shrinkage (2004) towards a multiple m I of the identity.

    With S the covariance of n rows, p columns and x_k a row,

        (1 - r) S + r m I,    m = tr S / p,    r = min(1, sum_k |x_k x_k' - S|^2 / n^2 / |S - m I|^2)

    scikit-learn has the same, but its import takes a second.

    Args:
        x: Centred rows, (rows, columns).

    Returns:
        The covariance, (columns, columns).
    """
    share, mean = shrinkage_of(x)
    shrunk: Values = (1 - share) * (x.T @ x / len(x))
    shrunk.flat[:: x.shape[1] + 1] += share * mean
    return shrunk
