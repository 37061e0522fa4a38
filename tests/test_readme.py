"""What the README shows runs as it stands: its Python blocks, and its commands in a folder of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
COMMANDS = re.findall(r"```bash\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_example_runs(code: str) -> None:
    exec(compile(code, str(README), "exec"), {})


def test_commands_run(tmp_path: Path) -> None:
    assert COMMANDS
    bin_first = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for block in COMMANDS:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=tmp_path,
            env={**os.environ, "PATH": bin_first},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 443


def test_every_file_it_leads_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXT.replace("\n", " "))
    assert len(links) > 10
    assert [link for link in links if not (README.parent / link).exists()] == []
