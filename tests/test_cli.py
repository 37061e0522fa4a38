"""The command line as a user meets it: what it prints, its files, its exit codes."""

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from r2d2net.cli import COMMANDS
from r2d2net.cli.error_lines import as_option, command_of
from r2d2net.errors import Argument, ParameterError
from r2d2net.paper.cli import Scales
from r2d2net.paper.experiments import ARTEFACTS
from r2d2net.paper.experiments.artefact import SCALES
from r2d2net.paper.experiments.reproducing import with_seed
from table_runs import command, make_table

QUICK = """
import sys
from r2d2net.cli import main
try:
    main()
finally:
    slow = {"torch", "sklearn", "pandas", "matplotlib", "scipy", "numpy"} & sys.modules.keys()
    assert not slow, slow
"""
CORE = """
import sys
from r2d2net.cli import main
try:
    main()
finally:
    paper = [name for name in sys.modules if name.startswith("r2d2net.paper")]
    assert not paper, paper
"""


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_priors_writes_figure_and_numbers(tmp_path: Path, kind: str) -> None:
    done = command("priors", "--out", str(tmp_path / "new" / "folder"), "--format", kind)
    assert done.code == 0, done.error
    assert "neither the pole" in " ".join(done.out.split())
    folder = tmp_path / "new" / "folder"
    assert sorted(path.name for path in folder.iterdir()) == [f"priors.{kind}", "rates.json"]
    head = (folder / f"priors.{kind}").read_bytes()[:100]
    assert head.startswith(b"\x89PNG") if kind == "png" else b"<?xml" in head
    numbers = json.loads((folder / "rates.json").read_text())
    assert {"rates", "verdict", "settings", "seed", "versions", "commit"} <= set(numbers)
    paper = numbers["rates"]["R2D2 (paper's setting), a_pi=0.6, b=0.5"]
    assert paper["tail"]["measured"]["power"] == pytest.approx(-2)


def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("precious")
    done = command("priors", "--out", str(taken))
    assert (done.code, done.out) == (2, "")
    assert done.error == f"error: --out {taken} cannot be used (file exists): give a folder that can be written\n"
    assert taken.read_text() == "precious"
    inside = taken / "demo"
    done = command("demo", "--out", str(inside))
    assert (done.code, done.out) == (2, "")
    assert done.error == f"error: --out {inside} cannot be used (not a directory): give a folder that can be written\n"
    for arguments in (["priors", "--format", "bmp"], ["prior"], ["priors", "--colour"], ["demo", "--seed", "-1"]):
        done = command(*arguments)
        assert (done.code, done.out) == (2, "")
        assert done.error.startswith("error: ")
        assert done.error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "command_used"),
    [
        (["fit", "--colour"], "r2d2net fit"),
        (["data", "list", "--colour"], "r2d2net data list"),
        (["data", "lists"], "r2d2net data"),
        (["predict"], "r2d2net predict"),
        (["demo", "--seed", "-1"], "r2d2net demo"),
        (["prior"], "r2d2net"),
        (["--colour"], "r2d2net"),
    ],
)
def test_wrong_usage_points_to_the_help_of_the_command_used(arguments: list[str], command_used: str) -> None:
    done = command(*arguments)
    assert done.code == 2
    assert done.error.endswith(f"; see `{command_used} --help`\n"), done.error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "x.csv", "--epochs", "abc"], "--epochs abc is no whole number: give one"),
        (["fit", "x.csv", "--epochs=1.5"], "--epochs 1.5 is no whole number: give one"),
        (["fit", "x.csv", "--epochs", ""], "--epochs '' is no whole number: give one"),
        (["predict", "run", "x.csv", "--level", "0,9"], "--level 0,9 is no number: give one, with a decimal point"),
        (["demo", "--seed", "3", "--seed", "x"], "--seed x is no whole number: give one"),
        (["demo", "--seed", "-1"], "--seed -1 is out of range: use a number from 0 to 4294967295; see"),
        (["priors", "--format", "bmp"], "--format bmp is no choice: use one of png, svg"),
        (["data", "list", "--seed", "x"], "--seed x is no whole number: give one"),
        (["reproduce", "simulation", "--replicates", "0"], "--replicates 0 is out of range: use a number from 1; see"),
        (
            ["reproduce", "simulation", "--scale", "big"],
            "--scale big is no choice: use one of smoke, machine, paper; see",
        ),
        (["inspect", "run", "--inputs=0"], "--inputs 0 is out of range: use a number from 1; see"),
    ],
)
def test_a_wrong_value_is_named_with_its_option_and_the_fix(arguments: list[str], said: str) -> None:
    done = command(*arguments)
    assert (done.code, done.out, done.error.count("\n")) == (2, "", 1)
    assert done.error.startswith(f"error: {said}")


