"""The declarations: cells of every artefact, the paper's recipe, and the tables of our own."""

import json
import math
import os
import re
import zipfile
from multiprocessing import current_process
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from paper.experiments.small_figures import random_images
from r2d2net import checkpoint
from r2d2net.data import Augment
from r2d2net.errors import DataError
from r2d2net.inference import SVGI
from r2d2net.model import BayesianModel
from r2d2net.paper.experiments import (
    ARTEFACTS,
    classification,
    filters,
    image_rows,
    images,
    ood_detection,
    regimes,
    simulation,
    simulation_oracles,
    uci,
)
from r2d2net.paper.experiments.artefact import SCALES
from r2d2net.paper.experiments.grid import Place
from r2d2net.paper.experiments.images import training_device
from r2d2net.paper.experiments.reproducing import Request, backend_of, rows_of
from r2d2net.paper.experiments.table_rows import PAPER_AUGMENT, ROWS, method_of, prior_of, stopping_rule
from r2d2net.posterior import FILE
from r2d2net.priors import R2D2


def small_table(root: Path, name: str, rows: int = 60, splits: int = 2) -> None:
    """A folder of the UCI layout: y is the first column, and the last two are the inputs."""
    folder = root / "uci_regression" / name / "data"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 2))
    np.savetxt(folder / "data.txt", np.column_stack([3 + 2 * x[:, 0] + 0.1 * rng.normal(size=rows), x]))
    np.savetxt(folder / "index_features.txt", [1, 2], fmt="%d")
    np.savetxt(folder / "index_target.txt", [0], fmt="%d")
    for k in range(splits):
        order = rng.permutation(rows)
        np.savetxt(folder / f"index_train_{k}.txt", order[6:], fmt="%d")
        np.savetxt(folder / f"index_test_{k}.txt", order[:6], fmt="%d")


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    small_table(tmp_path, "mine")
    monkeypatch.setenv("R2D2NET_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ARTEFACTS)
def test_cells_are_files_of_plain_settings(name: str, scale: str, tables: Path) -> None:
    artefact = ARTEFACTS[name]
    cells = artefact.cells(scale, None)
    keys = [cell.key for cell in cells]
    assert cells
    assert len(set(keys)) == len(keys)
    for cell in cells:
        assert re.fullmatch(r"[A-Za-z0-9_.+=-]+", cell.key)
        assert json.loads(json.dumps(cell.settings)) == cell.settings
    assert all(need in keys for cell in cells for need in cell.needs)
    assert artefact.reduced(scale) or scale == "paper" or name in ("priors", "complexity")
    if name not in ("priors", "complexity"):
        assert len({cell.settings["seed"] for cell in artefact.cells(scale, 2)}) > 1


def test_a_row_of_the_paper_s_tables_has_a_method() -> None:
    for row in ROWS:
        for recipe in ("ours", "paper"):
            method_of(row, recipe)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in ARTEFACTS if name != "complexity"])
def test_rivals_have_the_algorithm_of_r2d2_too(name: str, tables: Path) -> None:
    rows = {cell.settings.get("row", "") for cell in ARTEFACTS[name].cells("paper", None)}
    assert {row.replace("-svi", "-svgi") for row in rows if row.endswith("-svi")} <= rows


