"""A context in which torch uses one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread, and restore the caller's number of threads afterwards.

    The number of threads decides how sums are cut and so their last bits; and networks of a few layers gain nothing by
    more of them, but lose much where the cores are busy.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
