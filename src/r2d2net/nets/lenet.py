"""LeNet-5 (LeCun, Bottou, Bengio and Haffner, 1998) as it is used today: max pools, no partial connections.

    image -> conv 5 x 5 to 6 -> pool -> conv 5 x 5 to 16 -> pool -> linear 120 -> 84 -> classes

It was designed for images of 32 x 32 pixels with the digit in the middle; smaller images are padded to that size. So
28 x 28 digits and 32 x 32 photographs both have 400 features, and the network 61,706 or 62,006 parameters.
"""

from __future__ import annotations

from torch import Tensor, nn

from r2d2net.nets.activations import activation_of
from r2d2net.nets.image_sizes import require_image

FIELD, KERNEL = 32, 5


class LeNet(nn.Module):
    """LeNet-5.

    Args:
        channels: Channels of the images.
        classes: Width of the output.
        size: Pixels of a side; below 32 the first convolution pads.
        activation: Name of the activation; the paper's code uses "softplus".
    """

    def __init__(self, channels: int = 3, classes: int = 10, size: int = 32, *, activation: str = "relu") -> None:
        super().__init__()
        require_image(channels, classes, size, least=8, name="LeNet")
        padding = max(0, (FIELD - size + 1) // 2)
        side = (size + 2 * padding - KERNEL + 1) // 2
        side = (side - KERNEL + 1) // 2
        self.features = nn.Sequential(
            nn.Conv2d(channels, 6, KERNEL, padding=padding),
            activation_of(activation),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, KERNEL),
            activation_of(activation),
            nn.MaxPool2d(2),
        )
        self.head = nn.Sequential(
            nn.Linear(16 * side * side, 120),
            activation_of(activation),
            nn.Linear(120, 84),
            activation_of(activation),
            nn.Linear(84, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        # (rows, channels, size, size) -> (rows, classes)
        return self.head(self.features(x).flatten(1))
