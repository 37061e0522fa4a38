"""How many weights of a fitted network the data have a say in.

MacKay's number of well-determined parameters (1992), with the prior variance v_j that the fit left weight j with:

    gamma = sum_j (1 - s_j^2 / v_j),    s_j^2 the posterior variance of weight j

A weight that follows its prior has s^2 = v and counts 0; one that the data fix has s^2 far below v and counts 1. Under
a shrinkage prior v is small where a weight is shrunk away, so that such weights count 0 however sure they are zero.
Variational posteriors (SVGI, CAVI, SVI, MFVI, Radial) know s and v; stored draws of samplers and ensembles, and points,
have no v, and no such number.
"""

from __future__ import annotations

from r2d2net.inference import VariationalState
from r2d2net.inference.variational import MeanField
from r2d2net.posterior import Posterior


def effective_weights(posterior: Posterior) -> dict[str, float] | None:
    """gamma of each Bayesian parameter by its name; None where the posterior does not tell."""
    running, state = posterior.running, posterior.state
    if not (isinstance(running, MeanField) and isinstance(state, VariationalState)):
        return None
    share = 1 - running.deviation(state).double().square() * state.precision.double()
    return {slot.name: float(slot.of(share.clamp(0, 1)).sum()) for slot in running.model.bayesian}
