"""Two fits to one folder at the same time: one run is there in the end, whole, and the other gets one line."""

import json
import random
import subprocess
import sys
import time

import pytest

from r2d2net.folder_lock import NAME
from table_runs import command, make_table

PAIRS = 100
KINDS = ([], ["--overwrite"])


def race(folder, data, draw):
    """Start two fits with different seeds, one a little later, and return what they ended with."""
    common = [*("--target", "price", "--hidden", "2", "--epochs", "2", "--draws", "5"), "--no-baselines", "--quiet"]
    writers = []
    for seed in (1, 2):
        words = [sys.executable, "-m", "r2d2net", "fit", data, *common, "--seed", str(seed), "--out", folder]
        writers.append(subprocess.Popen([*words, *draw.choice(KINDS)], stderr=subprocess.PIPE, text=True))
        time.sleep(draw.choice([0, draw.uniform(0, 0.5), draw.uniform(0, 6)]))
    ends = []
    for seed, writer in zip((1, 2), writers, strict=True):
        error = writer.communicate(timeout=600)[1]
        ends.append((seed, writer.returncode, error))
    return ends


def require_one_run(folder, data, ends):
    done = [seed for seed, code, _ in ends if code == 0]
    assert done, ends
    for _, code, error in ends:
        assert code in (0, 2), ends
        assert len(error.splitlines()) == (code == 2), error
        if code == 2:
            assert "is being written to by" in error or "holds a run" in error, error
    run = json.loads((folder / "run.json").read_text())
    assert run["state"] == "finished"
    assert run["seed"] in done
    model = json.loads((folder / "model" / "estimator.json").read_text())
    assert model["parameters"]["random_state"] == run["seed"]
    ended = command("predict", folder, data, "--quiet")
    assert ended.code == 0, ended.error
    names = {path.name for path in folder.iterdir()}
    assert NAME not in names
    assert not [name for name in names if name.endswith((".partial", ".staged"))]
    return len(done)


def run_pairs(tmp_path, pairs, seed):
    make_table(60).to_csv(tmp_path / "data.csv", index=False)
    draw, both = random.Random(seed), 0
    for pair in range(pairs):
        folder = tmp_path / f"run{pair}"
        both += require_one_run(folder, tmp_path / "data.csv", race(folder, tmp_path / "data.csv", draw)) == 2
    print(f"{pairs} pairs: {pairs - both} with one refused, {both} one after the other")


@pytest.mark.slow
def test_a_hundred_pairs_of_fits_to_one_folder(tmp_path):
    run_pairs(tmp_path, PAIRS, 2)
