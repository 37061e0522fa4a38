"""The page of "complexity": counts of parameters beside the paper's, and what each design stores and costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from r2d2net.paper.report.grid_results import GridResults
from r2d2net.paper.report.row_styles import display_name
from r2d2net.report.drawing import BLUE, ORANGE, hide_frame
from r2d2net.report.markdown_text import pipe_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = {"lenet": BLUE, "alexnet": ORANGE}
NAMES = {"lenet": "LeNet", "alexnet": "AlexNet"}
OTHERS = {"de": "deep ensemble", "gauss-sgld": "Gaussian BNN, SGLD"}


def text(grid: GridResults) -> str:
    """Write the counts of parameters, then a table of designs for each network."""
    parts = []
    for cell in grid.results:
        if cell["settings"]["kind"] == "architectures":
            nets = cell["result"]["architectures"]
            lines = [
                [
                    net["name"],
                    net["setting"],
                    f"{net['parameters']:,}",
                    f"{net['bayesian']:,}",
                    net["paper"],
                    net["word"],
                ]
                for net in nets
            ]
            parts.append(
                "## Parameters of the networks\n\nA Bayesian network learns a mean and a deviation of each weight, so "
                "it has twice the parameters, as the paper counts; parameters of normalisation layers are "
                "deterministic here and count once.\n\n"
                + pipe_table(["network", "arguments", "plain", "Bayesian", "paper: plain / Bayesian", ""], lines)
            )
    for net, rows in costs_by_net(grid).items():
        parts.append(
            f"## What each design stores and costs: {NAMES.get(net, net)}\n\nLearnt numbers, the prior's scale "
            "variables, all floats of the training state (Adam's moments, the precision of each weight, kept draws of "
            "a sampler), each for all members of an ensemble; time of a step on one core and in units of a step of "
            "plain training by torch, with which it took turns. The paper's count leaves the scale variables out: "
            "gradients do not learn them, but they are stored (a Gaussian prior's are a constant).\n\n"
            + pipe_table(
                ["design", "learnt", "scale variables", "floats of the state", "ms a step", "ratio"], _lines(rows)
            )
        )
    return "\n".join(parts)


def costs_by_net(grid: GridResults) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the result of each row, by network and row."""
    nets: dict[str, dict[str, dict[str, Any]]] = {}
    for cell in grid.results:
        settings = cell["settings"]
        if settings["kind"] == "row":
            nets.setdefault(settings["net"], {})[settings["row"]] = cell["result"]
    return nets


def _lines(rows: dict[str, dict[str, Any]]) -> list[list[str]]:
    return [
        [
            _name(row),
            f"{cost['learnt']:,}",
            f"{cost['scales']:,}",
            f"{cost['state']:,}",
            f"{1e3 * cost['step_seconds']:.1f}",
            f"{cost['ratio']:.2f}",
        ]
        for row, cost in rows.items()
    ]


def draw(grid: GridResults) -> dict[str, Figure]:
    """Draw as bars the floats for each weight of the network, and the time of a step in units of plain training."""
    from matplotlib.figure import Figure

    nets = costs_by_net(grid)
    if not nets:
        return {}
    names = list(dict.fromkeys(row for rows in nets.values() for row in rows))
    figure = Figure(figsize=(11, (0.22 + 0.2 * len(nets)) * len(names) + 1.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    height = 0.8 / len(nets)
    for index, (net, rows) in enumerate(nets.items()):
        places = [names.index(row) + (index - (len(nets) - 1) / 2) * height for row in rows]
        values = (
            [cost["state"] / cost["weights"] for cost in rows.values()],
            [cost["ratio"] for cost in rows.values()],
        )
        for ax, numbers in zip((left, right), values, strict=True):
            bars = ax.barh(places, numbers, height, color=COLORS.get(net, "0.5"), label=NAMES.get(net, net))
            ax.bar_label(bars, fmt="%.3g", padding=3, fontsize=8)
    left.set_yticks(range(len(names)), [_name(row) for row in names])
    left.invert_yaxis()
    left.set(xlabel="floats of the training state for each weight of the network", xscale="log")
    right.set(xlabel="time of a step, in units of plain training")
    for ax in (left, right):
        ax.margins(x=0.12)
    right.legend(frameon=False, loc="lower right")
    hide_frame(left, right)
    return {"What each design stores while it trains, and what a step costs": figure}


def _name(row: str) -> str:
    return OTHERS.get(row) or display_name(row)
