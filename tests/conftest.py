"""Tests run side by side in several processes: one torch thread each, and never the global random state.

Where R2D2NET_DATA names real data, the catalogue file of their re-packed copies is the one that stands with the tests.
"""

import os
from pathlib import Path

import torch

torch.set_num_threads(1)
if os.environ.get("R2D2NET_DATA"):
    os.environ.setdefault("R2D2NET_DATA_CATALOGUE", str(Path(__file__).parent / "data" / "shared_copies.toml"))
