"""The demonstration, made small: what it prints, writes and leaves as it was."""

import io
import json
from pathlib import Path

import matplotlib.image
import pytest
import torch
from rich.console import Console

from r2d2net.paper.demo import Size, linear_regression, one_thread, run_demo, score
from r2d2net.shrinkage import Relevance

SMALL = Size(rows=500, epochs=3, table_epochs=10, draws=10, fit_options={"hidden": "0", "epochs": 30})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder, terminal = tmp_path_factory.mktemp("demo"), io.StringIO()
    files = run_demo(folder, seed=1, size=SMALL, console=Console(file=terminal, width=80))
    names = {"predictive_band.png", "results.json", "diabetes-noise.csv", "diabetes-run"}
    assert {path.name for path in folder.iterdir()} == names  # nothing half written beside them
    assert all(path.is_file() for path in files)
    assert files[-1] == folder / "diabetes-run" / "report.html"
    return folder, terminal.getvalue()


def test_prints_scores_and_inputs_within_80_columns(made: tuple[Path, str]) -> None:
    _, text = made
    for phrase in ("true function", "R2D2-Net, 6 null inputs more", "linear regression", "400 + 100", "354 + 88 rows"):
        assert phrase in text
    assert text.count("kept (share of variance lost when shuffled): ") == text.count("dropped: ") == 2
    assert max(len(line) for line in text.splitlines()) <= 80


def test_shows_the_default_model_beside_its_baselines(made: tuple[Path, str]) -> None:
    folder, text = made
    default = json.loads((folder / "results.json").read_text())["default"]
    for name in ("ridge regression", "boosted trees"):
        assert f"{default['test']['baselines'][name]['rmse']:.4g}" in text
    assert default["verdict"]["sentence"] in " ".join(text.split())
    assert len(default["inputs"]) == 20
    assert sum(entry["share"] for entry in default["inputs"]) <= 1 + 1e-6


def test_writes_every_figure_printed_and_its_origin(made: tuple[Path, str]) -> None:
    folder, text = made
    results = json.loads((folder / "results.json").read_text())
    assert {"seed", "versions", "commit", "written", "settings"} <= set(results)
    assert results["seed"] == 1
    assert set(results["versions"]) == {"python", "torch", "r2d2net", "scikit-learn"}
    for name, models in (("scenario 2", 4), ("diabetes", 2)):
        scores = results[name]["scores"]
        assert len(scores) == models
        for row in scores:
            assert f"{row['nll']:.3f}" in text
            assert row["mse"] == pytest.approx(row["rmse"] ** 2)
            assert 0 <= row["coverage"] <= 1
    more = results["scenario 2"]["relevance"]["null inputs more"]
    assert list(more) == ["x1", "x2", "x3", "x4", *(f"null{i}" for i in range(1, 7))]
    assert set(more["x1"]) == set(Relevance._fields)
    fits = results["scenario 2"]["settings"]
    assert [(fit["n"], fit["epochs"], fit["seed"]) for fit in fits] == [(400, 3, 1), (400, 3, 1)]
    assert results["diabetes"]["settings"]["n"] == 354


def test_figure_is_a_picture(made: tuple[Path, str]) -> None:
    picture = matplotlib.image.imread(made[0] / "predictive_band.png")
    assert picture.shape[:2] == (720, 2100)
    assert picture.std() > 0.05


def test_least_squares_is_right_on_linear_data() -> None:
    """Tolerances are four standard errors of 1,000 rows."""
    g = torch.Generator().manual_seed(0)
    x, rows = torch.randn(2000, 4, generator=g), torch.arange(2000)
    y = x.sum(1) + torch.randn(2000, generator=g)
    line = score("line", y[1000:], linear_regression(x, y, rows[:1000], rows[1000:]))
    assert line["mse"] == pytest.approx(1, abs=0.18)
    assert line["coverage"] == pytest.approx(0.9, abs=0.04)
    assert line["nll"] == pytest.approx(1.419, abs=0.09)


def test_number_of_threads_is_given_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
