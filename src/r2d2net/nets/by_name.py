"""Networks by name: ``build("lenet", channels=1, classes=10, size=28)``."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from r2d2net.errors import ParameterError, Shown, require
from r2d2net.registry import NETWORKS


def build(name: str, **options: Any) -> nn.Module:
    """Build a network by name.

    Args:
        name: A name in `r2d2net.registry.NETWORKS`, such as "mlp" or "lenet".
        **options: Arguments of the network.

    Returns:
        A new network.

    Raises:
        ParameterError: If the name is unknown, or the network does not take the options.

    Example:
        >>> build("mlp", inputs=2, hidden=[3], outputs=1)
        MLP(
          (0): Linear(in_features=2, out_features=3, bias=True)
          (1): ReLU()
          (2): Linear(in_features=3, out_features=1, bias=True)
        )
    """
    require(name in NETWORKS, "name", name, f"use one of {', '.join(NETWORKS)}")
    constructor = NETWORKS.constructor(name)
    signature = inspect.signature(constructor)
    try:
        signature.bind(**options)
    except TypeError as error:
        arguments = ", ".join(signature.parameters)
        problem = f"does not take these options ({error})"
        raise ParameterError(problem, value=Shown(name), fix=f"its arguments are {arguments}") from error
    network: nn.Module = constructor(**options)
    return network
