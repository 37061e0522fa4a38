"""Does q(w) cover what it stands for? The Pareto shape of importance ratios (Yao, Vehtari, Simpson and Gelman, 2018).

    r_d = log p(y | w_d) + log N(w_d | 0, 1 / c) - log q(w_d),      w_d ~ q,      c as in `stationarity`

k-hat is the shape of the tail of e^(r_d): below 0.7 the draws, weighted by these ratios, stand for the target. The
target is the best factor q(w) could be, given q(scales) and the noise; under a normal prior with known noise it is the
posterior itself.

In hundreds of dimensions a small misfit of each weight adds up, and weights of a network are not identified: there
k-hat is mostly above 0.7 although predictions are good. So it counts against linear models alone, and there above 1,
where even the mean of the ratios is not finite.
"""

from __future__ import annotations

import torch
from torch import Tensor

from r2d2net.forward_draws import forward_draws
from r2d2net.inference.mean_field_family import MeanFieldDraws, NormalNoise
from r2d2net.inference.pareto_smoothing import pareto_weights
from r2d2net.posterior import MEMORY
from r2d2net.run.stationarity import prior_precision

DRAWS = 200


@torch.no_grad()
def k_hat(source: MeanFieldDraws, x: Tensor, y: Tensor) -> float | None:
    """Compute the Pareto shape of the importance ratios of a mean-field posterior.

    Args:
        source: The posterior.
        x: All training inputs, as the network sees them.
        y: All training targets, as the network sees them.

    Returns:
        k-hat; None if q(w) is not normal, or all ratios are equal.
    """
    if not isinstance(source.family.noise, NormalNoise):
        return None
    model, state = source.model, source.state
    drawn = source.joined(DRAWS, torch.Generator(model.device).manual_seed(1))
    outputs = forward_draws(model, drawn, x, rows=len(y), memory=MEMORY)
    likelihood = torch.stack([model.likelihood.log_prob(output, y, state.noise).double().sum() for output in outputs])
    weights = drawn.weights.double()
    prior = (prior_precision(source).double() * weights.square()).sum(1) / 2
    own = ((weights - state.mean) / source.deviation()).square().sum(1) / 2
    shape = float(pareto_weights(likelihood - prior + own)[1])
    return shape if shape > -torch.inf else None
