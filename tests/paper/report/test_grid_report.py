"""Reports of grids: what they say, that pages need no other file, and that nothing in a result is taken for markup."""

import json
import re
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

from paper.report.grids import cell, simulation, write_grid
from r2d2net import cli
from r2d2net.errors import DataError
from r2d2net.paper.report.discrepancies import DISCREPANCIES
from r2d2net.paper.report.grid_report import report_as_markdown, write_report
from r2d2net.paper.report.grid_results import read_grid
from r2d2net.paper.report.index_page import write_reports
from r2d2net.paper.report.result_exports import flat_table
from r2d2net.paper.report.table_layouts import TABLES, compare_grid
from r2d2net.report.document import Document, Section, Text, to_html

MSE = {"gauss-svi": (20.0, 20.0, 23.0), "r2d2-svgi": (20.0, 21.0, 24.0)}


@pytest.fixture
def grid(tmp_path):
    missing = [("hs-svi-0", {"kind": "row", "row": "hs-svi", "setting": "S2 L=1", "seed": 0})]
    return write_grid(tmp_path / "simulation-machine", "simulation", simulation(MSE), missing=missing)


def test_a_report_says_what_is_missing_and_where_the_rest_is_from(grid):
    (grid / "cells" / "hs-svi-0.log").write_text("Traceback\nValueError: <b>no|no</b>\n")
    text = report_as_markdown(grid)
    assert "Less than in the paper: fewer images." in text
    assert "**1 of 13 cells have no result**" in text
    assert r"| hs-svi-0 | ValueError: \<b\>no\|no\</b\> |" in text
    assert "| r2d2-svgi | - (509.2), not run | 21.67 ± 1.2 (22.38), within error |" in text
    assert "| gauss-svi | 2 |" not in text
    assert "| row | step size × 1 | step size × 0.3 |\n|---|---|---|\n| gauss-svi | 1 | 2 |" in text
    assert "| hours of one core | 12 |" in text
    assert "| commit | abc |" in text
    assert "Scenario 2 of the table is not that of the text." in text
    (grid / "cells" / "hs-svi-0.log").unlink()
    assert "Not run (1): `hs-svi-0`." in report_as_markdown(grid)


def test_the_page_of_the_simulation(grid, tmp_path):
    text = " ".join(report_as_markdown(grid).split())
    assert "1 of the 12 cells of the paper's table were run." in text
    assert "in 1 of them; R2D2-SVGI's is at or below the paper's in **1 of 1**." in text
    # 21 + 2/3 is 2/3 above 21, whose standard error is 1; the differences 0, 1, 1 have 1/3
    assert "within a standard error of the lowest, in **1 of 1** cells" in text
    assert "by that of the paired difference it is 0 of 1." in text
    assert "| S2 L=1 | gauss-svi | 0.6667 | 1 | 0.33 | ties | is behind |" in text
    assert "### MSE over that of: true function | row | S2 L=1 | |---|---| | gauss-svi | 2.333 ± 0.11 |" in text
    assert "| S2 L=1 | r2d2 | 4 x 2 | 1.21 | - | - | 50 | 0.5 (25%) | 10 ± 0 | no |" in text
    assert "**0 of 1** have." in text
    assert "| row | S2 L=1 | |---|---| | r2d2-svgi | (4.0) |" in text  # 2 over 0.5
    assert "| row | S2 L=1 | |---|---| | r2d2-svgi | (5.0) |" in text  # by the means: 1 over 0.2
    assert "| r2d2-svgi | 0 | 0 | - | 4.0 |" in text
    assert "fitted anew" not in text
    made = simulation(MSE)
    made[-1]["commit"] = "def"
    newer = report_as_markdown(write_grid(tmp_path / "newer", "simulation", made))
    assert "by version abc, def; the tables of test rows are of version abc." in newer
    sure = write_grid(tmp_path / "sure", "simulation", simulation(MSE, rhat=0.81))
    assert "| r2d2-svgi | 4.0 times |" in report_as_markdown(sure)
    assert "**1 of 1** have." in report_as_markdown(sure)
    low = write_grid(tmp_path / "low", "simulation", simulation(MSE, floor=30.0))
    assert "in 0 of them; R2D2-SVGI's is at or below the paper's in **0 of 0**." in report_as_markdown(low)
    assert "| not compared: the paper's is below the noise |" in report_as_markdown(low)
    bad = write_grid(tmp_path / "bad", "simulation", simulation({"r2d2-svgi": (30.0, 31.0, 32.0)}))
    assert "in 1 of them; R2D2-SVGI's is at or below the paper's in **0 of 1**." in report_as_markdown(bad)


def test_the_text_variant_stands_beside_no_figure(grid, tmp_path):
    other = write_grid(tmp_path / "text", "simulation", simulation(MSE), variant="text")
    assert all(entry.paper is None for table in compare_grid(read_grid(other)) for entry in table.entries)
    assert "no figure of the paper stands beside ours" in report_as_markdown(other)


