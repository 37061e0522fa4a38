"""Processes that end with their parent: a resumed run must find nobody writing to its folder."""

from __future__ import annotations

import os
import threading
import time
from functools import cache

SECONDS = 0.2  # between two looks at whether the parent lives


@cache
def end_with(parent: int) -> None:
    """End this process soon after its parent; does nothing where the system has no such notion."""
    if os.name != "posix":
        return
    direct = os.getppid()  # it differs from ``parent`` if that is dead already, or behind a wrapper

    def watch() -> None:
        while os.getppid() == direct and _lives(parent):
            time.sleep(SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
