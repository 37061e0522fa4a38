"""Residual networks with bottleneck blocks (He, Zhang, Ren and Sun, 2016): ResNet50 and ResNet101.

    block:  y = relu(x' + norm(conv 1 x 1 (relu norm conv 3 x 3 (relu norm conv 1 x 1 (x)))))

with x' = x, or norm(conv 1 x 1 (x)) where the shape changes; the stride stands in the 3 x 3 convolution. Four stages of
width 64, 128, 256, 512 (times 4 at a block's end), then the mean over positions and one linear layer.

    stem "small"  conv 3 x 3, stride 1: for images of 8 to about 64 pixels
    stem "large"  conv 7 x 7, stride 2, and a pool: the original, for images of 32 pixels and more
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from r2d2net.errors import require, require_whole
from r2d2net.nets.image_sizes import require_image

Stem = Literal["small", "large"]
EXPANSION = 4
STAGES = 4
LEAST = {"small": 8, "large": 32}  # smallest size that leaves one position to the last stage


class Bottleneck(nn.Module):
    """A residual block: three convolutions that narrow, convolve and widen, added to the input."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    """A residual network.

    Args:
        blocks: Number of blocks of each of the four stages.
        channels: Channels of the images.
        classes: Width of the output.
        size: Pixels of a side.
        stem: "small" or "large" (see the module's docstring).
        width: Width of the first stage; each stage doubles it.
    """

    def __init__(
        self,
        blocks: Sequence[int],
        channels: int = 3,
        classes: int = 10,
        size: int = 32,
        *,
        stem: Stem = "small",
        width: int = 64,
    ) -> None:
        super().__init__()
        require(len(blocks) == STAGES, "blocks", blocks, "give four numbers, such as (3, 4, 6, 3)")
        for count in blocks:
            require_whole("blocks", count)
        require_whole("width", width)
        require(stem in LEAST, "stem", stem, "use 'small' or 'large'")
        require_image(channels, classes, size, least=LEAST[stem], name=f"ResNet with stem={stem!r}")
        self.stem = _stem(channels, stem, width)
        stages, inputs = [], width
        for stage, count in enumerate(blocks):
            layers = []
            for k in range(count):
                layers.append(Bottleneck(inputs, width * 2**stage, stride=2 if stage > 0 and k == 0 else 1))
                inputs = EXPANSION * width * 2**stage
            stages.append(nn.Sequential(*layers))
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        # (rows, channels, size, size) -> (rows, 2048, positions) -> (rows, classes)
        return self.head(self.stages(self.stem(x)).flatten(2).mean(-1))


def resnet50(channels: int = 3, classes: int = 10, size: int = 32, *, stem: Stem = "small", width: int = 64) -> ResNet:
    """Build ResNet50: a `ResNet` of 3, 4, 6 and 3 blocks.

    Args:
        channels: Channels of the images.
        classes: Width of the output.
        size: Pixels of a side.
        stem: "small" for images of 8 to about 64 pixels, "large" for the original's stem.
        width: Width of the first stage; each stage doubles it.

    Returns:
        The network, with torch's default initialisation.
    """
    return ResNet((3, 4, 6, 3), channels, classes, size, stem=stem, width=width)


def resnet101(channels: int = 3, classes: int = 10, size: int = 32, *, stem: Stem = "small", width: int = 64) -> ResNet:
    """Build ResNet101: a `ResNet` of 3, 4, 23 and 3 blocks.

    Args:
        channels: Channels of the images.
        classes: Width of the output.
        size: Pixels of a side.
        stem: "small" for images of 8 to about 64 pixels, "large" for the original's stem.
        width: Width of the first stage; each stage doubles it.

    Returns:
        The network, with torch's default initialisation.
    """
    return ResNet((3, 4, 23, 3), channels, classes, size, stem=stem, width=width)


def _stem(channels: int, kind: Stem, width: int) -> nn.Sequential:
    if kind == "small":
        return nn.Sequential(nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
    return nn.Sequential(
        nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
    )