def test_the_paper_s_recipe() -> None:
    method = method_of("r2d2-svgi", "paper")
    assert isinstance(method, SVGI)
    assert (method.lr, method.lr_rho, method.step_unit, method.temperature) == (5e-4, 5e-4, "one", 1e-3)
    assert math.log(math.expm1(method.initial_scale)) == pytest.approx(-3.0)
    shares = prior_of("r2d2-svgi", "paper", n=40_000)
    assert isinstance(shares, R2D2)
    assert (shares.a_pi, shares.b) == (0.6, 0.5)
    assert method_of("freq", "paper").temperature == 1.0  # type: ignore[attr-defined]
    # loss + decay w^2 / 2 is n times the log joint where the prior's variance is 1 / (n decay)
    prior = prior_of("freq", "paper", n=40_000)
    assert prior.variance(prior.init_scales((1,))).item() == pytest.approx(1 / (40_000 * 5e-4))
    assert stopping_rule("paper", method, 7, classes=True) == {"patience": 7, "score": "auroc"}
    assert stopping_rule("paper", method, 7, classes=False) == {"patience": 5}
    for classes in (True, False):
        assert stopping_rule("paper", method_of("gauss-sgld", "paper"), 7, classes=classes) == {}
        assert stopping_rule("ours", method, 7, classes=classes) == {}
    assert Augment() != PAPER_AUGMENT


ORACLE = {"starts": 4, "chains": 1, "sweep_steps": 2, "epochs": 12, "directions": 3}
SHORT = {"rows": 300, "epochs": 2, "oracle": ORACLE}


@pytest.mark.parametrize("row", ["r2d2-svgi", "r2d2-mclmc"])
def test_a_row_of_the_simulation_is_judged_by_its_oracle(row: str, tmp_path: Path) -> None:
    cells = {cell.key: cell for cell in simulation.cells("smoke")}
    judgement = cells[f"judge-{row}-s2-l1-0"]
    assert judgement.needs == (f"{row}-s2-l1-0", "oracle-r2d2-s2-l1-0")
    short = {**SHORT, "epochs": 12, "method": {"sweep_steps": 2}} if row == "r2d2-mclmc" else SHORT
    found = {}
    for key in (*judgement.needs, judgement.key):
        settings = {**cells[key].settings, **short}
        found[key] = simulation.compute(settings, Place(tmp_path / key, tmp_path))
        assert all((tmp_path / name).exists() for name in cells[key].leaves)
    fitted, oracle, judged = found.values()
    assert oracle["mse"] > 0
    assert oracle["function_distance"] > 0
    assert judged["inference_error"] > 0
    assert judged["function_distance"] > 0
    assert fitted["reference"]["oracle"] < fitted["reference"]["least_squares"]


def test_which_rows_are_judged(tmp_path: Path) -> None:
    cells = {cell.key: cell for cell in simulation.cells("machine")}
    assert not [key for key in cells if "gibbs" in key and "l0" not in key]  # for linear models alone
    assert "judge-r2d2-mclmc-s1-l3-0" in cells
    assert "judge-r2d2-mclmc-s1-l3-1" not in cells  # oracles are of the first replicate alone
    assert "judge-r2d2-gibbs-s1-l0-0" not in cells  # has another posterior
    settings = {**cells["r2d2-gibbs-s2-l0-0"].settings, "rows": 300, "epochs": 40}
    found = simulation.compute(settings, Place(tmp_path / "run", tmp_path))
    assert found["mse"] < 1.2 * found["reference"]["least_squares"]


