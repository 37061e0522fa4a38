"""CPU seconds of whole commands: `r2d2net --help`, `fit` of 400 rows of 10 columns, `predict` of 100 rows.

    python benchmarks/process_time.py [--rounds 5] [--out results/benchmarks/process-time.json]

User and system time of the process and its workers, the least of the rounds: what the machine does besides only adds to
it. Default settings and threads; the fit is also measured with `--algorithm svgi`, one network in place of several
models of two likelihoods. The seconds of `import torch` are shown for comparison.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from r2d2net.files import write_json
from r2d2net.provenance import provenance

FIT, FIT_ONE = "fit, 400 rows", "fit, 400 rows, --algorithm svgi"
LIMITS = {"r2d2net --help": 0.3, FIT: 5.0, FIT_ONE: 5.0, "predict, 100 rows": 3.0}  # CPU seconds
COMMAND = """
import sys
from r2d2net.cli import main
try:
    main()
finally:
    if "joblib" in sys.modules:  # its workers are waited for, so that their seconds count
        from joblib.externals.loky import get_reusable_executor
        get_reusable_executor().shutdown(wait=True)
"""


def write_table(path: Path, rows: int) -> None:
    """Write a table of ten columns of numbers and a target that depends on two of them."""
    rng = np.random.default_rng(rows)
    x = rng.normal(size=(rows, 10))
    y = 2 * x[:, 0] + np.sin(2 * x[:, 1]) + 0.3 * rng.normal(size=rows)
    lines = [",".join(f"{value:.5f}" for value in (*row, target)) for row, target in zip(x, y, strict=True)]
    path.write_text("\n".join([",".join([*(f"x{i}" for i in range(10)), "y"]), *lines]) + "\n")


def cpu_seconds(*arguments: str) -> float:
    """Run Python and return the CPU seconds of the process and of those that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def seconds(rounds: int) -> dict[str, float]:
    """Measure all processes."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        table, rows, run, one = (str(Path(folder) / name) for name in ("table.csv", "rows.csv", "run", "one"))
        write_table(Path(table), 400)
        write_table(Path(rows), 100)
        for _ in range(rounds):
            for old in (run, one):
                shutil.rmtree(old, ignore_errors=True)
            commands = {
                "import torch": ("-c", "import torch"),
                "r2d2net --help": ("-c", COMMAND, "--help"),
                FIT_ONE: ("-c", COMMAND, "fit", table, "--target", "y", "--out", one, "--algorithm", "svgi"),
                FIT: ("-c", COMMAND, "fit", table, "--target", "y", "--out", run),
                "predict, 100 rows": ("-c", COMMAND, "predict", run, rows, "-o", str(Path(folder) / "p.csv")),
            }
            for name, command in commands.items():
                found.setdefault(name, []).append(cpu_seconds(*command))
    return {name: min(values) for name, values in found.items()}


def rows(rounds: int = 5) -> Iterator[tuple[str, str, str, float, str, float, float | None]]:
    """Iterate over the figures as rows of `speed.py`."""
    for name, value in seconds(rounds).items():
        yield "process", name, "r2d2net", value, "CPU s", value, LIMITS.get(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = seconds(options.rounds)
    print(json.dumps(found, indent=2))
    if options.out is not None:
        write_json(options.out, {"cpu_seconds": found, "limits": LIMITS, **provenance({"rounds": options.rounds})})


if __name__ == "__main__":
    main()
