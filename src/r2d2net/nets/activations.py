"""Activations by name, so that a network's arguments can be saved as text."""

from __future__ import annotations

from torch import nn

from r2d2net import registry
from r2d2net.errors import require

ACTIVATIONS: dict[str, type[nn.Module]] = {name: getattr(nn, place) for name, place in registry.ACTIVATIONS.items()}


def activation_of(name: str) -> nn.Module:
    """Build an activation module.

    Args:
        name: Key of `ACTIVATIONS`.

    Returns:
        A new module.

    Raises:
        ParameterError: If the name is unknown.

    Example:
        >>> activation_of("softplus")
        Softplus(beta=1.0, threshold=20.0)
    """
    require(name in ACTIVATIONS, "activation", name, f"use one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]()