def test_the_page_of_the_regimes(tmp_path):
    def run(mode, seed, **result):
        settings = {"row": f"hs-{mode}", "prior": "hs", "mode": mode, "setting": "sparse", "seed": seed}
        return cell(f"hs-{mode}-{seed}", settings, {"nll": 1.0, "coverage": 0.9, **result})

    runs = [run("exact", 0, mse=1.0, rhat=1.002), run("exact", 1, mse=2.0, rhat=1.03)]
    runs += [run("svgi", 0, mse=2.0), run("svgi", 1, mse=3.0), run("cavi", 0, mse=1.5)]
    text = report_as_markdown(write_grid(tmp_path / "regimes", "regimes", runs))
    assert "| sparse | hs | 1.5 ± 0.5 | 1.75 ± 0.25 | 1.5 | 1.03 |" in text
    assert "**1 of 2** runs have at most 1.01" in text
    variational = write_grid(tmp_path / "fast", "regimes", [run("svgi", 0, mse=2.0)])
    assert "exact sampling" not in report_as_markdown(variational)


def test_out_of_distribution_runs_have_both_conventions(tmp_path):
    sets = {"SVHN": {"auroc": 40.0, "aupr": 41.0, "paper_auroc": 60.0, "paper_aupr": 61.0, "fpr95": 90.0}}
    rows = [
        cell(f"r2d2-svgi-{i}", {"row": "r2d2-svgi", "seed": i}, {"accuracy": 98.0, "settings": sets}) for i in (0, 1)
    ]
    text = report_as_markdown(write_grid(tmp_path / "ood", "ood-mnist", rows))
    assert "| SVHN | 40 ± 0 | 60 ± 0 | 99.31 |" in text
    assert "| r2d2-svgi | - (98.75), not run | - (99.64), not run | 40 ± 0 (99.31), other measure |" in text
    assert "| R2D2-Net | 98 ± 0 |" in text
    assert "False alarms of the novelty score" not in text, "results of before that score have none"


def test_out_of_distribution_runs_have_the_novelty_score_beside_the_entropy(tmp_path):
    measures = {"auroc": 40.0, "aupr": 41.0, "paper_auroc": 60.0, "paper_aupr": 61.0, "fpr95": 90.0}
    result = {"accuracy": 98.0, "false_alarms": 4.5, "settings": {"SVHN": {**measures, "novelty_auroc": 93.0}}}
    rows = [cell(f"r2d2-svgi-{i}", {"row": "r2d2-svgi", "seed": i}, result) for i in (0, 1)]
    text = report_as_markdown(write_grid(tmp_path / "ood", "ood-mnist", rows))
    assert "| SVHN | 40 ± 0 | 60 ± 0 | 99.31 | 93 ± 0 |" in text
    assert "## AUROC (%) of the novelty score, by layers and posterior together" in text
    assert "| R2D2-Net | 4.5 ± 0 |" in text


def test_one_page_with_everything_in_it(grid):
    written = write_report(grid)
    page = (grid / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 2
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert "url(" not in page
    assert '<td class="within-error">21.67 ± 1.2<small>paper 22.38</small><b>within error</b></td>' in page
    pictures = [path for path in written if path.suffix == ".png"]
    links = re.findall(r"\]\((figures/[^)]+)\)", (grid / "report.md").read_text())
    assert [str(path.relative_to(grid)) for path in pictures] == links
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)
    before = {path.name: path.read_bytes() for path in written if path.suffix != ".parquet"}
    assert {path.name: path.read_bytes() for path in write_report(grid) if path.suffix != ".parquet"} == before


