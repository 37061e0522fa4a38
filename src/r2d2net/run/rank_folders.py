"""Folders of runs that are spread over processes: one that all see, or one on each machine whose files are exchanged.

A run is an ordinary one in a folder of its own, on the rank that makes it. Where all ranks see rank 0's folder they
work there, so that an interrupted choice goes on with what each of them has. Where they do not, ranks keep temporary
folders, and what is finished is sent to all.
"""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import joblib

from r2d2net import manifest
from r2d2net.posterior import FILE
from r2d2net.ranks import Ranks

PARTS = manifest.FILE, FILE


@contextmanager
def folder_of_ranks(folder: Path | None, ranks: Ranks) -> Iterator[Path]:
    """Give the folder in which this rank works.

    Args:
        folder: On rank 0 the folder of the runs, or None for a temporary one; it does not count on others.
        ranks: The processes.

    Yields:
        Rank 0's folder if this rank sees it, else a temporary folder.
    """
    with tempfile.TemporaryDirectory(prefix="r2d2net-") as temporary:
        place = Path(temporary) if folder is None else folder
        mark = place / f".seen-{uuid.uuid4().hex}"
        ranks.first(lambda: _make(mark))
        shared = Path(ranks.share_json(str(mark.resolve())))
        sees = shared.exists()
        ranks.barrier()
        if ranks.is_first:
            mark.unlink()
        yield shared.parent if sees else Path(temporary)


def _make(mark: Path) -> None:
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


def exchange_runs(folders: Sequence[Path], ranks: Ranks) -> None:
    """Let every rank have the finished runs of all.

    Args:
        folders: Their folders, in the same order on all ranks.
        ranks: The processes.
    """
    ranks.barrier()  # what others have written is there
    have = ranks.gather_json([(folder / FILE).exists() for folder in folders])
    for number, folder in enumerate(folders):
        owners = [rank for rank in range(ranks.size) if have[rank][number]]
        if owners and len(owners) < ranks.size:
            content = ranks.share_bytes(packed(folder) if ranks.rank == owners[0] else b"", owners[0])
            if not (folder / FILE).exists():
                unpack(content, folder)


def packed(folder: Path) -> bytes:
    """Return the parts of a saved posterior, one after the other, behind their names and sizes as JSON."""
    contents = [(name, (folder / name).read_bytes()) for name in PARTS if (folder / name).exists()]
    names = json.dumps({name: len(content) for name, content in contents}).encode()
    return b"".join([len(names).to_bytes(8, "little"), names, *(content for _, content in contents)])


def unpack(content: bytes, folder: Path) -> None:
    """Write the parts that `packed` returned to a folder, made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    start = 8 + int.from_bytes(content[:8], "little")
    for name, size in json.loads(content[8:start]).items():
        (folder / name).write_bytes(content[start : start + size])
        start += size


def jobs_of(jobs: int | None) -> int:
    """Return the number of processes of this rank: by default its part of the machine's cores."""
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1") or 1)
    return max(1, joblib.cpu_count() // local) if jobs is None else jobs
