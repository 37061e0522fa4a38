"""The Friedman data of "Dirichlet scale mixture priors for Bayesian neural networks": ours beside NUTS.

    python benchmarks/dirichlet_friedman.py [--seeds 3] [--rows 100 200 500] [--nuts 40]

Arnstad, Rønneberg and Storvik (2026, arXiv 2602.19859) fit one hidden layer of 16 tanh units by NUTS in Stan. The
setting is that of their public code: N = 100, 200 and 500 rows of 10 uniform inputs, a fifth of them for the test,

    y = 10 sin(pi x1 x2) + 20 (x3 - 1/2)^2 + 10 x4 + 5 x5 + N(0, 1),

1,000 transitions of warm-up and 1,000 kept in a chain. Measured here, on 1,000 fresh test
rows: RMSE of y (1 is the floor) and of the noiseless function, coverage of 90% intervals, inputs found by
`rn.shrinkage.select(..., fdr=0.1)` and by `kept`, CPU seconds.

    auto       R2D2Regressor() as it is: linear models and networks, stacked
    MCLMC      R2D2 prior, the paper's network
    SVGI       R2D2 prior, the paper's network
    NUTS       the same model by pyro's NUTS (`inference.HMC`), one chain of a few transitions on 100 rows: its seconds
               are those of a transition times 2,000, for one chain of four; its accuracy is not judged
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch

import r2d2net as rn
from r2d2net.files import write_json
from r2d2net.provenance import provenance

FILE = "dirichlet-friedman.json"
WAYS = ("auto", "MCLMC", "SVGI")
INPUTS, UNITS, NOISE, TEST = 10, 16, 1.0, 1000
TRANSITIONS = 2000  # of a chain of the paper's: warm-up and kept
TRUE = {0, 1, 2, 3, 4}
Row = dict[str, Any]


def friedman(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw inputs, targets and the noiseless function."""
    x = rng.uniform(size=(rows, INPUTS))
    f = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, f + NOISE * rng.standard_normal(rows), f


def network() -> rn.BayesianModel:
    """Build the paper's network with the R2D2 prior."""
    torch.manual_seed(0)
    return rn.BayesianModel(rn.nets.mlp(INPUTS, [UNITS], 1, activation="tanh"), rn.priors.R2D2())


def cell(way: str, rows: int, seed: int) -> Row:
    """Fit one way to one table."""
    rng = np.random.default_rng(1000 * rows + seed)
    train = rows - rows // 5  # a fifth is for the test
    x, y, _ = friedman(train, rng)
    x_new, y_new, f_new = friedman(TEST, rng)
    start = time.process_time()
    if way == "auto":
        model = rn.R2D2Regressor(random_state=seed, n_jobs=1).fit(x, y)
        mean, _ = model.predict(x_new, return_std=True)
        ends = np.stack(model.predict_interval(x_new, 0.9))
        posterior = model.posterior_
    else:
        data = torch.from_numpy(x).float(), torch.from_numpy(y).float()
        posterior = rn.fit(network(), data, way.lower(), seed=seed, verbose=False)
        predicted = posterior.predict(x_new, 400)
        mean, ends = predicted.mean.numpy(), torch.stack(predicted.interval(0.9)).numpy()
    seconds = time.process_time() - start
    kept = set(rn.shrinkage.input_relevance(posterior, x).kept.nonzero().flatten().tolist())
    start = time.process_time()
    selected = set(rn.shrinkage.select(posterior, x, y.astype(np.float32), seed=seed).indices)
    return {
        "way": way,
        "rows": rows,
        "seed": seed,
        "rmse": float(np.sqrt(np.mean((mean - y_new) ** 2))),
        "rmse_f": float(np.sqrt(np.mean((mean - f_new) ** 2))),
        "coverage": float(((ends[0] <= y_new) & (y_new <= ends[1])).mean()),
        "kept_true": len(kept & TRUE),
        "kept_false": len(kept - TRUE),
        "selected_true": len(selected & TRUE),
        "selected_false": len(selected - TRUE),
        "seconds": seconds,
        "select_seconds": time.process_time() - start,
    }


def nuts(transitions: int) -> Row:
    """Time a short chain of NUTS on 100 rows."""
    x, y, _ = friedman(80, np.random.default_rng(0))
    data = torch.from_numpy(x).float(), torch.from_numpy(y).float()
    start = time.process_time()
    rn.fit(network(), data, rn.inference.HMC(chains=1), epochs=transitions, verbose=False)
    seconds = time.process_time() - start
    whole = seconds / transitions * TRANSITIONS
    return {"way": "NUTS", "rows": 100, "transitions": transitions, "seconds": seconds, "extrapolated": whole}


def summary(rows: list[Row]) -> list[Row]:
    """Average over seeds, with standard errors."""
    measures = [name for name in rows[0] if name not in ("way", "rows", "seed", "commit")]
    lines = []
    for way, count in dict.fromkeys((row["way"], row["rows"]) for row in rows):
        own = [row for row in rows if (row["way"], row["rows"]) == (way, count)]
        line: Row = {"way": way, "rows": count, "seeds": len(own)}
        for name in measures:
            values = [row[name] for row in own]
            line[name] = fmean(values)
            line[f"{name}_error"] = stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
        lines.append(line)
    return lines


def markdown(lines: list[Row]) -> list[str]:
    """Write the summary as a table."""
    table = ["| N | way | RMSE | of the function | 90% holds | selected: true, false | CPU s |", "|---" * 7 + "|"]
    for line in sorted(lines, key=lambda each: each["rows"]):
        found = f"{line['selected_true']:.1f}, {line['selected_false']:.1f}"
        scores = f"{line['rmse']:.2f} | {line['rmse_f']:.2f} | {line['coverage']:.0%} | {found} | {line['seconds']:.1f}"
        table.append(f"| {line['rows']} | {line['way']} | {scores} |")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 200, 500])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--nuts", type=int, default=40, help="transitions of the short chain")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    path = arguments.out / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(path.read_text()) if path.exists() else {}
    rows, chain = found.get("rows", []), found.get("nuts")
    done = {(row["way"], row["rows"], row["seed"]) for row in rows}
    if chain is None:
        chain = {**nuts(arguments.nuts), "commit": provenance({})["commit"]}
        print("NUTS", chain, flush=True)
        write_json(path, {"summary": [], "nuts": chain, "rows": rows, **provenance({"command": sys.argv[1:]})})
    for seed in range(arguments.seeds):
        for count in arguments.rows:
            for way in arguments.ways:
                if (way, count, seed) in done:
                    continue
                rows.append({**cell(way, count, seed), "commit": provenance({})["commit"]})
                print({name: round(v, 3) if isinstance(v, float) else v for name, v in rows[-1].items()}, flush=True)
                content = {"summary": summary(rows), "nuts": chain, "rows": rows}
                write_json(path, {**content, **provenance({"command": sys.argv[1:]})})


if __name__ == "__main__":
    main()
