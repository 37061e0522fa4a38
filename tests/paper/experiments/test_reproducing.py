"""From a request to a folder: variants, parts of a grid, backends."""

import io
import json
import shutil
import sys
from collections import ChainMap
from dataclasses import replace

import pytest
from rich.console import Console

import r2d2net as rn
from paper.experiments import jobs
from r2d2net.paper.cell_files import pack_cells
from r2d2net.paper.experiments import ARTEFACTS, reproducing
from r2d2net.paper.experiments.artefact import Artefact
from r2d2net.paper.experiments.data_requirements import required_splits
from r2d2net.paper.experiments.grid import Cell, Grid
from r2d2net.paper.experiments.reproducing import Request, reproduce
from r2d2net.paper.experiments.time_estimate import RowTime, estimate_lines, row_times
from table_runs import command


def cells(scale, replicates=None, variant="plain"):
    return [
        Cell(f"{name}-{i}", {"name": name, "seed": i, "variant": variant})
        for name in ("a", "b")
        for i in range(replicates or 1)
    ]


@pytest.fixture
def artefact(monkeypatch):
    made = Artefact("made-up", "a title", cells, jobs.work, lambda scale: "less", variants=("plain", "other"))
    monkeypatch.setattr(reproducing, "ARTEFACTS", ChainMap({"made-up": made}, ARTEFACTS))
    return made


def ask(folder, **options):
    request = Request("made-up", "smoke", workers=1, out=folder, **options)
    return reproduce(request, Console(file=io.StringIO()), quiet=True)


def test_a_part_of_a_grid_is_run_and_the_whole_is_described(artefact, tmp_path):
    grid, progress = ask(tmp_path, only=("a",), replicates=2)
    assert progress.failed == {}
    assert [one["key"] for one in grid.results()] == ["a-0", "a-1"]
    about = json.loads((tmp_path / "made-up-smoke" / "grid.json").read_text())
    assert [cell["key"] for cell in about["cells"]] == ["a-0", "a-1", "b-0", "b-1"]
    assert (about["scale"], about["variant"], about["reduced"]) == ("smoke", "plain", "less")
    assert about["replicates"] == 2


def test_a_grid_goes_on_from_a_table_of_results(artefact, tmp_path):
    grid, _ = ask(tmp_path, only=("a",))
    pack_cells(grid.folder)
    shutil.rmtree(grid.folder / "cells")
    grid, progress = ask(tmp_path)
    assert (progress.skipped, progress.done, progress.failed) == (1, 1, {})
    assert [one["key"] for one in grid.results()] == ["a-0", "b-0"]
    assert [(grid.shared / name).read_text() for name in ("a", "b")] == [".", "."], "neither was computed twice"


def test_a_table_beside_other_cell_files_is_named(artefact, tmp_path):
    grid, _ = ask(tmp_path)
    pack_cells(grid.folder)
    grid.path(grid.cells[1]).unlink()
    shown = io.StringIO()
    reproduce(Request("made-up", "smoke", workers=1, out=tmp_path), Console(file=shown, width=40), quiet=True)
    note = f"{grid.folder / 'cells.jsonl'} holds 1 result that the cell files lack or have otherwise (b-0): remove "
    assert shown.getvalue().startswith(note)
    assert shown.getvalue().count("\n") == 1


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


def test_words_may_have_blanks_around_them_and_each_must_match_a_cell(artefact, tmp_path):
    grid, _ = ask(tmp_path, only=(" a-1", "b-0 "), replicates=2)
    assert [cell.key for cell in grid.cells] == ["a-1", "b-0"]
    ended = command("reproduce", "simulation", "--only", "r2d2-svgi, hs-svgi,zzz, yyy", "--out", tmp_path / "out")
    assert ended.code == 2
    assert ended.error.startswith("error: --only zzz,yyy matches no cell: use parts of keys, such as ")
    assert not (tmp_path / "out").exists()


def put(root, *names):
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).touch()


