"""Draws of a log link that no floating-point number can be the exponential of.

A cell 1e6 deviations out makes the logarithm f of a positive target, or of a mean count, so large or so small that
every draw of y is infinite, or 0 with no spread. A draw with |f| > 700, beyond the range of doubles, says nothing of
y; one of -25 may well do, as a rate of next to nothing. The K draws of a posterior then have values spread evenly over
a range around the training targets,

    f_k = r (2 k + 1 - K) / K,      k = 0, ..., K - 1,

so that densities, quantiles and moments are those of one mixture, finite and wide. r is 20, in deviations of the
training logarithms where these are standardised.
"""

from __future__ import annotations

import torch
from torch import Tensor

FARTHEST = 20.0
LARGEST = 700.0  # exp(709) is the largest double


def within_reach(outputs: Tensor, reach: Tensor | float = FARTHEST, largest: Tensor | float = LARGEST) -> Tensor:
    """Spread draws that are out of reach over a range around the training targets.

    Args:
        outputs: f at draws of the weights, (draws, rows, outputs), from the centre of the training targets.
        reach: r, a number or one for each output.
        largest: |f| from which a draw says nothing, 700 in units of the outputs.

    Returns:
        The outputs, those within reach as they were.

    >>> within_reach(torch.tensor([[1.0, 1e6], [1.2, 2e6]])[..., None])[..., 0].tolist()
    [[1.0, -10.0], [1.2000000476837158, 10.0]]
    """
    count = len(outputs)
    places = (2 * torch.arange(count, dtype=outputs.dtype, device=outputs.device) + 1 - count) / count
    spread = places.reshape(-1, *[1] * (outputs.dim() - 1)) * reach
    return torch.where(outputs.abs() > largest, spread, outputs)
