"""One writer of a folder at a time: the second gets one line, what a killed one left is taken over."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from r2d2net import folder_lock
from r2d2net.errors import CheckpointError
from r2d2net.folder_lock import NAME, FolderInUseError, require_free, writing

HOLD = "import sys, time; from pathlib import Path; from r2d2net.folder_lock import writing\n"
HOLD += "with writing(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)"


@pytest.fixture
def owner(tmp_path):
    """A process that holds the folder."""
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        yield child
        child.kill()


def test_a_second_process_gets_one_line_and_a_dead_owner_is_succeeded(tmp_path, owner):
    message = rf"is being written to by process {owner.pid} on \S+: wait until it ends, or give another folder"
    for refused in (writing(tmp_path).__enter__, lambda: require_free(tmp_path)):
        with pytest.raises(FolderInUseError, match=message) as error:
            refused()
        assert "\n" not in str(error.value)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert (tmp_path / NAME).exists()
    with writing(tmp_path):
        assert json.loads((tmp_path / NAME).read_text())["pid"] == os.getpid()
    assert not (tmp_path / NAME).exists()
    require_free(tmp_path)


def test_a_thread_may_lock_again_and_another_may_not(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_lock, "SECONDS", 0.1)
    raised = []

    def other():
        try:
            with writing(tmp_path):
                pass
        except CheckpointError as error:
            raised.append(str(error))

    with writing(tmp_path):
        with writing(tmp_path / ".." / tmp_path.name):
            pass
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert (tmp_path / NAME).exists()
    assert raised == [f"{tmp_path} is being written to by another thread: wait until it ends, or give another folder"]


def test_children_do_not_inherit_the_lock(tmp_path):
    """A fork sleeps on after its parent is killed: the folder is free all the same."""
    script = "import os, sys, time; from pathlib import Path; from r2d2net.folder_lock import writing\n"
    script += "with writing(Path(sys.argv[1])):\n    child = os.fork()\n    if child: print(child, flush=True)\n"
    script += "    time.sleep(30)"
    with subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    try:
        with writing(tmp_path):
            os.kill(child, 0)  # it is alive
    finally:
        os.kill(child, signal.SIGKILL)


def count_up(folder, times):
    for _ in range(times):
        while True:
            try:
                with writing(folder):
                    count = int((folder / "count").read_text())
                    time.sleep(0.001)
                    (folder / "count").write_text(str(count + 1))
                break
            except FolderInUseError:
                continue


def test_of_many_writers_none_is_lost(tmp_path):
    """Four processes add to a number that is read and written apart; the file of the lock comes and goes meanwhile."""
    (tmp_path / "count").write_text("0")
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=count_up, args=(tmp_path, 25)) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert (tmp_path / "count").read_text() == "100"
    assert not (tmp_path / NAME).exists()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="could not be written"), writing(tmp_path / "file"):
        pass
