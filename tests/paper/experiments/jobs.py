"""Jobs for the tests of pools and grids: functions of a module, as other processes need them."""

import os
import signal
import sys
import time

import torch


def work(settings, place):
    """Counts its own calls in the shared folder; fails, dies or waits where its settings say so."""
    calls = place.shared / settings["name"]
    calls.write_text(calls.read_text() + "." if calls.exists() else ".")
    print("said", settings["name"])
    print("warned", settings["name"], file=sys.stderr)
    assert torch.get_num_threads() == 1
    if settings.get("fails"):
        raise ValueError("two lines\nof trouble")
    if settings.get("dies") and len(calls.read_text()) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if settings.get("waits") and not (place.shared / "go").exists():
        (place.run / "begun").touch()
        time.sleep(600)
    return {"value": settings["seed"] * 2}
