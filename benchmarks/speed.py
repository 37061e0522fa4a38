"""Cost of a shrinkage prior compared with plain training and with the Gaussian prior of other libraries.

    python benchmarks/speed.py [--quick] [--peers] [--threads 1 2] [--out results/benchmarks]

All figures are ratios within one process, whose contestants take turns, so that a busy moment of the machine affects
all alike; the median over the rounds is reported, and absolute times for information.

* steps: forward, loss, backward, optimiser and the sweeps of the scales at their default cadence, on an MLP
  784-400-400-10 and LeNet on 3 x 32 x 32, batches of 128. Reference: torch's Adam, and the same fused.
* prediction: 10,000 rows with 100 draws (1,000 by two threads), and 256 where other libraries take part or in a hurry.
  Reference: 100 passes of the plain network over them in batches of 1,000.
* sweeps: a Gibbs sweep and a coordinate-ascent update of one layer of 10^4 to 4 x 10^7 weights, ns and extra bytes a
  weight; a step of SVGI on ResNet50 and ResNet101.
* memory: see memory.py; whole processes: process_time.py; relevance of inputs: relevance_speed.py; reading of tables:
  table_reading.py.
* small networks: see small_networks.py.

Figures beyond their limit are listed at the end; the exit code is 0 all the same, since a busy machine exceeds some.
Freed memory stays with the process (`steady_memory`), for all contestants: fresh pages cost up to 30% of a step.

Peers: see peers.py for how they are installed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import native_steps
import process_time
import r2d2net as rn
import relevance_speed
import table_reading
from bench_rows import Row, cells, machine, missed, table_of
from bench_rows import console as wide_console
from memory import OURS, Peak, peak, start
from peers import ENSEMBLE, PEERS, deep_ensemble
from r2d2net.files import write_json
from r2d2net.native import library
from r2d2net.network_inputs import no_units
from r2d2net.paper.experiments.complexity import plain_training
from r2d2net.posterior import Posterior
from r2d2net.provenance import provenance
from r2d2net.report.markdown_text import pipe_table
from small_networks import small_networks
from step_cost import NETS, N, Step, batch, bayesian, steady_memory, turns

PREDICTED, DRAWS, PASS = 10_000, 100, 1_000
SIZES = [10_000, 100_000, 1_000_000, 10_000_000, 40_000_000]
LIMITS = {  # largest ratios to plain training, one thread
    ("MLP", "R2D2 by CAVI"): 1.8,
    ("MLP", "R2D2 by CAVI, compiled"): 1.8,
    ("MLP", "R2D2 by SVGI"): 2.0,
    ("MLP", "R2D2 by SVGI, compiled"): 2.0,
    ("LeNet", "R2D2 by CAVI"): 1.15,
    ("LeNet", "R2D2 by SVGI"): 1.05,
    **native_steps.LIMITS,
}
SWEEP_LIMITS = {"gibbs": 250, "gibbs, compiled": 100, "cavi": 60, "cavi, compiled": 20}  # ns a weight
MEMORY_LIMIT = 12
FLOATS = "floats a weight beyond the networks"
FEW = 256  # rows that other libraries predict
PREDICTION_LIMITS = {PREDICTED: 1.1, FEW: 1.5}  # of plain passes, by the number of rows
OTHERS = (process_time, relevance_speed, table_reading)  # measured in CPU seconds, on one thread
HURRY = "compiled steps, large layers, ResNets, memory, two threads, 10,000 rows (`make bench` has them)"
ROUNDS = 7  # least number of rounds, of which the median counts


def ratios(times: dict[str, list[float]], reference: str) -> Iterator[tuple[str, float, float]]:
    """Iterate over contestants: name, median ratio to the reference in the same round, median seconds."""
    for name, seconds in times.items():
        ratio = statistics.median(a / b for a, b in zip(seconds, times[reference], strict=True))
        yield name, ratio, statistics.median(seconds)


def steps(rounds: int, count: int, *, compiled: bool, peers: bool) -> Iterator[Row]:
    """Measure training steps against plain training."""
    for net, (make, shape) in NETS.items():
        x, y = batch(shape)
        contestants: dict[str, Step] = {
            "plain": plain_training(make(), x, y),
            "plain, fused Adam": plain_training(make(), x, y, fused=True),
        }
        forms = {"": False, ", compiled": True} if compiled else {"": False}
        for name, kind in OURS.items():
            for form, fused in forms.items():
                method = kind(compile=fused)
                contestants[name + form] = bayesian(method, make(), rn.priors.R2D2(), x, y, 0.5, rounds * count)
        contestants["Gaussian by SVI"] = bayesian(
            rn.inference.SVI(), make(), rn.priors.Gaussian(), x, y, 0.5, rounds * count
        )
        contestants |= native_steps.native(make, x, y, rounds * count)
        if peers:
            contestants |= {f"{peer}, Gaussian": build(make(), x, y, N).step for peer, build in PEERS.items()}
            contestants[f"deep ensemble of {ENSEMBLE}"] = deep_ensemble(make(), x, y, N).step
        times = turns(contestants, rounds, count, time.perf_counter)
        for name, ratio, seconds in ratios(times, "plain"):
            yield Row("training step", net, name, ratio, "of plain", seconds, LIMITS.get((net, name)))
        for name, ratio, seconds in ratios(times, "plain, fused Adam"):
            yield Row("training step", net, name, ratio, "of plain with fused Adam", seconds)


def passes(net: nn.Module, x: Tensor) -> None:
    """Predict as an ensemble of 100 plain networks would."""
    with torch.inference_mode():
        for _ in range(DRAWS):
            for part in x.split(PASS):
                torch.softmax(net(part), -1)


def prediction(rounds: int, rows: int, *, peers: bool = False) -> Iterator[Row]:
    """Measure predictions with 100 draws against 100 passes of the plain network."""
    for name, (make, shape) in NETS.items():
        g = torch.Generator().manual_seed(1)
        x, y = torch.randn(rows, *shape, generator=g), torch.randint(10, (rows,), generator=g)
        net = make().eval()
        model = rn.BayesianModel(make(), rn.priors.R2D2(), rn.likelihoods.Categorical())
        trainer = rn.inference.SVGI().build(model, n=rows, steps=10)
        posterior = Posterior(trainer.source(trainer.init(y, g)), no_units(x), flat_target=True)

        contestants: dict[str, Step] = {
            "100 plain passes": partial(passes, net, x),
            "R2D2 by SVGI": partial(posterior.predict, x, DRAWS, seed=0),
        }
        if peers:
            for peer, build in PEERS.items():
                contestants[f"{peer}, Gaussian"] = partial(draw_by_draw, build(make(), x, y, rows).forward, x)
            members = deep_ensemble(make(), x, y, rows).forward
            contestants[f"deep ensemble of {ENSEMBLE}"] = partial(draw_by_draw, members, x, ENSEMBLE)
        for who, ratio, seconds in ratios(turns(contestants, rounds, 1, time.perf_counter), "100 plain passes"):
            limit = PREDICTION_LIMITS.get(rows) if who == "R2D2 by SVGI" else None
            yield Row("prediction", f"{name}, {rows:,} rows", who, ratio, "of plain passes", seconds, limit)


def draw_by_draw(forward: Callable[[Tensor], Tensor], x: Tensor, draws: int = DRAWS) -> None:
    """Predict with another library: an output at each of 100 draws, or of an ensemble's members."""
    with torch.inference_mode():
        for _ in range(draws):
            torch.softmax(forward(x), -1)


