"""Corrupted images at five severities: the same objects, photographed worse.

    noise        x + N(0, c^2), drawn from a seed
    blur         a Gaussian kernel of deviation c pixels, edges mirrored
    contrast     mean + c (x - mean), the mean of each channel over the image
    brightness   the largest channel plus c, hue and saturation unchanged
    pixelate     boxes: shrunk to the share c of the sides, and back
    jpeg         written as JPEG of quality c and read again

x is in [0, 1] and clipped to it. The strengths are those of CIFAR-10-C (Hendrycks and Dietterich, 2019), for images of
about 32 x 32 pixels. All functions are pure: uint8 images (n, channels, height, width) in, new ones out.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from numbers import Integral

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from r2d2net.data.transforms import check
from r2d2net.errors import require, require_seed

SEVERITIES = (1, 2, 3, 4, 5)
STRENGTHS: dict[str, tuple[float, ...]] = {
    "noise": (0.04, 0.06, 0.08, 0.09, 0.10),
    "blur": (0.4, 0.6, 0.7, 0.8, 1.0),
    "contrast": (0.75, 0.5, 0.4, 0.3, 0.15),
    "brightness": (0.05, 0.1, 0.15, 0.2, 0.3),
    "pixelate": (0.95, 0.9, 0.85, 0.75, 0.65),
    "jpeg": (80, 65, 58, 50, 40),
}


def corrupt(images: Tensor, kind: str, severity: int, *, seed: int = 0) -> Tensor:
    """Corrupt images.

    Args:
        images: Images, uint8 of (n, 1 or 3, height, width).
        kind: "noise", "blur", "contrast", "brightness", "pixelate" or "jpeg".
        severity: From 1, mild, to 5.
        seed: Seed of the noise; the other kinds draw nothing.

    Returns:
        The corrupted images, of the same shape, type and device.

    Raises:
        DataError: If the images are of another type or shape.
        ParameterError: If there is no such kind or severity.

    Example:
        >>> images = torch.tensor([[[[0, 200]]]], dtype=torch.uint8)
        >>> corrupt(images, "contrast", 2).flatten().tolist()
        [50, 150]
    """
    check(images)
    require(isinstance(kind, str) and kind in STRENGTHS, "kind", kind, f"use one of {', '.join(STRENGTHS)}")
    whole = isinstance(severity, Integral) and not isinstance(severity, bool)
    require(whole and severity in SEVERITIES, "severity", severity, "use 1, 2, 3, 4 or 5")
    require_seed(seed)
    if not len(images):
        return images.clone()
    strength = STRENGTHS[kind][int(severity) - 1]
    if kind in PILLOW:
        return _one_by_one(images, PILLOW[kind], strength)
    x = images.float() / 255
    if kind == "noise":
        drawn = torch.randn(x.shape, generator=torch.Generator().manual_seed(int(seed)))
        x = x + strength * drawn.to(x.device)
    elif kind == "blur":
        x = _blurred(x, strength)
    elif kind == "contrast":
        mean = x.mean((2, 3), keepdim=True)
        x = mean + strength * (x - mean)
    else:
        x = _brightened(x, strength)
    return (255 * x).round().clamp(0, 255).to(torch.uint8)


def _blurred(x: Tensor, deviation: float) -> Tensor:
    down, right = (min(int(4 * deviation + 0.5), side - 1) for side in x.shape[2:])
    padded = functional.pad(x, (right, right, down, down), mode="reflect")
    across = functional.conv2d(padded, _kernel(right, deviation, x)[:, :, None, :], groups=x.shape[1])
    return functional.conv2d(across, _kernel(down, deviation, x)[:, :, :, None], groups=x.shape[1])


def _kernel(reach: int, deviation: float, x: Tensor) -> Tensor:
    """Return a Gaussian kernel for each channel of images x, (channels, 1, 2 reach + 1)."""
    offsets = torch.arange(-reach, reach + 1, device=x.device)
    kernel = (-0.5 * (offsets / deviation) ** 2).exp()
    return (kernel / kernel.sum()).expand(x.shape[1], 1, -1)


def _brightened(x: Tensor, more: float) -> Tensor:
    """Add to the value of HSV: all channels grow by the same factor; black, which has no hue, becomes grey."""
    value = x.amax(1, keepdim=True)
    target = (value + more).clamp(max=1)
    return torch.where(value > 0, x * target / value.clamp(min=1e-6), target)


def _pixelated(image: Image.Image, share: float) -> Image.Image:
    width, height = image.size
    small = max(1, int(width * share)), max(1, int(height * share))
    return image.resize(small, Image.Resampling.BOX).resize((width, height), Image.Resampling.BOX)


def _compressed(image: Image.Image, quality: float) -> Image.Image:
    file = BytesIO()
    image.save(file, "JPEG", quality=int(quality))
    return Image.open(file)


PILLOW: dict[str, Callable[[Image.Image, float], Image.Image]] = {"pixelate": _pixelated, "jpeg": _compressed}


def _one_by_one(images: Tensor, work: Callable[[Image.Image, float], Image.Image], strength: float) -> Tensor:
    found = []
    for image in images.cpu().movedim(1, -1).numpy():
        array = np.ascontiguousarray(image if image.shape[-1] == 3 else image[..., 0])
        found.append(np.asarray(work(Image.fromarray(array), strength)).reshape(image.shape))
    return torch.from_numpy(np.stack(found)).movedim(-1, 1).contiguous().to(images.device)
