"""`r2d2net fit --prune`: fewer hidden units, the same predictions, runs that go on after a kill."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from r2d2net.errors import ParameterError
from r2d2net.estimators import R2D2Classifier, R2D2Regressor
from r2d2net.tables import fitting
from r2d2net.tables.inspecting import inspect_run
from r2d2net.tables.run_folder import load_run
from r2d2net.tables.settings import Settings
from table_runs import command


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(260, 3))
    price = 2 * x[:, 0] - x[:, 1] + 0.2 * rng.normal(size=260)
    kind = np.where(price > 0, "dear", "cheap")
    path = tmp_path_factory.mktemp("prune") / "rows.csv"
    lines = [",".join([*(f"{v:.4f}" for v in row), f"{p:.3f}", k]) for row, p, k in zip(x, price, kind, strict=True)]
    path.write_text("\n".join(["a,b,c,price,kind", *lines]) + "\n", encoding="utf-8")
    return path


def fitted(table: Path, out: Path, **settings: Any) -> dict[str, Any]:
    given = {"target": "price", "ignore": ["kind"], "hidden": "20", "prune": True, "baselines": False, "epochs": 150}
    given |= settings
    lines: list[str] = []
    fitting.fit_table(table, out, Settings.of(given), overwrite=False, verbose=False, say=lines.append)
    results: dict[str, Any] = json.loads((out / "metrics.json").read_text())
    assert results["pruned"]["line"] in lines
    return results


@pytest.mark.parametrize("target", ["price", "kind"])
def test_fewer_units_predict_as_well(table: Path, target: str, tmp_path: Path) -> None:
    other = "kind" if target == "price" else "price"
    pruned = fitted(table, tmp_path / "run", target=target, ignore=[other])
    whole = {"target": target, "ignore": [other], "hidden": "20", "baselines": False, "epochs": 150}
    fitting.fit_table(table, tmp_path / "whole", Settings.of(whole), overwrite=False, verbose=False, say=print)
    other_results = json.loads((tmp_path / "whole" / "metrics.json").read_text())
    (layer,) = pruned["pruned"]["layers"]
    assert layer["before"] == 20
    assert 1 <= layer["after"] < 12
    nll, nll_whole = (results["test"]["nll"] for results in (pruned, other_results))
    assert nll < nll_whole + 0.3
    run = load_run(tmp_path / "run")
    assert inspect_run(run)["pruned"] == pruned["pruned"]["layers"]
    kind = R2D2Regressor if target == "price" else R2D2Classifier
    again = kind.load(tmp_path / "run" / "model")
    assert again.posterior_.model.net[0].out_features == layer["after"]
    assert not (tmp_path / "run" / "whole").exists()


def test_a_killed_fit_goes_on_after_the_cut(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def die(*given: Any, **options: Any) -> Any:
        raise Killed

    expected = fitted(table, tmp_path / "one")
    monkeypatch.setattr(fitting, "relevance_of", die)  # after the smaller model was saved
    with pytest.raises(Killed):
        fitted(table, tmp_path / "two")
    monkeypatch.undo()
    assert fitting.resume_table(tmp_path / "two", None, verbose=False, say=print)
    found = json.loads((tmp_path / "two" / "metrics.json").read_text())
    assert found["pruned"] == expected["pruned"]
    assert found["test"] == expected["test"]


def test_the_option_is_on_the_command_line(table: Path, tmp_path: Path) -> None:
    done = command("fit", table, "--target", "price", "--prune", "--algorithm", "mclmc", "--out", tmp_path / "run")
    assert done.code == 2
    assert "--prune needs --algorithm svgi or cavi, svi, mfvi, radial" in done.error


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"hidden": "0"}, "prune needs hidden layers: leave one of both out"),
        ({"validation": 0.0}, "prune needs validation rows: give validation=0.1"),
    ],
)
def test_what_cannot_be_pruned_is_refused(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Settings.of({"target": "y", "prune": True, **settings})
    assert str(caught.value) == line
    assert not Settings.of({"target": "y", "prune": True}).stacked
    assert Settings.of({"target": "y", "prune": False}).stacked
