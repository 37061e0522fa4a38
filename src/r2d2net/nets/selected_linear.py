"""A linear layer that takes some of its inputs: what is left of one whose other columns were removed.

y = W x[kept] + b
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class SelectedLinear(nn.Linear):
    """A linear layer over some of the entries of its input.

    Args:
        kept: Places of the entries in the input, (in_features,).
        inputs: Number of entries of the input.
        out_features: Number of outputs.
        bias: Whether there is a bias.

    Example:
        >>> import torch
        >>> SelectedLinear(torch.tensor([0, 3]), 5, 2)(torch.randn(7, 5)).shape
        torch.Size([7, 2])
    """

    kept: Tensor

    def __init__(self, kept: Tensor, inputs: int, out_features: int, bias: bool = True) -> None:
        super().__init__(len(kept), out_features, bias)
        self.inputs = inputs
        self.register_buffer("kept", kept.clone())

    def forward(self, input: Tensor) -> Tensor:
        return functional.linear(input.index_select(-1, self.kept), self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, inputs={self.inputs}"
