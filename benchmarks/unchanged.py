"""Whether a change of the code changed the errors of fits: the same seeds at another revision and here.

    python benchmarks/unchanged.py REV [--quick] [--seeds 10] [--only "sparse linear" ...] [--out FILE]

REV is checked out into a temporary worktree of git, and each problem is fitted there and here, each in a process of
its own. All fits have the default settings of SVGI:

    sparse linear   200 inputs of which 10 matter, 500 rows, noise 1; test MSE
    scenario 2      the paper's, two hidden layers, 8,000 rows; test MSE
    energy, yacht   UCI, 50 ReLU units, one split a seed; test RMSE
    LeNet           2,000 images of MNIST, 4 epochs; error rate of 2,000 test images

Printed are both means, the mean of the paired differences here - REV with its standard error, and how many fits are
equal to the bit. A difference beyond 3 standard errors is marked; by chance one problem in 370 is (Student's law makes
it more for few seeds). Energy, yacht and LeNet need the data sets (`r2d2net data`, R2D2NET_DATA).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parents[1]
OUT = HERE / "results" / "benchmarks" / "unchanged.json"


def sparse_linear(seed: int, share: float) -> float:
    import r2d2net as rn

    g = torch.Generator().manual_seed(seed)
    x, weights = torch.randn(2500, 200, generator=g), torch.zeros(200)
    weights[:10] = torch.randn(10, generator=g)
    y = x @ weights + torch.randn(2500, generator=g)
    model = rn.BayesianModel(torch.nn.Linear(200, 1), rn.priors.R2D2())
    epochs = max(1, int(300 * share))
    posterior = rn.fit(model, (x[:500], y[:500]), epochs=epochs, batch_size=100, seed=seed, verbose=False)
    return float(rn.metrics.mse(y[500:], posterior.predict(x[500:]).mean))


def scenario_2(seed: int, share: float) -> float:
    import r2d2net as rn

    rows = rn.data.simulate(2, seed=seed)
    torch.manual_seed(seed)
    model = rn.BayesianModel(rn.nets.paper_mlp(rows.x.shape[1], 2), rn.priors.R2D2())
    epochs = max(1, int(100 * share))
    data = rows.x[:8000], rows.y[:8000]
    posterior = rn.fit(model, data, epochs=epochs, batch_size=1024, seed=seed, verbose=False)
    return float(rn.metrics.mse(rows.y[8000:], posterior.predict(rows.x[8000:]).mean))


def uci(name: str, seed: int, share: float) -> float:
    import r2d2net as rn

    table: Any = rn.data.load(name)
    (x, y), (x_test, y_test) = table.split(seed)
    torch.manual_seed(seed)
    model = rn.BayesianModel(rn.nets.mlp(x.shape[1], [50], 1), rn.priors.R2D2())
    epochs = max(1, int(3000 * share) // -(-len(y) // 64))
    posterior = rn.fit(model, (x, y.squeeze(-1)), epochs=epochs, batch_size=64, seed=seed, verbose=False)
    return float(rn.metrics.rmse(y_test.squeeze(-1), posterior.predict(x_test).mean))


def lenet(seed: int, share: float) -> float:
    import r2d2net as rn

    size = max(100, int(2000 * share))
    train, test = (rn.data.load("mnist", split=split) for split in ("train", "test"))
    chosen = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))[:size]
    torch.manual_seed(seed)
    net = rn.nets.LeNet(1, 10, train.images.shape[-1])
    model = rn.BayesianModel(net, rn.priors.R2D2(), rn.likelihoods.Categorical())
    data = train.images[chosen].float() / 255, train.labels[chosen]
    posterior = rn.fit(model, data, epochs=4, batch_size=64, seed=seed, verbose=False)
    found = posterior.predict(test.images[:size].float() / 255, 20).probs.argmax(-1)
    return float((found != test.labels[:size]).double().mean())


PROBLEMS: dict[str, Callable[[int, float], float]] = {
    "sparse linear": sparse_linear,
    "scenario 2": scenario_2,
    "energy": lambda seed, share: uci("energy", seed, share),
    "yacht": lambda seed, share: uci("yacht", seed, share),
    "LeNet": lenet,
}


def child(problem: str, seeds: int, share: float) -> None:
    """Print the error and the CPU seconds of the fits of one problem."""
    torch.set_num_threads(1)
    start = time.process_time()
    errors = [PROBLEMS[problem](seed, share) for seed in range(seeds)]
    print(json.dumps({"errors": errors, "seconds": (time.process_time() - start) / seeds}))


def fitted(root: Path, problem: str, seeds: int, share: float) -> dict[str, Any]:
    """Fit a problem in a process that imports r2d2net from ``root``."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child", problem, str(seeds), str(share)]
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def compared(before: list[float], after: list[float]) -> dict[str, Any]:
    """Compute means, the paired difference and its standard error.

    >>> compared([1.0, 2.0], [1.0, 2.5])["difference"]
    0.25
    """
    differences = [new - old for old, new in zip(before, after, strict=True)]
    spread = statistics.stdev(differences) if len(differences) > 1 else math.nan
    return {
        "before": statistics.mean(before),
        "after": statistics.mean(after),
        "difference": statistics.mean(differences),
        "standard_error": spread / math.sqrt(len(differences)),
        "equal": sum(difference == 0 for difference in differences),
        "seeds": len(differences),
    }


def _git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(HERE), *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def compare(revision: str, problems: list[str], seeds: int, share: float) -> dict[str, Any]:
    """Fit all problems at the revision and here."""
    commit = _git("rev-parse", "--verify", f"{revision}^{{commit}}").strip()
    changed = bool(_git("status", "--porcelain", "--", "src").strip())
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "before"
        _git("worktree", "add", "--quiet", "--detach", str(there), commit)
        try:
            for problem in problems:
                runs = [fitted(root, problem, seeds, share) for root in (there, HERE)]
                before, after = (run["errors"] for run in runs)
                times = [run["seconds"] for run in runs]
                summary = compared(before, after)
                results[problem] = {**summary, "cpu_seconds": times, "errors": {"before": before, "after": after}}
                far = abs(summary["difference"]) > 3 * summary["standard_error"] and summary["equal"] < seeds
                print(
                    f"{problem}: {summary['before']:.4g} before, {summary['after']:.4g} after; difference "
                    f"{summary['difference']:.2g} ± {summary['standard_error']:.2g}, {summary['equal']} of {seeds} "
                    f"equal to the bit; CPU {times[0]:.1f} and {times[1]:.1f} s{'   <-- CHANGED' if far else ''}",
                    flush=True,
                )
        finally:
            _git("worktree", "remove", "--force", str(there))
    here = _git("rev-parse", "HEAD").strip() + (" and uncommitted changes" if changed else "")
    return {"before": commit, "after": here, "share_of_steps": share, "problems": results}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", nargs="?", help="the revision to compare with, such as HEAD~3")
    parser.add_argument("--quick", action="store_true", help="two seeds and a tenth of the steps; nothing is written")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        problem, count, share = options.child
        child(problem, int(count), float(share))
        return
    if options.revision is None:
        parser.error("give the revision to compare with, such as HEAD~3")
    seeds = 2 if options.quick else options.seeds
    result = compare(options.revision, options.only, seeds, 0.1 if options.quick else 1.0)
    if options.quick:
        return
    # earlier comparisons stay: what the documentation cites must remain there
    content = json.loads(options.out.read_text()) if options.out.exists() else {"comparisons": []}
    kept = [entry for entry in content["comparisons"] if entry["before"] != result["before"]]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"comparisons": [*kept, result]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
