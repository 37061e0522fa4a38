"""Processes of a benchmark that fit together over the loopback device, one thread each."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence


def outputs_of_ranks(script: str, size: int, words: Sequence[str] = ()) -> list[str]:
    """Run a script as several ranks and wait for all of them.

    Args:
        script: Path of the script, which is called with ``--rank`` and the words.
        size: Number of processes.
        words: Further words of the call.

    Returns:
        What each has printed, by rank.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = []
    for rank in range(size):
        own = {"WORLD_SIZE": str(size), "RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        env = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **own}
        call = [sys.executable, script, "--rank", *words]
        processes.append(subprocess.Popen(call, env=env, stdout=subprocess.PIPE, text=True))
    return [process.communicate()[0] for process in processes]
