"""Many kills: 200 for each algorithm, and fits with several processes; no run ends differently."""

import random
import subprocess
import sys
import time

import pytest
import torch

import killed_runs
from r2d2net import checkpoint

KILLS, JOB_KILLS = 200, 40
JOBS = """
import sys, torch, r2d2net as rn
from torch import nn
torch.set_num_threads(1)
x = torch.randn(60, 2, generator=torch.Generator().manual_seed(1))
net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Dropout(0.1), nn.Linear(3, 1))
print("ready", flush=True)
rn.fit(rn.BayesianModel(net), (x, 3 * x[:, 0]), epochs=30, restarts=3, jobs=2, checkpoint_every=0.05, verbose=False,
       resume=sys.argv[1])
"""


def contents(folder):
    tensors, header = checkpoint.read(folder / "posterior.safetensors")
    kept = {name: header[name] for name in ("settings", "history", "candidates", "seed")}
    return {k: v.view(-1).view(torch.uint8).tolist() for k, v in tensors.items()}, kept


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", killed_runs.ALGORITHMS)
def test_two_hundred_kills_of_each_algorithm(tmp_path, algorithm):
    cases = killed_runs.cases(algorithm)
    kills = -(-KILLS // len(cases))
    command = [sys.executable, killed_runs.__file__, "often", tmp_path, algorithm, str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=7200, check=False)
    assert done.returncode == 0, done.stderr
    runs = 0
    for case in cases:
        alone = contents(tmp_path / case / "alone")
        for folder in sorted((tmp_path / case).glob("killed*")):
            assert contents(folder) == alone, folder
            assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "posterior.safetensors"]
            runs += 1
    print(f"{algorithm}: {kills * len(cases)} kills, {runs} runs, 0 differing\n{done.stdout}")


def kill_often(folder, kills, seed):
    """Kill a fit with two processes at random moments until so many kills are done; return the finished runs."""
    draw, runs, done = random.Random(seed), [], 0
    place = folder / "run-0"
    while True:
        with subprocess.Popen([sys.executable, "-c", JOBS, place], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            if done < kills:
                time.sleep(draw.uniform(0, 12))
                child.kill()
        if child.returncode == -9:
            done += 1
            continue
        assert child.returncode == 0
        runs.append(place)
        place = folder / f"run-{len(runs)}"
        if done >= kills:
            return runs, done


@pytest.mark.slow
def test_fits_with_several_processes_end_alike_after_kills(tmp_path):
    subprocess.run([sys.executable, "-c", JOBS, tmp_path / "alone"], check=True, capture_output=True)
    runs, kills = kill_often(tmp_path, JOB_KILLS, 1)
    alone = contents(tmp_path / "alone")
    for run in runs:
        assert contents(run) == alone, run
        assert sorted(path.name for path in run.iterdir()) == ["manifest.json", "posterior.safetensors"]
    print(f"{kills} kills with two processes, {len(runs)} runs, 0 differing")
