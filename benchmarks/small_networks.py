"""Cost of training small networks, as tables need them, compared with plain training: perceptrons, batches of 100 rows.

    python benchmarks/small_networks.py [--quick] [--only chains] [--into results/benchmarks/speed.json]

* steps: a step of 8-50-50-1, with drawn activations or drawn weights, of plain training (torch's Adam, and fused).
* fit: a whole `fit` of 1,500 steps with preparing, history and a validation score in every epoch, of a plain loop of as
  many steps that shuffles its rows and has a validation loss in every epoch.
* members: a step of eight members side by side (`inference.members`), and a whole `fit` of eight restarts or members,
  of one.
* chains: a step of four and of eight chains of SGLD and SGHMC side by side, of one.

Ratios within one process of one thread, of processor time, in rounds whose contestants take turns; medians over the
rounds. `speed.py` has these rows among its own; `--into` replaces in its file those that were measured. Limits are
those that the step and the fit were made to meet; eight members of the larger network are bound by their products and
normal numbers.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import r2d2net as rn
from r2d2net.files import write_json
from r2d2net.inference.members import members_of
from r2d2net.provenance import provenance
from step_cost import Step, steady_memory, turns

SECTION, ROWS, N, MEMBERS = "small network", 100, 1000, 8
WIDTHS = {"8-50-50-1": (8, 50, 50, 1), "8-50-1": (8, 50, 1)}
LOCAL, DRAWN = "R2D2 by SVGI, activations drawn", "R2D2 by SVGI, weights drawn"
METHODS: dict[str, Callable[[], tuple[Any, Any]]] = {
    LOCAL: lambda: (rn.inference.SVGI(), rn.priors.R2D2()),
    DRAWN: lambda: (rn.inference.SVGI(estimator="weights"), rn.priors.R2D2()),
    "R2D2 by CAVI": lambda: (rn.inference.CAVI(), rn.priors.R2D2()),
    "Gaussian by MAP": lambda: (rn.inference.MAP(), rn.priors.Gaussian()),
}
CHAINS = {"R2D2 by SGLD": rn.inference.SGLD, "R2D2 by SGHMC": rn.inference.SGHMC}
CHAIN_STEPS = 2000  # of a run of chains, of which what is timed is the burn-in
LIMITS = {
    ("a step", LOCAL): 2.0,
    ("a step", DRAWN): 1.6,
    ("a fit of 1,500 steps", LOCAL): 2.2,
    **{(f"a step of {MEMBERS}, {widths}", name): 2.0 for widths in WIDTHS for name in METHODS},
    **{(f"a step of {MEMBERS} chains, {widths}", name): 2.0 for widths in WIDTHS for name in CHAINS},
}


def perceptron(widths: tuple[int, ...]) -> nn.Module:
    return rn.nets.mlp(widths[0], widths[1:-1], widths[-1])


def rows(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Simulate a table of eight inputs of which two matter."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 8, generator=g)
    return x, torch.sin(2 * x[:, :1]) + x[:, 1:2] + 0.3 * torch.randn(count, 1, generator=g)


def plain_step(net: nn.Module, *, fused: bool | None = None) -> Callable[[Tensor, Tensor], float]:
    """Return torch's own training step of a regression."""
    optimizer = torch.optim.Adam(net.parameters(), fused=fused)

    def step(x: Tensor, y: Tensor) -> float:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def own_step(method: Any, prior: Any, widths: tuple[int, ...], steps: int = 100_000) -> Step:
    """Return the step of one run of ours."""
    x, y = rows(ROWS)
    trainer = method.build(rn.BayesianModel(perceptron(widths), prior), n=N, steps=steps)
    g = torch.Generator().manual_seed(0)
    state = trainer.init(y, g)

    def step() -> float:
        nonlocal state
        state, info = trainer.step(state, (x, y), g)
        return float(info.nll)

    return step


def members_step(method: Any, prior: Any, widths: tuple[int, ...], count: int = MEMBERS, steps: int = 100_000) -> Step:
    """Return the step of several runs side by side."""
    x, y = (torch.stack(parts) for parts in zip(*(rows(ROWS, k) for k in range(count)), strict=True))
    model = rn.BayesianModel(perceptron(widths), prior)
    trainers = [method.build(model, n=N, steps=steps) for _ in range(count)]
    generators = [torch.Generator().manual_seed(k) for k in range(count)]
    members = members_of(trainers, [t.init(y[0], g) for t, g in zip(trainers, generators, strict=True)])
    return lambda: members.step((x, y), generators)