DIGITS = [f"mnist/{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]


def test_data_that_are_not_there_are_one_line_before_anything_is_done(tmp_path, monkeypatch):
    words = ("reproduce", "ood-mnist", "--scale", "smoke", "--out", tmp_path / "out")
    monkeypatch.delenv("R2D2NET_DATA", raising=False)
    ended = command(*words)
    assert ended.code == 2
    assert ended.error == (
        "error: ood-mnist needs mnist (train and test), fashion-mnist (test), omniglot (evaluation), svhn (test), "
        "R2D2NET_DATA is not set: set it to the folder that holds the data sets; "
        "`r2d2net data fetch mnist fashion-mnist omniglot svhn` downloads to it\n"
    )
    monkeypatch.setenv("R2D2NET_DATA", str(tmp_path))
    put(tmp_path, *DIGITS, "svhn/test_32x32.mat")
    ended = command(*words)
    assert ended.code == 2
    assert f" needs fashion-mnist (test), omniglot (evaluation), not in R2D2NET_DATA={tmp_path}: " in ended.error
    ended = command("reproduce", "ood-drd", "--scale", "smoke", "--out", tmp_path / "out")
    assert ended.code == 2
    assert " needs diabetic-retinopathy (all), not in " in ended.error
    assert "fetch" not in ended.error
    assert not (tmp_path / "out").exists()


def test_only_the_data_that_unfinished_cells_read_are_needed(artefact, tmp_path, monkeypatch):
    monkeypatch.setenv("R2D2NET_DATA", str(tmp_path))
    tables = ARTEFACTS["classification-alexnet"]
    both = ("train", "test")
    assert required_splits(tables, tables.cells("machine", None)) == {"cifar10": both}
    assert required_splits(tables, tables.cells("paper", None)) == dict.fromkeys(tables.data, both)
    assert required_splits(ARTEFACTS["filters"], ARTEFACTS["filters"].cells("smoke")) == {"cifar10": both}
    assert required_splits(tables, []) == {}
    with_data = replace(artefact, data=("cifar10",))
    ask(tmp_path)
    monkeypatch.setitem(reproducing.ARTEFACTS, "made-up", with_data)
    assert ask(tmp_path)[1].failed == {}
    with pytest.raises(rn.DataError, match=r"^made-up needs cifar10 \(train and test\), not in "):
        ask(tmp_path, replicates=2)


@pytest.mark.parametrize("words", [["no-artefact"], ["simulation", "--variant", "x"], ["uci"]])
def test_what_cannot_be_reproduced_makes_no_folder(words, tmp_path, monkeypatch):
    monkeypatch.setenv("R2D2NET_DATA", str(tmp_path))
    ended = command("reproduce", *words, "--out", tmp_path / "out")
    assert ended.code == 2
    assert ended.error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_used_is_one_line(tmp_path):
    (tmp_path / "taken").touch()
    for out in (tmp_path / "taken", tmp_path / "taken" / "below"):
        ended = command("reproduce", "priors", "--scale", "smoke", "--out", out)
        assert ended.code == 2
        assert ended.error.startswith(f"error: --out {out} cannot be used (")


def test_a_row_of_the_simulation_keeps_its_oracles(tmp_path):
    whole = ARTEFACTS["simulation"].grid("machine", tmp_path)
    wanted = whole.only(["r2d2-svgi-s2-l1", "hs-svi-s2-l1-0"])
    assert {cell.key for cell in wanted.cells} == {
        *(f"r2d2-svgi-s2-l1-{i}" for i in range(3)),
        *("judge-r2d2-svgi-s2-l1-0", "oracle-r2d2-s2-l1-0"),  # only the first replicate has oracles
        *("hs-svi-s2-l1-0", "judge-hs-svi-s2-l1-0", "oracle-hs-s2-l1-0"),
    }
    keys = {cell.key for cell in whole.cells}
    assert all(set(cell.needs) <= keys for cell in whole.cells)
    assert all(cell.needs for cell in whole.cells if cell.stage > 0)


def test_an_estimate_is_of_cells_that_were_timed(artefact, tmp_path):
    """The cells of the made-up artefact belong to no row; nothing is run by asking."""
    request = Request("made-up", "smoke", workers=2, out=tmp_path, replicates=2)
    assert (
        reproducing.estimate(request)[-1]
        == "4 cells, 4 left; no cell has been timed: run one by --only a-0, and ask again"
    )
    assert not list(tmp_path.iterdir())
    grid, _ = ask(tmp_path, only=("a",), replicates=2)
    for seconds, cell in ((30.0, grid.cells[0]), (90.0, grid.cells[1])):
        path = grid.path(cell)
        path.write_text(json.dumps({**json.loads(path.read_text()), "seconds": seconds}))
    assert reproducing.estimate(request) == [
        "all                4 cells,    2 left, 1 min 0 s a cell",
        "4 cells, 2 left: about 1 min 0 s with 2 at a time",
    ]


def test_rows_that_were_not_timed_are_taken_as_others(tmp_path):
    made = [Cell(f"{row}-0", {"row": row, "seed": 0}) for row in ("freq", "de")]
    grid = Grid(made, jobs.work, tmp_path)
    grid.path(made[0]).parent.mkdir()
    values = {"key": "freq-0", "settings": made[0].settings, "seed": 0, "versions": {}, "commit": None, "result": {}}
    grid.path(made[0]).write_text(json.dumps({**values, "seconds": 7.0}))
    assert row_times(grid) == [RowTime("freq", 1, 0, 7.0, True), RowTime("de", 1, 1, 7.0, False)]
    assert estimate_lines(grid, 2)[1:] == [
        "de                 1 cells,    1 left, 7.0 s a cell, as others",
        "2 cells, 1 left: about 7.0 s with 1 at a time",
    ]
