"""Our results beside the paper's: means, errors, verdicts, and what was not run."""

import math

import pytest

from r2d2net.paper.report.comparison import VERDICTS, ComparedMean, column_groups, compare, comparison_block
from r2d2net.paper.report.paper_tables import PaperFigure, paper_figures
from r2d2net.report.document import Document, Section, slug, to_html, to_markdown


def result(setting, row, **values):
    return {"settings": {"setting": setting, "row": row}, "result": values}


def test_the_paper_has_702_figures_in_eight_tables():
    assert len(paper_figures()) == 702
    assert paper_figures()["simulation", "S2 L=3", "r2d2-svgi", "mse"] == PaperFigure(12.24, None)
    assert paper_figures()["classification_alexnet", "CIFAR-10", "gauss-sgmcmc", "accuracy"] == PaperFigure(41.91, 0.8)


def test_means_and_errors_over_replicates():
    results = [result("S1 L=0", "gauss-svi", mse=value) for value in (360.0, 363.0, 369.0)]
    entries = {(e.setting, e.row): e for e in compare(results, "simulation", ["mse"])}
    ours = entries["S1 L=0", "gauss-svi"]
    assert ours.mean == 364.0
    assert ours.error == pytest.approx(math.sqrt(21 / 3))
    assert (ours.replicates, ours.paper, ours.verdict) == (3, PaperFigure(363.22, None), "within error")
    assert entries["S1 L=0", "r2d2-svgi"].verdict == "not run"
    assert len(entries) == 132


@pytest.mark.parametrize(
    ("metric", "mean", "error", "paper", "verdict"),
    [
        ("mse", 10.0, 0.1, PaperFigure(12.0, None), "better"),
        ("mse", 12.0, 0.1, PaperFigure(10.0, None), "worse"),
        ("auroc", 98.0, 0.1, PaperFigure(90.0, None), "better"),
        ("auroc", 90.0, 0.1, PaperFigure(98.0, None), "worse"),
        ("auroc", 90.0, 0.1, PaperFigure(90.9, 0.5), "within error"),
        ("auroc", 90.0, 0.1, PaperFigure(90.42, None), "within error"),  # Student's t of three replicates: 4.30
        ("auroc", 90.0, 0.1, PaperFigure(90.44, None), "worse"),
        ("auroc", 90.0, None, PaperFigure(90.9, None), "few runs"),
        ("auroc", 90.0, 0.1, None, ""),
        ("auroc", None, None, PaperFigure(90.9, None), "not run"),
    ],
)
def test_verdicts(metric, mean, error, paper, verdict):
    assert ComparedMean("a", "b", metric, mean, error, 3, paper).verdict == verdict


def test_two_replicates_have_no_verdict():
    assert ComparedMean("a", "b", "auroc", 67.1, 2.3, 2, PaperFigure(92.85, None)).verdict == "few runs"


def test_what_is_not_the_same_has_no_verdict():
    entry = ComparedMean("a", "b", "auroc", 90.0, 0.1, 3, PaperFigure(98.0, None), same_measure=False)
    assert entry.verdict == "other measure"
    assert entry._replace(mean=None).verdict == "not run"


def test_every_verdict_has_a_colour_on_html_pages():
    page = to_html(Document("", []))
    for verdict in VERDICTS:
        assert f"td.{slug(verdict)} " in page.replace(",", " ")


def test_a_table_in_markdown():
    entries = [
        ComparedMean("A", "x", "mse", 9.5, 0.25, 3, PaperFigure(12.0, None)),
        ComparedMean("B", "x", "mse", None, None, 0, PaperFigure(2720.93, None)),
        ComparedMean("A", "y", "mse", 0.5, None, 1, None),
    ]
    section = Section("", [comparison_block(entries)])
    assert to_markdown(Document("", [section])).splitlines()[2:] == [
        "| row | A | B |",
        "|---|---|---|",
        "| x | 9.5 ± 0.25 (12), better | - (2721), not run |",
        "| y | 0.5 |  |",
    ]


def test_a_wide_table_is_cut_by_scenario_and_a_long_one_by_six():
    wide = compare([], "simulation", ["mse"])
    assert [part[0] for part in column_groups(wide)] == ["S1 L=0", "S2 L=0", "S3 L=0"]
    many = [ComparedMean(f"set-{i}", "x", "rmse", 1.0, None, 1, None) for i in range(8)]
    assert [len(part) for part in column_groups(many)] == [6, 2]
    assert column_groups(many[:3]) == [["set-0", "set-1", "set-2"]]
