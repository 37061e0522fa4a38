"""What the README shows runs as it stands: its Python blocks, and its commands in a folder of their own."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from statistics import mean

import pytest

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
COMMANDS = re.findall(r"```bash\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=range(len(BLOCKS)))
def test_example_runs(code: str) -> None:
    exec(compile(code, str(README), "exec"), {})


def test_examples_pass_strict_type_checks(tmp_path: Path) -> None:
    """As they stand, by ``mypy --strict``; scikit-learn has no types of its own."""
    files = [tmp_path / f"example_{number}.py" for number in range(len(BLOCKS))]
    for file, code in zip(files, BLOCKS, strict=True):
        file.write_text(code, encoding="utf-8")
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nstrict = True\n[mypy-sklearn.*]\nignore_missing_imports = True\n", encoding="utf-8")
    cache = tmp_path / "cache"
    options = ["--config-file", settings, "--cache-dir", cache, "--follow-imports", "silent"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files], cwd=tmp_path, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout
    wrong = files[0].read_text(encoding="utf-8").replace("p.interval(0.9)", "p.probs")
    files[0].write_text(wrong, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, files[0]], cwd=tmp_path, capture_output=True, text=True, timeout=900
    )
    assert '"Regression" has no attribute "probs"' in done.stdout  # the checks see what a posterior predicts


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
            timeout=900,
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 443


def test_its_table_is_that_of_the_results() -> None:
    """The means of each kind of model, from the file of results by which the table was made."""
    file = README.parent / "results" / "benchmarks" / "noise-columns.json"
    results = [run["results"] for run in json.loads(file.read_text(encoding="utf-8")).values()]
    assert len(results) == 5
    names = {
        "default": "**default**",
        "Gaussian": "Gaussian prior",
        "ridge regression": "ridge regression, cross-validated",
    }
    for name in results[0].keys() - {"|correlation|"}:
        line = next(line for line in TEXT.splitlines() if line.startswith(f"| {names.get(name, name)} |"))
        means = {metric: mean(one[name][metric] for one in results) for metric in ("mse", "nll", "coverage", "auroc")}
        shown = line.replace("**", "")
        assert f"| {means['mse']:.0f} ±" in shown
        assert f"| {means['nll']:.3f} ±" in shown
        assert f"| {means['coverage']:.1%} | {means['auroc']:.3f} |" in shown
    alone = mean(one["|correlation|"]["auroc"] for one in results)
    assert f"by its correlation with the target alone has {alone:.3f}" in " ".join(TEXT.split())


def test_every_file_it_leads_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", TEXT.replace("\n", " "))
    assert len(links) > 10
    assert [link for link in links if not (README.parent / link).exists()] == []


def test_the_targets_and_extras_it_names_are_there() -> None:
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", TEXT, flags=re.MULTILINE))
    assert {"demo", "test", "docs"} <= named
    assert named <= set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    project = tomllib.loads((README.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (line,) = re.findall(r"`pip install -e \.` in this folder. Extras: (.*)\.\n", TEXT)
    extras = set(re.findall(r"`(\w+)`", line)) | set(re.findall(r"pip install [^`\n]*\[([\w,]+)\]", TEXT))
    assert {"mcmc", "parquet"} <= extras <= set(project["optional-dependencies"])
