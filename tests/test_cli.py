"""The command line as a user meets it: what it prints, its files, its exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from table_runs import command


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


def test_child_process_ends_the_same_way() -> None:
    for arguments, code, text in ((["--version"], 0, "r2d2net "), (["prior"], 2, "error: ")):
        child = [sys.executable, "-c", "from r2d2net.cli import main; main()", *arguments]
        done = subprocess.run(child, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code
        assert (done.stderr or done.stdout).startswith(text)
        assert not (done.stdout and done.stderr)
