"""The posterior of linear chains: stored draws, leave-one-out moments of the training rows, the spread of the draws.

Draws come as mean + c (draw - mean), where c is the spread of `linear_spread`: 1 for regression and for exact Bayes.
What is stored are the exact draws, so that c can be changed afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor

from r2d2net.errors import CheckpointError, require
from r2d2net.inference.base import Draws
from r2d2net.inference.collection import Collection, state_from
from r2d2net.inference.linear_loo import Moments
from r2d2net.likelihoods.base import Noise
from r2d2net.model import BayesianModel, Tensors


class LinearState(NamedTuple):
    """The draws of all chains, as those of `CollectionState`, and what linear chains add.

    Attributes:
        step: Sweeps of a chain.
        weights: Exact draws of the Bayesian weights, (chains, draws, weights).
        fixed: Those of the deterministic parameters.
        buffers: Buffers by name, (chains, draws, ...).
        noise: Noise by name, (chains, draws, ...).
        divergences: Zeros, (chains,).
        spread: Spread c of the draws around their mean, a float64 scalar.
        loo: Leave-one-out moments of some of the draws, (chains, draws, outputs, n); for classes those of margins with
            one output.
        row_keys: Numbers by which training rows are recognised, in the order of the moments, (n,).
    """

    step: Tensor
    weights: Tensor
    fixed: Tensor
    buffers: Tensors
    noise: Noise
    divergences: Tensor
    spread: Tensor
    loo: Moments
    row_keys: Tensor


class LinearCollection(Collection):
    """Stored draws of linear chains.

    Args:
        model: The model.
        state: The draws.
    """

    state: Any  # a LinearState

    def __init__(self, model: BayesianModel[Any], state: LinearState) -> None:
        super().__init__(model, cast("Any", state), draws_noise=True)

    @classmethod
    def read(cls, model: BayesianModel[Any], saved: Tensors) -> LinearCollection:
        """Rebuild stored draws from the tensors of a file.

        Args:
            model: The model.
            saved: Tensors by name.

        Returns:
            The stored draws.

        Raises:
            CheckpointError: If the tensors are of another model or algorithm.
        """
        base = state_from(model, saved)
        try:
            moments = Moments(saved["loo/mean"].to(model.device), saved["loo/variance"].to(model.device))
            return cls(model, LinearState(*base, saved["spread"], moments, saved["row_keys"]))
        except KeyError as error:
            raise CheckpointError(f"the saved run lacks {error}", fix="it was made for another algorithm") from error

    @property
    def spread(self) -> float:
        """Spread c of the draws around their mean; 1 is Bayes' rule."""
        return float(self.state.spread)

    def with_spread(self, spread: float) -> Self:
        """Build the same source with another spread of the draws.

        Args:
            spread: The spread c, from 0 to 1; 1 is Bayes' rule.

        Returns:
            The new source.

        Raises:
            ParameterError: If ``spread`` is not between 0 and 1.
        """
        fits = isinstance(spread, (int, float)) and not isinstance(spread, bool) and 0 <= spread <= 1
        require(fits, "spread", spread, "use a number from 0 to 1")
        return self.with_state(self.state._replace(spread=torch.tensor(float(spread), dtype=torch.float64)))

    def draws(self, n: int, generator: torch.Generator | None = None, at_once: int | None = None) -> Iterator[Draws]:
        c = self.spread
        center = None if c == 1 else self.center()
        for taken in super().draws(n, generator, at_once):
            if center is None:
                yield taken
            else:
                weights, fixed = (
                    torch.lerp(a, b, c) for a, b in ((center.weights, taken.weights), (center.fixed, taken.fixed))
                )
                yield taken._replace(weights=weights, fixed=fixed)
