"""The artefact "pruning": its cells, networks, the ratio that validation images choose, and its page."""

from typing import Any

import pytest

from r2d2net.paper.experiments import ARTEFACTS
from r2d2net.paper.experiments.pruning import MASKED, PRIORS, RATIOS, _chosen, network_of, prior_of
from r2d2net.paper.report.grid_results import GridResults
from r2d2net.paper.report.pages.pruning import text

JUDGED = {"nll": 0.06, "ece": 0.01, "auroc": 0.98}


def test_every_network_has_every_design() -> None:
    cells = ARTEFACTS["pruning"].cells("machine")
    assert len(cells) == (5 + 3 + 1) * (len(PRIORS) + 1)
    assert len(ARTEFACTS["pruning"].cells("paper")) == (5 + 3 + 3) * (len(PRIORS) + 1)
    assert [cell.settings["seed"] for cell in cells] == sorted(cell.settings["seed"] for cell in cells)
    assert len({cell.key for cell in cells}) == len(cells)
    assert len(ARTEFACTS["pruning"].cells("smoke")) == 2
    assert {type(prior_of(name)).__name__ for name in PRIORS} >= {"GroupR2D2", "GroupHorseshoe", "SpikeSlab"}


@pytest.mark.parametrize(("name", "weights"), [("lenet-300-100", 266_200), ("lenet-5-caffe", 430_500)])
def test_networks_are_those_of_the_literature(name: str, weights: int) -> None:
    assert sum(p.numel() for p in network_of(name).parameters() if p.dim() > 1) == weights


def test_the_chosen_ratio_is_the_last_before_the_first_that_fails() -> None:
    rows: list[dict[str, Any]] = [
        {"ratio": ratio, "validation": value, "validation_se": 0.1}
        for ratio, value in ((1, -1.0), (10, -1.05), (20, -1.2), (40, -1.0))
    ]
    assert _chosen(rows) == 10


def test_the_page_has_two_counts_and_published_figures() -> None:
    def cell(design: str, units: Any) -> dict[str, Any]:
        zeros = [{"ratio": ratio, "error": 0.01 + ratio / 1e4, **JUDGED} for ratio in RATIOS]
        settings = {"network": "lenet-300-100", "design": design, "seed": 0}
        masks = None if units is None else [{"ratio": ratio, "error": 0.011, **JUDGED} for ratio in MASKED]
        found = {"zeros": zeros, "chosen": 70, "units": units, "masks": masks, "chosen_mask": 280}
        return {"settings": settings, "result": found}

    units = {"dense": 11_980, "ratio": 22.2, "error": 0.0184, **JUDGED}
    page = text(GridResults({"artefact": "pruning"}, [cell("r2d2", units), cell("magnitude", None)], []))
    assert "70x: 1.70" in page
    assert "68x: 1.92" in page
    assert "| r2d2, fitted again |" in page
    assert "| 1.10 | 1.10 | 280x: 1.10 |" in page
    assert "| r2d2 | 11,980 | 22.2x | 1.84 |" in page
    assert page.count("| magnitude |") == 1
    assert text(GridResults({"artefact": "pruning"}, [], [])) == ""
