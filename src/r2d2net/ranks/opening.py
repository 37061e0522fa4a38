"""The process group that a fit is part of: one that the script has opened, or that `torchrun` has set out.

torchrun tells each process WORLD_SIZE, RANK, MASTER_ADDR and MASTER_PORT. Where these are set, and no group is open
yet, one is opened here (nccl for a model on a GPU, else gloo), and closed when the process ends.
"""

from __future__ import annotations

import atexit
import os
from datetime import timedelta

import torch
import torch.distributed as dist

from r2d2net.errors import RankError
from r2d2net.ranks.group import ALONE, FOREVER, Ranks

NEEDED = ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT")
ARRIVAL = timedelta(seconds=300)  # within which all processes must have come

_apart = False  # whether this process works by itself from now on
_known: dict[str, Ranks] = {}  # by device type, of the group that is open


def is_world() -> bool:
    """Return whether this process is one of several, according to torch.distributed or to torchrun."""
    if not dist.is_available():
        return False
    if dist.is_initialized():
        return dist.get_world_size() > 1
    return all(name in os.environ for name in NEEDED) and os.environ["WORLD_SIZE"] not in ("", "0", "1")


def work_apart() -> None:
    """Let this process make all further fits by itself: the others have no part in what follows."""
    global _apart
    _apart = True


def ranks_of_world(device: torch.device) -> Ranks:
    """Return the processes that this one works with; a process by itself is `ALONE`.

    Args:
        device: Device of the model.

    Returns:
        The processes.

    Raises:
        RankError: If torchrun's variables name processes that do not come.
    """
    if _apart or not is_world():
        return ALONE
    backend = "nccl" if device.type == "cuda" else "gloo"
    if not dist.is_initialized():
        _known.clear()
        _open(backend)
    key = f"{backend} {id(dist.group.WORLD)}"
    if key not in _known:
        group = dist.new_group(backend=backend, timeout=FOREVER)  # of its own: `heartbeat` says when to give up
        store = dist.distributed_c10d._get_default_store()
        _known[key] = Ranks(dist.get_rank(), dist.get_world_size(), group, store)
    return _known[key]


def _open(backend: str) -> None:
    size, rank = os.environ["WORLD_SIZE"], os.environ["RANK"]
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
    try:
        dist.init_process_group(backend, timeout=ARRIVAL)
    except (RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        problem = f"WORLD_SIZE={size} and RANK={rank} are set, but the processes did not find each other ({reason})"
        raise RankError(problem, fix="start all of them, by torchrun say, or unset WORLD_SIZE") from error
    atexit.register(_close)


def _close() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
