"""The figure of docs/priors.md: what three priors imply before any data, beside the targets of a small problem.

    python benchmarks/elicit_figure.py [--out docs/figures/elicit.png]

The code is that of the page. The picture is kept in a palette of 256 colours.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import torch
from PIL import Image

import r2d2net as rn


def elicited() -> rn.priors.Elicited:
    """Draw from three priors of 20 slopes, at 100 rows whose targets depend on three inputs."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(100, 20, generator=g)
    y = x[:, :3].sum(1) + 2 * torch.randn(100, generator=g)
    priors = {
        "R2 around 0.4": rn.priors.R2D2.from_r2(0.4, 5.0, concentration=0.3, sigma0=0.75),
        "R2D2()": rn.priors.R2D2(),
        "Gaussian(1)": rn.priors.Gaussian(1.0),
    }
    return rn.priors.elicit(priors, x=x, y=y, noise=0.75)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/figures/elicit.png"))
    out = parser.parse_args().out
    found = elicited()
    print(found)
    found.plot().savefig(out, dpi=100)
    with Image.open(out) as picture:
        picture.convert("RGB").quantize(256).save(out, optimize=True)


if __name__ == "__main__":
    main()
