"""Where rows are few, how far does SVGI get? Wide tables, classes and a graph, beside plain rivals.

    python benchmarks/few_rows_svgi.py [--cases wide graph ...] [--contestants SVGI ...] [--seeds 401 402 403 404 405]
    python benchmarks/few_rows_svgi.py --levelling [--cases ...] [--seeds 301 302 303]

Cases, each drawn anew (or split anew) for every seed:

    wide          60 rows of 1,000 columns, ten of which have effects; noise a third of the signal's deviation
    square        150 rows of 150 columns, as above
    correlated    120 rows of 200 columns with correlations 0.8^|i - j|, five of which have effects; noise a half
    wide classes  141 rows of 500 columns, 20 of which have other means in each of three classes
    wine, iris, breast cancer   three quarters of scikit-learn's tables
    graph         1,800 nodes of a planted partition, 7 classes, 800 sparse binary words, 80 nodes labelled

Scores of test rows: RMSE in units of sd(y), or log loss; for the graph also the accuracy. Networks of tables are the
estimators' default, 50 and 50 units; the graph has two graph convolutions (Kipf and Welling, 2017).
Rivals: "plain", the same network by Adam with weight decay and early stopping on a fifth of the rows; "linear", the
lasso or logistic regression with cross-validated penalty; "exact", LinearGibbs under R2D2 (regression). Settings were
chosen on seeds 301 to 303 (`few-rows-averaging.json`). A contestant replaces its former rows only; "runs" tells which
command ran which.

With --levelling, SVGI under R2D2 runs for 1, 2 and 4 times its default number of epochs, each with its own schedule, on
the seeds of tuning; "levelled" is the shortest of them whose loss had levelled off at its end (`run.levelling`), or the
longest. The figures are written to few-rows-levelling.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoCV, LogisticRegressionCV
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import few_rows
import r2d2net as rn
from r2d2net.files import write_json
from r2d2net.provenance import provenance
from r2d2net.run.choice import epochs_for
from r2d2net.run.levelling import levelled_off

Row = dict[str, Any]
SEEDS, TUNING_SEEDS = (401, 402, 403, 404, 405), (301, 302, 303)


class Problem(NamedTuple):
    """Rows as the network takes them, the network, and the features that a linear rival sees."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    net: Callable[[], nn.Module]
    features: np.ndarray
    test_features: np.ndarray

    @property
    def has_classes(self) -> bool:
        """Whether the targets are classes."""
        return not self.y.is_floating_point()


# --- tables


def table(rows: few_rows.Rows) -> Problem:
    """Make a problem of a table, with the estimators' default network."""
    scaler = StandardScaler().fit(rows.x)
    x, x_test = scaler.transform(rows.x), scaler.transform(rows.x_test)
    classes = rows.y.dtype.kind in "iu"
    kind = torch.int64 if classes else torch.float32
    y, y_test = (torch.as_tensor(part, dtype=kind) for part in (rows.y, rows.y_test))
    outputs = int(rows.y.max()) + 1 if classes else 1
    tensors = (torch.as_tensor(part, dtype=torch.float32) for part in (x, x_test))
    first, second = tensors
    return Problem(first, y, second, y_test, lambda: rn.nets.mlp(x.shape[1], [50, 50], outputs), x, x_test)


