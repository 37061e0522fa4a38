"""How far does the band of a curve open outside the data? The curve of `inference_figure`, several seeds.

    python benchmarks/band_outside.py [--seeds 0 1 2 3 4] [--out results/benchmarks]

y = x^3 + e, 100 rows in |x| < 3, the paper's network of three hidden layers under R2D2. Share of places at which the
truth lies in the 90% band of the function, inside the data (|x| <= 3) and outside (3 < |x| <= 6).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

import r2d2net as rn
from inference_figure import curve
from r2d2net.files import write_json
from r2d2net.provenance import provenance

EDGE, END, PLACES = 3.0, 6.0, 121
FITS: dict[str, tuple[Any, int, float]] = {  # algorithm, epochs, deviation of the biases' prior
    "SVGI": (rn.inference.SVGI(), 300, 1.0),
    "MCLMC": (rn.inference.MCLMC(), 45, 1.0),
    "MCLMC, biases N(0, 3^2)": (rn.inference.MCLMC(), 45, 3.0),
}


def shares(name: str, seed: int) -> dict[str, float]:
    """Return the shares of places inside and outside the data at which the truth is in the band."""
    method, epochs, deviation = FITS[name]
    x, y = curve(seed)
    at = torch.linspace(-END, END, PLACES)
    model = rn.BayesianModel(rn.nets.paper_mlp(1, 3), rn.priors.R2D2(), bias=rn.priors.Gaussian(deviation))
    posterior: Any = rn.fit(model, (x, y), method, epochs=epochs, seed=seed, verbose=False)
    unit = posterior.units.y
    functions = posterior.outputs(at[:, None], draws=300)[..., 0] * unit.scale + unit.center
    low, high = functions.quantile(torch.tensor([0.05, 0.95]), dim=0)
    covered = ((at**3 >= low) & (at**3 <= high)).double()
    return {"inside": float(covered[at.abs() <= EDGE].mean()), "outside": float(covered[at.abs() > EDGE].mean())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = [
        {"fit": name, "seed": seed, **shares(name, seed)} for name in FITS for seed in arguments.seeds
    ]
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_json(arguments.out / "band-outside.json", {"rows": rows, **provenance({"command": sys.argv[1:]})})
    for name in FITS:
        for place in ("inside", "outside"):
            values = [row[place] for row in rows if row["fit"] == name]
            error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
            print(f"{name}, {place} the data: {fmean(values):.2f} ± {error:.2f}")


if __name__ == "__main__":
    main()
