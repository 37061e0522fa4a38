"""The smallest network of images: one convolution, one linear layer.

    image -> conv k x k, padding 2 -> activation -> max pool 2 -> linear

The paper's code uses kernels of 16 x 16: ``SimpleCNN(kernel=16, activation="softplus")``. The default here is 5 x 5.
"""

from __future__ import annotations

from torch import Tensor, nn

from r2d2net.errors import require_whole
from r2d2net.nets.activations import activation_of
from r2d2net.nets.image_sizes import require_image

PADDING = 2


class SimpleCNN(nn.Module):
    """One convolution and one linear layer.

    Args:
        channels: Channels of the images.
        classes: Width of the output.
        size: Pixels of a side.
        filters: Number of filters.
        kernel: Pixels of a filter's side.
        activation: Name of the activation.
    """

    def __init__(
        self,
        channels: int = 3,
        classes: int = 10,
        size: int = 32,
        *,
        filters: int = 16,
        kernel: int = 5,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        require_whole("filters", filters)
        require_whole("kernel", kernel)
        least = max(2, kernel + 1 - 2 * PADDING)  # the pool needs two pixels
        require_image(channels, classes, size, least=least, name=f"SimpleCNN with kernel={kernel}")
        side = (size + 2 * PADDING - kernel + 1) // 2
        self.conv = nn.Conv2d(channels, filters, kernel, padding=PADDING)
        self.activation = activation_of(activation)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(filters * side * side, classes)

    def forward(self, x: Tensor) -> Tensor:
        # (rows, channels, size, size) -> (rows, classes)
        return self.head(self.pool(self.activation(self.conv(x))).flatten(1))
