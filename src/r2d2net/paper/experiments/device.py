"""Where the networks of the image experiments are trained: on a GPU where there is one.

The MLPs of the simulations and tables stay on the CPU, where steps as small as theirs take less time.
"""

from __future__ import annotations

import re
from multiprocessing import current_process

import torch


def device() -> torch.device:
    """This process's device; the workers of a grid, whose names end in their numbers, take the GPUs in turn."""
    count = torch.cuda.device_count()
    if count == 0:
        return torch.device("cpu")
    number = re.search(r"\d+$", current_process().name)
    return torch.device("cuda", int(number[0]) % count if number else 0)
