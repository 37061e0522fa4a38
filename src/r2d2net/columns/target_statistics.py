"""A category of many levels as averages of the target, shrunk towards the average of all rows.

With n_i rows of level i, ybar_i their average target, ybar that of all N rows and k levels,

    encoding_i = w_i ybar_i + (1 - w_i) ybar,    w_i = n_i / (n_i + m),    m = sigma^2 / tau^2,

the means of a model with random effects, y = mu + a_i + e, a_i of variance tau^2 and e of variance sigma^2. Both are
estimated by the analysis of variance:

    sigma^2 = sum_i sum_j (y_ij - ybar_i)^2 / (N - k)
    tau^2   = max(0, sum_i n_i (ybar_i - ybar)^2 / (k - 1) - sigma^2) / n_0,    n_0 = (N - sum_i n_i^2 / N) / (k - 1)

For a given m this is scikit-learn's TargetEncoder(smooth=m). (Its smooth="auto" takes the variance of each level by
itself, which is 0 for a level of one row, and so does not shrink where it matters most; its import takes a second.)

A training row must not see its own target: its encoding is computed from the other folds of the training rows, with
m estimated there, too. New rows are encoded by all training rows. Of classes, each has an average of its own, the
share of its rows; two classes have one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from r2d2net.columns.cell_parsing import Values
from r2d2net.columns.column_encoders import FARTHEST, Counts, Encoded
from r2d2net.columns.raw_columns import RawColumn, level_places

if TYPE_CHECKING:
    import pandas as pd

FOLDS = 5  # as scikit-learn has
MOST_RARE = 1000  # levels of one row that are remembered, to tell them from what training rows did not have
LEAST_ROWS = 2  # of a level that is remembered with its averages


class ShrunkMeans(NamedTuple):
    """Averages of the target by level.

    Attributes:
        means: Shrunk averages, (levels, outputs).
        overall: Averages of all rows, (outputs,).
        smoothing: m for each output; infinite where levels differ no more than by chance.
    """

    means: Values
    overall: Values
    smoothing: Values


@dataclass(frozen=True)
class TargetEncoder:
    """A column of many levels, each encoded by the average target of its training rows.

    Attributes:
        name: The column.
        levels: Levels of two training rows or more.
        means: Their shrunk averages, one list a level of one number an output; in the target's units.
        overall: The averages of all training rows, by which rare, unknown and most missing cells are encoded.
        centers: Averages of the training rows' encodings, by which they are standardised.
        scales: Their standard deviations.
        classes: Names of the outputs where there are several.
        rare: Levels of one training row.
        missing: Whether training rows had missing cells.
        missing_means: Averages of the rows whose cell is missing, if these are many; else empty.
        known: Share of the filled training cells that are of `levels`.
        kind: How run.json tells encoders apart.
    """

    name: str
    levels: list[str]
    means: list[list[float]]
    overall: list[float]
    centers: list[float]
    scales: list[float]
    classes: list[str] = field(default_factory=list)
    rare: list[str] = field(default_factory=list)
    missing: bool = False
    missing_means: list[float] = field(default_factory=list)
    known: float = 1.0
    kind: str = "category by target"

    @property
    def inputs(self) -> list[str]:
        ends = [f"target {level} by " for level in self.classes] or ["target by "]
        return [f"{end}{self.name}" for end in ends]

    @property
    def gaps(self) -> bool:
        return self.missing

    def encode(self, column: pd.Series | RawColumn, counts: Counts) -> Encoded:
        """Look up the average of each cell's level; adds to ``counts`` what was missing, rare or unseen.

        Args:
            column: The cells.
            counts: Counts by column and kind.

        Returns:
            The standardised averages of new rows; those of training rows are `LearntStatistics.fitted`.
        """
        codes = RawColumn.of(column).codes
        places = level_places(codes, self.levels)
        empty = np.array([code is None for code in codes], dtype=bool)
        unknown = (places < 0) & ~empty
        rare = set(self.rare)
        is_rare = np.array([code in rare for code in codes], dtype=bool) & unknown
        filled = empty & (not self.missing_means)
        counts[self.name, "missing"] += int(filled.sum())
        counts[self.name, "known"] += int((places >= 0).sum() + is_rare.sum())
        counts[self.name, "average" if rare else "unseen"] += int(unknown.sum())
        table = np.array([*self.means, self.missing_means or self.overall, self.overall], dtype=np.float64)
        values = table[np.where(empty, len(self.levels), np.where(unknown, len(self.levels) + 1, places))]
        strange = (empty & (not self.missing)) | (unknown & (not rare))
        return Encoded(self.standardised(values), filled.astype(np.int64), strange)

    def standardised(self, values: Values) -> Values:
        """Return encodings in standard deviations of those of the training rows."""
        scaled: Values = (values - np.array(self.centers)) / np.array(self.scales)
        return np.clip(scaled, -FARTHEST, FARTHEST)


class LearntStatistics(NamedTuple):
    """An encoder, and the training rows encoded without their own targets.

    Attributes:
        encoder: Encodes new rows.
        fitted: Inputs of the training rows, (rows, outputs).
    """

    encoder: TargetEncoder
    fitted: Values


def learn_statistics(
    name: str, codes: np.ndarray, targets: Values, classes: list[str], seed: int, *, missing_is_level: bool
) -> LearntStatistics | None:
    """Learn the averages of the target for each level of a column.

    Args:
        name: The column.
        codes: Levels of the training rows, None where a cell is missing.
        targets: Targets, (rows, outputs): numbers, or 0 and 1 for each class.
        classes: Names of the outputs, none where there is one.
        seed: Seed by which the rows are cut into folds.
        missing_is_level: Whether missing cells are common enough to be a level of their own.

    Returns:
        The encoder and the encoded training rows; None where levels differ no more than by chance.
    """
    import pandas as pd

    empty = np.array([code is None for code in codes], dtype=bool)
    places, names = pd.factorize(codes, sort=True)  # missing cells are -1
    levels = [str(level) for level in names]
    if missing_is_level:
        places = np.where(empty, len(levels), places)
    size = len(levels) + missing_is_level
    whole = shrunk_means(places, targets, size)
    if not np.isfinite(whole.smoothing).any():
        return None
    fitted = cross_fitted(places, targets, size, seed)
    scales = fitted.std(0)
    if not (scales > 0).any():
        return None
    scales = np.where(scales > 0, scales, 1.0)
    rows = np.bincount(places[places >= 0], minlength=size)
    often = [place for place in range(len(levels)) if rows[place] >= LEAST_ROWS]
    counts = Counter({level: int(rows[place]) for place, level in enumerate(levels)})
    encoder = TargetEncoder(
        name,
        [levels[place] for place in often],
        whole.means[often].tolist(),
        whole.overall.tolist(),
        fitted.mean(0).tolist(),
        scales.tolist(),
        list(classes),
        [level for level in levels if counts[level] < LEAST_ROWS][:MOST_RARE],
        bool(empty.any()),
        whole.means[-1].tolist() if missing_is_level else [],
        float(rows[often].sum() / max(1, counts.total())),
    )
    return LearntStatistics(encoder, encoder.standardised(fitted))


def shrunk_means(places: np.ndarray, targets: Values, levels: int) -> ShrunkMeans:
    """Average the target over the rows of each level, and shrink the averages towards that of all rows.

    Args:
        places: The level of each row, from 0; -1 for none.
        targets: Targets, (rows, outputs).
        levels: Number of levels; those without rows have the average of all.

    Returns:
        The averages of all levels.
    """
    there = places >= 0
    overall = targets.mean(0)
    centred, level = targets[there] - overall, places[there]
    rows = np.bincount(level, minlength=levels).astype(np.float64)
    sums = np.stack([np.bincount(level, values, levels) for values in centred.T], axis=1)
    means = sums / np.maximum(rows, 1)[:, None]
    total, groups = rows.sum(), int((rows > 0).sum())
    if groups < 2 or total <= groups:
        return ShrunkMeans(np.tile(overall, (levels, 1)), overall, np.full(len(overall), np.inf))
    within = ((centred - means[level]) ** 2).sum(0) / (total - groups)
    among = (rows[:, None] * (means - centred.mean(0)) ** 2).sum(0) / (groups - 1)
    rows_of_level = (total - (rows**2).sum() / total) / (groups - 1)
    between = np.maximum(0.0, among - within) / rows_of_level
    with np.errstate(divide="ignore", invalid="ignore"):
        smoothing = np.where(between > 0, within / between, np.inf)
    weights = rows[:, None] / (np.maximum(rows, 1)[:, None] + smoothing)  # 0 for a level without rows
    return ShrunkMeans(overall + weights * means, overall, smoothing)


def cross_fitted(places: np.ndarray, targets: Values, levels: int, seed: int) -> Values:
    """Encode each row by the rows of the other folds.

    Args:
        places: The level of each row, from 0; -1 for none.
        targets: Targets, (rows, outputs).
        levels: Number of levels.
        seed: Seed by which the rows are cut into folds.

    Returns:
        The encodings, (rows, outputs); a level without `LEAST_ROWS` rows in the other folds has the average of all.
    """
    order = np.random.default_rng(seed).permutation(len(places))
    encoded = np.empty_like(targets, dtype=np.float64)
    for fold in range(FOLDS):
        held = order[fold::FOLDS]
        others = np.setdiff1d(order, held)
        learnt = shrunk_means(places[others], targets[others], levels)
        rows = np.bincount(places[others][places[others] >= 0], minlength=levels)
        means = np.where((rows >= LEAST_ROWS)[:, None], learnt.means, learnt.overall)
        encoded[held] = np.vstack([means, learnt.overall])[places[held]]  # -1 is the last
    return encoded
