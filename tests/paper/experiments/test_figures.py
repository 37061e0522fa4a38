"""The figure-type artefacts: what their cells are, and what they compute, made small."""

import json
import math

import numpy as np
import pytest
import torch

from paper.experiments.small_figures import NAMES, result_of, small_cells, small_results, smaller
from r2d2net import data, nets
from r2d2net.json_arrays import pack, unpack
from r2d2net.paper.experiments import ARTEFACTS, filters, hyperparameters
from r2d2net.paper.experiments.artefact import SCALES
from r2d2net.paper.experiments.grid import Place
from r2d2net.paper.experiments.row_fitting import fit_row
from r2d2net.paper.experiments.simulated_regressions import simulated_rows
from r2d2net.paper.experiments.table_rows import method_of
from r2d2net.paper.prior_rates import RateRow, rate_row
from r2d2net.priors import Horseshoe

TIMES = {"step_seconds", "ratio"}


@pytest.mark.parametrize("name", NAMES)
def test_cells_of_every_scale(name):
    artefact = ARTEFACTS[name]
    for scale in SCALES:
        cells = artefact.cells(scale, None)
        assert len({cell.key for cell in cells}) == len(cells)
        for cell in cells:
            assert json.loads(json.dumps(cell.settings)) == cell.settings
            assert "seed" in cell.settings
            row = cell.settings.get("row", "r2d2-svgi")
            method_of(row, cell.settings.get("recipe", "ours"))
    assert artefact.reduced("smoke")


@pytest.mark.parametrize("name", NAMES)
def test_a_result_is_a_function_of_its_settings(name):
    cell = small_cells(name)[0]
    again = result_of(name, cell)["result"]
    first = small_results(name)[cell.key]["result"]
    assert {k: v for k, v in again.items() if k not in TIMES} == {k: v for k, v in first.items() if k not in TIMES}


@pytest.mark.parametrize("name", NAMES)
def test_results_are_small_enough_to_be_kept(name):
    assert max(len(json.dumps(one, indent=2)) for one in small_results(name).values()) < 100_000


def test_rates_survive_the_file():
    found = small_results("priors")["horseshoe"]["result"]
    assert RateRow.of(found) == rate_row("Horseshoe", 25)


def test_rows_are_cut_in_three_without_overlap():
    rows = simulated_rows({"scenario": "2", "rows": 1000, "seed": 5})
    assert [len(part) for part in rows] == [720, 720, 80, 80, 200, 200, 200]
    whole = data.simulate("2", n=1000, seed=5)
    assert torch.equal(torch.cat([rows.x, rows.held_x, rows.test_x]), whole.x)
    assert torch.equal(torch.cat([rows.y, rows.held_y, rows.test_y]), whole.y)
    assert torch.equal(rows.test_mean, whole.mean[800:])


def test_bands():
    for one in small_results("prediction-bands").values():
        found = one["result"]
        low, high, mean, x = (unpack(found[name]) for name in ("low", "high", "mean", "x"))
        function = unpack(found["function"])
        assert x[0] == -x[-1] == -6
        assert (low < mean).all()
        assert (mean < high).all()
        assert (low < function[0]).all()  # the noise makes an observation's band the wider
        assert (function[1] < high).all()
        assert found["noise_floor"] < found["mse"]


def test_weights_nearest_zero():
    for one in small_results("weight-densities").values():
        found = one["result"]
        draws, least, of_all = (unpack(found[name]) for name in ("draws", "quantiles", "all_quantiles"))
        assert (found["parameter"], found["weights"], found["least"]) == ("0.weight", 128, 13)
        assert draws.shape == (5, 1000)
        assert np.abs(draws.mean(axis=1)).max() < np.median(of_all)
        assert (least <= of_all).mean() > 0.9
        assert found["near_zero"] > found["all_near_zero"]


def test_rivals_by_the_same_algorithm(tmp_path):
    rows = simulated_rows({"scenario": "1", "rows": 100, "seed": 0})
    settings = {"row": "hs-svgi", "recipe": "ours", "method": {}, "factors": [1.0], "epochs": 1, "batch_size": 40}
    chosen = fit_row({**settings, "seed": 0}, nets.paper_mlp(1, 1), rows, Place(tmp_path, tmp_path))
    assert chosen.posterior.settings["algorithm"]["type"] == "SVGI"
    assert isinstance(chosen.posterior.model.bayesian[0].prior, Horseshoe)