def correlated(seed: int) -> few_rows.Rows:
    """Draw 120 rows of an autoregressive sequence of 200 columns, five of which have effects."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(120 + few_rows.TEST, 200))
    for j in range(1, 200):
        x[:, j] = 0.8 * x[:, j - 1] + 0.6 * x[:, j]
    signal = x[:, rng.choice(200, 5, replace=False)] @ rng.choice([-1.0, 1.0], 5)
    y = signal + signal.std() / 2 * rng.normal(size=len(x))
    return few_rows.Rows(x[:120], y[:120], x[120:], y[120:])


# --- a graph


class GraphConvolutions(nn.Module):
    """Two graph convolutions, softmax(A relu(A X W) V), as a function of node indices."""

    adjacency: Tensor
    smoothed: Tensor

    def __init__(self, features: Tensor, adjacency: Tensor, hidden: int, classes: int) -> None:
        super().__init__()
        self.register_buffer("smoothed", adjacency @ features)  # A X is the same in every pass
        self.register_buffer("adjacency", adjacency)
        self.first, self.second = nn.Linear(features.shape[1], hidden), nn.Linear(hidden, classes)

    def forward(self, nodes: Tensor) -> Tensor:
        output: Tensor = self.second(self.adjacency[nodes.reshape(-1)] @ torch.relu(self.first(self.smoothed)))
        return output


NODES, GROUPS, WORDS, OWN_WORDS, LABELLED = 1800, 7, 800, 60, 80


def graph(seed: int) -> Problem:
    """Draw a citation-like graph: four links a node, 80% of them inside a class, 15 words a node, a third topical."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(GROUPS, size=NODES)
    members = [np.flatnonzero(labels == k) for k in range(GROUPS)]
    adjacency = np.eye(NODES)
    for i in range(NODES):
        for _ in range(2):
            j = rng.choice(members[labels[i]]) if rng.random() < 0.77 else rng.integers(NODES)
            adjacency[i, j] = adjacency[j, i] = 1.0
    degree = adjacency.sum(0) ** -0.5
    adjacency = degree[:, None] * adjacency * degree
    topics = [rng.choice(WORDS, OWN_WORDS, replace=False) for _ in range(GROUPS)]
    words = np.zeros((NODES, WORDS))
    for i in range(NODES):
        own = rng.choice(topics[labels[i]], 3, replace=False)
        words[i, own] = 1
        words[i, rng.choice(WORDS, 12, replace=False)] = 1
    words /= words.sum(1, keepdims=True)
    order = rng.permutation(NODES)
    train, test = order[:LABELLED], order[LABELLED + 400 :]
    features, a = torch.as_tensor(words, dtype=torch.float32), torch.as_tensor(adjacency, dtype=torch.float32)
    features = features / features.square().mean().sqrt()
    y = torch.as_tensor(labels)
    return Problem(
        torch.as_tensor(train)[:, None],
        y[train],
        torch.as_tensor(test)[:, None],
        y[test],
        lambda: GraphConvolutions(features, a, 16, GROUPS),
        words[train],
        words[test],
    )


CASES: dict[str, Callable[[int], Problem]] = {
    "wide": lambda seed: table(few_rows.sparse_table("60 x 1,000", seed)),
    "square": lambda seed: table(few_rows.sparse_table("150 x 150", seed)),
    "correlated": lambda seed: table(correlated(seed)),
    "wide classes": lambda seed: table(few_rows.classes("wide classes", seed)),
    "wine": lambda seed: table(few_rows.classes("wine", seed)),
    "iris": lambda seed: table(few_rows.classes("iris", seed)),
    "breast cancer": lambda seed: table(few_rows.classes("breast cancer", seed)),
    "graph": graph,
}


# --- contestants


def scores(problem: Problem, predicted: Tensor) -> Row:
    """Return RMSE in units of sd(y), or log loss and accuracy, of predicted means or probabilities."""
    y = problem.y_test
    if not problem.has_classes:
        return {"score": float((predicted.reshape(-1) - y).square().mean().sqrt() / y.std())}
    loss = -torch.log(predicted[torch.arange(len(y)), y].clamp(min=1e-30)).mean()
    return {"score": float(loss), "accuracy": float((predicted.argmax(1) == y).double().mean())}


def bayesian(problem: Problem, seed: int, method: Any, prior: Any, epochs: int | None, longer: int) -> Row:
    """Fit the problem's network, in so many times the default number of epochs unless that is given."""
    likelihood = rn.likelihoods.Categorical() if problem.has_classes else rn.likelihoods.Gaussian()
    model = rn.BayesianModel(problem.net(), prior, likelihood=likelihood)
    epochs = longer * epochs_for(len(problem.y), None, method, model) if epochs is None else epochs
    posterior: Any = rn.fit(model, (problem.x, problem.y), method, epochs=epochs, seed=seed, verbose=False)
    predicted = posterior.predict(problem.x_test)
    row = {**scores(problem, predicted.mean), "levelled_off": levelled_off(posterior.history)}
    if not problem.has_classes:
        row["coverage"] = rn.metrics.coverage(problem.y_test, *predicted.interval(0.9))
    return row


