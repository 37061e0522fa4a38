"""A DataLoader over an `ImageSet` that prepares whole batches: images stay uint8 until their batch is needed.

`rn.fit` takes it directly and seeds torch's global generator for it, so order and augmentation follow the run's seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler

from r2d2net.data.image_set import ImageSet
from r2d2net.data.preprocess import Augment, Preprocess
from r2d2net.errors import require_whole

if TYPE_CHECKING:
    Pairs = Dataset[tuple[Tensor, Tensor]]
else:
    Pairs = Dataset


class PreparedImages(Pairs):
    """A dataset whose items are batches: a list of row numbers gives those images, augmented and preprocessed together.

    Args:
        data: The images and labels.
        preprocess: What turns them into the network's inputs.
        augment: Random changes of the images, if any.
    """

    def __init__(self, data: ImageSet, preprocess: Preprocess, augment: Augment | None = None) -> None:
        # resizing and grey conversion do not depend on the epoch
        self.data = ImageSet(preprocess.shaped(data.images), data.labels, data.classes)
        self.preprocess = preprocess
        self.augment = augment

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        index = torch.as_tensor(rows, device=self.data.labels.device)
        images = self.data.images[index]
        if self.augment is not None:
            images = self.augment(images, Generator().manual_seed(int(torch.randint(2**62, ()))))
        return self.preprocess(images), self.data.labels[index]


def image_loader(
    data: ImageSet,
    preprocess: Preprocess,
    augment: Augment | None = None,
    *,
    batch_size: int = 128,
    shuffle: bool = True,
) -> DataLoader[Any]:
    """Return a loader of batches (images float32, labels).

    Args:
        data: The images and labels.
        preprocess: What turns them into the network's inputs.
        augment: Random changes of the images, if any.
        batch_size: The number of images in a batch.
        shuffle: Whether every epoch has a new random order; the last, smaller batch is then dropped.

    Returns:
        A DataLoader that `rn.fit` and the posterior's `predict` take.
    """
    require_whole("batch_size", batch_size)
    prepared = PreparedImages(data, preprocess, augment)
    order = RandomSampler(prepared) if shuffle else SequentialSampler(prepared)
    batches = BatchSampler(order, batch_size, drop_last=shuffle and len(data) > batch_size)
    return DataLoader(prepared, sampler=batches, batch_size=None)
