"""Uncertainty of class probabilities, row by row and in nats.

    predictive entropy   H(mean_i p_i)                        total uncertainty
    expected entropy     mean_i H(p_i)                        aleatoric: within each draw of the weights
    mutual information   predictive minus expected entropy    epistemic: disagreement between the draws

with p_i the probabilities of draw i. `Classification` has these quantities as properties; the functions take arrays.
"""

from __future__ import annotations

import numpy as np

from r2d2net.metrics.arrays import Array, Numbers, probabilities, probability_draws


def predictive_entropy(probs: Numbers) -> Array:
    """Compute the entropy of class probabilities averaged over draws.

    Args:
        probs: Class probabilities (rows, classes), or (draws, rows, classes), whose mean over draws is taken.

    Returns:
        The entropies in nats, (rows,).

    Example:
        >>> predictive_entropy([[0.5, 0.5], [1.0, 0.0]]).round(4)
        array([0.6931, 0.    ])
    """
    return _entropy(_averaged(probs))


def expected_entropy(samples: Numbers) -> Array:
    """Compute the mean over draws of the entropy of each draw's probabilities.

    Args:
        samples: Class probabilities of each draw of the weights, (draws, rows, classes).

    Returns:
        The mean entropies in nats, (rows,).

    Example:
        >>> expected_entropy([[[1.0, 0.0]], [[0.5, 0.5]]]).round(4)
        array([0.3466])
    """
    result: Array = _entropy(probability_draws("samples", samples)).mean(0)
    return result


def mutual_information(samples: Numbers) -> Array:
    """Compute the mutual information between the class of a row and the weights.

    Args:
        samples: Class probabilities of each draw of the weights, (draws, rows, classes).

    Returns:
        The mutual information in nats, (rows,); never negative.

    Example:
        >>> mutual_information([[[1.0, 0.0]], [[0.0, 1.0]]]).round(4)
        array([0.6931])
    """
    draws = probability_draws("samples", samples)
    difference: Array = _entropy(draws.mean(0)) - _entropy(draws).mean(0)
    return np.maximum(difference, 0.0)


def max_prob(probs: Numbers) -> Array:
    """Compute the largest class probability of each row.

    Args:
        probs: Class probabilities (rows, classes), or (draws, rows, classes), whose mean over draws is taken.

    Returns:
        The largest probabilities, (rows,).

    Example:
        >>> max_prob([[0.25, 0.75], [1.0, 0.0]])
        array([0.75, 1.  ])
    """
    result: Array = _averaged(probs).max(-1)
    return result


def _averaged(probs: Numbers) -> Array:
    array = probabilities("probs", probs)
    return array if array.ndim == 2 else probability_draws("probs", array).mean(0)


def _entropy(probs: Array) -> Array:
    logs = np.log(probs, out=np.zeros_like(probs), where=probs > 0)
    result: Array = np.abs((probs * logs).sum(-1))  # abs: -0 is 0
    return result
