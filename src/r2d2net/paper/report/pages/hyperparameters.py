"""The page of "hyperparameters": test MSE along a_pi, b and rho_0, with a panel for each."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from r2d2net.paper.report.comparison import format_mean, format_number, mean_with_error
from r2d2net.paper.report.grid_results import GridResults
from r2d2net.report.drawing import BLUE, GREEN, RED, hide_frame
from r2d2net.report.markdown_text import pipe_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {"a_pi": "a_pi", "b": "b", "rho_0": "rho_0; deviations start at softplus(rho_0) of He's"}
LINES = {"1": (BLUE, "o", "-"), "2": (RED, "s", "--"), "3": (GREEN, "^", "-.")}
MARKS = (1, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 300, 400, 500, 700, 1000)  # of the ratio
LITTLE = 1.1  # ratio of the largest error to the least below which a hyperparameter is not said to matter
Sweep = dict[float, list[float]]  # value -> MSE relative to the true function's, over replicates


def text(grid: GridResults) -> str:
    """Write how far the error moves along each hyperparameter."""
    if not grid.results:
        return ""
    sweeps = collect_sweeps(grid)
    lines, widest = [], dict.fromkeys(NAMES, 0.0)
    for (name, scenario), sweep in sweeps.items():
        order = sorted(sweep, key=lambda value: _mean(sweep[value]))
        spread = _mean(sweep[order[-1]]) / _mean(sweep[order[0]])
        widest[name] = max(widest[name], spread)
        best, worst = (f"{format_mean(*mean_with_error(sweep[v]))} at {v:g}" for v in (order[0], order[-1]))
        lines.append([name, f"S{scenario}", best, worst, format_number(spread)])
    base = grid.results[0]["settings"]["base"]
    at = ", ".join(f"{name} = {value:g}" for name, value in base.items())
    most = max(widest, key=widest.__getitem__)
    finding = "So it is here" if most == "rho_0" else "Not so here"
    if widest[most] < LITTLE:
        finding = "Here none matters much"
    return (
        "## How far the error moves\n\nR2D2 MLP with three hidden layers, test MSE over that of the true function on "
        f"the same rows (1 is the least that can be had); one hyperparameter at a time, the others at {at}. Step sizes "
        "are the same throughout. The paper does not say which values it tried.\n\n"
        "rho_0 is the paper's start of the variational deviations, s = softplus(rho_0) times the prior deviation of "
        "the weight. Ours start at `initial_scale` times He's deviation of the layer whatever the prior, so rho_0 "
        "stands for initial_scale = softplus(rho_0): our default 0.1 is rho_0 = -2.25, the paper's -3 is 0.049.\n\n"
        + pipe_table(["hyperparameter", "scenario", "least", "largest", "largest / least"], lines)
        + f"\nThe paper finds rho_0 to matter more than a_pi and b. {finding}: the largest ratio of errors is "
        + ", ".join(f"{format_number(value)} along {name}" for name, value in widest.items())
        + ".\n"
    )


def collect_sweeps(grid: GridResults) -> dict[tuple[str, str], Sweep]:
    """Return the sweep of each (hyperparameter, scenario), all of which contain the cell at the base values."""
    sweeps: dict[tuple[str, str], Sweep] = defaultdict(lambda: defaultdict(list))
    for cell in grid.results:
        settings, result = cell["settings"], cell["result"]
        for name in NAMES:
            if all(settings[other] == settings["base"][other] for other in NAMES if other != name):
                sweeps[name, settings["scenario"]][settings[name]].append(result["mse"] / result["noise_floor"])
    return {key: sweeps[key] for key in sorted(sweeps, key=lambda key: (list(NAMES).index(key[0]), key[1]))}


def draw(grid: GridResults) -> dict[str, Figure]:
    """Draw a panel for each hyperparameter with a line for each scenario."""
    from matplotlib.figure import Figure

    if not grid.results:
        return {}
    base: dict[str, Any] = grid.results[0]["settings"]["base"]
    figure = Figure(figsize=(12, 4.8), layout="constrained")
    panels = figure.subplots(1, len(NAMES), sharey=True)
    ratios = [ratio for sweep in collect_sweeps(grid).values() for replicates in sweep.values() for ratio in replicates]
    for ax, (name, label) in zip(panels, NAMES.items(), strict=True):
        ticks = sorted({cell["settings"][name] for cell in grid.results})
        # limits before the data: a single point would leave the axis without width
        ax.set(xlabel=label, yscale="log", ylim=(min(ratios) / 1.5, max(ratios) * 1.5))
        if name == "rho_0":
            ax.set_xlim(ticks[0] - 0.5, ticks[-1] + 0.5)
        else:
            ax.set(xscale="log", xlim=(ticks[0] / 1.5, ticks[-1] * 1.5))
        ax.axvline(base[name], color="0.5", linestyle=":", linewidth=1, label="its value while others vary")
        for (varied, scenario), sweep in collect_sweeps(grid).items():
            if varied != name:
                continue
            values = sorted(sweep)
            middle = [_mean(sweep[value]) for value in values]
            errors = [mean_with_error(sweep[value])[1] or 0.0 for value in values]
            color, marker, line = LINES[scenario]
            style = {"color": color, "marker": marker, "linestyle": line, "capsize": 3}
            ax.errorbar(values, middle, yerr=errors, label=f"scenario {scenario}", **style)
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
    low, high = panels[0].get_ylim()
    marks = [mark for mark in MARKS if low <= mark <= high]
    if len(marks) > 1:
        panels[0].set_yticks(marks, [f"{mark:g}" for mark in marks])
    panels[0].set_ylabel("test MSE / that of the true function")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    hide_frame(*panels)
    return {"Test MSE of an R2D2 MLP with three hidden layers along its hyperparameters": figure}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
