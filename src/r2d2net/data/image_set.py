"""`ImageSet`: labelled images with their original pixel values, uint8 of shape (images, channels, height, width).

Channels come first because networks expect that. Nothing is scaled or normalised here: `Preprocess` does that, in the
same way for every set that a network sees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from r2d2net.errors import DataError


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images with labels.

    Attributes:
        images: uint8, shape (n, channels, height, width), channels 1 or 3.
        labels: int64, shape (n,), each from 0 to ``len(classes) - 1``.
        classes: The name of each label.

    >>> data = ImageSet(torch.zeros(3, 1, 28, 28, dtype=torch.uint8), torch.tensor([0, 1, 1]), ("cat", "dog"))
    >>> len(data), data.counts()
    (3, {'cat': 1, 'dog': 2})
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        shape = tuple(self.images.shape)
        if self.images.dtype != torch.uint8 or len(shape) != 4 or shape[1] not in (1, 3):
            fix = "give uint8 of (n, 1 or 3, height, width)"
            raise DataError(f"are of {self.images.dtype} and shape {shape}", argument="images", fix=fix)
        if self.labels.dtype != torch.int64 or self.labels.shape != shape[:1]:
            problem = f"are of {self.labels.dtype} and shape {tuple(self.labels.shape)}"
            raise DataError(problem, argument="labels", fix=f"give int64 of {shape[:1]}")
        if len(self.labels) and not 0 <= int(self.labels.min()) <= int(self.labels.max()) < len(self.classes):
            low, high = int(self.labels.min()), int(self.labels.max())
            fix = f"{len(self.classes)} classes allow 0 to {len(self.classes) - 1}"
            raise DataError(f"run from {low} to {high}", argument="labels", fix=fix)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: Tensor | slice) -> ImageSet:
        """Return the chosen rows; all classes are kept."""
        return ImageSet(self.images[rows], self.labels[rows], self.classes)

    def counts(self) -> dict[str, int]:
        """Count the images of each class.

        Returns:
            The number of images by the name of the class.
        """
        counts = torch.bincount(self.labels, minlength=len(self.classes))
        return dict(zip(self.classes, counts.tolist(), strict=True))

    def to(self, device: torch.device | str) -> ImageSet:
        """Move the tensors to a device.

        Args:
            device: The device.

        Returns:
            The set with its tensors on the device.
        """
        return ImageSet(self.images.to(device), self.labels.to(device), self.classes)


def channels_first(images: np.ndarray, labels: np.ndarray, classes: tuple[str, ...]) -> ImageSet:
    """Build an `ImageSet` from uint8 arrays of shape (n, height, width) or (n, height, width, channels)."""
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim != 4 or images.dtype != np.uint8 or labels.dtype.kind not in "iu":
        problem = f"images {images.dtype} {images.shape}, labels {labels.dtype}"
        raise DataError(problem, fix="give uint8 images and whole-numbered labels")
    tensor = torch.from_numpy(np.require(images.transpose(0, 3, 1, 2), requirements=["C", "W"]))
    return ImageSet(tensor, torch.from_numpy(labels.reshape(-1).astype(np.int64)), classes)
