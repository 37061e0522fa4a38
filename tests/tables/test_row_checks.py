"""Predictive checks of a run's test rows: in a file, on the page, by columns of the table."""

import json

import numpy as np

from r2d2net.tables.row_checks import FILE, inputs_of


class Named:
    names = ("size", "kind", "day")
    groups = ([0], [1, 2], [3, 4])


def test_a_run_keeps_the_checks_and_shows_them(price_run, kind_run):
    for folder, target, kind in ((price_run[0], "price", "numbers"), (kind_run[0], "kind", "classes")):
        (check,) = json.loads((folder / FILE).read_text())["checks"]
        assert (check["target"], check["kind"]) == (target, kind)
        assert sum(check["density"]["observed"]) > 0.95
        page = (folder / "report.html").read_text()
        assert "Predictive checks" in page
        assert f"Residuals by {check['inputs'][0]['name']}" in page
        assert ("(PIT)" in page) == (kind == "numbers")


def test_inputs_are_columns_of_the_table():
    rows = np.arange(40.0)
    x = np.stack([rows, rows % 2, (rows + 1) % 2, np.sin(rows), np.cos(rows)], 1)
    values, names = inputs_of(x, Named)
    assert names == ["size", "kind", "day (1)", "day (2)"]
    assert set(values[:, 1]) == {0.0, 1.0}
    assert values.shape == (40, 4)
