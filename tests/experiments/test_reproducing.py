"""From a request to a folder: variants, parts of a grid, backends."""

import io
import json
import sys

import pytest
from rich.console import Console

import r2d2net as rn
from experiments import jobs
from r2d2net.experiments import ARTEFACTS, reproducing
from r2d2net.experiments.artefact import Artefact, only
from r2d2net.experiments.grid import Cell
from r2d2net.experiments.reproducing import Request, reproduce


def cells(scale, replicates=None, variant="plain"):
    return [
        Cell(f"{name}-{i}", {"name": name, "seed": i, "variant": variant})
        for name in ("a", "b")
        for i in range(replicates or 1)
    ]


@pytest.fixture
def artefact(monkeypatch):
    made = Artefact("made-up", "a title", cells, jobs.work, lambda scale: "less", variants=("plain", "other"))
    monkeypatch.setitem(reproducing.ARTEFACTS, "made-up", made)
    return made


def ask(folder, **options):
    request = Request("made-up", "smoke", workers=1, out=folder, **options)
    return reproduce(request, Console(file=io.StringIO()), quiet=True)


def test_a_part_of_a_grid_is_run_and_the_whole_is_described(artefact, tmp_path):
    grid, watched = ask(tmp_path, only=("a",), replicates=2)
    assert watched.failed == {}
    assert [one["key"] for one in grid.results()] == ["a-0", "a-1"]
    about = json.loads((tmp_path / "made-up-smoke" / "grid.json").read_text())
    assert [cell["key"] for cell in about["cells"]] == ["a-0", "a-1", "b-0", "b-1"]
    assert (about["scale"], about["variant"], about["reduced"]) == ("smoke", "plain", "less")


def test_variants_have_folders_of_their_own(artefact, tmp_path):
    assert artefact.grid("smoke", tmp_path, variant="plain").folder == tmp_path / "made-up-smoke"
    other = artefact.grid("smoke", tmp_path, variant="other")
    assert other.folder == tmp_path / "made-up-other-smoke"
    assert other.cells[0].settings["variant"] == "other"
    with pytest.raises(rn.ParameterError, match=r"^variant='odd' is not known: use plain or other$"):
        artefact.grid("smoke", tmp_path, variant="odd")
    with pytest.raises(
        rn.ParameterError, match=r"^variant='text' is not known: ood-mnist has no variants, leave it out$"
    ):
        ARTEFACTS["ood-mnist"].grid("smoke", tmp_path, variant="text")


def test_what_cannot_be_asked_for_is_one_line(artefact, tmp_path, monkeypatch):
    with pytest.raises(rn.ParameterError, match=r"^address='x:1' is for the backend ray"):
        ask(tmp_path, address="x:1")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(rn.ParameterError, match=r"needs ray: pip install 'r2d2net\[ray\]'"):
        ask(tmp_path, backend="ray")
    assert not (tmp_path / "made-up-smoke").exists()


def test_a_row_of_the_simulation_keeps_its_oracles(tmp_path):
    whole = ARTEFACTS["simulation"].grid("machine", tmp_path)
    wanted = only(whole, ["r2d2-svgi-s2-l1", "hs-svi-s2-l1-0"])
    assert {cell.key for cell in wanted.cells} == {
        *(f"r2d2-svgi-s2-l1-{i}" for i in range(3)),
        *(f"oracle-r2d2-s2-l1-{i}" for i in range(3)),
        "hs-svi-s2-l1-0",
        "oracle-hs-s2-l1-0",
    }
    keys = {cell.key for cell in whole.cells}
    assert all(set(cell.needs) <= keys and (cell.needs or cell.leaves) for cell in whole.cells)
