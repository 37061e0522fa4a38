"""Is a row unlike the training data? One calibrated p-value for each row, from a network and its posterior.

    detector = rn.novelty.fit(posterior, x_train, holdout=x_held)    # x_held: rows that the fit has not seen
    detector.p_values(x)           of rows like the held-back ones at most a share alpha has p <= alpha
    detector.says(x)               "p = .003: unlike the training data"
    detector.save("detector")      rn.novelty.load("detector", posterior)

`row_scores` says what is measured of a row and `conformal` how that becomes one p-value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from r2d2net.errors import DataError, require_seed, require_whole
from r2d2net.novelty.conformal import Calibration, Combined, require_level
from r2d2net.novelty.given_rows import Estimator, about, count, inputs_of, posterior_of, split_rows, take
from r2d2net.novelty.layer_statistics import LayerReader
from r2d2net.novelty.row_scores import DISAGREEMENT, ENTROPY, Reading, RowScores, fit_densities, network_of, reader_of
from r2d2net.novelty.storage import Saved, read, write
from r2d2net.posterior import Posterior

ALPHA = 0.01
ONE_SIDED = (ENTROPY, DISAGREEMENT)
NOVEL, USUAL = "unlike the training data", "like the training data"


class Detector:
    """Calibrated p-values of rows; `fit` and `load` make one.

    Args:
        given: The posterior, or the estimator whose posterior it is.
        scores: What is measured of a row.
        names: Names of the scores that are combined.
        calibration: The held-back rows' scores.
        alpha: Rate of false alarms at which rows are called novel by default.
    """

    def __init__(
        self,
        given: Posterior[Any] | Estimator,
        scores: RowScores,
        names: Sequence[str],
        calibration: Calibration,
        alpha: float,
    ) -> None:
        self._given, self.row_scores, self.names = given, scores, tuple(names)
        self.calibration, self.alpha = calibration, alpha

    def __repr__(self) -> str:
        held = len(self.calibration.held)
        return f"Detector({', '.join(self.names)}; {held} held-back rows, p from {self.calibration.smallest:.2g})"

    def p_values(self, x: Any) -> Tensor:
        """Compute the calibrated p-value of each row.

        Args:
            x: Rows in any form that `Posterior.predict` takes, or a table for an estimator.

        Returns:
            The p-values, (rows,), from 1 / (held-back rows + 1) to 1: small ones are unlike the training data.

        Raises:
            DataError: If the rows are none that the network takes.
        """
        return self.combined(x).p_values

    def scores(self, x: Any) -> Tensor:
        """Compute Fisher's sum of each row, which tells apart rows of equal p-value: for rankings and AUROC.

        Args:
            x: Rows, as for `p_values`.

        Returns:
            The sums, (rows,), large where a row is novel.
        """
        return self.combined(x).scores

    def parts(self, x: Any) -> dict[str, Tensor]:
        """Compute the p-values by each score alone, which show at which depth a row is unusual.

        Args:
            x: Rows, as for `p_values`.

        Returns:
            P-values by the name of the score, each (rows,): each is calibrated by itself, the least of them is not.
        """
        return dict(zip(self.names, self.combined(x).parts.T, strict=True))

    def is_novel(self, x: Any, alpha: float | None = None) -> Tensor:
        """Tell which rows are unlike the training data.

        Args:
            x: Rows, as for `p_values`.
            alpha: Largest share of rows like the training data that is called novel; that of `fit` by default.

        Returns:
            Truth values, (rows,).

        Raises:
            ParameterError: If the held-back rows are too few for alpha.
        """
        return self.p_values(x) <= self._level(alpha)

    def says(self, x: Any, alpha: float | None = None) -> list[str]:
        """Say of each row whether it is unlike the training data.

        Args:
            x: Rows, as for `p_values`.
            alpha: Largest share of rows like the training data that is called novel; that of `fit` by default.

        Returns:
            A sentence for each row, such as "p = .003: unlike the training data".

        Raises:
            ParameterError: If the held-back rows are too few for alpha.
        """
        level = self._level(alpha)
        return [f"p = {_written(p)}: {NOVEL if p <= level else USUAL}" for p in self.p_values(x).tolist()]

    def combined(self, x: Any) -> Combined:
        """Compute p-values, sums and the p-values of each score at once.

        Args:
            x: Rows, as for `p_values`.

        Returns:
            All of them.
        """
        found = self.row_scores.of(inputs_of(self._given, x, "x"))
        return self.calibration.combine(torch.stack([found[name] for name in self.names], 1))

    def save(self, folder: str | Path) -> Path:
        """Save the detector into a folder of its own; `load` reads it beside the posterior.

        Args:
            folder: Folder to write, made where it is missing.

        Returns:
            Path of the file.

        Raises:
            CheckpointError: If the folder holds something else, or cannot be written.
        """
        scores, held = self.row_scores, self.calibration.held
        saved = Saved(held, self.names, scores.reader.layers, scores.densities, scores.reading, self.alpha)
        return write(Path(folder), scores.posterior, saved)

    def _level(self, alpha: float | None) -> float:
        return self.alpha if alpha is None else require_level(alpha, len(self.calibration.held))


def fit(
    posterior: Posterior[Any] | Estimator,
    x_train: Any,
    *,
    holdout: Any,
    alpha: float = ALPHA,
    draws: int = 50,
    seed: int = 0,
    rows: int = 1000,
) -> Detector:
    """Learn what rows like the training rows look like to a fitted network.

    Args:
        posterior: A posterior, of any network whose rows are separate (not of nodes of a graph), or a fitted estimator.
        x_train: The training inputs, by which densities are fitted; at most 10,000 of them are used.
        holdout: Rows like the training rows that the fit has not seen, among which new rows are ranked; at most 10,000
            are used. Or a share of ``x_train`` to hold back, if the fit has not seen these rows. False alarms are
            bounded only if the fit has not seen them.
        alpha: Largest share of rows like the training data that is called novel; it takes 1 / alpha - 1 held-back rows.
        draws: Number of networks drawn from the posterior for entropy and disagreement.
        seed: Seed of the draws, and of the choice of rows.
        rows: Largest number of rows in memory at a time.

    Returns:
        The detector.

    Raises:
        DataError: If the rows do not suit the network, held-back rows are too few, or they are training rows.
        ParameterError: If an argument is out of range, or the network is one of a graph.

    Example:
        >>> import r2d2net as rn
        >>> x = torch.randn(600, 3, generator=torch.Generator().manual_seed(0))
        >>> model = rn.BayesianModel(rn.nets.mlp(3, [10], 1))
        >>> posterior = rn.fit(model, (x[:400], x[:400, 0]), epochs=20, verbose=False)
        >>> detector = fit(posterior, x[:400], holdout=x[400:])
        >>> detector.says(torch.tensor([[5.0, -5.0, 5.0]]))  # p is never below 1 / 201
        ['p = .005: unlike the training data']
    """
    require_seed(seed)
    require_whole("draws", draws)
    require_whole("rows", rows)
    inner = posterior_of(posterior)
    train, held = split_rows(posterior, x_train, holdout, seed)
    alpha = require_level(alpha, count(held))
    reading = Reading(int(draws), int(seed), int(rows))
    with about("x_train"):
        reader = reader_of(inner, take(train, torch.arange(2)), (train, held), reading.seed)
        scores = RowScores(inner, reader, fit_densities(inner, reader, train, reading), reading)
    with about("holdout"):
        every = scores.of(held)
    found = {name: score for name, score in every.items() if bool((score != score[0]).any())}
    if not found:
        raise DataError("looks the same in every row", argument="holdout", fix="give rows that differ")
    return Detector(
        posterior, scores, list(found), calibration_of(torch.stack(list(found.values()), 1), list(found)), alpha
    )


def load(folder: str | Path, posterior: Posterior[Any] | Estimator) -> Detector:
    """Load a detector beside the posterior it was fitted for.

    Args:
        folder: Folder that `Detector.save` wrote.
        posterior: The posterior, or the estimator.

    Returns:
        The detector.

    Raises:
        CheckpointError: If the file is missing, altered or of another posterior.
        ParameterError: If ``posterior`` is none.
    """
    inner = posterior_of(posterior)
    saved = read(Path(folder), inner)
    inputs = [depth for depth in saved.densities if depth not in saved.layers]
    reader = LayerReader(inner.model, network_of(inner, saved.reading.seed), saved.layers, inputs)
    scores = RowScores(inner, reader, saved.densities, saved.reading)
    return Detector(posterior, scores, saved.names, calibration_of(saved.held, saved.names), saved.alpha)


def calibration_of(held: Tensor, names: Sequence[str]) -> Calibration:
    """Make the calibration of named scores.

    Args:
        held: Scores of the held-back rows, (rows, scores).
        names: Their names; distances are unusual on both sides.

    Returns:
        The calibration.
    """
    return Calibration(held, torch.tensor([name not in ONE_SIDED for name in names]))


def _written(p: float) -> str:
    """Write a p-value as ".003", with a digit that is not zero."""
    digits = max(3, 1 - math.floor(math.log10(p))) if p < 1e-3 else 3
    return f"{p:.{digits}f}".removeprefix("0")
