"""Did the loss of training still fall when the run ended?

    drop = mean loss of the last eighth but one of the epochs - mean loss of the last eighth

The loss is the mean negative log likelihood of an epoch. The run has levelled off unless the drop is more than
`LEAST_DROP` nats a row and more than `SIGMAS` of its standard errors. At the end the step size falls, and with it the
loss, by less than that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, variance

LEAST_EPOCHS = 16  # so that a quarter has four
LEAST_DROP = 0.05
SIGMAS = 3.0


def levelled_off(history: Sequence[Mapping[str, float]]) -> bool | None:
    """Tell whether training had levelled off.

    Args:
        history: One entry for each epoch, with "nll".

    Returns:
        Whether it had; None if there are fewer than 16 epochs.

    Example:
        >>> [levelled_off([{"nll": loss} for loss in losses]) for losses in ([1.0] * 20, range(20, 0, -1), [1.0])]
        [True, False, None]
    """
    losses = [entry["nll"] for entry in history]
    if len(losses) < LEAST_EPOCHS:
        return None
    last = losses[-(len(losses) // 4) :]
    before, after = last[: len(last) // 2], last[len(last) // 2 :]
    drop = fmean(before) - fmean(after)
    error = math.sqrt(sum(variance(half) / len(half) for half in (before, after)))
    return drop <= max(LEAST_DROP, SIGMAS * error)
