"""CIFAR-10 and CIFAR-100 as published: the binary and the Python version, as an archive or an unpacked folder.

A binary record is one label byte (CIFAR-100: coarse, then fine), then 1024 red, 1024 green, 1024 blue bytes. A Python
batch is a pickled dict of ``data`` (n, 3072) and ``labels`` or ``fine_labels``. CIFAR-100 gets its 100 fine labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from r2d2net.data.formats.members import last_part, read_members
from r2d2net.data.formats.read_errors import damaged, reading
from r2d2net.data.formats.restricted_pickle import read_pickle
from r2d2net.data.image_set import ImageSet

PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Layout:
    """The layout of one of the two sets.

    Attributes:
        batches: The file names of each split, without ".bin".
        label_bytes: The number of bytes before the pixels of a record; the last of them is the label.
        label_key: The key of the labels in a pickled batch.
        names_file: The file of class names in the binary version.
        names_key: The key of the class names in the meta file of the Python version.
        classes: The number of classes.
    """

    batches: dict[str, tuple[str, ...]]
    label_bytes: int
    label_key: str
    names_file: str
    names_key: str
    classes: int


CIFAR10 = Layout(
    {"train": tuple(f"data_batch_{k}" for k in range(1, 6)), "test": ("test_batch",)},
    1, "labels", "batches.meta.txt", "label_names", 10,
)  # fmt: skip
CIFAR100 = Layout(
    {"train": ("train",), "test": ("test",)}, 2, "fine_labels", "fine_label_names.txt", "fine_label_names", 100
)


def read_cifar_binary(path: Path, split: str, layout: Layout) -> ImageSet:
    """Read a split of the binary version; ``path`` is the archive or the folder."""
    files = [f"{batch}.bin" for batch in layout.batches[split]]
    contents = _contents(path, files, layout.names_file)
    images, labels = [], []
    for file in files:
        content = np.frombuffer(contents[file], np.uint8)
        length = layout.label_bytes + PIXELS
        if len(content) == 0 or len(content) % length:
            reason = f"{file} has {len(content)} bytes, records have {length}"
            raise damaged(path, "a CIFAR binary version", reason)
        records = content.reshape(-1, length)
        labels.append(records[:, layout.label_bytes - 1])
        images.append(records[:, layout.label_bytes :])
    names = contents.get(layout.names_file, b"").decode("utf-8", "replace").split()
    return _assembled(path, images, labels, names, layout)


def read_cifar_python(path: Path, split: str, layout: Layout) -> ImageSet:
    """Read a split of the Python version; ``path`` is the archive or the folder."""
    meta = "meta" if layout is CIFAR100 else "batches.meta"
    contents = _contents(path, layout.batches[split], meta)
    images, labels = [], []
    for file in layout.batches[split]:
        with reading(path, "a CIFAR Python version"):
            batch = read_pickle(contents[file], _inside(path, file))
            data = np.asarray(batch["data"])
            if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != PIXELS:
                raise damaged(_inside(path, file), "a CIFAR batch", f"data of {data.dtype} {data.shape}")
            images.append(data)
            labels.append(np.asarray(batch[layout.label_key]))
    names = read_pickle(contents[meta], _inside(path, meta)).get(layout.names_key, []) if meta in contents else []
    return _assembled(path, images, labels, [str(name) for name in names], layout)


def _contents(path: Path, files: tuple[str, ...] | list[str], optional: str) -> dict[str, bytes]:
    """Read the members of these names, of which only ``optional`` may be missing."""
    names = {*files, optional}
    contents = {last_part(name): content for name, content in read_members(path, lambda n: last_part(n) in names)}
    for file in files:
        if file not in contents:
            raise damaged(path, "a CIFAR set", f"{file} is missing")
    return contents


def _inside(path: Path, file: str) -> Path:
    """Return the path of a member as messages show it."""
    return path / file


def _assembled(
    path: Path, images: list[np.ndarray], labels: list[np.ndarray], names: list[str], layout: Layout
) -> ImageSet:
    with reading(path, "a CIFAR set"):
        y = np.concatenate(labels).astype(np.int64)
        x = np.concatenate(images).reshape(-1, 3, 32, 32)
        if len(y) != len(x) or (len(y) and not 0 <= y.min() <= y.max() < layout.classes):
            raise damaged(path, "a CIFAR set", f"{len(y)} labels up to {y.max()} for {len(x)} images")
        classes = names if len(names) == layout.classes else [str(k) for k in range(layout.classes)]
        return ImageSet(torch.from_numpy(x), torch.from_numpy(y), tuple(classes))
