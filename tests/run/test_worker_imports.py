"""Processes that fit models import nothing that takes long and that they do not need."""

import subprocess
import sys

FIT = """
import sys
import torch
import r2d2net as rn
from r2d2net.run import several_runs, stacking

x, y = torch.randn(24, 2), torch.randn(24, 1)
for algorithm in ("mclmc", "lineargibbs", "svgi"):
    net = torch.nn.Linear(2, 1) if algorithm == "lineargibbs" else rn.nets.mlp(2, [4], linear=True)
    rn.fit(rn.BayesianModel(net), (x, y), algorithm=algorithm, epochs=3, verbose=False)
slow = {"sklearn", "scipy.stats", "pandas", "matplotlib", "torch._dynamo", "typer"} & sys.modules.keys()
assert not slow, slow
"""


def test_fits_import_little():
    """Each process pays for all imports: with scipy.stats they took twice as long."""
    done = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
