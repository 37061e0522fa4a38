"""Transforms of whole batches of uint8 images (n, channels, height, width), on any device.

All but `normalise` take uint8 and return uint8. Random transforms draw from an explicit CPU generator, so that a run is
the same on every device. All raise a `DataError` for images of another type or shape.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Generator, Tensor
from torch.nn import functional

from r2d2net.errors import DataError, require, require_whole

GREY = (0.299, 0.587, 0.114)  # ITU-R BT.601, as in JPEG and Pillow
IMAGES = "give uint8 of (n, 1 or 3, height, width)"
CHUNK = 4096  # images worked on as floats at a time


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Return (images / 255 - mean) / std as float32.

    Args:
        images: The images.
        mean: The mean of each channel.
        std: The standard deviation of each channel.

    >>> normalise(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8), [0.5], [0.25]).item()
    2.0
    """
    check(images)
    channels = images.shape[1]
    if len(mean) != channels or len(std) != channels:
        problem = f"{len(mean)} means and {len(std)} stds for images of {channels} channels"
        raise DataError(problem, fix="give one of each for every channel")
    require(min(std) > 0, "std", tuple(std), "use positive numbers")
    scale = torch.tensor([1 / (255 * s) for s in std], device=images.device)[:, None, None]
    shift = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)], device=images.device)[:, None, None]
    return images.to(torch.float32).mul_(scale).add_(shift)


def resize(images: Tensor, size: int) -> Tensor:
    """Stretch images to size x size, bilinear with antialiasing."""
    check(images)
    require_whole("size", size)
    if tuple(images.shape[2:]) == (size, size):
        return images

    def work(part: Tensor) -> Tensor:
        wide = functional.interpolate(part.float(), (size, size), mode="bilinear", antialias=True, align_corners=False)
        return wide.round_().clamp_(0, 255).to(torch.uint8)

    return _chunked(images, work)


def to_channels(images: Tensor, channels: int) -> Tensor:
    """Convert to grey (1 channel) by luma weights, or to colour (3) by repeating the channel."""
    check(images)
    require(channels in (1, 3), "channels", channels, "use 1 (grey) or 3 (colour)")
    if images.shape[1] == channels:
        return images
    if channels == 3:
        return images.expand(-1, 3, -1, -1).contiguous()
    return _chunked(images, lambda part: _grey(part.float()).round_().clamp_(0, 255).to(torch.uint8))


def invert(images: Tensor) -> Tensor:
    """Exchange black and white."""
    check(images)
    return 255 - images


def random_crop(images: Tensor, padding: int, generator: Generator) -> Tensor:
    """Pad each image with black on all sides and cut the original size out at a random place."""
    check(images)
    require_whole("padding", padding, least=0)
    if padding == 0:
        return images
    n, _, height, width = images.shape
    padded = functional.pad(images, (padding,) * 4)
    top, left = torch.randint(0, 2 * padding + 1, (2, n), generator=generator).to(images.device)
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # n, channels, top, left, height, width: a view
    return windows[torch.arange(n, device=images.device), :, top, left]


def random_flip(images: Tensor, generator: Generator) -> Tensor:
    """Mirror each image left to right with probability 1/2."""
    check(images)
    chosen = (torch.rand(len(images), generator=generator) < 0.5).to(images.device)
    return torch.where(chosen[:, None, None, None], images.flip(3), images)


def colour_jitter(
    images: Tensor, generator: Generator, brightness: float = 0.0, contrast: float = 0.0, saturation: float = 0.0
) -> Tensor:
    """Change brightness, contrast (about the mean luma) and saturation (about the luma) of each image, in this order.

    Args:
        images: The images.
        generator: The generator of the factors.
        brightness: Strength s from 0 to 1; the factor of each image is uniform on (1 - s, 1 + s).
        contrast: The same for the contrast.
        saturation: The same for the saturation, which grey images do not have.
    """
    check(images)
    for name, value in (("brightness", brightness), ("contrast", contrast), ("saturation", saturation)):
        require(0 <= value <= 1, name, value, "use a number from 0 to 1")
    strength = torch.tensor([brightness, contrast, saturation])[:, None]
    factors = 1 + strength * (2 * torch.rand(3, len(images), generator=generator) - 1)
    bright, contrasted, saturated = factors.to(images.device)[:, :, None, None, None]
    x = images.float()
    if brightness:
        x.mul_(bright).clamp_(0, 255)
    if contrast:
        # the mean of the luma is the luma of the mean
        x = _grey(x.mean((2, 3), keepdim=True)).lerp(x, contrasted).clamp_(0, 255)
    if saturation and images.shape[1] == 3:
        x = _grey(x).lerp(x, saturated).clamp_(0, 255)
    return x.round_().to(torch.uint8)


def check(images: Tensor) -> None:
    """Raise a `DataError` unless ``images`` is a batch of uint8 images; normalised images are none."""
    if images.dtype != torch.uint8 or images.dim() != 4 or images.shape[1] not in (1, 3):
        shape = tuple(images.shape)
        raise DataError(f"are of {images.dtype} and shape {shape}", argument="images", fix=IMAGES)


def _grey(x: Tensor) -> Tensor:
    if x.shape[1] == 1:
        return x
    red, green, blue = x.split(1, dim=1)
    return (red * GREY[0]).add_(green, alpha=GREY[1]).add_(blue, alpha=GREY[2])


def _chunked(images: Tensor, work: object) -> Tensor:
    assert callable(work)
    return torch.cat([work(part) for part in images.split(CHUNK)]) if len(images) else work(images)
