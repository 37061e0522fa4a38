"""Speed of data: MNIST from file to ready tensor, and augmentation as a share of training.

    python benchmarks/data_loading.py

Two targets: 60,000 MNIST images ready in at most 2 s; an epoch over CIFAR-10 with random crops and flips at most 25% of
an epoch of training a LeNet. Parts of both epochs are timed in turn, so that other load on the machine affects them
alike. Without R2D2NET_DATA, MNIST is left out; where CIFAR-10 is missing, random bytes of its shape stand in for it.
"""

from __future__ import annotations

import os
import statistics
import time

import torch
from torch import nn

from r2d2net import data
from r2d2net.errors import R2D2NetError
from r2d2net.nets import LeNet

ROWS, BATCH, ROUNDS = 50_000, 128, 5
PIECE = 40  # batches timed at a time


def main() -> None:
    torch.set_num_threads(1)
    if os.environ.get("R2D2NET_DATA"):
        seconds = min(mnist_seconds() for _ in range(3))
        print(f"MNIST: 60,000 images from file to normalised float32 in {seconds:.2f} s (target 2 s)")
    compare(cifar10())


def cifar10() -> data.ImageSet:
    """Load the training images of CIFAR-10; random bytes of their shape where they are missing."""
    try:
        return data.load("cifar10")
    except R2D2NetError as error:
        print(f"random bytes in place of CIFAR-10: {error}")
    images = torch.randint(256, (ROWS, 3, 32, 32), dtype=torch.uint8)
    return data.ImageSet(images, torch.arange(ROWS) % 10, tuple(map(str, range(10))))


def mnist_seconds() -> float:
    """Time reading, computing the mean and standard deviation, and normalisation."""
    start = time.perf_counter()
    images = data.load("mnist").images
    ready = data.Preprocess.fitted(images)(images)
    assert ready.dtype == torch.float32
    return time.perf_counter() - start


def compare(cifar: data.ImageSet) -> None:
    """Time batches alone and training steps of a LeNet alone, in turn."""
    prepare = data.Preprocess.fitted(cifar.images)
    kinds = {
        "crop and flip": data.Augment.standard(),
        "and colour jitter": data.Augment(4, True, brightness=0.2, contrast=0.2, saturation=0.2),
    }
    net = LeNet()
    optimizer = torch.optim.Adam(net.parameters())
    ready = [
        (prepare(cifar.images[k : k + BATCH]), cifar.labels[k : k + BATCH]) for k in range(0, PIECE * BATCH, BATCH)
    ]
    scale = (len(cifar) // BATCH) / PIECE
    steps = [train_seconds(net, optimizer, ready) * scale for _ in range(ROUNDS)]
    print(f"LeNet: an epoch of training over {len(cifar):,} images takes {statistics.median(steps):.2f} s")
    for name, augment in kinds.items():
        loader = data.image_loader(cifar, prepare, augment, batch_size=BATCH)
        shares, seconds = [], []
        for _ in range(ROUNDS):
            loading = loading_seconds(loader) * scale
            seconds.append(loading)
            shares.append(loading / (train_seconds(net, optimizer, ready) * scale))
        took, share = statistics.median(seconds), statistics.median(shares)
        print(f"{name}: an epoch of batches takes {took:.2f} s, {share:.0%} of training (target 25%)")


def loading_seconds(loader: torch.utils.data.DataLoader[tuple[torch.Tensor, torch.Tensor]]) -> float:
    batches = iter(loader)
    start = time.perf_counter()
    for _ in range(PIECE):
        next(batches)
    return time.perf_counter() - start


def train_seconds(
    net: nn.Module, optimizer: torch.optim.Optimizer, batches: list[tuple[torch.Tensor, torch.Tensor]]
) -> float:
    start = time.perf_counter()
    for x, y in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
