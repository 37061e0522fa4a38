"""CPU seconds for reading a table and making it ready for a fit (`read_training_table`), by its number of columns.

Most columns are plain numbers; the others are numbers with thousands separators, whole numbers, numbers with missing
cells, categories, truth values, ISO dates, dates with the day first, and amounts of money. A second table of the same
content is written with decimal commas and semicolons. Run it as

    python benchmarks/table_reading.py [--out results/benchmarks/table-reading.json]
    python benchmarks/table_reading.py --columns 500 --profile    # the functions that take most of the time

By default tables of 500 and 5,000 columns of 500 rows are read.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd

from r2d2net.files import write_json
from r2d2net.provenance import provenance

LIMITS = {500: 1.0, 5_000: 12.0}  # CPU seconds


def make_table(rows: int, columns: int, *, comma: bool) -> pd.DataFrame:
    """Make a table of texts; above 3,000 columns one input each, as more would not be allowed."""
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, rows), unit="D")

    def number(values: np.ndarray, form: str) -> np.ndarray:
        texts = pd.Series([format(value, form) for value in values])
        return (texts.str.translate(str.maketrans(".,", ",.")) if comma else texts).to_numpy(dtype=object)

    def holes(cells: np.ndarray) -> np.ndarray:
        return np.where(rng.random(rows) < 0.1, "", cells)

    makers: list[Callable[[], Any]] = [
        lambda: number(rng.normal(size=rows), ".6g"),
        lambda: number(rng.normal(size=rows), ".3f"),
        lambda: rng.integers(0, 1000, rows).astype(str),
        lambda: number(rng.normal(size=rows), ".6g"),
        lambda: holes(number(rng.normal(size=rows), ".6g")),
        lambda: holes(rng.choice(["red", "green", "blue"], rows).astype(object)),
        lambda: number(1e5 * rng.random(rows), ".4f"),
        lambda: number(rng.normal(size=rows), ".17g"),
        lambda: number(1e3 * rng.gamma(2, size=rows), ",.2f"),
        lambda: number(rng.normal(size=rows), ".6g"),
    ]
    rare: list[Callable[[], Any]] = [
        lambda: days.strftime("%Y-%m-%d").to_numpy(),
        lambda: days.strftime("%d/%m/%Y").to_numpy(),
        lambda: holes(np.array([f"$ {cell}" for cell in number(1e3 * rng.random(rows), ",.2f")], dtype=object)),
        lambda: rng.choice(["True", "False"], rows),
    ]
    if columns > 3_000:
        makers, rare = makers[:4] + makers[6:], [makers[8]]  # without holes, categories and dates
    table = {}
    for i in range(columns):
        make = rare[i // 20 % len(rare)] if i % 20 == 13 else makers[i % len(makers)]
        table[f"column {i}"] = make()
    table["target"] = number(rng.normal(size=rows), ".6g")
    return pd.DataFrame(table)


def measure(rows: int, columns: int, *, comma: bool, profile: bool) -> dict[str, float | int | str]:
    """Write a table of this size, read it and return the CPU seconds that reading takes."""
    from r2d2net.tables.settings import Settings
    from r2d2net.tables.training_table import read_training_table

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        table = make_table(rows, columns, comma=comma)
        table.to_csv(path, index=False, sep=";" if comma else ",")
        table.iloc[:20, [0, -1]].to_csv(Path(folder) / "small.csv", index=False)
        read_training_table(Path(folder) / "small.csv", Settings.of({"target": "target"}))  # imports pandas
        profiler = cProfile.Profile()
        start = process_time()
        if profile:
            profiler.enable()
        read = read_training_table(path, Settings.of({"target": "target"}))
        profiler.disable()
        seconds = process_time() - start
    if profile:
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(45)
    decimal = "comma" if comma else "point"
    return {"rows": rows, "columns": columns, "decimal": decimal, "inputs": read.x.shape[1], "seconds": seconds}


def rows() -> Iterator[tuple[str, str, str, float, str, float, float | None]]:
    """Iterate over the figures as rows of `speed.py`."""
    for columns, limit in LIMITS.items():
        for comma in (False, True):
            found = measure(500, columns, comma=comma, profile=False)
            value, name = float(found["seconds"]), f"decimal {found['decimal']}"
            yield "reading", f"{columns:,} columns of 500 rows", name, value, "CPU s", value, limit


def main() -> None:
    """Print a line of JSON for each table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--columns", type=int, nargs="+", default=list(LIMITS))
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found = []
    for columns in arguments.columns:
        for comma in (False, True):
            found.append(measure(arguments.rows, columns, comma=comma, profile=arguments.profile))
            print(json.dumps(found[-1]), flush=True)
    if arguments.out is not None:
        write_json(arguments.out, {"tables": found, "limits": LIMITS, **provenance({"rows": arguments.rows}, seed=0)})


if __name__ == "__main__":
    main()
