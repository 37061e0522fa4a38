"""Commands run in the tests' own process, and a table to run them on."""

import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import numpy as np
import pandas as pd
import pytest

from r2d2net.cli import main
from r2d2net.columns.column_detection import learn_inputs


class Ended:
    """How a command ended."""

    def __init__(self, code, out, error):
        self.code, self.out, self.error = code, out, error

    @property
    def json(self):
        return json.loads(self.out)


def command(*arguments):
    """Run a command in this process."""
    out, error = StringIO(), StringIO()
    before, sys.argv = sys.argv, ["r2d2net", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(error), pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv = before
    return Ended(ended.value.code, out.getvalue(), error.getvalue())


def make_table(rows, seed=0):
    """A target by two numbers and a category; holes, a date, an identifier and a class besides."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, rows))
    group = rng.choice(["red", "green", "blue"], rows)
    y = 10 + 3 * x + 2 * (group == "red") + 0.5 * rng.normal(size=rows)
    table = pd.DataFrame({"x": x, "z": z, "group": group, "price": y})
    table["kind"] = np.where(x + 0.3 * rng.normal(size=rows) > 0, "high", "low")
    table["day"] = (pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), unit="D")).astype(str)
    table["name"] = [f"item {i}" for i in range(rows)]
    table.loc[rng.random(rows) < 0.1, "z"] = np.nan
    return table


def learn_columns(*arguments, **options):
    """What the columns of a table are, without its rows as inputs."""
    return learn_inputs(*arguments, **options).columns
