"""A small VGG (after Simonyan and Zisserman, 2015): stages of 3 x 3 convolutions, each halving the image.

    image -> [conv 3 x 3, norm, activation] x depth -> pool, for every stage -> mean over positions -> linear

The paper has no such network; it represents plain deep convolutions. Batch normalisation follows every convolution.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from r2d2net.errors import require, require_whole
from r2d2net.nets.activations import activation_of
from r2d2net.nets.image_sizes import require_image


class VGG(nn.Module):
    """A small VGG.

    Args:
        channels: Channels of the images.
        classes: Width of the output.
        size: Pixels of a side.
        widths: Filters of each stage.
        depth: Convolutions of a stage.
        activation: Name of the activation.
    """

    def __init__(
        self,
        channels: int = 3,
        classes: int = 10,
        size: int = 32,
        *,
        widths: Sequence[int] = (32, 64, 128),
        depth: int = 2,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        require(len(widths) > 0, "widths", widths, "give at least one stage, such as (32, 64, 128)")
        for width in widths:
            require_whole("widths", width)
        require_whole("depth", depth)
        require_image(channels, classes, size, least=2 ** len(widths), name=f"VGG of {len(widths)} stages")
        layers: list[nn.Module] = []
        inputs = channels
        for width in widths:
            for _ in range(depth):
                layers.append(nn.Conv2d(inputs, width, 3, padding=1, bias=False))
                layers += [nn.BatchNorm2d(width), activation_of(activation)]
                inputs = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        # (rows, channels, size, size) -> (rows, width, positions) -> (rows, classes)
        return self.head(self.features(x).flatten(2).mean(-1))
