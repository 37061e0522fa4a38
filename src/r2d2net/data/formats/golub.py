"""Golub's leukemia patients: gene expressions as published, two CSV files with a row for each gene, and the diagnoses.

A file of expressions has the columns "Gene Description", "Gene Accession Number", and for each patient a column named
by the patient's number, followed by one named "call". The diagnoses have the columns "patient" and "cancer".
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from r2d2net.data.formats.read_errors import damaged, reading
from r2d2net.data.table import Table, finite_float32

FILES = ("data_set_ALL_AML_train.csv", "data_set_ALL_AML_independent.csv", "actual.csv")
CLASSES = ("ALL", "AML")
GENE = "Gene Accession Number"


def read_golub(folder: Path) -> Table:
    """Read both files of expressions; the published training and test patients are split 0."""
    import pandas as pd

    *expressions, diagnoses = (folder / file for file in FILES)
    with reading(diagnoses, "a CSV of patients and diagnoses"):
        frame = pd.read_csv(diagnoses)
        cancer = dict(zip(frame["patient"].astype(str), frame["cancer"], strict=True))
    x_parts, y_parts, genes = [], [], []
    for path in expressions:
        kind = "a CSV of gene expressions"
        with reading(path, kind):
            frame = pd.read_csv(path)
            patients = [name for name in frame.columns if name.isdecimal()]
            unknown = next((name for name in patients if cancer.get(name) not in CLASSES), None)
            if unknown is not None or not patients:
                raise damaged(path, kind, f"patient {unknown} has no diagnosis in {diagnoses.name}")
            x_parts.append(frame[patients].to_numpy(dtype=np.float64).T)
            y_parts.append([CLASSES.index(cancer[name]) for name in patients])
            genes.append(tuple(frame[GENE].astype(str)))
    if genes[0] != genes[1]:
        raise damaged(folder, "the leukemia set", "its two files have different genes")
    train, test = (len(part) for part in y_parts)
    rows = torch.arange(train + test).tensor_split([train])
    y = torch.tensor([*y_parts[0], *y_parts[1]])
    return Table(finite_float32(np.concatenate(x_parts)), y, genes[0], ((rows[0], rows[1]),), CLASSES)