# --- memory and scale: each in a process of its own


def _child(script: str, *arguments: str) -> Any:
    command = [sys.executable, str(Path(__file__).with_name(script)), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def memory() -> Iterator[Row]:
    """Measure peak memory of training, beyond the networks and in total, the latter against plain training."""
    for case in ("layer", *NETS):
        peaks = {who: Peak(*_child("memory.py", who, case)) for who in ("plain", *OURS)}
        network = "a layer of 10 million weights" if case == "layer" else case
        for who, measured in peaks.items():
            if case == "layer":
                limit = MEMORY_LIMIT if who != "plain" else None
                value = measured.training / 4 / measured.weights
                yield Row("memory", network, who, value, FLOATS, None, limit)
            yield Row("memory", network, who, measured.all / peaks["plain"].all, "of plain, all in all")


def sweep_of(size: int, variant: str, threads: int) -> tuple[float, float]:
    """Measure seconds and extra bytes of a sweep of one layer."""
    torch.set_num_threads(threads)
    prior, g = rn.priors.R2D2(), torch.Generator().manual_seed(0)
    kind, _, form = variant.partition(", ")
    w, precision = torch.randn(size, generator=g).mul_(0.05), torch.empty(size)
    scales = prior.init_scales((size,), g)
    second = w.square() if kind == "cavi" else None

    def sweep() -> float:
        nonlocal scales
        begun = time.perf_counter()
        if second is None:
            scales = prior.gibbs_(w, scales, precision, g, compiled=bool(form))
        else:
            scales = prior.cavi_(second, scales, precision, compiled=bool(form))
        return time.perf_counter() - begun

    sweep()  # compiles, and loads what else is needed
    before = start()
    sweep()
    extra = max(0, peak() - before)
    steady_memory()
    sweep()
    return statistics.median(sweep() for _ in range(ROUNDS)), extra


def scale(sizes: list[int], threads: int, *, compiled: bool) -> Iterator[Row]:
    for variant in SWEEP_LIMITS if compiled else ("gibbs", "cavi"):
        for size in sizes:
            seconds, extra = _child("speed.py", "--child", "sweep", str(size), variant, str(threads))
            limit = SWEEP_LIMITS[variant] if size == 10_000_000 else None
            yield Row("sweep", f"{size:,} weights", variant, 1e9 * seconds / size, "ns a weight", seconds, limit)
            yield Row("sweep", f"{size:,} weights", variant, extra / size, "extra bytes a weight")


def resnet_of(name: str, threads: int) -> tuple[float, float]:
    """Measure a step of SVGI and of plain training: means of eight steps in turn, one of which sweeps the scales."""
    torch.set_num_threads(threads)
    x, y = torch.randn(2, 3, 32, 32), torch.randint(10, (2,))
    nets = [rn.nets.build(name, channels=3, classes=10, size=32) for _ in range(2)]
    contestants: dict[str, Step] = {
        "plain": plain_training(nets[0], x, y),
        "ours": bayesian(rn.inference.SVGI(), nets[1], rn.priors.R2D2(), x, y, 0.5, 1000),
    }
    times = turns(contestants, 8, 1, time.perf_counter)
    return statistics.mean(times["ours"]), statistics.mean(times["plain"])


def resnets(threads: int) -> Iterator[Row]:
    for name in ("resnet50", "resnet101"):
        seconds, reference = _child("speed.py", "--child", "resnet", name, str(threads))
        yield Row("ResNet step", name, "R2D2 by SVGI", seconds / reference, "of plain", seconds)
        if threads == 1:
            for who in ("plain", "R2D2 by SVGI"):
                measured = Peak(*_child("memory.py", who, name))
                yield Row("ResNet step", name, who, measured.training / 4 / measured.weights, FLOATS)


# --- output


def as_table(rows: list[Row]) -> str:
    """Format rows as a Markdown table."""
    lines = [[row.section, row.what, row.who, *cells(row)] for row in rows]
    return pipe_table(["section", "of", "who", "figure", "ms", "limit"], lines)


def draw(rows: list[Row], path: Path) -> None:
    """Draw training steps as bars and sweeps over the number of weights."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(14, 4.5), layout="constrained")
    for axis, net in zip(axes, NETS, strict=False):
        bars = [row for row in rows if (row.section, row.what, row.unit) == ("training step", net, "of plain")]
        bars = bars[: len({row.who for row in bars})]
        axis.barh([row.who for row in bars], [row.value for row in bars], color="0.6")
        axis.invert_yaxis()
        axis.set(title=f"{net}: a training step", xlabel="of plain training")
    for variant in SWEEP_LIMITS:
        points = [row for row in rows if (row.section, row.who, row.unit) == ("sweep", variant, "ns a weight")]
        points = [row for row in points if row.what.endswith(" weights")]  # those of one thread
        if points:
            sizes = [int(row.what.removesuffix(" weights").replace(",", "")) for row in points]
            axes[2].loglog(sizes, [row.value for row in points], marker="o", label=variant)
    axes[2].set(title="sweeps of the scales", xlabel="weights of the layer", ylabel="ns a weight")
    axes[2].legend()
    figure.savefig(path, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two minutes: one thread, nothing compiled or large")
    parser.add_argument("--peers", action="store_true", help="other libraries too: see peers.py")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder for the numbers")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(*options.child)

    console, quick = wide_console(), options.quick
    threads = [1] if quick else options.threads
    rows: list[Row] = []
    facts = {"machine": machine(threads), **provenance({"quick": quick, "peers": options.peers}, seed=0)}
    steady_memory()
    for number in threads:
        torch.set_num_threads(number)
        label = "" if number == 1 else f", {number} threads"
        sizes = SIZES[:3] if quick else SIZES if number == 1 else SIZES[3:4]
        sections = [
            steps(ROUNDS if quick else 25, 8 if quick else 16, compiled=not quick, peers=options.peers),
            prediction(ROUNDS, FEW if quick else PREDICTED if number == 1 else 1_000),
            *([prediction(ROUNDS, FEW, peers=True)] if options.peers else []),
            scale(sizes, number, compiled=not quick),
            *([] if quick else [resnets(number)]),
            *([] if quick or number > 1 else [memory()]),
            *([] if quick or number > 1 else [starmap(Row, other.rows()) for other in OTHERS]),
            *([(Row(**row) for row in small_networks(quick=quick))] if number == 1 else []),
        ]
        for section in sections:
            found = [row._replace(what=row.what + label, limit=row.limit if number == 1 else None) for row in section]
            rows += found
            console.print(table_of(found))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "speed.md").write_text(as_table(rows))
    draw(rows, options.out / "speed.png")
    write_json(options.out / "speed.json", {"rows": [row._asdict() for row in rows], **facts})
    if library.problem() is not None:
        console.print(f"not measured: the native kernels, of which the library {library.problem()}; {library.BUILD}")
    if quick:
        console.print(f"not measured in a hurry: {HURRY}")
    console.print(missed(rows))
    return 0


def child(measurement: str, *arguments: str) -> int:
    """Print a measurement that is made in a process of its own."""
    if measurement == "sweep":
        size, kind, threads = arguments
        print(json.dumps(sweep_of(int(size), kind, int(threads))))
    else:
        name, threads = arguments
        print(json.dumps(resnet_of(name, int(threads))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
