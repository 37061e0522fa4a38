"""How uncertain class probabilities are, row by row and in nats.

    predictive entropy   H(mean_i p_i)                        total
    expected entropy     mean_i H(p_i)                        what the draws of the weights agree on: aleatoric
    mutual information   predictive minus expected entropy    how much they disagree: epistemic

with p_i the probabilities of draw i. `Classification` offers the same as properties; these take plain arrays.
"""

from __future__ import annotations

import numpy as np

from r2d2net.metrics.arrays import Array, Numbers, probabilities, probability_draws


def predictive_entropy(probs: Numbers) -> Array:
    """Entropy of probabilities (rows, classes), or of the mean of (draws, rows, classes).

    >>> predictive_entropy([[0.5, 0.5], [1.0, 0.0]]).round(4)
    array([0.6931, 0.    ])
    """
    return _entropy(_averaged(probs))


def expected_entropy(samples: Numbers) -> Array:
    """Mean of the draws' entropies, from (draws, rows, classes)."""
    result: Array = _entropy(probability_draws("samples", samples)).mean(0)
    return result


def mutual_information(samples: Numbers) -> Array:
    """Information that the class holds on the weights, from (draws, rows, classes); never negative.

    >>> mutual_information([[[1.0, 0.0]], [[0.0, 1.0]]]).round(4)
    array([0.6931])
    """
    draws = probability_draws("samples", samples)
    difference: Array = _entropy(draws.mean(0)) - _entropy(draws).mean(0)
    return np.maximum(difference, 0.0)


def max_prob(probs: Numbers) -> Array:
    """Largest probability of (rows, classes), or of the mean of (draws, rows, classes)."""
    result: Array = _averaged(probs).max(-1)
    return result


def _averaged(probs: Numbers) -> Array:
    array = probabilities("probs", probs)
    return array if array.ndim == 2 else probability_draws("probs", array).mean(0)


def _entropy(probs: Array) -> Array:
    logs = np.log(probs, out=np.zeros_like(probs), where=probs > 0)
    result: Array = np.abs((probs * logs).sum(-1))  # abs: -0 is 0
    return result
