"""Signs of life of the processes of a fit, and the end of this one where the others are lost.

Each rank counts up in the store once a second. Rank 0 looks at the counters of all, the others at that of rank 0 and at
the notes of losses and failures, so that a rank costs the store the same however many there are. A counter that stands
still for `SILENCE` seconds is of a rank that is gone or cut off, and so is a store that does not answer.

A process whose main thread waits for the others notices by itself (`group.Ranks`). One that is busy, or in a call that
does not return, is ended here with one line on standard error.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any, Self

EVERY = 1.0  # seconds between two signs
SILENCE = 20.0  # seconds after which a rank counts as gone
GRACE = 4.0  # seconds in which the main thread may notice a loss by itself
EXIT = 1  # the code with which a process ends


class Heartbeat:
    """The signs of life during one fit.

    Args:
        store: Store of the process group.
        prefix: Start of the keys of this fit.
        rank: Number of this process.
        size: Number of processes.
    """

    def __init__(self, store: Any, prefix: str, rank: int, size: int) -> None:
        self.store, self.prefix, self.rank, self.size = store, prefix, rank, size
        self.loss: str | None = None  # what happened to the others, in words
        self._ended = threading.Event()
        self._answered = time.monotonic()  # when the store last answered
        self._watched = [other for other in range(size) if other != rank] if rank == 0 else [0]
        self._seen: dict[int, tuple[int, float]] = {}

    def __enter__(self) -> Self:
        self._beat(0)  # so that the keys are there before anyone looks for them
        now = time.monotonic()
        self._seen = dict.fromkeys(self._watched, (-1, now))
        for work in (self._beat_on, self._watch):
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()

    def tell(self, failure: str, calls: int, *, is_own: bool) -> None:
        """Leave a note that this rank has left the fit, after so many collective calls, and why if that is its own."""
        try:
            self.store.set(f"{self.prefix}/stopped/{self.rank}", str(calls))
            if is_own:
                self.store.set(f"{self.prefix}/failed", f"rank {self.rank} failed: {failure}")
        except RuntimeError:  # the store is gone with the others
            return

    def note(self) -> str | None:
        """Return what another rank has left word of."""
        try:
            for key in (f"{self.prefix}/failed", f"{self.prefix}/lost"):
                if self.store.check([key]):
                    return str(self.store.get(key).decode())
        except RuntimeError:  # the store is gone with the others
            pass
        return None

    def _beat(self, number: int) -> None:
        self.store.set(f"{self.prefix}/beat/{self.rank}", str(number))
        self._answered = time.monotonic()

    def _beat_on(self) -> None:
        number = 0
        while not self._ended.wait(EVERY):
            number += 1
            try:
                self._beat(number)
                self.loss = self.loss or self.note()
                self._look()
            except RuntimeError as error:
                reason = str(error).splitlines()[0]
                self.loss = self.loss or f"the store of the processes does not answer rank {self.rank} ({reason})"
            if self.loss is not None:
                return

    def _look(self) -> None:
        now = time.monotonic()
        for other in self._watched:
            key = f"{self.prefix}/beat/{other}"
            if self.store.check([key]):
                number = int(self.store.get(key))
                if number != self._seen[other][0]:
                    self._seen[other] = number, now
            self._answered = time.monotonic()
            if now - self._seen[other][1] > SILENCE:
                self.loss = f"rank {other} of {self.size} is gone: no sign of life for {SILENCE:.0f} seconds"
                self.store.set(f"{self.prefix}/lost", self.loss)
                return

    def _watch(self) -> None:
        """End the process if the others are lost and its main thread does not notice."""
        noticed: float | None = None
        while not self._ended.wait(0.25):
            now = time.monotonic()
            if self.loss is None and now - self._answered > SILENCE:
                self.loss = f"rank {self.rank} of {self.size} is cut off: no answer for {SILENCE:.0f} seconds"
            if self.loss is not None:
                noticed = now if noticed is None else noticed
                if now - noticed > GRACE:
                    print(f"error: {self.loss}", file=sys.stderr, flush=True)
                    os._exit(EXIT)
