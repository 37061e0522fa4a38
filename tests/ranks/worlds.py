"""Several processes on this machine as torchrun would start them, each running a piece of code."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from r2d2net.run.threads import one_thread

START = """
import hashlib, json, os, sys, warnings
import torch
from torch import nn
import r2d2net as rn
from r2d2net.inference.base import flatten
warnings.simplefilter("ignore")
torch.set_num_threads(1)
rank = int(os.environ.get("RANK", "0"))
told = {}

def bits(posterior):
    content = b"".join(t.contiguous().numpy().tobytes() for t in flatten(posterior.state).values())
    return hashlib.sha256(content).hexdigest()

def rows(n=240, columns=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, columns, generator=g)
    return x, x[:, 0] - 2 * x[:, 1] + 0.3 * torch.randn(n, generator=g)

def say(**content):
    print("SAID" + json.dumps(content), flush=True)
"""


class End(NamedTuple):
    """How a process ended."""

    code: int
    said: list[dict[str, Any]]
    errors: str

    @property
    def last_line(self) -> str:
        """The last line on standard error."""
        lines = self.errors.strip().splitlines()
        return lines[-1] if lines else ""


def free_port() -> int:
    """Return a port that nobody listens to."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def start(size: int, code: str, *, command: list[str] | None = None, **variables: str) -> list[subprocess.Popen[str]]:
    """Start processes that run the same code, or the same command of r2d2net."""
    port = free_port()
    words = [sys.executable, "-c", START + code] if command is None else [sys.executable, "-m", "r2d2net", *command]
    common = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **variables}
    world = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = []
    for rank in range(size):
        own = {**common, **world, "RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size)}
        if size == 1:
            own = common
        pipe = subprocess.PIPE
        processes.append(subprocess.Popen(words, env=own, stdout=pipe, stderr=pipe, text=True))
    return processes


def ends(processes: list[subprocess.Popen[str]], seconds: float = 400.0) -> list[End]:
    """Wait for the ends of processes."""
    result = []
    try:
        for process in processes:
            out, errors = process.communicate(timeout=seconds)
            said = [json.loads(line[4:]) for line in out.splitlines() if line.startswith("SAID")]
            result.append(End(process.returncode, said, errors))
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    return result


def run(size: int, code: str, **variables: str) -> list[dict[str, Any]]:
    """Run code in processes that must succeed; return the last thing that each has said."""
    result = ends(start(size, code, **variables))
    assert all(end.code == 0 for end in result), "\n".join(end.errors[-2000:] for end in result)
    return [end.said[-1] if end.said else {} for end in result]


def here(code: str) -> dict[str, Any]:
    """Run pieces of code in this process; return what they have told."""
    names: dict[str, Any] = {}
    with warnings.catch_warnings(), one_thread():
        exec(START.replace("torch.set_num_threads(1)", "") + code, names)
    return json.loads(json.dumps(names["told"]))  # type: ignore[no-any-return]


def stop_one(
    processes: list[subprocess.Popen[str]], rank: int, ready: Callable[[], bool], how: int = signal.SIGKILL
) -> tuple[list[End], float]:
    """Send one process a signal once something is so; return how the others end and after how many seconds."""
    until = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < until, "it was never ready"
        assert processes[rank].poll() is None, processes[rank].communicate()[1][-2000:]
        time.sleep(0.02)
    begun = time.monotonic()
    processes[rank].send_signal(how)
    others = ends([process for k, process in enumerate(processes) if k != rank])
    seconds = time.monotonic() - begun
    processes[rank].kill()
    processes[rank].communicate()
    return others, seconds


def there(file: Path) -> Callable[[], bool]:
    """Return a function that tells whether a file is there."""
    return file.exists
