"""A DataLoader over an `ImageSet` that prepares whole batches: images stay uint8 until their batch is due.

`rn.fit` takes it as it is and seeds torch's global generator for it, so order and augmentation follow the run's seed.
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
    """An `ImageSet` whose items are chosen rows, many at a time, augmented and preprocessed together."""

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
    """Batches of (images float32, labels), in a new random order every epoch.

    A last, smaller batch is dropped if the rows are shuffled.
    """
    require_whole("batch_size", batch_size)
    prepared = PreparedImages(data, preprocess, augment)
    order = RandomSampler(prepared) if shuffle else SequentialSampler(prepared)
    batches = BatchSampler(order, batch_size, drop_last=shuffle and len(data) > batch_size)
    return DataLoader(prepared, sampler=batches, batch_size=None)
