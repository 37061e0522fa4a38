"""The figure of docs/algorithms.md: what the algorithm changes under one and the same prior.

    python benchmarks/inference_figure.py [--out docs/figures/inference.png]

Left a wide table: 80 rows of 1,500 inputs, six of which count; predictions of 400 new rows by SVGI, by chains and by
the exact sampler. Right a curve, y = x^3 + e with 100 rows in |x| < 3: the 90% bands of the function by SVGI and by
MCLMC; a network has no exact sampler. Runs have the lengths that ``algorithm="auto"`` gives them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

import r2d2net as rn
from r2d2net.inference import method_named
from r2d2net.run.choice import epochs_for

BLUE, ORANGE, GREEN, GREY = "#3b6ea8", "#d9822b", "#4f9a62", "0.55"


def wide_table(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw training and test rows of 1,500 inputs, six of which count."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(480, 1500, generator=g)
    effects = torch.tensor([2.0, -2.0, 1.5, -1.5, 1.0, 1.0])
    y = x[:, :6] @ effects + torch.randn(480, generator=g)
    return x[:80], y[:80], x[80:], y[80:]


def curve(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw rows of y = x^3 + e."""
    g = torch.Generator().manual_seed(seed)
    x = 6 * torch.rand(100, 1, generator=g) - 3
    return x, x[:, 0] ** 3 + 3 * torch.randn(100, generator=g)


def fitted(model: Any, x: Tensor, y: Tensor, algorithm: str) -> Any:
    """Fit for as long as ``algorithm="auto"`` would."""
    method = method_named(algorithm)
    return rn.fit(model, (x, y), method, epochs=epochs_for(len(y), None, method, model), verbose=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/figures/inference.png"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    x, y, x_test, y_test = wide_table()
    linear = rn.BayesianModel(nn.Linear(1500, 1), rn.priors.R2D2())
    fits = {"SVGI": ("svgi", ORANGE), "MCLMC": ("mclmc", GREEN), "exact (LinearGibbs)": ("lineargibbs", BLUE)}
    for name, (algorithm, colour) in fits.items():
        posterior: Any = fitted(linear, x, y, algorithm)
        mean = posterior.predict(x_test).mean
        r2 = 1 - float((mean - y_test).square().mean() / y_test.var())
        left.scatter(y_test, mean, s=8, color=colour, label=f"{name}: R² {r2:.2f}")
        print(name, f"R2 {r2:.3f}")
    left.axline((0, 0), slope=1, color=GREY, linewidth=0.8)
    left.set(xlabel="target of a new row", ylabel="predicted mean", title="80 rows, 1,500 inputs, six count")
    left.legend(frameon=False)
    x, y = curve()
    at = torch.linspace(-6, 6, 121)
    net = rn.BayesianModel(rn.nets.paper_mlp(1, 3), rn.priors.R2D2())
    for name, colour in (("MCLMC", GREEN), ("SVGI", ORANGE)):
        posterior = fitted(net, x, y, name)
        units = posterior.units.y
        functions = posterior.outputs(at[:, None], draws=300)[..., 0] * units.scale + units.center
        low, high = functions.quantile(torch.tensor([0.05, 0.95]), dim=0)
        right.fill_between(at, low, high, color=colour, alpha=0.35, linewidth=0, label=f"90% band of f by {name}")
        outside = at.abs() > 3
        inside = float(((at**3 >= low) & (at**3 <= high))[outside].double().mean())
        print(name, f"truth inside for |x| > 3: {inside:.2f}")
    right.plot(at, at**3, color="black", linewidth=1, label="truth, x³")
    right.scatter(x[:, 0], y, s=6, color=GREY)
    right.set(xlabel="x", title="100 rows in |x| < 3", ylim=(-230, 230))
    right.legend(frameon=False, loc="upper left")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(arguments.out, dpi=110)
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
