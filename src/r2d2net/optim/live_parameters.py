"""The parameters of a network in use, lent to views of flat vectors: of their means, or of a draw of them.

A parameter stays the same object, so hooks, wrappers and other libraries keep it; only the memory behind it changes.
Each change counts as one in place, so that a backward pass through a forward pass of other values is an error of torch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from r2d2net.model import Slot

Gradients = list[Tensor | None]


class LiveParameters:
    """Parameters of a network by the slots of a flat vector.

    Args:
        slots: Position of each parameter in the vector.
        parameters: The parameters, in the order of the slots.
    """

    def __init__(self, slots: Sequence[Slot], parameters: Sequence[nn.Parameter]) -> None:
        self.slots, self.parameters = slots, list(parameters)
        self.vector: Tensor | None = None  # behind the parameters
        self.views: list[Tensor] = []
        self._home: tuple[Tensor | None, list[Tensor]] = None, []  # the vector that is shown again and again

    @torch.no_grad()
    def show(self, vector: Tensor, *, is_home: bool = True) -> None:
        """Let the parameters be views of a vector.

        Args:
            vector: The vector.
            is_home: Whether it will be shown again, so that its views are kept.
        """
        known = vector is self._home[0]
        self.vector, self.views = vector, self._home[1] if known else [slot.of(vector) for slot in self.slots]
        if is_home:
            self._home = self.vector, self.views
        for parameter, view in zip(self.parameters, self.views, strict=True):
            parameter.data = view
            increment_version(parameter)

    def are_elsewhere(self) -> bool:
        """Tell whether something else than `show` gave the parameters other memory, as ``net.to(device)`` does."""
        return any(
            parameter.data_ptr() != view.data_ptr() or parameter.dtype != view.dtype
            for parameter, view in zip(self.parameters, self.views, strict=True)
        )

    def fits(self) -> bool:
        """Tell whether the parameters have the dtype and device of the vector."""
        vector = self.vector
        return vector is not None and all(
            p.dtype == vector.dtype and p.device == vector.device for p in self.parameters
        )

    @torch.no_grad()
    def write_to(self, vector: Tensor) -> None:
        """Copy the values of the parameters to a vector."""
        for slot, parameter in zip(self.slots, self.parameters, strict=True):
            slot.of(vector).copy_(parameter)

    def have_gradients(self) -> bool:
        """Tell whether any parameter has a gradient."""
        return any(parameter.grad is not None for parameter in self.parameters)

    def take_gradients(self) -> Gradients:
        """Return the gradients and leave none."""
        taken: Gradients = []
        for parameter in self.parameters:
            taken.append(parameter.grad)
            parameter.grad = None
        return taken

    def add_gradients(self, gradients: Gradients) -> None:
        """Add gradients to those that the parameters have."""
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            if gradient is not None:
                parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)

    def gradients(self) -> list[Tensor]:
        """Return the gradients, zeros where there are none."""
        return [torch.zeros_like(p) if p.grad is None else _dense(p.grad.detach()) for p in self.parameters]


def _dense(gradient: Tensor) -> Tensor:
    """Return a gradient that may be that of a sparse embedding as an ordinary tensor."""
    return gradient.to_dense() if gradient.is_sparse else gradient
