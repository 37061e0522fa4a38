"""NumPy's .npz archives: arrays only, pickled objects are never loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from r2d2net.data.formats.read_errors import damaged, reading


@contextmanager
def open_npz(path: Path, kind: str) -> Iterator[Mapping[str, np.ndarray]]:
    """The arrays of a file, read when asked for; any failure until the end of the block is one line."""
    with reading(path, kind), path.open("rb") as file:  # numpy leaves a file open that it cannot read
        content = np.load(file, allow_pickle=False)
        if isinstance(content, np.ndarray):
            raise damaged(path, kind, "it is a single array")
        with content:
            yield content
