"""The figures of the paper's tables, which ship with the package, under our names of the rows.

A figure is identified by table, setting ("S2 L=1", "CIFAR-10"), row ("r2d2-svgi") and metric ("mse").
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import pandas as pd

# the paper's names of models, on which its tables do not agree -> our names of rows
MODELS = {
    "Freq": "freq",
    "Frequentist": "freq",
    "Frequentist NN": "freq",
    "MCD": "mcd",
    "MC Dropout": "mcd",
    "DE": "de",
    "Deep Ensembles": "de",
    "EDL": "edl",
    "DPN": "dpn",
    "MFVI": "gauss-mfvi",
    "Radial BNN": "gauss-radial",
    "Gaussian BNN": "gauss-svi",
    "Horseshoe BNN": "hs-svi",
    "R2D2-Net": "r2d2-svgi",
}
PRIORS = {"Gauss": "gauss", "HS": "hs", "SaS": "sas", "R2D2": "r2d2"}


class PaperFigure(NamedTuple):
    """A number of the paper, and its standard deviation where the paper gives one."""

    value: float
    sd: float | None


@cache
def paper_figures() -> dict[tuple[str, str, str, str], PaperFigure]:
    """Read all figures of the paper's tables.

    Returns:
        The figures by (table, setting, row, metric).

    >>> paper_figures()["ood_mnist_lenet", "Fashion-MNIST", "r2d2-svgi", "auroc"]
    PaperFigure(value=98.75, sd=None)
    >>> len(paper_figures())
    702
    """
    with files("r2d2net.paper.report").joinpath("paper_tables.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, keep_default_na=False)
    return {
        (line.table, line.setting, row_of_model(line.model_or_prior, line.algorithm), line.metric): PaperFigure(
            float(line.value), float(line.sd) if line.sd != "" else None
        )
        for line in table.itertuples()
    }


def row_of_model(model: str, algorithm: str) -> str:
    """Return our name of the row of a model, or of a prior and an algorithm, in the paper's tables.

    >>> row_of_model("Gauss", "SGMCMC"), row_of_model("MCD", "SVI"), row_of_model("R2D2-Net", "")
    ('gauss-sgmcmc', 'mcd', 'r2d2-svgi')
    """
    return MODELS[model] if model in MODELS else f"{PRIORS[model]}-{algorithm.lower()}"
