"""Sweeps of a layer's scales where each of several processes has a part of the layer.

    local scales     s_j | S, w_j      independent of each other given the shared ones
    shared scales    S | sum_j t(s_j)

A prior of this form is `Divisible`: its sweep has two halves, and all that the parts of a layer must tell each other is
the sum between them. Of other priors a layer is swept as a whole.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class Divisible(Protocol):
    """A prior whose sweeps can be made part by part.

    ``gibbs_`` is ``gibbs_shared`` at the sum that ``gibbs_local_`` returns, and ``cavi_`` likewise. Scales of a part
    are those of a layer whose local ones are cut.
    """

    def gibbs_local_(
        self, w: Tensor, scales: Any, precision: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw the local scales of a part in place, given the shared ones.

        Args:
            w: Weights of the part.
            scales: Its scales, whose local fields are overwritten.
            precision: Tensor to which the new 1 / v is written.
            generator: Source of randomness.

        Returns:
            The part's share of the sum that the shared scales depend on.
        """

    def gibbs_shared(self, scales: Any, total: Tensor, count: float, generator: torch.Generator | None = None) -> Any:
        """Draw the shared scales given the local ones of all parts.

        Args:
            scales: The scales of a part.
            total: Sum over all parts.
            count: Number of weights of all parts.
            generator: Source of randomness, in the same state for all parts.

        Returns:
            The scales with new shared fields.
        """

    def cavi_local_(self, second_moment: Tensor, scales: Any, precision: Tensor) -> Tensor:
        """Update the local factors of a part in place, given the shared ones.

        Args:
            second_moment: E w^2 of the part.
            scales: Its point values, whose local fields are overwritten.
            precision: Tensor to which E[1 / v] is written.

        Returns:
            The part's share of the sum that the shared factors depend on.
        """

    def cavi_shared(self, scales: Any, total: Tensor, count: float) -> Any:
        """Update the shared factors given the local ones of all parts.

        Args:
            scales: The point values of a part.
            total: Sum over all parts.
            count: Number of weights of all parts.

        Returns:
            The point values with new shared fields.
        """


def is_divisible(prior: object) -> bool:
    """Tell whether a prior's layers can be cut: a subclass that changes a sweep but not its halves cannot be.

    Args:
        prior: The prior.

    Returns:
        Whether they can.

    Example:
        >>> from r2d2net.priors import R2D2, Horseshoe
        >>> is_divisible(R2D2()), is_divisible(Horseshoe())
        (True, False)
    """
    if getattr(prior, "known_deviation", None) is not None:
        return True
    halves = (("gibbs_", "gibbs_local_"), ("cavi_", "cavi_local_"))
    return isinstance(prior, Divisible) and all(_home(prior, whole) is _home(prior, half) for whole, half in halves)


def _home(prior: object, name: str) -> type:
    """Return the class that defines a method of a prior."""
    return next(cls for cls in type(prior).__mro__ if name in vars(cls))