def plain_fit(epochs: int, *, fused: bool | None = None) -> list[tuple[float, float]]:
    """Train a plain network as a fit does; return the training and validation losses of each epoch."""
    (x, y), (x_held, y_held), losses = rows(N), rows(N // 10, 1), []
    net = perceptron(WIDTHS["8-50-50-1"])
    step = plain_step(net, fused=fused)
    for _ in range(epochs):
        order, total = torch.randperm(N), 0.0
        for batch in order.split(ROWS):
            total += step(x[batch], y[batch])
        with torch.no_grad():
            losses.append((total * ROWS / N, nn.functional.mse_loss(net(x_held), y_held).item()))
    return losses


def own_fit(epochs: int, method: Any = None, prior: Any = None, **options: Any) -> None:
    """Fit one network, or several, with validation."""
    model = rn.BayesianModel(perceptron(WIDTHS["8-50-50-1"]), prior)
    data, held = rows(N), rows(N // 10, 1)
    rn.fit(
        model, data, method, epochs=epochs, batch_size=ROWS, validation=held, jobs=1, verbose=False, **options
    )  # fmt: skip


def contest(
    what: str, contestants: dict[str, Step], references: dict[str, dict[str, str]], rounds: int, count: int
) -> Iterator[dict[str, Any]]:
    """Time contestants in turns and yield rows of ratios.

    Args:
        what: What is timed.
        contestants: Calls by name.
        references: By unit, the reference of each contestant that has a row.
        rounds: Number of rounds.
        count: Calls of each contestant in a round.

    Yields:
        The fields of a row of `speed.py`.
    """
    times = turns(contestants, rounds, count, time.process_time)
    for unit, pairs in references.items():
        for who, reference in pairs.items():
            name = who.partition(" x ")[0]
            yield {
                "section": SECTION,
                "what": what,
                "who": name,
                "value": statistics.median(a / b for a, b in zip(times[who], times[reference], strict=True)),
                "unit": unit,
                "seconds": statistics.median(times[who]),
                "limit": LIMITS.get((what, name)) if unit in ("of plain", "of one") else None,
            }


def to_plain(contestants: dict[str, Step]) -> dict[str, dict[str, str]]:
    """Compare all contestants with both forms of plain training."""
    units = {"of plain": "plain", "of plain with fused Adam": "plain, fused Adam"}
    return {unit: dict.fromkeys(contestants, reference) for unit, reference in units.items()}


def small_networks(*, quick: bool = False, only: str = "") -> Iterator[dict[str, Any]]:
    """Measure all, or one part.

    Args:
        quick: Fewer rounds.
        only: "chains" for these alone.

    Yields:
        The fields of a row of `speed.py`.
    """
    if only != "chains":
        yield from networks(quick=quick)
    yield from chains(quick=quick)


def chains(*, quick: bool = False) -> Iterator[dict[str, Any]]:
    """Measure chains of samplers side by side, against one."""
    for net, widths in WIDTHS.items():
        prior = rn.priors.R2D2()
        steps = {who: own_step(kind(), prior, widths, CHAIN_STEPS) for who, kind in CHAINS.items()}
        for count in (4, MEMBERS):
            several = {
                f"{who} x {count}": members_step(kind(), prior, widths, count, CHAIN_STEPS)
                for who, kind in CHAINS.items()
            }
            pairs = dict(zip(several, steps, strict=True))
            what = f"a step of {count} chains, {net}"
            yield from contest(what, {**steps, **several}, {"of one": pairs}, 7 if quick else 25, 16)


def networks(*, quick: bool = False) -> Iterator[dict[str, Any]]:
    """Measure steps and fits of one network and of eight."""
    rounds, count = (7, 16) if quick else (25, 32)
    widths, batch = WIDTHS["8-50-50-1"], rows(ROWS)
    plain, fused = (plain_step(perceptron(widths), fused=fused) for fused in (None, True))
    steps: dict[str, Step] = {"plain": lambda: plain(*batch), "plain, fused Adam": lambda: fused(*batch)}
    steps |= {who: own_step(*made(), widths) for who, made in METHODS.items()}
    yield from contest("a step", steps, to_plain(steps), rounds, count)

    epochs = 150
    fits: dict[str, Step] = {
        "plain": lambda: plain_fit(epochs),
        "plain, fused Adam": lambda: plain_fit(epochs, fused=True),
        LOCAL: lambda: own_fit(epochs),
    }
    yield from contest("a fit of 1,500 steps", fits, to_plain(fits), 3 if quick else 7, 1)

    for net, widths in WIDTHS.items():
        singles = {who: own_step(*made(), widths) for who, made in METHODS.items()}
        eights = {f"{who} x 8": members_step(*made(), widths) for who, made in METHODS.items()}
        pairs = dict(zip(eights, singles, strict=True))
        yield from contest(f"a step of 8, {net}", {**singles, **eights}, {"of one": pairs}, rounds, 16)

    epochs = 30
    gaussian = rn.priors.Gaussian()
    several: dict[str, Step] = {
        LOCAL: lambda: own_fit(epochs),
        f"{LOCAL} x 8": lambda: own_fit(epochs, restarts=MEMBERS),
        "Gaussian by MAP": lambda: own_fit(epochs, rn.inference.MAP(), gaussian),
        "Gaussian by MAP x 8": lambda: own_fit(epochs, rn.inference.DeepEnsemble(members=MEMBERS), gaussian),
    }
    pairs = {who: who.removesuffix(" x 8") for who in several if who.endswith(" x 8")}
    yield from contest("a fit of 8, 8-50-50-1", several, {"of one": pairs}, 3 if quick else 7, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--into", type=Path, help="file of speed.py in which these rows are replaced")
    parser.add_argument("--only", choices=["chains"], default="", help="measure these alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    steady_memory()
    found = []
    for row in small_networks(quick=options.quick, only=options.only):
        found.append(row)
        over = "" if row["limit"] is None or row["value"] <= row["limit"] else f"  beyond {row['limit']}"
        print(f"{row['what']:<32}{row['who']:<34}{row['value']:.2f} {row['unit']}{over}", flush=True)
    if options.into:
        content = json.loads(options.into.read_text("utf-8"))
        measured = {row["what"] for row in found}
        kept = [row for row in content["rows"] if row["section"] != SECTION or row["what"] not in measured]
        content["rows"] = kept + found
        name = " ".join(part for part in (SECTION, options.only) if part)
        content[name] = provenance({"quick": options.quick}, seed=0)
        write_json(options.into, content)


if __name__ == "__main__":
    main()
