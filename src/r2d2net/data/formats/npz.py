"""NumPy's .npz archives of images or of tables. numpy reads them; pickled objects are never loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from r2d2net.data.formats.members import check_size
from r2d2net.data.formats.read_errors import damaged, reading
from r2d2net.data.image_set import ImageSet, channels_first
from r2d2net.data.table import Table, finite_float32


@contextmanager
def open_npz(path: Path, kind: str) -> Iterator[Mapping[str, np.ndarray]]:
    """Open a file whose arrays are read on access; any failure inside the block becomes one line."""
    with reading(path, kind), path.open("rb") as file:  # numpy leaves a file open that it cannot read
        content = np.load(file, allow_pickle=False)
        if isinstance(content, np.ndarray):
            raise damaged(path, kind, "it is a single array")
        with content:
            for member in content.zip.infolist():
                check_size(path, member.filename, member.file_size)
            yield content


def read_image_npz(
    path: Path, classes: tuple[str, ...], images_key: str = "images", labels_key: str = "labels"
) -> ImageSet:
    """Read images uint8 (n, height, width[, channels]) and labels (n,) from one file."""
    kind = "an .npz of images and labels"
    with open_npz(path, kind) as content:
        images, labels = content[images_key], content[labels_key]
        if len(images) != len(labels):
            raise damaged(path, kind, f"{len(labels)} labels for {len(images)} images")
        if len(labels) and not 0 <= labels.min() <= labels.max() < len(classes):
            raise damaged(path, kind, f"labels run from {labels.min()} to {labels.max()}")
        return channels_first(images, labels, classes)


def read_table_npz(
    path: Path,
    x_keys: Sequence[str],
    y_keys: Sequence[str],
    names_key: str | None = None,
    prefix: str = "x",
    classes: tuple[str, ...] = (),
) -> Table:
    """Read a table from one file.

    Args:
        path: The file.
        x_keys: The array of inputs (n, inputs), or two of them: training rows and test rows, which become split 0.
        y_keys: The array of targets (n,), or two of them.
        names_key: The array with the names of the inputs; without one they are numbered.
        prefix: What numbered names begin with.
        classes: The name of each label, for a classification.
    """
    kind = "an .npz of inputs and targets"
    with open_npz(path, kind) as content:
        x_parts, y_parts = [content[key] for key in x_keys], [content[key] for key in y_keys]
        if [len(part) for part in x_parts] != [len(part) for part in y_parts]:
            raise damaged(path, kind, f"{list(map(len, x_parts))} rows of inputs, {list(map(len, y_parts))} targets")
        x, y = np.concatenate(x_parts), np.concatenate(y_parts)
        if x.ndim != 2 or x.dtype.kind not in "biuf" or y.dtype.kind not in "biuf":
            raise damaged(path, kind, f"inputs {x.dtype} {x.shape}, targets {y.dtype} {y.shape}")
        if classes and (y.dtype.kind == "f" or not 0 <= y.min(initial=0) <= y.max(initial=0) < len(classes)):
            raise damaged(path, kind, f"labels {y.dtype} from {y.min()} to {y.max()} for {len(classes)} classes")
        target = torch.from_numpy(y.astype(np.int64)) if classes else finite_float32(y)
        names = [f"{prefix}{k}" for k in range(x.shape[1])] if names_key is None else map(str, content[names_key])
        rows = torch.arange(len(y)).tensor_split([len(y_parts[0])])
        splits = ((rows[0], rows[1]),) if len(y_parts) == 2 else ()
        return Table(finite_float32(x), target, tuple(names), splits, classes)
