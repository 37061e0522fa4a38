"""What an input would be given all other inputs: new columns that tell nothing about the target.

Columns of numbers are joined by a Gaussian copula. With z_j = Phi^-1(rank of x_j / (n + 1)), S their covariance shrunk
by Ledoit and Wolf and P = S^-1, the columns G of an input are, given all others,

    z_G | z_-G  ~  N(z_G - P_GG^-1 (P z)_G,  P_GG^-1),

and x_G are the quantiles of the observed columns at Phi(z_G). So normal columns have their exact second moments, and
skewed or bounded ones keep their range. An input of few distinct rows (a category, a switch) has their probabilities by
logistic regression on all other columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import ndtr, ndtri
from torch import Tensor

MOST_LEVELS = 12  # distinct rows of an input that is drawn by their probabilities
PENALTY = 1.0  # inverse penalty of the logistic regressions


class Levels(NamedTuple):
    """An input of few distinct rows.

    Attributes:
        rows: The distinct rows, (levels, columns).
        codes: Number of the level of each row, (rows,).
        log_odds: Log probabilities of the levels at each row given the other inputs, (rows, levels).
    """

    rows: Tensor
    codes: Tensor
    log_odds: Tensor


class ConditionalInputs:
    """The law of each input of a table given all others.

    Args:
        x: The table, (rows, columns).
        inputs: Columns of each input.
    """

    def __init__(self, x: Tensor, inputs: Sequence[Sequence[int]]) -> None:
        from sklearn.covariance import ledoit_wolf

        self.x, self.inputs = x.double().cpu(), [list(columns) for columns in inputs]
        self.sorted = self.x.sort(0).values.numpy()
        self.latent = normal_scores(self.x.numpy())
        covariance, _ = ledoit_wolf(self.latent, assume_centered=True)
        self.precision = np.linalg.inv(covariance + 1e-10 * np.eye(len(covariance)))
        self.pull = self.latent @ self.precision  # (rows, columns)
        self._levels: dict[int, Levels | None] = {}

    def levels(self, i: int) -> Levels | None:
        """Return the distinct rows of an input and their probabilities; None if there are many.

        Args:
            i: Number of the input.
        """
        if i not in self._levels:
            self._levels[i] = self._few_levels(self.inputs[i])
        return self._levels[i]

    def _few_levels(self, columns: list[int]) -> Levels | None:
        from sklearn.linear_model import LogisticRegression

        rows, codes = torch.unique(self.x[:, columns], dim=0, return_inverse=True)
        if len(rows) > MOST_LEVELS:
            return None
        frequencies = (torch.bincount(codes, minlength=len(rows)) / len(codes)).log()
        log_odds = frequencies.expand(len(codes), -1)
        others = np.delete(self.latent, columns, axis=1)
        if len(rows) > 1 and others.shape[1]:
            model = LogisticRegression(C=PENALTY, max_iter=500).fit(others, codes.numpy())
            log_odds = torch.from_numpy(model.predict_log_proba(others))
        return Levels(rows, codes, log_odds)

    def center(self, i: int) -> Tensor:
        """Return an input's columns at their conditional medians, which do not depend on the input itself.

        Args:
            i: Number of the input, one of numbers.

        Returns:
            The columns, (rows, columns of the input).
        """
        columns = self.inputs[i]
        return self._observable(self._mean(columns)[0][None], columns)[0]

    def draw_codes(self, i: int, count: int, generator: torch.Generator) -> Tensor:
        """Draw levels of an input of few distinct rows.

        Args:
            i: Number of the input.
            count: Number of draws.
            generator: Source of randomness.

        Returns:
            Numbers of levels, (count, rows).
        """
        levels = self.levels(i)
        assert levels is not None
        uniform = torch.rand(count, *levels.log_odds.shape, dtype=torch.float64, generator=generator)
        return (levels.log_odds - (-uniform.log()).log()).argmax(-1)  # Gumbel's trick

    def draw(self, i: int, count: int, generator: torch.Generator) -> Tensor:
        """Draw an input of numbers.

        Args:
            i: Number of the input.
            count: Number of draws.
            generator: Source of randomness.

        Returns:
            The columns, (count, rows, columns of the input).
        """
        columns = self.inputs[i]
        mean, root = self._mean(columns)
        normal = torch.randn(count, *mean.shape, dtype=torch.float64, generator=generator).numpy()
        return self._observable(mean + normal @ root.T, columns)

    def _mean(self, columns: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return the conditional means of normal scores, (rows, columns), and a root of their covariance."""
        covariance = np.linalg.inv(self.precision[np.ix_(columns, columns)])
        mean = self.latent[:, columns] - self.pull[:, columns] @ covariance
        return mean, np.linalg.cholesky(covariance)

    def _observable(self, latent: np.ndarray, columns: list[int]) -> Tensor:
        """Convert normal scores to the values of the columns, (..., rows, columns)."""
        rows = len(self.x)
        place = np.clip(ndtr(latent) * (rows + 1) - 1, 0, rows - 1)
        found = np.empty_like(latent)
        for k, column in enumerate(columns):
            found[..., k] = np.interp(place[..., k], np.arange(rows), self.sorted[:, column])
        return torch.from_numpy(found)


def normal_scores(x: np.ndarray) -> np.ndarray:
    """Return normal scores of the columns, standardised; equal values share their mean rank."""
    from scipy.stats import rankdata

    scores = ndtri(rankdata(x, axis=0) / (len(x) + 1))
    deviation = scores.std(0)
    return np.asarray((scores - scores.mean(0)) / np.where(deviation > 1e-12, deviation, 1.0))
