"""`r2d2net data` as a user meets it: what it prints and its exit codes. One call is a child process, to be sure."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from data_files import bytes_of, mnist
from r2d2net.cli import main


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process: children take seconds to import torch."""
    monkeypatch.delenv("R2D2NET_DATA", raising=False)

    def call(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["r2d2net", "data", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capfd.readouterr()
        return Done(caught.value.code, out, err)

    return call


def sums(root: Path) -> None:
    files = sorted(path for path in root.rglob("*.gz"))
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  ./{path.relative_to(root)}\n" for path in files]
    (root / "SHA256SUMS").write_text("".join(lines))


def test_list(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    mnist(tmp_path / "mnist")
    monkeypatch.setenv("R2D2NET_DATA", str(tmp_path))
    done = run("list")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "fashion-mnist" in line and "train" in line]
    assert "60,000" in line
    assert "to fetch" in line
    assert any("mnist" in line and "to fetch" not in line for line in done.stdout.splitlines())
    assert "svhn: non-commercial use" in done.stdout
    (tmp_path / "uci_regression" / "yacht" / "data").mkdir(parents=True)
    (tmp_path / "uci_regression" / "yacht" / "data" / "data.txt").touch()
    (line,) = [line for line in run("list").stdout.splitlines() if "yacht" in line]
    assert "uci_regression" in line  # not folded: a pipe is no terminal of 80 columns
    monkeypatch.delenv("R2D2NET_DATA")
    done = run("list")
    assert "none is there" in done.stdout
    assert "bundled" in done.stdout


def test_verify_says_what_is_damaged(tmp_path: Path, run: Run) -> None:
    mnist(tmp_path / "mnist")
    sums(tmp_path)
    path = tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    done = run("verify", "--root", str(tmp_path))
    assert done.returncode == 1, done.stderr
    damaged = [line for line in done.stdout.splitlines() if line.startswith("damaged")]
    assert len(damaged) == 2
    assert "6 rows, not 60000" in damaged[0]
    assert damaged[1].startswith(f"damaged: {path}: sha256 is ")
    assert "Traceback" not in done.stderr
    (tmp_path / "SHA256SUMS").unlink()  # without it the published checksums count
    done = run("verify", "mnist", "--root", str(tmp_path))
    assert done.returncode == 1
    assert done.stdout.count("not 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609") == 1


def test_copies_of_a_catalogue_file(tmp_path: Path, run: Run) -> None:
    root, described = tmp_path / "data", tmp_path / "mine.toml"
    (root / "sub").mkdir(parents=True)
    np.savez(root / "sub" / "pets.npz", images=bytes_of(2, 4, 4), labels=np.array([0, 1]))
    text = '[pets.train]\nkind = "image-npz"\nfiles = ["sub/pets.npz"]\nclasses = ["a", "b"]\n'
    described.write_text(text + 'rows = 2\nnote = "a [/b]note[/] of [red]mine"\n')
    arguments = ("--root", str(root), "--catalogue", str(described))
    done = run("list", *arguments)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "pets" in line and "sub" in line]
    assert "train" in line
    assert "pets: a [/b]note[/] of [red]mine" in done.stdout
    rows = json.loads(run("list", "--json", *arguments).stdout)
    assert rows[-1] == {
        "name": "pets", "split": "train", "rows": "2", "shape": "-", "classes": "2", "where": "sub",
    }  # fmt: skip
    assert "1 checks, 0 damaged" in run("verify", "pets", *arguments).stdout
    described.write_text(text + "rows = 3\n")
    done = run("verify", *arguments)
    assert done.returncode == 1
    assert f"damaged: pets (train) in {root}: 2 rows, not 3" in done.stdout
    described.write_text(text.replace("sub/", "../"))
    for command in (("list",), ("verify",), ("verify", "mnist")):
        done = run(*command, *arguments)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: {described}, [pets.train]: files='../pets.npz' cannot be used")
        assert done.stderr.count("\n") == 1


def test_verify_of_an_empty_root(tmp_path: Path, run: Run) -> None:
    done = run("verify", "--root", str(tmp_path))
    assert done.returncode == 0
    assert "diabetes" in done.stdout
    assert "0 damaged" in done.stdout


def test_fetch_without_network_in_a_child_process(tmp_path: Path) -> None:
    arguments = ["data", "fetch", "yacht", "--root", str(tmp_path / "new")]
    command = [sys.executable, "-c", "from r2d2net.cli import main; main()", *arguments]
    offline = os.environ | {"https_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=offline)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: https://raw.githubusercontent.com/")
    assert f"into {tmp_path / 'new' / 'uci_regression' / 'yacht' / 'data'} yourself" in done.stderr


def test_an_unknown_name_is_told_in_the_words_of_the_command_line(tmp_path: Path, run: Run) -> None:
    for arguments in (("fetch", "nope"), ("verify", "nope", "--root", str(tmp_path))):
        done = run(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("error: NAMES nope is no data set known here: use one of mnist, ")


def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path, run: Run) -> None:
    for arguments in (
        ["lst"],
        ["list", "--root", str(tmp_path / "none")],
        ["verify"],
        ["verify", "minst", "--root", str(tmp_path)],
        ["verify", "mnist", "--root", str(tmp_path)],
        ["fetch"],
        ["fetch", "minst", "--root", str(tmp_path)],
        ["fetch", "prostate", "--root", str(tmp_path)],
        ["fetch", "mnist"],
        ["list", "--root", str(tmp_path), "--catalogue", str(tmp_path / "none.toml")],
        ["list", "--catalogue", str(tmp_path / "none.toml")],
    ):
        done = run(*arguments)
        assert done.returncode == 2, arguments
        assert done.stdout == ""
        assert done.stderr.startswith("error: ")
        assert done.stderr.count("\n") == 1


def test_help(run: Run) -> None:
    done = run()
    assert done.returncode == 0
    assert "verify" in done.stdout