def test_nothing_in_a_file_is_obeyed(tmp_path):
    evil = "<script>alert(1)</script>"
    made = simulation({evil: MSE["r2d2-svgi"]}, setting=evil)
    for i, done in enumerate(made):
        done["key"] = f"cell-a-{i}"
        done["commit"] = evil + "![x](http://elsewhere/x.png)"
    grid = write_grid(tmp_path / "evil", "simulation", made, title=evil, reduced=evil)
    write_report(grid)
    page = (grid / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("<img") == page.count('<img src="data:image/png;base64,')


def test_html_in_a_text_is_shown_not_obeyed():
    text = Text("<script>x</script> ![a](http://elsewhere/a.png) [b](javascript:c) **d**")
    page = to_html(Document("a title", [Section("", [text])]))
    assert not re.search(r"<script|<img|href=.javascript", page)
    assert "<strong>d</strong>" in page


def test_results_as_numbers(grid):
    write_report(grid)
    exported = json.loads((grid / "results.json").read_text())
    assert (exported["artefact"], exported["cells"], exported["missing"]) == ("simulation", 13, ["hs-svi-0"])
    entries = {(e["setting"], e["row"]): e for e in exported["tables"][0]["entries"]}
    ours = entries["S2 L=1", "r2d2-svgi"]
    assert ours["mean"] == pytest.approx(65 / 3)
    assert (ours["replicates"], ours["paper"], ours["mark"]) == (3, 22.38, "within error")
    assert entries["S1 L=0", "r2d2-svgi"]["mark"] == "not run"
    table = pd.read_parquet(grid / "results.parquet")
    assert len(table) == 12
    row = table[table["key"] == "r2d2-svgi-2"].iloc[0]
    assert (row["settings.row"], row["result.mse"], row["commit"], row["seconds"]) == ("r2d2-svgi", 24.0, "abc", 3600.0)
    assert (row["seed"], row["versions.torch"], row["result.reference.constant"]) == (2, "2.13", 1000.0)
    assert json.loads(row["result.tried"])[0]["factor"] == 1.0


def test_settings_of_several_kinds_fit_one_column(tmp_path):
    made = [
        cell(f"a-{i}", {"row": "x", "seed": i, "train": train}, {"value": i})
        for i, train in enumerate((None, 5, "all"))
    ]
    table = flat_table(read_grid(write_grid(tmp_path / "mixed", "unheard-of", made)))
    assert list(table["settings.train"].isna()) == [True, False, False]
    assert list(table["settings.train"])[1:] == ["5", '"all"']
    assert list(table["result.value"]) == [0, 1, 2]


def run(*arguments):
    """Run the command as a user gives it, in this process, and return its exit code."""
    from _pytest.monkeypatch import MonkeyPatch

    with MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["r2d2net", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return ended.value.code


def test_the_command_writes_reports_and_an_index(grid, tmp_path):
    write_grid(tmp_path / "other-smoke", "unheard-of", [cell("a", {"seed": 0}, {"value": 1.0})])
    done = CliRunner().invoke(cli.app, ["report", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert f"wrote {tmp_path / 'index.html'}" in done.output
    index = (tmp_path / "index.md").read_text()
    assert "| [simulation](simulation-machine/report.md) | a title | machine | 12 of 13 |" in index
    assert "[unheard-of](other-smoke/report.md)" in index
    assert "| simulation (machine) | Test MSE | 1 within error, 11 not run | ties 1 |" in index
    assert 'href="simulation-machine/report.html"' in (tmp_path / "index.html").read_text()
    elsewhere = tmp_path / "pages" / "all.html"
    elsewhere.parent.mkdir()
    write_reports([grid], elsewhere)
    assert 'href="../simulation-machine/report.html"' in elsewhere.read_text()


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("grid.json", "{", r"grid.json cannot be read"),
        ("grid.json", "[]", r"grid.json is no file of a grid \(without 'artefact'\)"),
        ("cells/r2d2-svgi-1.json", "\x00", r"r2d2-svgi-1.json cannot be read"),
        ("cells/r2d2-svgi-1.json", '{"key": "r2d2-svgi-1"}', r"r2d2-svgi-1.json is no file of a grid"),
    ],
)
def test_damaged_files_are_one_line(grid, capsys, name, text, match):
    (grid / name).write_text(text)
    with pytest.raises(DataError, match=match):
        read_grid(grid)
    assert run("report", grid) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert not (grid / "report.md").exists()


def test_others_folders_are_one_line(grid, tmp_path, capsys):
    assert run("report", tmp_path / "nowhere") == 2
    assert "nowhere is no folder of results: give one that `r2d2net reproduce` wrote" in capsys.readouterr().err
    about = json.loads((grid / "grid.json").read_text())
    about["cells"][0]["key"] = "../secret"
    (grid / "grid.json").write_text(json.dumps(about))
    with pytest.raises(DataError, match=r"lists a cell that is none"):
        read_grid(grid)
    foreign = write_grid(tmp_path / "foreign", "simulation", [cell("a", {"kind": "row", "seed": 0}, {"value": 1.0})])
    with pytest.raises(DataError, match=r"the result a has no row and setting"):
        report_as_markdown(foreign)
    oracle = cell("oracle-a", {"kind": "oracle", "setting": "S1 L=0", "seed": 0}, {"value": 1.0})
    with pytest.raises(DataError, match=r"a result of simulation has no 'rhat'"):
        report_as_markdown(write_grid(tmp_path / "other", "simulation", [oracle]))


def test_without_pyarrow_there_is_a_hint(grid, monkeypatch):
    monkeypatch.setattr("r2d2net.paper.report.result_exports.find_spec", lambda name: None)
    done = CliRunner().invoke(cli.app, ["report", str(grid)])
    assert done.exit_code == 0
    assert "results.parquet needs pyarrow: pip install 'r2d2net[parquet]'" in done.output
    assert (grid / "results.json").exists()
    assert not (grid / "results.parquet").exists()


def test_every_discrepancy_concerns_an_artefact_and_every_table_is_the_papers():
    from r2d2net.paper.report.paper_tables import paper_figures

    papers = {(table, metric) for table, _, _, metric in paper_figures()}
    ours = {(t.paper, theirs) for tables in TABLES.values() for t in tables for theirs in t.metrics.values() if theirs}
    assert ours == papers
    assert all(discrepancy.concerns and discrepancy.text for discrepancy in DISCREPANCIES)
