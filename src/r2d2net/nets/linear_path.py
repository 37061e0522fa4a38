"""A linear path beside a network: f(x) = A x + net(x).

What is linear in the inputs need not be learnt by the network: it is left with the rest. `MCLMC` draws A from its exact
conditional distribution; other algorithms treat it as any other weight.
"""

from __future__ import annotations

from torch import Tensor, nn

from r2d2net.errors import require, require_instance, require_whole


class LinearPath(nn.Module):
    """A network with a linear path beside it.

    Args:
        net: Any network of one input, whose output is (rows, outputs) or (rows,).
        inputs: Number of inputs of a row, all dimensions together.
        outputs: Number of outputs of the network.

    Example:
        >>> import torch
        >>> LinearPath(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)), 3)(torch.zeros(5, 3)).shape
        torch.Size([5, 1])
    """

    def __init__(self, net: nn.Module, inputs: int, outputs: int = 1) -> None:
        require_instance(net, nn.Module, "net", "network", "give a torch.nn.Module")
        require_whole("inputs", inputs)
        require_whole("outputs", outputs)
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.net = net
        first = next(net.parameters(), None)
        if first is not None:
            self.linear.to(first.device, first.dtype if first.is_floating_point() else None)

    def forward(self, x: Tensor) -> Tensor:
        """Compute A x + net(x).

        Args:
            x: Inputs, (rows, ...).

        Returns:
            The outputs, of the shape of the network's.
        """
        output: Tensor = self.net(x)
        straight: Tensor = self.linear(x.flatten(1))
        fits = output.shape == straight.shape or output.shape == straight.shape[:1]
        require(fits, "outputs", self.linear.out_features, f"the network's output has shape {tuple(output.shape)}")
        return output + straight.reshape(output.shape)
