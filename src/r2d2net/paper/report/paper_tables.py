"""The figures of the paper's tables, shipped with the package, under our names of rows.

A figure is known by table, setting ("S2 L=1", "CIFAR-10"), row ("r2d2-svgi") and metric ("mse").
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import pandas as pd

# The paper's names of models, priors and algorithms -> ours; its tables do not agree on them.
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


class Figure(NamedTuple):
    """A number of the paper; its standard deviation where the paper gives one."""

    value: float
    sd: float | None


@cache
def figures() -> dict[tuple[str, str, str, str], Figure]:
    """(table, setting, row, metric) -> the paper's figure.

    >>> figures()["ood_mnist_lenet", "Fashion-MNIST", "r2d2-svgi", "auroc"]
    Figure(value=98.75, sd=None)
    >>> len(figures())
    702
    """
    with files("r2d2net.paper.report").joinpath("paper_tables.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, keep_default_na=False)
    return {
        (line.table, line.setting, row_name(line.model_or_prior, line.algorithm), line.metric): Figure(
            float(line.value), float(line.sd) if line.sd != "" else None
        )
        for line in table.itertuples()
    }


def row_name(model: str, algorithm: str) -> str:
    """Our name of a row of the paper's.

    >>> row_name("Gauss", "SGMCMC"), row_name("MCD", "SVI"), row_name("R2D2-Net", "")
    ('gauss-sgmcmc', 'mcd', 'r2d2-svgi')
    """
    return MODELS[model] if model in MODELS else f"{PRIORS[model]}-{algorithm.lower()}"
