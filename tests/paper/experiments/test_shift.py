"""Tables of our own on shifted images and on temperatures: their cells, results and pages."""

import pytest

from paper.experiments.small_figures import result_of, smaller
from r2d2net.inference import SVGI
from r2d2net.paper.experiments import ARTEFACTS
from r2d2net.paper.experiments.table_rows import method_of
from r2d2net.paper.report.grid_results import GridResults
from r2d2net.paper.report.pages import covariate_shift
from r2d2net.paper.report.table_layouts import compare_grid


def test_shifted_images_are_measured_by_kind_and_severity() -> None:
    cell = next(cell for cell in ARTEFACTS["covariate-shift"].cells("smoke") if cell.settings["row"] == "freq")
    found = result_of("covariate-shift", smaller(cell))
    shifts = found["result"]["shifts"]
    assert list(shifts) == ["noise", "blur", "contrast", "brightness", "pixelate", "jpeg"]
    assert all(len(by_severity) == 5 for by_severity in shifts.values())
    assert shifts["noise"][4] != found["result"]["clean"]


def test_the_page_of_shifts_has_means_over_kinds() -> None:
    def measures(value: float) -> dict[str, float]:
        return {"accuracy": value, "nll": 1.0, "ece": 0.1}

    shifts = {"noise": [measures(70.0), measures(60.0)], "blur": [measures(50.0), measures(20.0)]}
    result = {"clean": measures(80.0), "shifts": shifts}
    grid = GridResults({"cells": []}, [{"settings": {"row": "r2d2-svgi", "seed": 0}, "result": result}], [])
    text = covariate_shift.text(grid)
    assert "| R2D2-Net | 80 | 60 | 40 |" in text
    assert "## Accuracy (%) by kind, at severity 2" in text
    assert "| R2D2-Net | 60 | 20 |" in text
    assert covariate_shift.text(GridResults({"cells": []}, [], [])) == ""


@pytest.mark.parametrize("row", ["gauss-svgi", "hs-svgi", "r2d2-svgi"])
def test_a_cell_of_the_temperatures_is_fitted_at_its_own(row) -> None:
    cells = [cell for cell in ARTEFACTS["temperature"].cells("machine", 1) if cell.settings["row"] == row]
    methods = [method_of(row, "ours", **cell.settings["method"]) for cell in cells]
    assert all(isinstance(method, SVGI) for method in methods)
    assert [method.temperature for method in methods] == [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]  # type: ignore[attr-defined]
    assert all("mean_field" not in cell.settings for cell in cells)  # its candidates have temperatures of their own


def test_temperatures_are_columns_of_a_table() -> None:
    cells = [
        smaller(cell) for cell in ARTEFACTS["temperature"].cells("smoke", 1) if cell.settings["row"] == "r2d2-svgi"
    ]
    results = [result_of("temperature", cell) for cell in (cells[0], cells[-1])]
    about = {"artefact": "temperature", "cells": [{"key": cell.key, "settings": cell.settings} for cell in cells]}
    compared = {one.metric: one.entries for one in compare_grid(GridResults(about, results, []))}
    assert set(compared) == {"accuracy", "nll", "ece"}
    run = {entry.setting: entry.mean for entry in compared["nll"] if entry.mean is not None}
    assert list(run) == ["T = 0.001", "T = 1"]
    assert run["T = 0.001"] != run["T = 1"]
