"""Torch's global random generator, lent to code that knows no other and given back as it was.

Dropout layers and DataLoaders draw from it. Seeded here, their draws are a function of the run's seed too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")


@contextmanager
def lent_generator(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global generators of the CPU and the device inside the block; outside nothing has changed.

    >>> with lent_generator(0, torch.device("cpu")):
    ...     first = torch.rand(1)
    >>> with lent_generator(0, torch.device("cpu")):
    ...     bool(torch.rand(1) == first)
    True
    """
    on_cuda = device.type == "cuda"
    outer = torch.random.get_rng_state()
    outer_cuda = torch.cuda.get_rng_state(device) if on_cuda else None
    torch.default_generator.manual_seed(seed)
    if on_cuda:
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
    try:
        yield
    finally:
        torch.random.set_rng_state(outer)
        if outer_cuda is not None:
            torch.cuda.set_rng_state(outer_cuda, device)


def iterate(source: Iterable[T], seed: int) -> Iterator[T]:
    """Iterate with the global generator of the CPU seeded at the start, and given back between the items."""
    inner = torch.Generator().manual_seed(seed).get_state()
    iterator: Iterator[T] | None = None
    while True:
        outer = torch.random.get_rng_state()
        torch.random.set_rng_state(inner)
        try:
            iterator = iter(source) if iterator is None else iterator
            item = next(iterator)
        except StopIteration:
            return
        finally:
            inner = torch.random.get_rng_state()
            torch.random.set_rng_state(outer)
        yield item
