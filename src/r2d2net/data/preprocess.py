"""`Preprocess` and `Augment`: the steps between stored images and a network's inputs, as plain data.

One `Preprocess` is fitted to the training images and applied to every set that the network sees, including those from
other distributions. Sets with a normalisation each could be told apart by that alone, and an out-of-distribution score
would measure the preprocessing. Only uint8 images are accepted, so nothing is normalised twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from r2d2net.data.transforms import (
    CHUNK,
    check,
    colour_jitter,
    normalise,
    random_crop,
    random_flip,
    resize,
    to_channels,
)
from r2d2net.errors import DataError, require, require_whole


@dataclass(frozen=True)
class Preprocess:
    """The conversion of uint8 images to a network's inputs: grey or colour, resized, normalised, float32.

    Attributes:
        mean: The number subtracted from each channel of images scaled to [0, 1].
        std: The number that each channel is then divided by.
        size: Height and width to which images are stretched; None keeps their size.

    The number of means is the number of channels of the result.

    >>> train = torch.arange(64, dtype=torch.uint8).reshape(1, 1, 8, 8)
    >>> prepare = Preprocess.fitted(train)
    >>> x = prepare(train)
    >>> bool(x.mean().abs() < 1e-6), bool((x.std(correction=0) - 1).abs() < 1e-6)
    (True, True)
    >>> Preprocess.fitted(train, size=4)(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape
    torch.Size([2, 1, 4, 4])
    """

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    size: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", tuple(float(m) for m in self.mean))  # lists come from JSON
        object.__setattr__(self, "std", tuple(float(s) for s in self.std))
        require(len(self.mean) == len(self.std) in (1, 3), "mean, std", (self.mean, self.std), "use 1 or 3 of each")
        require(min(self.std) > 0, "std", self.std, "use positive numbers")
        if self.size is not None:
            require_whole("size", self.size)

    @classmethod
    def fitted(cls, images: Tensor, *, size: int | None = None, channels: int | None = None) -> Preprocess:
        """Fit mean and standard deviation to the training images, after resizing and colour conversion.

        Args:
            images: The training images.
            size: Height and width to which all images are stretched; by default those of the training images if they
                are square.
            channels: 1 for grey, 3 for colour; by default that of the training images.

        Returns:
            The preprocessing.

        Raises:
            DataError: If there are no images, or they are not uint8.
        """
        check(images)
        if size is None and images.shape[2] == images.shape[3]:
            size = images.shape[2]  # other sets, such as those out of distribution, must come out alike
        if len(images) == 0:
            raise DataError("has 0 rows", argument="images", fix="give the training images")
        blank = channels or images.shape[1]
        shaped = cls((0.0,) * blank, (1.0,) * blank, size).shaped(images)
        first, second = torch.zeros(2, blank, dtype=torch.float64)
        for part in shaped.split(CHUNK):  # no float copy of the whole set; sums within an image are exact enough
            x = part.float() / 255
            first += x.sum((2, 3)).double().sum(0).cpu()
            second += x.square_().sum((2, 3)).double().sum(0).cpu()
        pixels = shaped.numel() / blank
        std = (second / pixels - (first / pixels).square()).clamp(min=0).sqrt()
        mean = first / pixels
        return cls(tuple(mean.tolist()), tuple(s if s > 1e-6 else 1.0 for s in std.tolist()), size)

    def shaped(self, images: Tensor) -> Tensor:
        """Convert images to grey or colour and resize them, without normalisation.

        Args:
            images: uint8 images, (n, channels, height, width).

        Returns:
            The converted images, uint8.
        """
        images = to_channels(images, len(self.mean))
        return images if self.size is None else resize(images, self.size)

    def __call__(self, images: Tensor) -> Tensor:
        return normalise(self.shaped(images), self.mean, self.std)


@dataclass(frozen=True)
class Augment:
    """Random changes of training images, from uint8 to uint8.

    Attributes:
        padding: The width of a black border that is added before a random crop to the original size.
        flip: Whether each image is mirrored left to right with probability 1/2.
        brightness: The strength of random changes of brightness, from 0 to 1.
        contrast: The strength of random changes of contrast, from 0 to 1.
        saturation: The strength of random changes of saturation, from 0 to 1.
    """

    padding: int = 0
    flip: bool = False
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0

    def __call__(self, images: Tensor, generator: Generator) -> Tensor:
        if self.padding:
            images = random_crop(images, self.padding, generator)
        if self.flip:
            images = random_flip(images, generator)
        if self.brightness or self.contrast or self.saturation:
            images = colour_jitter(images, generator, self.brightness, self.contrast, self.saturation)
        return images

    @classmethod
    def standard(cls) -> Augment:
        """Build the usual augmentation for CIFAR.

        Returns:
            Crops with a border of 4, and mirroring.
        """
        return cls(padding=4, flip=True)
