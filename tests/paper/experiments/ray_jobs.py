"""Jobs for the tests of the Ray backend: they see no folder but their own."""

import os
import signal
import sys

import torch


def work(settings, place):
    """Adds up the files it needs and leaves one; fails or dies where its settings say so."""
    print("said", settings["name"])
    print("warned", settings["name"], file=sys.stderr)
    assert torch.get_num_threads() == 1
    if settings.get("fails"):
        raise ValueError("two lines\nof trouble")
    if settings.get("dies"):
        os.kill(os.getpid(), signal.SIGKILL)
    found = [int(path.read_text()) for path in sorted(place.shared.iterdir())]
    (place.shared / settings["name"]).write_text(str(settings["seed"]))
    return {"value": settings["seed"] * 2, "found": found, "place": str(place.shared)}
