"""A short run of SVGI before chains: where they start, and how far the posterior reaches in each direction.

    q(w_j) = N(mu_j, 1 / (c_j + lambda_j)),      c the prior's precision, lambda the data's

Chains start at draws of q, and lambda is what they know of the curvature of the likelihood. Under the "dense" prior
N(0, 2 / fan-in) the run keeps every unit at work and leaves it to the chains which are needed; under the model's "own"
prior it may have settled that before they start.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from r2d2net.inference.base import Batch
from r2d2net.inference.mean_field_family import VariationalState
from r2d2net.inference.svgi import SVGI
from r2d2net.model import BayesianModel, fan_in
from r2d2net.priors import Gaussian

ROWS = 128  # of a step
WARM_UP = 0.6  # share of the steps over which the KL's weight rises


class SVGIStart:
    """A run of SVGI bound to a model, by blocks of steps on rows drawn from all rows.

    Args:
        model: The model whose chains follow.
        prior: "dense" or "own" (see the module's docstring).
        start: "he" draws He-normal weights, "net" starts from the network's own.
        n: Number of training rows.
        steps: Number of steps of the whole run.
    """

    def __init__(
        self,
        model: BayesianModel[Any],
        prior: Literal["dense", "own"],
        start: Literal["auto", "he", "net"],
        *,
        n: int,
        steps: int,
    ) -> None:
        model = with_dense_priors(model) if prior == "dense" else model
        method = SVGI(warm_up=WARM_UP, start=start, averaging=1.0)  # what the chains' defaults were measured with
        self.trainer, self.n = method.build(model, n=n, steps=steps), n

    def steps(
        self, state: VariationalState, batch: Batch, number: int, generator: torch.Generator
    ) -> tuple[VariationalState, Tensor]:
        """Take some steps.

        Args:
            state: State before the steps.
            batch: Inputs and targets of all rows.
            number: Number of steps.
            generator: Source of randomness.

        Returns:
            The state after the steps, and their mean loss.
        """
        x, y = batch
        loss = y.new_zeros((), dtype=torch.float32)
        for index in self.rows(number, y.device, generator):
            part = tuple(tensor[index] for tensor in x) if isinstance(x, tuple) else x[index]
            state, info = self.trainer.step(state, (part, y[index]), generator)
            loss = loss + info.nll / number
        return state, loss

    def rows(self, number: int, device: torch.device, generator: torch.Generator) -> Sequence[Tensor]:
        """Draw the rows of some steps.

        Args:
            number: Number of steps.
            device: Device of the data.
            generator: Source of randomness.

        Returns:
            The numbers of the rows of each step.
        """
        rows = min(ROWS, self.n)
        passes = math.ceil(number * rows / self.n) + 1
        orders = [torch.randperm(self.n, generator=generator, device=device) for _ in range(passes)]
        return torch.cat(orders)[: number * rows].split(rows)


def with_dense_priors(model: BayesianModel[Any]) -> BayesianModel[Any]:
    """Copy a model with N(0, 2 / fan-in) in place of every prior that has scales to learn.

    Args:
        model: The model.

    Returns:
        The copy.
    """
    dense = copy.copy(model)
    dense.bayesian = tuple(
        slot._replace(prior=Gaussian(math.sqrt(2 / fan_in(slot.shape))))
        if slot.prior is not None and slot.prior.has_scales and len(slot.shape) > 1
        else slot
        for slot in model.bayesian
    )
    return dense
