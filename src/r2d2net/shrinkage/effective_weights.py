"""The effective number of weights of a fitted network: those that the data determine.

MacKay's number of well-determined parameters (1992), with v_j the fitted prior variance of weight j:

    gamma = sum_j (1 - s_j^2 / v_j),    s_j^2 the posterior variance of weight j

A weight that follows its prior has s^2 = v and counts 0; a weight that the data determine has s^2 far below v and
counts 1. Under a shrinkage prior v is small where a weight is shrunk away, so that such weights count 0 however
certainly they are zero.

The sum takes s_j^2 for all that the data leave open about weight j. A mean-field posterior has the variance of a
weight with all others held in place, which is smaller: of two weights that move the same predictions, of which the data
determine the sum alone, it counts both. With the covariance of all weights gamma is the trace of J V J' (J V J' +
noise)^-1, with J the gradients of the predictions of the n rows, and so at most n for each output; but the rows are not
kept with a posterior. So a sum above n is reduced to n, each parameter in proportion, and `inspect` says "at most".

Variational posteriors (SVGI, CAVI, SVI, MFVI, Radial) hold s and v; stored draws of samplers and ensembles, and point
estimates, hold no v and have no such number.
"""

from __future__ import annotations

from typing import Any

from r2d2net.inference.mean_field_family import MeanFieldDraws
from r2d2net.posterior import Posterior
from r2d2net.shrinkage.pruned import PrunedDraws


def effective_weights(posterior: Posterior[Any]) -> dict[str, float] | None:
    """Compute the effective number of weights of each Bayesian parameter.

    Args:
        posterior: The fitted network.

    Returns:
        gamma by the name of the parameter, their sum at most the number of training rows (where the settings of the
        posterior have it); None where the posterior holds no prior variances.
    """
    source = posterior.source
    keep = source.keep if isinstance(source, PrunedDraws) else None
    source = source.inner if isinstance(source, PrunedDraws) else source
    if not isinstance(source, MeanFieldDraws):
        return None
    share = 1 - source.deviation().double().square() * source.state.precision.double()
    share = share if keep is None else share.masked_fill(~keep, 0)
    counts = {slot.name: float(slot.of(share.clamp(0, 1)).sum()) for slot in source.model.bayesian}
    total, rows = sum(counts.values()), posterior.settings.get("n")
    factor = 1.0 if rows is None or total <= rows else rows / total
    return {name: factor * count for name, count in counts.items()}
