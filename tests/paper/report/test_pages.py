"""Pages of artefacts that are figures: their texts follow from the results, and their drawings are labelled."""

import copy

import numpy as np
import pytest

from paper.experiments.small_figures import NAMES, small_results
from r2d2net.paper.report.grid_results import GridResults
from r2d2net.paper.report.pages import PAGES, hyperparameters, learning_curves, weight_densities
from r2d2net.paper.report.row_tables import check_least, row_table

WITHOUT_AXES = {"filters"}
SAYS = {
    "priors": ("neither the pole at zero nor a tail heavier", "Horseshoe+", "not in the paper's table"),
    "prediction-bands": ("MC dropout", "Horseshoe by SVGI", "smallest prediction variance"),
    "weight-densities": ("most concentrated at zero", "Gaussian by SVGI"),
    "hyperparameters": ("initial_scale = softplus(rho_0)", "| rho\\_0 | S1 |"),
    "filters": ("Roughness", "the least noise in R2D2-Net's filters"),
    "learning-curves": ("in nats an image", "epochs"),
    "complexity": ("62K / 124K", "124,012", "ResNet".lower()),
}


def small_grid(name: str) -> GridResults:
    results = list(copy.deepcopy(small_results(name)).values())
    cells = [{"key": cell["key"], "settings": cell["settings"]} for cell in results]
    return GridResults({"artefact": name, "title": "", "scale": "smoke", "reduced": "", "cells": cells}, results, [])


def rows_with(metric: str, **values: list[float]) -> GridResults:
    results = [
        {"settings": {"row": row.replace("_", "-"), "seed": seed}, "result": {metric: value}}
        for row, given in values.items()
        for seed, value in enumerate(given)
    ]
    return GridResults({"cells": []}, results, [])


@pytest.mark.parametrize("name", NAMES)
def test_pages_say_and_draw(name):
    text = PAGES[name].text(small_grid(name))
    for phrase in SAYS[name]:
        assert phrase in text, phrase
    assert "nan" not in text
    drawn = PAGES[name].draw(small_grid(name))
    assert drawn
    for caption, figure in drawn.items():
        assert caption
        figure.draw_without_rendering()
        for ax in figure.axes:
            if name in WITHOUT_AXES:
                assert ax.images
                assert ax.get_title()
            else:
                assert ax.lines or ax.patches or ax.collections
                assert ax.get_xlabel() or not ax.xaxis.get_tick_params()["labelbottom"]
        if name not in WITHOUT_AXES:
            assert figure.legends or any(ax.get_legend() for ax in figure.axes)


@pytest.mark.parametrize("name", NAMES)
def test_pages_of_nothing_are_empty(name):
    nothing = GridResults({"artefact": name, "cells": []}, [], ["a", "b"])
    assert PAGES[name].text(nothing) == ""
    assert PAGES[name].draw(nothing) == {}


@pytest.mark.parametrize("name", NAMES)
def test_pages_of_one_result(name):
    """A grid that was stopped early has a page too."""
    whole = small_grid(name)
    part = whole._replace(results=whole.results[:1])
    assert PAGES[name].text(part)
    PAGES[name].draw(part)


def test_a_claim_is_checked_by_the_numbers():
    claim = "It is least"
    wins = check_least(rows_with("m", r2d2_svgi=[1.0, 2.0], hs_svi=[2.0, 6.0], gauss_svi=[9.0, 9.0]), "m", claim)
    assert wins == (
        "It is least: so it is here. R2D2-Net's is 0.375 times that of the best other design, Horseshoe BNN, and the "
        "lesser of the two in 2 of 2 runs.\n"
    )
    loses = check_least(rows_with("m", r2d2_svgi=[1.0, 9.0], hs_svi=[2.0, 6.0]), "m", claim)
    assert "not so here. R2D2-Net's is 1.25 times" in loses
    assert "in 1 of 2 runs" in loses
    assert check_least(rows_with("m", hs_svi=[1.0]), "m", claim) == ""


def test_table_has_means_and_errors():
    lines = row_table(
        rows_with("m", r2d2_svgi=[1.0, 3.0], mcd=[5.0]), {"twice": lambda result: 2 * result["m"], "m": "m"}
    )
    assert lines.splitlines()[2:] == ["| R2D2-Net | 4 ± 2 | 2 ± 1 |", "| MC dropout | 10 | 5 |"]


def test_sweeps_share_their_base():
    whole = small_grid("hyperparameters")
    sweeps = hyperparameters.collect_sweeps(whole)
    assert list(sweeps) == [("a_pi", "1"), ("b", "1"), ("rho_0", "1")]
    assert [sorted(sweep) for sweep in sweeps.values()] == [[0.1, 0.6], [0.5, 2.0], [-4.0, -2.25]]
    base = next(cell["result"] for cell in whole.results if cell["key"] == "base-s1-0")
    ratio = base["mse"] / base["noise_floor"]
    assert sweeps["a_pi", "1"][0.1] == sweeps["b", "1"][0.5] == sweeps["rho_0", "1"][-2.25] == [ratio]
    for cell in whole.results:
        cell["result"]["mse"] = 8.0 if cell["key"].startswith("rho_0") else 2.0
    assert "matter more than a_pi and b. So it is here" in hyperparameters.text(whole)
    for cell in whole.results:
        cell["result"]["mse"] = 8.0 if cell["key"].startswith("b=") else 2.0
    assert "matter more than a_pi and b. Not so here" in hyperparameters.text(whole)
    for cell in whole.results:
        cell["result"]["mse"] = 2.1 if cell["key"].startswith("b=") else 2.0
    assert "matter more than a_pi and b. Here none matters much" in hyperparameters.text(whole)


def test_epochs_that_r2d2_leads_are_counted():
    whole = small_grid("learning-curves")
    curves = {"r2d2-svgi": [1.0, 3.0], "gauss-svi": [2.0, 4.0], "hs-svi": [2.0, 2.0]}
    for cell in whole.results:
        cell["result"]["validation"] = curves[cell["settings"]["row"]]
    assert "in 1 of 2 epochs" in learning_curves.text(whole)
    for cell in whole.results:
        cell["result"]["score"] = "auroc"
    (figure,) = learning_curves.draw(whole).values()
    assert [ax.get_ylabel() for ax in figure.axes] == ["negative log likelihood, nats an image", "1 - AUROC"]


def test_histogram_is_a_density():
    draws = np.random.default_rng(0).normal(size=(5, 1000))
    edges = np.linspace(-9, 9, 82)
    values = weight_densities.density(draws, edges)
    assert (values * np.diff(edges)).sum() == pytest.approx(1)
    assert values[40] == pytest.approx(0.4, abs=0.06)  # four deviations of 5,000 draws
    inner = weight_densities.density(draws, edges[30:52])
    assert inner == pytest.approx(values[30:51])  # what is outside still counts