def test_child_process_ends_the_same_way() -> None:
    for arguments, code, text in ((["--version"], 0, "r2d2net "), (["prior"], 2, "error: ")):
        child = [sys.executable, "-m", "r2d2net", *arguments]
        done = subprocess.run(child, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code
        assert (done.stderr or done.stdout).startswith(text)
        assert not (done.stdout and done.stderr)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["fit", "--help"], 0),
        (["data", "list", "--help"], 0),
        (["fit", "--no"], 2),
        (["reproduce", "--list"], 0),
        (["reproduce", "--list", "--json"], 0),
        (["reproduce"], 2),
        (["report", "--help"], 0),
        (["priors", "--no"], 2),
    ],
)
def test_help_and_wrong_options_do_not_wait_for_torch(arguments: list[str], code: int) -> None:
    child = [sys.executable, "-c", QUICK, *arguments]
    done = subprocess.run(child, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_no_command_but_the_paper_s_own_imports_it(tmp_path: Path) -> None:
    make_table(60).to_csv(tmp_path / "table.csv", index=False)
    quick = ["--target", "price", "--epochs", "1", "--hidden", "2", "--draws", "2", "--out", "run"]
    for arguments, code in (
        (["--help"], 0),
        (["fit", "--help"], 0),
        (["fit", "table.csv", *quick], 0),
        (["predict", "run", "table.csv", "-o", "predictions.csv"], 0),
        (["evaluate", "run", "nowhere.csv"], 2),
        (["data", "list"], 0),
    ):
        child = [sys.executable, "-c", CORE, *arguments]
        done = subprocess.run(child, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr


def test_the_list_of_artefacts() -> None:
    done = command("reproduce", "--list", "--json")
    assert done.json == {name: artefact.title for name, artefact in ARTEFACTS.items()}
    assert [name for name, artefact in ARTEFACTS.items() if artefact.name != name] == []
    lines = command("reproduce", "--list").out.splitlines()
    assert [line.split()[0] for line in lines] == list(ARTEFACTS)
    assert [scale.value for scale in Scales] == list(SCALES)


@pytest.mark.parametrize(
    ("words", "error", "line"),
    [
        (
            ["fit"],
            ParameterError(": HMC takes all rows", argument="batch_size", value=10, fix="leave it out"),
            "--batch-size 10: HMC takes all rows; leave it out",
        ),
        (
            ["fit"],
            ParameterError(("and (", Argument("patience", 3), ") differ"), argument="prior", value="auto"),
            "--prior auto and (--patience 3) differ",
        ),
        (["fit"], ParameterError("is odd", argument="hidden", value=(50, 50)), "--hidden 50,50 is odd"),
        (["fit"], ParameterError("is odd", argument="target", value=""), "--target '' is odd"),
        (["fit"], ParameterError("is missing", argument="data"), "DATA is missing"),
        (["fit"], ParameterError("there", fix=("give ", Argument("overwrite", True))), "there: give --overwrite"),
        (["fit"], ParameterError("of 1 step", argument="burn_in", value=0.5), "burn_in=0.5 of 1 step"),
        (["fit"], ParameterError("no column 'prior=1'"), "no column 'prior=1'"),
        (["inspect"], ParameterError("is odd", argument="most", value=3), "--inputs 3 is odd"),
        (["reproduce"], ParameterError("is odd", argument="scale", value="x"), "--scale x is odd"),
        (["fit"], ParameterError("is odd", argument="scale", value="x"), "scale='x' is odd"),
        (["data", "list"], ParameterError("is odd", argument="root", value=Path("a b")), "--root a b is odd"),
        (["data"], ParameterError("is odd", argument="root", value=1), "root=1 is odd"),
        ([], ParameterError("is odd", argument="root", value=1), "root=1 is odd"),
    ],
)  # fmt: skip
def test_arguments_become_options_of_the_command_used(words: list[str], error: ParameterError, line: str) -> None:
    assert error.render(as_option(command_of(COMMANDS, [*words, "x.csv", "--seed", "1"]))) == line


def test_an_error_of_the_library_names_the_option_and_its_value() -> None:
    done = command("data", "list", "--root", "nowhere")
    assert (done.code, done.error) == (
        2,
        "error: --root nowhere is not a folder: name the folder that holds the data sets\n",
    )


def test_what_is_no_wrong_argument_ends_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("r2d2net.paper.report.prior_comparison.save_comparison", full)
    done = command("priors", "--out", tmp_path, "--quiet")
    assert (done.code, done.error) == (1, "error: [Errno 28] No space left on device\n")
    monkeypatch.setattr("r2d2net.paper.report.prior_comparison.save_comparison", stop)
    done = command("priors", "--out", tmp_path, "--quiet")
    assert (done.code, done.error) == (1, "error: interrupted\n")


def test_a_seed_gives_a_reproduction_other_cells_in_another_folder(tmp_path: Path) -> None:
    grid = ARTEFACTS["simulation"].grid("smoke", tmp_path)
    other = with_seed(grid, 5)
    assert with_seed(grid, 0) is grid
    assert other.folder == tmp_path / "simulation-smoke-seed-5"
    assert [cell.settings["seed"] for cell in other.cells] == [cell.settings["seed"] + 5 for cell in grid.cells]
    assert [cell.key for cell in other.cells] == [cell.key for cell in grid.cells]
