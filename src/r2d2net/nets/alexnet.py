"""AlexNet (Krizhevsky, Sutskever and Hinton, 2012) for images of 32 x 32 or 64 x 64 pixels.

    image -> conv 11 x 11, stride 4, to 64 -> pool -> conv 5 x 5 to 192 -> pool
          -> conv 3 x 3 to 384 -> to 256 -> to 256 -> mean over positions -> linear

The convolutions are those of the paper's code, which like this network leaves out the three wide linear layers of the
original. Because of the mean over positions the number of parameters does not depend on the size of the images; at
32 x 32 pixels one position is left.
"""

from __future__ import annotations

from torch import Tensor, nn

from r2d2net.nets.activations import activation_of
from r2d2net.nets.image_sizes import require_image


class AlexNet(nn.Module):
    """AlexNet with one linear layer.

    Args:
        channels: Channels of the images.
        classes: Width of the output.
        size: Pixels of a side.
        activation: Name of the activation; the paper's code uses "softplus".
    """

    def __init__(self, channels: int = 3, classes: int = 10, size: int = 32, *, activation: str = "relu") -> None:
        super().__init__()
        require_image(channels, classes, size, least=31, name="AlexNet")
        self.features = nn.Sequential(
            nn.Conv2d(channels, 64, 11, stride=4, padding=2),
            activation_of(activation),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(64, 192, 5, padding=2),
            activation_of(activation),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(192, 384, 3, padding=1),
            activation_of(activation),
            nn.Conv2d(384, 256, 3, padding=1),
            activation_of(activation),
            nn.Conv2d(256, 256, 3, padding=1),
            activation_of(activation),
        )
        self.head = nn.Linear(256, classes)

    def forward(self, x: Tensor) -> Tensor:
        # (rows, channels, size, size) -> (rows, 256, positions) -> (rows, classes)
        return self.head(self.features(x).flatten(2).mean(-1))
