"""Two "hosts" with addresses of their own, as network namespaces of Linux, of which one is cut off in the middle."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import pytest
import worlds
from test_fit_on_ranks import KILLED

pytestmark = pytest.mark.slow


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def hosts() -> Iterator[list[str]]:
    """Two namespaces that a pair of virtual cards connects: 10.77.0.1 and 10.77.0.2."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need `ip` and root")
    mark = uuid.uuid4().hex[:6]
    names = [f"r{mark}{k}" for k in (0, 1)]
    try:
        for name in names:
            ip("netns", "add", name)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
    try:
        ip(
            "link",
            "add",
            f"v{mark}0",
            "netns",
            names[0],
            "type",
            "veth",
            "peer",
            "name",
            f"v{mark}1",
            "netns",
            names[1],
        )
        for k, name in enumerate(names):
            ip("-n", name, "addr", "add", f"10.77.0.{k + 1}/24", "dev", f"v{mark}{k}")
            ip("-n", name, "link", "set", f"v{mark}{k}", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield [*names, mark]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def test_a_host_that_is_cut_off_ends_both_clearly_and_loses_nothing(hosts, tmp_path) -> None:
    *names, mark = hosts
    place = tmp_path / "run"
    port = str(worlds.free_port())
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    processes = []
    for rank, name in enumerate(names):
        own = {"RANK": str(rank), "GLOO_SOCKET_IFNAME": f"v{mark}{rank}", "PLACE": str(place / str(rank))}
        env = {**os.environ, **world, **own, "EPOCHS": "100000"}
        words = ["ip", "netns", "exec", name, sys.executable, "-c", worlds.START + KILLED]
        pipe = subprocess.PIPE
        processes.append(subprocess.Popen(words, env=env, stdout=pipe, stderr=pipe, text=True))
    checkpoint = place / "0" / "checkpoint.safetensors"
    until = time.monotonic() + 120
    while not checkpoint.exists():
        assert time.monotonic() < until
        assert all(process.poll() is None for process in processes)
        time.sleep(0.05)
    ip("-n", names[1], "link", "set", f"v{mark}1", "down")
    begun = time.monotonic()
    both = worlds.ends(processes)
    assert time.monotonic() - begun < 40
    assert all(end.code == 1 for end in both)
    assert "rank 1 of 2 is gone: no sign of life for 20 seconds" in both[0].last_line
    assert "cut off" in both[1].last_line or "gone" in both[1].last_line or "not answer" in both[1].last_line
    (alone,) = worlds.run(1, KILLED, PLACE=str(tmp_path / "new"), EPOCHS="2")
    assert alone["bits"]
    assert checkpoint.exists()  # whole: it is written under another name first
    assert not (place / "1").exists()  # rank 1 writes nothing
