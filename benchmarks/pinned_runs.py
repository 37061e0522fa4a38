"""Fits of fixed seeds, each as a digest of its predictions: refactoring must not change a bit of them.

    python benchmarks/pinned_runs.py --out before.json      # at one commit
    python benchmarks/pinned_runs.py --against before.json  # at another, same machine; exit code 1 if any differs

Digests are not committed: the last bit of a product depends on the processor and on torch's version.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import r2d2net as rn

Run = Callable[[], list[Any]]


def regression_rows(n: int = 160, columns: int = 6) -> tuple[Tensor, Tensor]:
    """Simulate a table whose target depends on two of its columns."""
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(n, columns, generator=generator)
    return x, 3 * torch.sin(x[:, 0]) + x[:, 1] + 0.3 * torch.randn(n, generator=generator)


def class_rows(n: int = 160) -> tuple[Tensor, Tensor]:
    """Simulate a table with three classes that depend on two of its columns."""
    x, _ = regression_rows(n)
    return x, (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()


def perceptron(outputs: int = 1) -> nn.Module:
    torch.manual_seed(5)
    return rn.nets.mlp(6, (12,), outputs)


def network(algorithm: Any, own_prior: Any = None, *, classes: bool = False, **settings: Any) -> Run:
    """Make a run that fits a perceptron and returns its outputs at twenty draws and its history."""

    def run() -> list[Any]:
        likelihood = rn.likelihoods.Categorical() if classes else rn.likelihoods.Gaussian()
        chosen = rn.priors.R2D2() if own_prior is None else own_prior
        model = rn.BayesianModel(perceptron(3 if classes else 1), prior=chosen, likelihood=likelihood)
        x, y = class_rows() if classes else regression_rows()
        options = {"epochs": 12, "seed": 3, "jobs": 1, "verbose": False, **settings}
        posterior = rn.fit(model, (x, y), algorithm, **options)
        with tempfile.TemporaryDirectory() as folder:
            posterior.save(folder)
            loaded = rn.load(folder, perceptron(3 if classes else 1))
            again = loaded.outputs(x, 20)
        history = [[value for _, value in sorted(entry.items())] for entry in posterior.history]
        return [posterior.outputs(x, 20), again, posterior.sample(3, seed=1), history, posterior.candidates]

    return run


def estimator(kind: str) -> list[Any]:
    """Fit an estimator to columns that float32 cannot represent."""
    x, y = (part.double().numpy() for part in (regression_rows() if kind == "regressor" else class_rows()))
    x[:, 2] += 1e6
    if kind == "regressor":
        fitted = rn.R2D2Regressor(hidden=(10,), epochs=10, random_state=0).fit(x, y + 1e6)
        return [fitted.predict(x), *fitted.predict(x, return_std=True)]
    classifier = rn.R2D2Classifier(hidden=(10,), epochs=10, random_state=0).fit(x, y.astype(int))
    return [classifier.predict_proba(x), classifier.relevance_.importance.double().numpy()]


def command_line(*options: str) -> list[Any]:
    """Fit a table by the command line and return the predictions that `fit` and `predict` write."""
    x, y = regression_rows()
    with tempfile.TemporaryDirectory() as folder:
        table, run, predictions = Path(folder) / "t.csv", Path(folder) / "run", Path(folder) / "p.csv"
        kinds = np.array(["red", "green", "blue"])[(x[:, 5] > 0).long() + (x[:, 4] > 0).long()]
        rows = [f"{','.join(f'{v:.4f}' for v in r)},{k},{t:.4f}" for r, k, t in zip(x, kinds, y, strict=True)]
        table.write_text("\n".join(["a,b,c,d,e,f,kind,y", *rows]) + "\n", encoding="utf-8")
        base = [sys.executable, "-c", "from r2d2net.cli import main; main()"]
        fit = ["fit", str(table), "--target", "y", "--out", str(run), "--epochs", "10", "--seed", "1", *options]
        for command in (fit, ["predict", str(run), str(table), "-o", str(predictions)]):
            subprocess.run([*base, *command], check=True, capture_output=True)
        return [predictions.read_text("utf-8"), (run / "test_predictions.csv").read_text("utf-8")]


def runs() -> dict[str, Run]:
    """List all pinned runs by name."""
    inference, priors = rn.inference, rn.priors
    return {
        "svgi-r2d2": network("svgi"),
        "svgi-r2d2-validation": network("svgi", validation=0.2, patience=3),
        "svgi-horseshoe-local": network(inference.SVGI(estimator="local"), priors.Horseshoe()),
        "svgi-scaled-classes": network(inference.SVGI(variance="scaled"), classes=True),
        "svgi-adaptive": network("svgi", priors.R2D2.adaptive()),
        "svgi-restarts": network("svgi", validation=0.2, restarts=2),
        "svgi-auto-prior": network("svgi", prior="auto", validation=0.2),
        "cavi-r2d2-classes": network("cavi", classes=True),
        "cavi-dirichlet-laplace": network("cavi", priors.DirichletLaplace()),
        "svi-spike-slab": network("svi", priors.SpikeSlab()),
        "mfvi-gaussian": network("mfvi", priors.Gaussian()),
        "radial-r2d2": network("radial"),
        "map-gaussian": network("map", priors.Gaussian()),
        "mcdropout-gaussian": network("mcdropout", priors.Gaussian()),
        "deepensemble": network(inference.DeepEnsemble(members=2), priors.Gaussian()),
        "edl": network("edl", priors.Gaussian(), classes=True),
        "dpn": network("dpn", priors.Gaussian(), classes=True),
        "sgld-r2d2": network(inference.SGLD(chains=2), epochs=60),
        "sghmc-horseshoe": network("sghmc", priors.Horseshoe(), epochs=60),
        "hmc-r2d2": network(inference.HMC(), epochs=40),
        "regressor-float64-columns": lambda: estimator("regressor"),
        "classifier-float64-columns": lambda: estimator("classifier"),
        "command-line": lambda: command_line(),
    }


def digest(results: list[Any]) -> str:
    """Compute a digest of the exact bits of arrays, texts and numbers."""
    made = hashlib.sha256()
    for result in results:
        if isinstance(result, Tensor):
            made.update(result.detach().contiguous().numpy().tobytes())
        elif isinstance(result, np.ndarray):
            made.update(np.ascontiguousarray(result).tobytes())
        else:
            made.update(json.dumps(result).encode())
    return made.hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="file for the digests")
    parser.add_argument("--against", type=Path, help="file of digests to compare with")
    parser.add_argument("--only", default="", help="runs whose name has this in it")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    known = json.loads(arguments.against.read_text("utf-8")) if arguments.against else {}
    digests: dict[str, str] = {}
    differing = []
    for name, run in runs().items():
        if arguments.only not in name:
            continue
        digests[name] = digest(run())
        same = name not in known or known[name] == digests[name]
        if not same:
            differing.append(name)
        print(f"{name:<28}{digests[name]}{'' if same else '  differs'}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
    if differing:
        sys.exit(f"{len(differing)} of {len(digests)} runs differ: {', '.join(differing)}")


if __name__ == "__main__":
    main()