def plain(problem: Problem, seed: int) -> Row:
    """Train the same network by Adam with weight decay, stopping by a fifth of the rows."""
    torch.manual_seed(seed)
    net, n = problem.net(), len(problem.y)
    order = torch.randperm(n)
    held, rest = order[: n // 5], order[n // 5 :]
    center, unit = (0.0, 1.0) if problem.has_classes else (float(problem.y.mean()), float(problem.y.std()))
    loss = nn.CrossEntropyLoss() if problem.has_classes else nn.MSELoss()
    y = problem.y if problem.has_classes else ((problem.y - center) / unit)[:, None]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    best, state = float("inf"), net.state_dict()
    for _ in range(300):
        optimizer.zero_grad()
        loss(net(problem.x[rest]), y[rest]).backward()
        optimizer.step()
        with torch.no_grad():
            now = float(loss(net(problem.x[held]), y[held]))
        if now < best:
            best, state = now, {k: v.clone() for k, v in net.state_dict().items()}
    net.load_state_dict(state)
    with torch.no_grad():
        output = net(problem.x_test)
    return scores(problem, output.softmax(1) if problem.has_classes else center + unit * output)


def linear(problem: Problem, seed: int) -> Row:
    """Fit logistic regression with cross-validated ridge penalty, or the lasso."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", FutureWarning)
    if problem.has_classes:
        fitted: Any = LogisticRegressionCV(Cs=10, cv=3, scoring="neg_log_loss", max_iter=500)
        scaler = StandardScaler().fit(problem.features)
        fitted.fit(scaler.transform(problem.features), problem.y.numpy())
        return scores(problem, torch.as_tensor(fitted.predict_proba(scaler.transform(problem.test_features))))
    fitted = LassoCV(cv=5).fit(problem.features, problem.y.numpy())
    return scores(problem, torch.as_tensor(fitted.predict(problem.test_features)))


def exact(problem: Problem, seed: int) -> Row:
    """Fit the exact linear sampler."""
    model = rn.BayesianModel(nn.Linear(problem.x.shape[1], 1), rn.priors.R2D2())
    posterior: Any = rn.fit(model, (problem.x, problem.y), "lineargibbs", seed=seed, verbose=False)
    return scores(problem, posterior.predict(problem.x_test).mean)


# --- how long a run should be

LENGTHS = (1, 2, 4)  # times the default number of epochs


def until_levelled(problem: Problem, seed: int) -> Row:
    """Fit SVGI for each length, and tell at which the loss had levelled off."""
    method, prior = rn.inference.SVGI(), few_rows.PRIORS["R2D2"]
    runs = [bayesian(problem, seed, method, prior, None, longer) for longer in LENGTHS]
    chosen = next((i for i, row in enumerate(runs) if row["levelled_off"]), len(LENGTHS) - 1)
    found: Row = {f"x {longer}": row for longer, row in zip(LENGTHS, runs, strict=True)}
    return {**found, "length": LENGTHS[chosen], "fixed": runs[0]["score"], "levelled": runs[chosen]["score"]}


def levelling_summary(rows: Sequence[Row]) -> list[Row]:
    """Average over the seeds: scores of both rules, their paired difference and its standard error, and each length."""
    found: list[Row] = []
    for case in dict.fromkeys(row["case"] for row in rows):
        own = [row for row in rows if row["case"] == case]
        changes = [row["levelled"] - row["fixed"] for row in own]
        error = stdev(changes) / len(changes) ** 0.5 if len(changes) > 1 else None
        means = {name: fmean(row[name] for row in own) for name in ("fixed", "levelled")}
        lengths = {f"x {k}": fmean(row[f"x {k}"]["score"] for row in own) for k in LENGTHS}
        chosen = [row["length"] for row in own]
        changed = {"difference": fmean(changes), "standard_error": error}
        found.append({"case": case, **means, **changed, **lengths, "chosen": chosen})
    return found


def levelling(cases: Sequence[str], seeds: Sequence[int], path: Path) -> None:
    """Compare the default length with runs until the loss levels off."""
    rows: list[Row] = []
    for case in cases:
        for seed in seeds:
            start = time.process_time()
            row = {"case": case, "seed": seed, **until_levelled(CASES[case](seed), seed)}
            rows.append({**row, "cpu_seconds": time.process_time() - start})
        print(levelling_summary(rows)[-1], flush=True)
    facts = provenance({"command": sys.argv[1:], "seeds": list(seeds)})
    write_json(path, {"summary": levelling_summary(rows), "rows": rows, **facts})


# --- all of them


def run(problem: Problem, contestant: str, seed: int) -> Row:
    """Fit one contestant.

    "x 4" has four times the default number of epochs, "epochs 300" that number, "T 0.1" that temperature, "averaging 1"
    that weight of a sweep, "layer 1" a single Linear layer in place of the network.
    """
    if contestant in RIVALS:
        return RIVALS[contestant](problem, seed)
    name, prior, *option = contestant.split(" ")
    options = dict(zip(option[::2], map(float, option[1::2]), strict=True))
    longer, temperature = int(options.get("x", 1)), options.get("T", 1.0)
    averaging = {"averaging": options["averaging"]} if "averaging" in options else {}
    method = {"SVGI": rn.inference.SVGI, "CAVI": rn.inference.CAVI}[name](temperature=temperature, **averaging)
    inputs = problem.x.shape[1]
    if "layer" in options:
        problem = problem._replace(net=lambda: nn.Linear(inputs, 1))
    epochs = int(options["epochs"]) if "epochs" in options else None
    return bayesian(problem, seed, method, few_rows.PRIORS[prior], epochs, longer)


RIVALS: dict[str, Callable[[Problem, int], Row]] = {"plain": plain, "linear": linear, "exact": exact}
SINGLE = "averaging 1 epochs 300"  # SVGI as it was before sweeps were averaged where rows are few
LAYERS = "SVGI R2D2 layer 1", f"SVGI R2D2 layer 1 {SINGLE}", "SVGI adaptive layer 1", "CAVI R2D2 layer 1"
REGRESSION = "exact", *LAYERS  # not for classes
CONTESTANTS = (
    "SVGI R2D2",
    f"SVGI R2D2 {SINGLE}",
    "SVGI R2D2 averaging 1",
    "SVGI R2D2 averaging 0.1 epochs 300",
    f"SVGI R2D2 T 0.1 {SINGLE}",
    "SVGI adaptive",
    "CAVI R2D2",
    "CAVI R2D2 x 4",
    "plain",
    "linear",
    *REGRESSION,
)


def summary(rows: Sequence[Row]) -> list[Row]:
    """Average every score over the seeds, with the standard error of the first."""
    found: list[Row] = []
    for case, contestant in dict.fromkeys((row["case"], row["contestant"]) for row in rows):
        own = [row for row in rows if (row["case"], row["contestant"]) == (case, contestant)]
        means: Row = {k: fmean(row[k] for row in own) for k in ("score", "accuracy", "coverage") if k in own[0]}
        error = stdev(row["score"] for row in own) / len(own) ** 0.5 if len(own) > 1 else None
        found.append({"case": case, "contestant": contestant, **means, "standard_error": error})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--levelling", action="store_true", help="runs until the loss levels off, on seeds of tuning")
    parser.add_argument("--cases", nargs="+", choices=list(CASES))
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", rn.errors.FitWarning)  # the scores say it
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.levelling:
        cases = arguments.cases or [case for case in CASES if case not in ("breast cancer", "graph")]
        levelling(cases, arguments.seeds or TUNING_SEEDS, arguments.out / "few-rows-levelling.json")
        return
    cases, seeds = arguments.cases or list(CASES), arguments.seeds or SEEDS
    path = arguments.out / "few-rows-svgi.json"
    stored: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for case in cases:  # a contestant of a case replaces its former self
        rows: list[Row] = []
        for seed in seeds:
            problem = CASES[case](seed)
            for contestant in arguments.contestants:
                if contestant in REGRESSION and problem.has_classes:
                    continue
                start = time.process_time()
                row = {"case": case, "contestant": contestant, "seed": seed, **run(problem, contestant, seed)}
                rows.append({**row, "cpu_seconds": time.process_time() - start})
        facts = provenance({"command": sys.argv[1:], "seeds": list(seeds)})
        former = stored.get(case, {"rows": [], "runs": []})
        rows = [row for row in former["rows"] if row["contestant"] not in arguments.contestants] + rows
        stored[case] = {"summary": summary(rows), "rows": rows, "runs": [*former["runs"], facts]}
        write_json(path, stored)
        for line in stored[case]["summary"]:
            shown = (f"{k} {v:.3f}" if isinstance(v, float) else str(v) for k, v in line.items())
            print("  ".join(shown), flush=True)
    print(f"written to {path}")


if __name__ == "__main__":
    main()
