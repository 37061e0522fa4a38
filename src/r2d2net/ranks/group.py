"""What the processes of one fit, its ranks 0, 1, ..., k - 1, tell each other, by torch.distributed.

    averaged     sum_r n_r v_r / sum_r n_r of tensors, in one all-reduce: the same bits on every rank
    share        tensors of rank 0, for all
    gathered     rows of every rank, for all

Every call is one that all ranks make, in the same order. A call waits as long as the others live, which `heartbeat`
tells: no time limit ends a run whose rank 0 writes a large checkpoint. It ends in a `RankError` of one line once a rank
is gone or says that it has failed. What is sent is tensors and JSON, never pickles.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from r2d2net.errors import R2D2NetError, RankError
from r2d2net.ranks.heartbeat import Heartbeat

PATIENCE = timedelta(seconds=1)  # of a wait between two looks at whether the others live
FOREVER = timedelta(days=30)
ARRIVAL = 1800.0  # seconds for which a rank waits until all others have come to a fit
LEAVING = 3.0  # seconds for which a process that ends waits for a call under way
ALIKE = 10.0  # seconds for which a rank waits to hear that the others have failed as it has
LARGE = 1 << 20  # numbers of a tensor that is sent by itself
ResultT = TypeVar("ResultT")


class Ranks:
    """The processes of one fit.

    Args:
        rank: Number of this process.
        size: Number of processes.
        group: Their process group; None for a process by itself.
        store: Where they leave notes for each other.
    """

    def __init__(self, rank: int = 0, size: int = 1, group: Any = None, store: Any = None) -> None:
        self.rank, self.size, self.group, self.store = rank, size, group, store
        self.fits = 0  # how many fits these processes have made together
        self.depth = 0  # of calls of `together` inside each other
        self.calls = 0  # collective ones that have come to their end
        self.failed = False  # whether the last fit ended in an error
        self.broken: str | None = None
        self.heartbeat: Heartbeat | None = None
        self.sent = 0  # bytes that this rank has given to sums and broadcasts, for benchmarks
        backend = "gloo" if group is None else str(dist.get_backend(group))
        self.device = torch.device("cuda", torch.cuda.current_device()) if backend == "nccl" else torch.device("cpu")

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which writes files and shows progress."""
        return self.rank == 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Watch over the others inside the block, and tell them if this rank fails in it.

        Raises:
            RankError: If another rank is gone or has failed.
        """
        if self.size == 1 or self.depth:
            yield
            return
        if self.failed and self.broken is None and not self._stopped_alike():
            self.broken = "one of them failed"
        if self.broken is not None:
            raise RankError(f"the processes lost each other in an earlier fit ({self.broken})", fix="start all anew")
        self.failed = False
        self.fits += 1
        self._wait(lambda: dist.barrier(group=self.group, async_op=True), ARRIVAL)
        self.heartbeat = Heartbeat(self.store, _prefix(self.fits), self.rank, self.size)
        self.depth += 1
        try:
            with self.heartbeat:
                try:
                    yield
                    self.barrier()
                except BaseException as error:
                    calls = self.calls if self.broken is None else -1  # one is still under way
                    self.heartbeat.tell(_line(error), calls, is_own=not isinstance(error, RankError))
                    self.failed = True
                    raise
        finally:
            self.depth -= 1
            self.heartbeat = None

    def _stopped_alike(self) -> bool:
        """Return whether all ranks have left the last fit by an error after the same calls, as by a wrong argument."""
        keys = [f"{_prefix(self.fits)}/stopped/{rank}" for rank in range(self.size)]
        until = time.monotonic() + ALIKE
        try:
            while not self.store.check(keys):
                if time.monotonic() > until:
                    return False
                time.sleep(0.05)
            return len({self.store.get(key) for key in keys}) == 1
        except RuntimeError:  # the store is gone with the others
            return False

    # --- collective calls

    def averaged(self, tensors: Sequence[Tensor], rows: int) -> list[Tensor]:
        """Average tensors over the ranks, each rank weighted by its rows.

        Args:
            tensors: Floating tensors, of the same shapes on all ranks.
            rows: Number of rows of which this rank's tensors are means.

        Returns:
            The averages, views of one new vector for each dtype.
        """
        result: list[Tensor] = [torch.empty(0)] * len(tensors)
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            own = [k for k, tensor in enumerate(tensors) if tensor.dtype == dtype]
            flat = torch.cat([*(tensors[k].reshape(-1) for k in own), tensors[own[0]].new_ones(1)])
            flat.mul_(rows)
            self.sum_(flat)
            parts = flat[:-1].div_(flat[-1]).split([tensors[k].numel() for k in own])
            for k, part in zip(own, parts, strict=True):
                result[k] = part.view(tensors[k].shape)
        return result

    def sum_(self, tensor: Tensor) -> Tensor:
        """Replace a tensor by its sum over the ranks.

        Args:
            tensor: The tensor, contiguous.

        Returns:
            The tensor.
        """
        self.sent += tensor.numel() * tensor.element_size()
        self._wait(lambda: dist.all_reduce(tensor, group=self.group, async_op=True))
        return tensor

    def share(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite tensors by those of rank 0, small ones of a dtype and device in one piece.

        Args:
            tensors: Tensors of the same shapes and dtypes on all ranks.
        """
        small: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
        for tensor in tensors:
            if tensor.numel() > LARGE and tensor.is_contiguous():
                self.share_from(tensor)
            elif tensor.numel():
                small.setdefault((tensor.dtype, tensor.device), []).append(tensor)
        for own in small.values():
            flat = torch.cat([tensor.reshape(-1) for tensor in own])
            self.share_from(flat)
            for tensor, part in zip(own, flat.split([tensor.numel() for tensor in own]), strict=True):
                tensor.copy_(part.view(tensor.shape))

    def share_from(self, tensor: Tensor, owner: int = 0) -> None:
        """Overwrite a tensor by that of one rank.

        Args:
            tensor: A contiguous tensor, of the same shape and dtype on all ranks.
            owner: The rank.
        """
        place = tensor.to(self.device)
        source = dist.get_global_rank(self.group, owner)
        if self.rank == owner:
            self.sent += tensor.numel() * tensor.element_size()
        self._wait(lambda: dist.broadcast(place, source, group=self.group, async_op=True))
        if place is not tensor:
            tensor.copy_(place)

    def sum_to(self, tensor: Tensor, owner: int) -> None:
        """Replace a tensor of one rank by its sum over the ranks; the others' are of no use afterwards.

        Args:
            tensor: A contiguous tensor, of the same shape and dtype on all ranks.
            owner: The rank.
        """
        target = dist.get_global_rank(self.group, owner)
        if self.rank != owner:
            self.sent += tensor.numel() * tensor.element_size()
        self._wait(lambda: dist.reduce(tensor, target, group=self.group, async_op=True))

    def share_generator(self, generator: torch.Generator, owner: int) -> None:
        """Let all ranks have the state of one rank's generator.

        Args:
            generator: The generator, on all ranks of the same device type.
            owner: The rank.
        """
        state = generator.get_state()
        self.share_from(state, owner)
        generator.set_state(state)

    def share_json(self, content: Any = None) -> Any:
        """Return what rank 0 gives, which JSON can hold."""
        return json.loads(self.share_bytes(json.dumps(content).encode() if self.is_first else b"").decode())

    def share_bytes(self, content: bytes = b"", owner: int = 0) -> bytes:
        """Return the bytes that one rank gives, by default rank 0."""
        size = torch.tensor([len(content)], dtype=torch.int64, device=self.device)
        self.share_from(size, owner)
        if not int(size):
            return b""
        room = torch.empty(int(size), dtype=torch.uint8)
        if self.rank == owner:
            room.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        self.share_from(room, owner)
        return room.numpy().tobytes()

    def gather_bytes(self, content: bytes) -> list[bytes]:
        """Return what each rank gives, on every rank."""
        sizes = self._gathered(torch.tensor([len(content)], dtype=torch.int64, device=self.device)).tolist()
        room = torch.zeros(max(1, *sizes), dtype=torch.uint8)
        if content:
            room[: len(content)].copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        parts = self._gathered(room.to(self.device)).cpu().view(self.size, -1)
        return [part[:size].numpy().tobytes() for part, size in zip(parts, sizes, strict=True)]

    def gather_json(self, content: Any) -> list[Any]:
        """Return what each rank gives, on every rank."""
        return [json.loads(part.decode()) for part in self.gather_bytes(json.dumps(content).encode())]

    def gathered(self, rows: Tensor, dim: int = 0) -> Tensor:
        """Join the rows of all ranks, of which each may have another number.

        Args:
            rows: The rows of this rank.
            dim: Dimension of the rows.

        Returns:
            All rows, in the order of the ranks.
        """
        own = rows.movedim(dim, 0).contiguous()
        counts = self._gathered(torch.tensor([len(own)], dtype=torch.int64, device=self.device)).tolist()
        room = own.new_zeros(max(counts), *own.shape[1:])
        room[: len(own)] = own
        parts = self._gathered(room).view(self.size, *room.shape)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)]).movedim(0, dim)

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.sum_(torch.ones(1, device=self.device))

    def first(self, work: Callable[[], ResultT]) -> ResultT | None:
        """Let rank 0 do something that may fail, such as reading a file.

        Args:
            work: What is to be done.

        Returns:
            Its result on rank 0, None on the others.

        Raises:
            R2D2NetError: On all ranks, if it fails on rank 0.
        """
        result, failure = None, None
        if self.is_first:
            try:
                result = work()
            except R2D2NetError as error:
                failure = error
        told = self.share_json(None if failure is None else [type(failure).__name__, str(failure)])
        if failure is not None:
            raise failure
        if told is not None:
            raise _error_named(told[0])(told[1])
        return result

    def _gathered(self, own: Tensor) -> Tensor:
        parts = own.new_empty(self.size * own.numel())
        pieces = list(parts.split(own.numel()))
        self._wait(lambda: dist.all_gather(pieces, own.reshape(-1), group=self.group, async_op=True))
        return parts

    def _wait(self, start: Callable[[], Any], most: float = math.inf) -> None:
        """Start a call of torch.distributed and wait for its end, looking now and then whether the others live."""
        work: Any = None
        begun = time.monotonic()
        while True:
            try:
                work = start() if work is None else work
                work.wait(PATIENCE)
                self.calls += 1
                return
            except RuntimeError as error:
                if work is not None and not work.is_completed():
                    lost = None if self.heartbeat is None else self.heartbeat.loss
                    if lost is None and time.monotonic() - begun < most:
                        continue
                    lost = lost or f"not all of {self.size} processes have come to this fit in {most:.0f} seconds"
                else:
                    lost = self._reason(error)
                self.broken = lost
                if work is not None and not work.is_completed():
                    atexit.register(_leave, work)
                raise RankError(lost, fix="start all processes anew; with resume the run goes on") from error

    def _reason(self, error: Exception) -> str:
        """Return what one knows of a connection that broke: more, if the heartbeat has noticed it too."""
        noticed = None if self.heartbeat is None else self.heartbeat.loss or self.heartbeat.note()
        where = str(error).splitlines()[0].split("] ", 1)[-1].split(". This is", 1)[0]
        return noticed or f"another process of this fit is gone (rank {self.rank} of {self.size} sees: {where})"


ALONE = Ranks()


def _prefix(fit: int) -> str:
    return f"r2d2net/{fit}"


def _leave(work: Any) -> None:
    """End a process whose call never ends, since the others are silent: torch would wait for it for ever."""
    until = time.monotonic() + LEAVING
    while not work.is_completed():
        if time.monotonic() > until:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)
        time.sleep(0.05)


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, R2D2NetError) else f"{type(error).__name__}: {text}".rstrip(": ")


def _error_named(name: str) -> type[R2D2NetError]:
    """Return the class of an error that another rank raised."""
    known: list[type[R2D2NetError]] = [R2D2NetError]
    for cls in known:
        known.extend(cls.__subclasses__())
    return next((cls for cls in known if cls.__name__ == name), R2D2NetError)
