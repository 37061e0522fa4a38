"""Multilayer perceptrons, and the paper's MLP(L): L hidden layers of 32, 64, 128 units with softplus."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from typing import Literal, overload

from torch import nn

from r2d2net.errors import require, require_whole
from r2d2net.nets.activations import activation_of
from r2d2net.nets.linear_path import LinearPath

PAPER_WIDTHS = (32, 64, 128)  # widths behind the paper's table of simulations


class MLP(nn.Sequential):
    """Linear layers with an activation between them; without hidden layers, a linear model.

    Args:
        inputs: Width of the input.
        hidden: Widths of the hidden layers; empty for a linear model.
        outputs: Width of the output.
        activation: Name of the activation (see `activations`).

    Example:
        >>> MLP(4, [8], 1)
        MLP(
          (0): Linear(in_features=4, out_features=8, bias=True)
          (1): ReLU()
          (2): Linear(in_features=8, out_features=1, bias=True)
        )
    """

    def __init__(self, inputs: int, hidden: Sequence[int] = (50,), outputs: int = 1, activation: str = "relu") -> None:
        require(isinstance(hidden, Sequence), "hidden", hidden, "use a list of widths, such as [50]")
        widths = [inputs, *hidden, outputs]
        require_whole("inputs", inputs)
        require_whole("outputs", outputs)
        whole = all(isinstance(width, Integral) and not isinstance(width, bool) and width >= 1 for width in hidden)
        require(whole, "hidden", hidden, "use whole numbers from 1")
        layers: list[nn.Module] = []
        for width, following in pairwise(widths):
            layers += [nn.Linear(width, following), activation_of(activation)]
        super().__init__(*layers[:-1])


@overload
def mlp(
    inputs: int,
    hidden: Sequence[int] = (50,),
    outputs: int = 1,
    activation: str = "relu",
    *,
    linear: Literal[False] = False,
) -> MLP: ...


@overload
def mlp(
    inputs: int, hidden: Sequence[int] = (50,), outputs: int = 1, activation: str = "relu", *, linear: bool
) -> MLP | LinearPath: ...


def mlp(
    inputs: int, hidden: Sequence[int] = (50,), outputs: int = 1, activation: str = "relu", *, linear: bool = False
) -> MLP | LinearPath:
    """Build an `MLP`, such as ``mlp(13, [50], 1)`` for a table of 13 columns and one target.

    Args:
        inputs: Width of the input.
        hidden: Widths of the hidden layers; empty for a linear model.
        outputs: Width of the output.
        activation: Name of the activation (see `activations`).
        linear: Whether to put a linear path beside it: A x + MLP(x), a `LinearPath`. One without hidden layers is
            linear as it is, and gets none.

    Returns:
        The network, with torch's default initialisation.
    """
    net = MLP(inputs, hidden, outputs, activation)
    require(isinstance(linear, bool), "linear", linear, "use True or False")
    return LinearPath(net, inputs, outputs) if linear and len(hidden) > 0 else net


def paper_mlp(inputs: int, layers: int, outputs: int = 1, activation: str = "softplus") -> MLP:
    """Build the paper's MLP(L), whose hidden layers have 32, 64 and 128 units.

    Args:
        inputs: Width of the input.
        layers: Number L of hidden layers, 0 to 3; L = 0 is a linear model.
        outputs: Width of the output.
        activation: Name of the activation (see `activations`).

    Returns:
        The network, with torch's default initialisation.

    Raises:
        ParameterError: If ``layers`` is not 0, 1, 2 or 3.

    Example:
        >>> [layer.out_features for layer in paper_mlp(1, 3) if isinstance(layer, nn.Linear)]
        [32, 64, 128, 1]
    """
    require_whole("layers", layers, least=0)
    require(layers <= len(PAPER_WIDTHS), "layers", layers, "the paper has 0 to 3 hidden layers; for more use mlp")
    return MLP(inputs, PAPER_WIDTHS[:layers], outputs, activation)
