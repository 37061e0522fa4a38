"""Sparse regression with an exact spike at zero: draws of which terms count, with all weights integrated out.

    y = Z_c w_c + e,     w_j | c_j = 1 ~ N(0, sigma^2 g^2),     w_j = 0 if c_j = 0,     p(sigma^2) = 1 / sigma^2
    log p(y | c, g) = -|c| log g - 1/2 log det A_c - (n - 1)/2 log(y'y - y'Z_c A_c^-1 Z_c'y),   A_c = Z_c'Z_c + I / g^2

y and the columns of Z are centred. g^2 ~ IG(1/2, 1/8) on a grid: a single weight is Cauchy with a scale of half the
noise, and g is kept away from zero, where weights that count could not be told from those that do not. Terms belong
to kinds; of a kind of m terms each counts with probability pi ~ Beta(1, 1 + RARE m), so that the odds of one more
beside k are (1 + k) / ((1 + RARE) m - k): the more terms are searched, the more evidence each one takes. At most
``most`` terms count at a time.

The chain is the tempered Gibbs sampler of Zanella and Roberts (2019). With pi_j = p(c_j | c_-j, g, y), which takes one
product of matrices for all j, a step flips the term j with probability rho_j / rho, and a state has weight 1 / rho:

    rho_j = eta_j / (2 pi_j),     rho = sum_j rho_j,     eta_j = p(c_j = 1 | c_-j, g, y) + 1 / m,     m all terms

so that terms that are stuck are flipped more often than their posterior flips them, and two correlated terms change
places within a few steps. Every few steps g is drawn from p(g | c, y) and accepted with probability rho' / rho, which
leaves the same law of states invariant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

GRID = np.exp(np.linspace(-6.0, 3.0, 46))  # g^2
TYPICAL = 0.5  # scale of the weights that count, in units of the noise
LOG_GRID_PRIOR = -0.5 * np.log(GRID) - TYPICAL**2 / (2 * GRID)  # 1 / g^2 ~ chi^2 with one degree, over log g^2
RARE = 3.0  # pi ~ Beta(1, 1 + RARE m)
SCALE_EVERY = 10  # steps between draws of g
BOUND = 40.0  # of log odds, so that weights stay finite
TINY = 1e-12  # least share of y'y that rounding leaves unexplained
CACHE = 1 << 25  # numbers of Z'Z that are kept


class Terms(NamedTuple):
    """Columns of a sparse regression.

    Attributes:
        z: Centred columns, (rows, terms).
        kind: Number of the kind of each term, (terms,).
        searched: Number of terms of each kind among which these were found, at least as many as are here.
    """

    z: np.ndarray
    kind: np.ndarray
    searched: np.ndarray


class Inclusion(NamedTuple):
    """Draws of which terms count.

    Attributes:
        counts: Whether each term counts, (draws, terms), bool.
        weight: Weight of each draw, (draws,), of sum 1.
    """

    counts: np.ndarray
    weight: np.ndarray


def inclusion_chain(terms: Terms, y: np.ndarray, steps: int, seed: int, most: int) -> Inclusion:
    """Draw which terms count.

    Args:
        terms: The terms.
        y: Targets, (rows,); their mean is subtracted.
        steps: Number of steps; the first fifth is not kept.
        seed: Seed of the draws.
        most: Largest number of terms that count at a time.

    Returns:
        The draws.
    """
    rng = np.random.default_rng(seed)
    problem = _Problem(terms, y, most)
    burn_in = steps // 5
    counts, weight = np.zeros((steps - burn_in, len(terms.kind)), dtype=bool), np.zeros(steps - burn_in)
    active: list[int] = []
    variance = 1.0
    rates = problem.rates(active, variance)
    for step in range(steps):
        total = rates.sum()
        if step >= burn_in:
            counts[step - burn_in, active] = True
            weight[step - burn_in] = 1 / total
        j = min(int(np.searchsorted(rates.cumsum(), rng.random() * total)), len(rates) - 1)
        active = [i for i in active if i != j] if j in active else [*active, j]
        rates = problem.rates(active, variance)
        if step % SCALE_EVERY == 0:
            proposed = problem.draw_variance(active, rng)
            new = problem.rates(active, proposed)
            if rng.random() * rates.sum() < new.sum():
                variance, rates = proposed, new
    return Inclusion(counts, weight / weight.sum())


class _Problem:
    """The data, and the conditional probabilities of all terms."""

    def __init__(self, terms: Terms, y: np.ndarray, most: int) -> None:
        self.z, self.kind, self.searched, self.most = terms.z, terms.kind, terms.searched, most
        self.square = np.einsum("ij,ij->j", self.z, self.z)
        y = y - y.mean()
        self.y_square, self.zy = float(y @ y), self.z.T @ y
        self.degrees = len(y) - 1
        self._rows: dict[int, np.ndarray] = {}

    def rates(self, active: list[int], variance: float) -> np.ndarray:
        """Return rho_j of all terms where these count and g^2 is this."""
        log_odds = self.log_odds(active, variance)
        eta = 1 / (1 + np.exp(-log_odds)) + 1 / len(log_odds)
        inside = np.zeros(len(eta), dtype=bool)
        inside[active] = True
        if len(active) >= self.most:
            eta[~inside] = 0  # no term can be added, whatever its odds
        return np.asarray(eta / 2 * (1 + np.exp(np.where(inside, -log_odds, log_odds))))

    def log_odds(self, active: list[int], variance: float) -> np.ndarray:
        """Return log p(c_j = 1 | c_-j, g, y) - log p(c_j = 0 | c_-j, g, y) of all terms."""
        left = np.full(len(self.zy), self.y_square)
        size = self.square + 1 / variance
        projected = self.zy
        if active:
            gram = np.stack([self._row(j) for j in active])  # (active, terms)
            inverse = np.linalg.inv(gram[:, active] + np.eye(len(active)) / variance)
            solved = inverse @ gram
            size = size - np.einsum("ij,ij->j", gram, solved)
            mean = inverse @ self.zy[active]
            projected = self.zy - mean @ gram
            left[:] = max(self.y_square - mean @ self.zy[active], TINY * self.y_square)
        size = np.maximum(size, 1 / variance)  # by rounding alone it can be less
        gain = -np.log(np.maximum(1 - projected**2 / (size * left), TINY))
        inside = np.bincount(self.kind[active], minlength=len(self.searched))
        prior = np.log((1 + inside) / np.maximum(self.searched * (1 + RARE) - inside, 1))
        found = prior[self.kind] + 0.5 * (self.degrees * gain - np.log(variance * size))
        if active:
            own = np.diag(inverse)
            gain = np.log1p(mean**2 / (own * left[0]))
            kind = self.kind[active]
            others = inside[kind] - 1  # of its kind
            prior = np.log((1 + others) / (self.searched[kind] * (1 + RARE) - others))
            found[active] = prior + 0.5 * (self.degrees * gain + np.log(own / variance))
        return np.asarray(np.clip(found, -BOUND, BOUND))

    def draw_variance(self, active: list[int], rng: np.random.Generator) -> float:
        """Draw g^2 given the terms that count."""
        log_density = LOG_GRID_PRIOR.copy()
        if active:
            gram = np.stack([self._row(j)[active] for j in active])
            values, vectors = np.linalg.eigh(gram)
            values, along = np.maximum(values, 0.0), (vectors.T @ self.zy[active]) ** 2
            left = self.y_square - (along / (values + 1 / GRID[:, None])).sum(1)
            log_density -= 0.5 * np.log1p(np.outer(GRID, values)).sum(1)
            log_density -= 0.5 * self.degrees * np.log(np.maximum(left, TINY * self.y_square))
        probability = np.exp(log_density - log_density.max())
        return float(rng.choice(GRID, p=probability / probability.sum()))

    def _row(self, j: int) -> np.ndarray:
        if (len(self._rows) + 1) * len(self.zy) > CACHE:
            self._rows.clear()
        if j not in self._rows:
            self._rows[j] = self.z.T @ self.z[:, j]
        return self._rows[j]
