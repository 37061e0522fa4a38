"""Cell files and the table that holds all of them: nothing is lost on the way there and back, damage is one line."""

import json
import shutil
from pathlib import Path

import pytest

from paper.report.grids import cell, simulation, write_grid
from r2d2net.errors import DataError
from r2d2net.files import write_json
from r2d2net.paper import cell_files
from r2d2net.paper.cell_files import note_on_table, pack_cells, read_table, unpack_cells
from r2d2net.paper.report import grid_report
from r2d2net.paper.report.grid_report import report_as_markdown, write_report
from r2d2net.paper.report.grid_results import read_grid
from r2d2net.paper.report.index_page import index_documents
from r2d2net.report.document import Drawing, slug, to_html, to_markdown
from table_runs import command

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = sorted(path.parent.name for path in RESULTS.glob("*/grid.json"))
AWKWARD = {
    "whole": 1,
    "real": 1.0,
    "third": 1 / 3,
    "tiny": 5e-324,
    "large": 2**70,
    "none": None,
    "infinite": float("inf"),
    "nested": {"list": [1, 1.0, "1", None, True, []], "empty": {}},
    "text": "two\nlines | ü\u2028",
}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def grid(tmp_path):
    made = simulation({"r2d2-svgi": (20.0, 21.0, 24.0)})
    return write_grid(tmp_path / "simulation-machine", "simulation", made)


def test_cells_come_back_from_the_table_byte_for_byte(tmp_path):
    (tmp_path / "cells").mkdir()
    for i, value in enumerate([AWKWARD, {**AWKWARD, "more": [AWKWARD]}]):
        write_json(tmp_path / "cells" / f"a-{i}.json", cell(f"a-{i}", {"seed": i, "value": value}, value))
    before = contents(tmp_path / "cells")
    table = pack_cells(tmp_path)
    assert table is not None
    assert table.read_text().count("\n") == 2
    shutil.rmtree(tmp_path / "cells")
    assert unpack_cells(tmp_path) == 2
    assert contents(tmp_path / "cells") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cells", "cells.jsonl"]


def test_a_report_of_the_table_is_that_of_the_files(grid):
    written = write_report(grid)
    assert grid / "cells.jsonl" in written
    from_files = {path: path.read_bytes() for path in written}
    shutil.rmtree(grid / "cells")
    assert write_report(grid) == [path for path in written if path.name != "cells.jsonl"]
    assert not (grid / "cells").exists()
    assert {path: path.read_bytes() for path in written} == from_files


def test_where_there_are_files_the_table_is_not_read(grid):
    pack_cells(grid)
    assert unpack_cells(grid) == 0
    (grid / "cells" / "r2d2-svgi-1.json").unlink()
    assert read_grid(grid).missing == ["r2d2-svgi-1"]
    write_report(grid)
    assert "r2d2-svgi-1" not in read_table(grid)


def test_a_table_that_differs_from_the_files_is_named(grid):
    """A pulled table, newer than the files of an earlier run, is not passed over silently."""
    table = pack_cells(grid)
    assert note_on_table(grid) is None
    assert "cells.jsonl" not in command("report", grid, "--quiet").error
    lines = table.read_text().splitlines()
    table.write_text("\n".join(lines[1:]) + "\n")  # a running grid has more files than lines
    assert note_on_table(grid) is None
    changed = {**json.loads(lines[0]), "seconds": 1234.5}
    table.write_text("\n".join([json.dumps(changed), *lines[1:]]) + "\n")
    note = note_on_table(grid)
    assert note.startswith(
        f"{table} holds 1 result that the cell files lack or have otherwise ({changed['key']}): remove"
    )
    ended = command("report", grid, "--quiet")
    assert (ended.code, ended.error.splitlines()[0]) == (0, note)
    assert note_on_table(grid) is None  # the table has been replaced
    (grid / "cells" / f"{changed['key']}.json").unlink()
    assert "holds 1 result" in note_on_table(grid)
    table.write_text("{\n")
    assert "line 1, cannot be read: the cell files count" in note_on_table(grid)
    shutil.rmtree(grid / "cells")
    assert note_on_table(grid) is None


def test_a_kill_while_files_are_restored_leaves_none(grid, monkeypatch):
    pack_cells(grid)
    shutil.rmtree(grid / "cells")
    written = []

    def stop(path, content):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(path)

    monkeypatch.setattr(cell_files, "write_json", stop)
    with pytest.raises(KeyboardInterrupt):
        unpack_cells(grid)
    assert sorted(path.name for path in grid.iterdir()) == ["cells.jsonl", "grid.json"]


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("{", r"cells.jsonl, line 10, cannot be read \(.*\)[:;] restore the file, or remove it"),
        ("", r"cells.jsonl, line 10, cannot be read"),
        ("[1]", r"cells.jsonl, line 10, is no file of a grid \(without 'key'\): restore"),
        (json.dumps(cell("../secret", {"seed": 0}, {})), r"line 10, has a key that cannot be used \('../secret'\)"),
        (json.dumps(cell("r2d2-svgi-1", {"seed": 0}, {})), r"line 10, has a key that cannot be used \('r2d2-svgi-1'\)"),
    ],
)
def test_a_damaged_table_is_one_line(grid, line, match):
    table = pack_cells(grid)
    shutil.rmtree(grid / "cells")
    table.write_text(table.read_text() + line + "\n")
    for use in (read_grid, unpack_cells):
        with pytest.raises(DataError, match=match):
            use(grid)
    ended = command("report", grid)
    assert (ended.code, ended.error.count("\n")) == (2, 1)
    assert not (grid / "cells").exists()


def test_a_file_of_another_cell_is_one_line(grid):
    (grid / "cells" / "r2d2-svgi-1.json").rename(grid / "cells" / "other.json")
    with pytest.raises(DataError, match=r"other.json has the result of another cell \('r2d2-svgi-1'\): remove it"):
        pack_cells(grid)


@pytest.mark.parametrize("folder", FOLDERS)
def test_committed_results_are_complete(folder):
    read = read_grid(RESULTS / folder)
    assert read.results
    assert (read.missing, read.failures) == ([], {})


@pytest.mark.parametrize("folder", FOLDERS)
def test_committed_reports_are_those_of_their_results(folder, monkeypatch):
    """The text alone: how figures are rendered depends on the version of matplotlib."""
    monkeypatch.setattr(grid_report, "drawing", without_rendering)
    assert (RESULTS / folder / "report.md").read_text(encoding="utf-8") == report_as_markdown(RESULTS / folder)


def without_rendering(caption, figure, name=None):
    return Drawing(caption, f"{slug(name or caption)}.png", b"")


def test_the_committed_index_is_that_of_the_results():
    html, markdown = index_documents([(RESULTS / folder, read_grid(RESULTS / folder)) for folder in FOLDERS], RESULTS)
    assert (RESULTS / "index.html").read_text(encoding="utf-8") == to_html(html)
    assert (RESULTS / "index.md").read_text(encoding="utf-8") == to_markdown(markdown)