def test_hyperparameters_vary_one_at_a_time():
    cells = ARTEFACTS["hyperparameters"].cells("machine", 1)
    base = hyperparameters.OURS
    for cell in cells:
        differ = [name for name in base if cell.settings[name] != base[name]]
        assert len(differ) == (0 if cell.key.startswith("base") else 1)
    assert sum(cell.key.startswith("base") for cell in cells) == 3
    values = {name: {cell.settings[name] for cell in cells} for name in base}
    assert values == {name: {*values, base[name]} for name, values in hyperparameters.GRID.items()}


def test_hyperparameters_reach_the_fit():
    found = small_results("hyperparameters")
    assert len({one["result"]["mse"] for one in found.values()}) == len(found) == 4
    assert found["base-s1-0"]["result"]["initial_scale"] == pytest.approx(0.1, abs=1e-3)  # our default
    assert found["rho_0=-4-s1-0"]["result"]["initial_scale"] == pytest.approx(math.log1p(math.exp(-4)))


def test_roughness_tells_noise_from_patterns():
    """White noise has roughness 1; of 3 x 64 x 64 pixels the estimate has deviation 0.01: four of them."""
    noise = torch.randn(3, 64, 64, generator=torch.Generator().manual_seed(0))
    assert float(filters.roughness(noise)) == pytest.approx(1, abs=0.04)
    ramp = torch.arange(64.0).expand(3, 64, 64) + torch.arange(64.0)[:, None]
    assert float(filters.roughness(ramp)) < 0.01


def test_filters_come_by_their_norm():
    for one in small_results("filters").values():
        found = one["result"]
        shown = unpack(found["filters"])
        assert shown.shape == (5, 3, 16, 16)
        norms = np.linalg.norm(shown.reshape(5, -1), axis=1)
        assert norms == pytest.approx(found["norms"][:5], rel=0.01)
        assert found["norms"] == sorted(found["norms"], reverse=True)
        assert 0 < found["signal"] < 1
        assert unpack(found["maps"]).shape == (5, 21, 21)
        assert unpack(found["image"]).shape == (3, 32, 32)


def test_learning_curves_have_every_epoch():
    for one in small_results("learning-curves").values():
        found = one["result"]
        assert len(found["training"]) == len(found["validation"]) == 2
        assert found["validation"][-1] == pytest.approx(found["tried"][0]["validation"], rel=0.1)
        assert found["score"] == "nll"


@pytest.mark.parametrize(
    ("name", "score"), [("filters", None), ("learning-curves", "auroc"), ("hyperparameters", None)]
)
def test_the_paper_recipe_runs(name, score):
    cells = {cell.key: cell for cell in ARTEFACTS[name].cells("paper", 1)}
    cell = cells["base-s1-0" if name == "hyperparameters" else "r2d2-svgi-0"]
    assert cell.settings["recipe"] == "paper"
    settings = {**smaller(cell).settings, "factors": [1.0]}
    assert result_of(name, cell._replace(settings=settings))["result"].get("score") == score


def test_counts():
    found = {key: one["result"] for key, one in small_results("complexity").items()}
    weights = 62_006  # LeNet for CIFAR-10
    assert found["r2d2-svgi-lenet"]["learnt"] == found["hs-svi-lenet"]["learnt"] == 2 * weights
    assert found["de-lenet"]["learnt"] == 5 * weights
    assert found["freq-lenet"]["learnt"] == weights
    matrices, vectors = 61_770, 236
    assert found["r2d2-svgi-lenet"]["scales"] == 2 * matrices + 5 * 2 + vectors  # T and psi; xi and its rate
    timed = [one for key, one in found.items() if key != "architectures"]
    assert all(one["step_seconds"] > 0 and one["ratio"] > 0 for one in timed)
    lenet = [one for one in found["architectures"]["architectures"] if one["name"] == "lenet"]
    assert lenet[1]["parameters"] == weights


def test_packed_numbers():
    values = np.random.default_rng(0).normal(size=(3, 4)) * 10.0 ** np.arange(-8, 4).reshape(3, 4)
    assert unpack(pack(values, digits=6)) == pytest.approx(values, rel=1e-5)
    assert unpack(pack(torch.zeros(0, 3))).shape == (0, 3)
