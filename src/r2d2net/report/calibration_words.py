"""What a calibration curve says, in a sentence, with what chance alone would do."""

from __future__ import annotations

from typing import Any

import numpy as np


def chance(probability: Any, rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds between which a share of rows lies with probability 90% if each row has this probability.

    Args:
        probability: Probability of each row, or several.
        rows: The number of rows, or one for each probability.

    Returns:
        The lower and the upper bounds.
    """
    return _quantile(0.05, rows, probability) / rows, _quantile(0.95, rows, probability) / rows


def _quantile(level: float, rows: Any, probability: Any) -> np.ndarray:
    """Return quantiles of binomial distributions: those of `scipy.stats`, whose import takes more than a second."""
    from scipy.special import bdtr, bdtrik

    n, p = np.broadcast_arrays(np.asarray(rows, dtype=float), np.asarray(probability, dtype=float))
    at = np.nan_to_num(np.ceil(bdtrik(level, n, p)))  # NaN where zero has almost all of the probability
    below = np.maximum(at - 1, 0)
    least = np.where(bdtr(below, n.astype(int), p) >= level, below, at)
    return np.where(p <= 0, 0.0, np.where(p >= 1, n, least))


def words_of_intervals(metrics: dict[str, Any]) -> str:
    """Say whether intervals are as wide as they should be.

    Args:
        metrics: Metrics of the test rows; uses level, coverage and rows.

    Returns:
        A sentence.

    >>> words_of_intervals({"level": 0.9, "coverage": 0.7, "rows": 100})
    'Too narrow: 70% of the rows lie inside their 90% interval, where chance leaves 85% to 95%.'
    """
    level, covered = metrics["level"], metrics["coverage"]
    low, high = (float(end) for end in chance(level, metrics["rows"]))
    verdict = "Too narrow" if covered < low else "Too wide" if covered > high else "As wide as they should be"
    inside = f"{covered:.0%} of the rows lie inside their {level:.0%} interval"
    return f"{verdict}: {inside}, where chance leaves {low:.0%} to {high:.0%}."


def words_of_probabilities(bins: dict[str, list[float]]) -> str:
    """Say whether events come true as often as their probabilities say.

    Args:
        bins: Of each bin the mean predicted probability ("said"), the share that came true ("true"), and its rows.

    Returns:
        A sentence. More than a fifth of the rows in bins outside the bounds of chance make probabilities wrong.

    >>> words_of_probabilities({"said": [0.5, 0.9], "true": [0.52, 0.6], "rows": [50, 50]})
    'Too extreme: in bins with 50% of the rows, events come true more rarely or oftener than chance explains.'
    """
    said, true, rows = (np.array(bins[name], dtype=float) for name in ("said", "true", "rows"))
    low, high = chance(said, rows)
    off = (true < low - 1e-9) | (true > high + 1e-9)
    share = float(rows[off].sum() / rows.sum())
    if share <= 0.2:
        return "Events come true about as often as their probabilities say, within what chance explains."
    extreme = (np.abs(said - 0.5) > np.abs(true - 0.5))[off]
    verdict = "Too extreme" if (rows[off][extreme]).sum() > rows[off].sum() / 2 else "Too cautious"
    how = "events come true more rarely or oftener than chance explains"
    return f"{verdict}: in bins with {share:.0%} of the rows, {how}."