@pytest.mark.parametrize("layers", [0, 1])
def test_an_oracle_has_the_prior_of_its_rows(layers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    priors: list[Any] = []

    def model(net: torch.nn.Module, prior: Any) -> BayesianModel:
        priors.append(prior)
        return BayesianModel(net, prior)

    monkeypatch.setattr(simulation_oracles, "BayesianModel", model)
    cell = next(cell for cell in simulation.cells("smoke") if cell.key == "oracle-r2d2-s2-l1-0")
    settings = {**cell.settings, **SHORT, "recipe": "paper", "layers": layers}
    simulation.compute(settings, Place(tmp_path / "run", tmp_path))
    assert [prior.a_pi for prior in priors] == [0.6] * 4


def test_any_folder_of_the_uci_layout_is_a_table(tables: Path, tmp_path: Path) -> None:
    cells = {cell.key: cell for cell in uci.cells("smoke")}
    assert set(cells) == {f"{row}-mine-0" for row in (*uci.ROWS, *uci.WITHOUT_CHOICE)}
    settings = {**cells["adaptive-svgi-mine-0"].settings, "steps": 400}
    found = uci.compute(settings, Place(tmp_path / "run", tmp_path))
    assert found["rmse"] < 0.5  # in the table's units: y has deviation 2, its noise 0.1
    assert found["tried"][0]["validation"] is not None
    with pytest.raises(DataError, match="mine has no split 2: use one of its 2, counted from 0"):
        uci.compute({**settings, "replicate": 2}, Place(tmp_path / "other", tmp_path))


def test_a_table_has_cells_of_the_splits_that_it_has(tables: Path) -> None:
    small_table(tables, "short", splits=1)
    small_table(tables, "without-index-files", splits=0)
    with zipfile.ZipFile(tables / "uci_regression" / "zipped.zip", "w") as archive:
        for name in ("data.txt", *(f"index_{part}_{k}.txt" for part in ("train", "test") for k in range(3))):
            archive.writestr(f"zipped/data/{name}", "")
    for wanted, scale in ((4, "smoke"), (None, "machine"), (None, "paper")):
        cells = uci.cells(scale, wanted)  # type: ignore[arg-type]
        most = wanted or {"machine": 5, "paper": 20}[scale]
        there = {"mine": 2} if scale == "smoke" else {"mine": 2, "short": 1, "without-index-files": 20, "zipped": 3}
        splits = {(cell.settings["setting"], cell.settings["replicate"]) for cell in cells}
        assert splits == {(name, k) for name, count in there.items() for k in range(min(count, most))}
        assert len(cells) == len(splits) * (len(uci.ROWS) + len(uci.WITHOUT_CHOICE))


@pytest.mark.parametrize("row", ["r2d2-mclmc", pytest.param("default", marks=pytest.mark.slow)])
def test_rows_without_a_choice_are_fitted_to_all_training_rows(row: str, tables: Path, tmp_path: Path) -> None:
    cell = next(cell for cell in uci.cells("smoke") if cell.key == f"{row}-mine-0")
    found = uci.compute(cell.settings, Place(tmp_path / "run", tmp_path))
    assert found["rmse"] < 0.5
    assert found["tried"] == []
    rows = uci.read_split(cell.settings)
    assert checkpoint.read(tmp_path / "run" / FILE)[1]["settings"]["n"] == len(rows.y) + len(rows.held_y)


@pytest.mark.parametrize("given", [True, False])
def test_without_tables_there_is_one_clear_line(given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("R2D2NET_DATA", str(tmp_path) if given else "")
    with pytest.raises(DataError, match="has no tables in uci_regression or UCI_Datasets"):
        uci.cells("smoke")


@pytest.mark.parametrize(("regime", "inputs", "relevant"), [("sparse", 200, 10), ("big", 200, 10), ("teacher", 50, 5)])
def test_regimes_are_what_they_say(regime: str, inputs: int, relevant: int) -> None:
    made = regimes.regression(regime, 0)
    assert made.x.shape[1] == inputs
    assert int(made.relevant.sum()) == relevant
    residual = (made.y - made.mean).square().mean().sqrt().item()
    assert residual == pytest.approx(made.noise, rel=5 / (2 * len(made.y)) ** 0.5)  # 5 standard errors: below 1e-6
    line = torch.linalg.lstsq(made.x, made.mean[:, None]).solution[:, 0]
    if regime != "teacher":
        assert (line.abs() > 0.2).tolist() == made.relevant.tolist()
        assert bool((line.abs() > 3).any()) == (regime == "big")
    assert torch.equal(regimes.regression(regime, 0).y, made.y)
    assert not torch.equal(regimes.regression(regime, 1).y, made.y)


def test_a_regime_has_exact_monte_carlo_beside_the_variational_modes(tmp_path: Path) -> None:
    cells = {cell.key: cell for cell in regimes.cells("smoke")}
    assert "r2d2-exact-sparse-0" in cells
    assert "r2d2-exact-teacher-0" not in cells
    settings = {**cells["gauss-exact-sparse-0"].settings, "sweeps": 60}
    found = regimes.compute(settings, Place(tmp_path, tmp_path))
    assert found["reference"]["oracle"] < found["mse"] < 4  # 450 rows for 200 coefficients: the ridge has about 1.7
    assert found["relevance_auroc"] > 0.9
    assert found["rhat"] > 0.9
    assert 1 < found["ess"] < 200


@pytest.mark.skipif(not os.environ.get("R2D2NET_DATA"), reason="R2D2NET_DATA is not set: no real data here")
@pytest.mark.parametrize("recipe", ["ours", "paper"])
def test_a_cell_of_the_classification_tables(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("R2D2NET_CACHE", str(tmp_path / "cache"))
    cells = {cell.key: cell for cell in classification.BY_LENET.cells("smoke", None)}
    settings = {**cells["r2d2-svgi-cifar-10-0"].settings, "recipe": recipe}
    found = classification.compute(settings, Place(tmp_path / "run", tmp_path))
    assert 0 <= found["accuracy"] <= 100
    assert 30 < found["auroc"] < 80  # 180 images, one epoch


def test_images_are_trained_on_gpus_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(training_device()) == "cpu" or torch.cuda.is_available()
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = []
    for name in ("MainProcess", "SpawnProcess-1", "SpawnProcess-2", "SpawnProcess-3"):
        monkeypatch.setattr(current_process(), "name", name)
        found.append(str(training_device()))
    assert found == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]


def test_the_network_of_an_image_cell_is_moved_to_the_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    devices = []

    def fit_row(settings: object, net: torch.nn.Module, *arguments: object, **options: object) -> None:
        devices.append({parameter.device.type for parameter in net.parameters()})
        raise StopError

    for module in (image_rows, filters, ood_detection):
        monkeypatch.setattr(module, "fit_row", fit_row)
        monkeypatch.setattr(module, "set_of", random_images)
    for module in (images, filters):
        monkeypatch.setattr(module, "training_device", lambda: torch.device("meta"))
    for name in ("classification-lenet", "filters", "learning-curves", "ood-mnist"):
        settings = ARTEFACTS[name].cells("smoke", 1)[0].settings
        with pytest.raises(StopError):
            ARTEFACTS[name].compute(settings, Place(tmp_path, tmp_path))
    assert devices == [{"meta"}] * 4


def test_every_gpu_has_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    with backend_of(Request("ood-mnist"), ARTEFACTS["ood-mnist"]) as backend:
        assert backend.slots == 3
    with backend_of(Request("simulation"), ARTEFACTS["simulation"]) as backend:
        assert backend.slots == os.cpu_count()


def test_a_grid_says_what_its_rows_are(tmp_path: Path) -> None:
    rows = rows_of(ARTEFACTS["classification-lenet"].grid("paper", tmp_path))
    assert rows["r2d2-svgi"]["prior"].startswith("R2D2(a_pi=0.6, b=0.5")
    assert rows["r2d2-svgi"]["algorithm"]["arguments"]["temperature"] == 1e-3
    assert rows["freq"]["prior"] == "weight decay 0.0005"
    ensembles = rows_of(ARTEFACTS["ood-mnist"].grid("machine", tmp_path))["de"]
    assert ensembles["algorithm"]["arguments"]["members"] == 3
    assert rows_of(ARTEFACTS["hyperparameters"].grid("machine", tmp_path)) == {}


def test_edl_and_dpn_try_multiples_of_their_own_quarter() -> None:
    tried = {cell.settings["row"]: cell.settings["factors"] for cell in ARTEFACTS["ood-mnist"].cells("machine", 1)}
    assert tried["edl"] == tried["dpn"] == [1.0, 0.3]
    assert tried["de"] == [0.3, 0.1]
