"""The wheel, installed into a clean environment and used outside the checkout: run by `make dist`.

`R2D2NET_DIST` names the folder with the sdist and the wheel. The clean environment holds the wheel and what its
metadata declares, nothing else. The dependencies are linked from the environment that runs the tests, which takes a
second where another installation of torch takes minutes; `R2D2NET_CLEAN=pip` (`make dist CLEAN=pip`) has pip do it.
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import r2d2net

pytestmark = pytest.mark.skipif("R2D2NET_DIST" not in os.environ, reason="`make dist` builds what is tested here")

ROOT = Path(__file__).parents[1]
FIT = """
import sys
import torch
import r2d2net as rn

assert rn.__file__.startswith(sys.prefix), rn.__file__
generator = torch.Generator().manual_seed(0)
x = torch.randn(64, 3, generator=generator)
y = x[:, :1] + 0.1 * torch.randn(64, 1, generator=generator)

def net():
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

posterior = rn.fit(rn.BayesianModel(net(), rn.priors.R2D2()), (x, y), epochs=3, verbose=False)
rn.save(posterior, "run")
before = posterior.predict(x, draws=5, seed=1).mean
after = rn.load("run", net()).predict(x, draws=5, seed=1).mean
assert before.shape == (64, 1) and before.isfinite().all()
assert torch.equal(before, after)
if NATIVE:
    large = rn.BayesianModel(net(), rn.priors.R2D2())
    natively = rn.fit(large, (x, y), rn.inference.SVGI(compile="native"), epochs=3, verbose=False)
    assert natively.predict(x, draws=5).mean.isfinite().all()
"""
KERNELS = "r2d2net/native/kernels.so"  # where there is a compiler


@pytest.fixture(scope="module")
def wheel() -> Path:
    (path,) = Path(os.environ["R2D2NET_DIST"]).resolve().glob("*.whl")
    return path


@pytest.fixture(scope="module")
def sdist() -> Path:
    (path,) = Path(os.environ["R2D2NET_DIST"]).resolve().glob("*.tar.gz")
    return path


def declared(requirements: list[str]) -> Iterator[str]:
    """Names of all distributions that a list of requirements needs here, requirements of requirements included."""
    waiting = [(Requirement(text), "") for text in requirements]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for wanted in ["", *requirement.extras]:
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                waiting += [(Requirement(text), wanted) for text in distribution(name).requires or []]
        yield name


def link(name: str, site_packages: Path) -> None:
    """Link the files of an installed distribution into another environment's folder of packages."""
    installed = distribution(name)
    home = Path(str(installed.locate_file("")))
    for top in {PurePosixPath(str(file)).parts[0] for file in installed.files or []} - {"..", "__pycache__"}:
        target = site_packages / top
        if not target.exists():
            target.symlink_to(home / top)


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the clean environment's commands."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=False)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    if os.environ.get("R2D2NET_CLEAN") == "pip":
        pip += ["-c", str(ROOT / "constraints.txt")]
    else:
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            lines = archive.read(name).decode().split("\n\n")[0].splitlines()
        requirements = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
        for dependency in set(declared(requirements)):
            link(dependency, site_packages)
        pip += ["--no-index"]  # with dependencies: pip checks that those linked are the ones that the wheel declares
    subprocess.run([*pip, str(wheel)], check=True)
    return folder / "bin"


def run(*words: str | Path, cwd: Path) -> str:
    """What a command prints, run without this process's PYTHONPATH."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=kept, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_sdist_has_what_builds_and_tests_the_package_and_no_results(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "Makefile", "constraints.txt"} <= names
    assert any(name.startswith("tests/") for name in names)
    assert not [name for name in names if name.startswith(("results/", "out/", ".venv"))]
    assert sdist.stat().st_size < 2.5 * 2**20  # sources, tests and docs are 2.1 MiB; results/ would be 2.8 MiB more


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    files = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src" / "r2d2net").rglob("*") if p.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed - {KERNELS} == {name for name in files if "__pycache__" not in name} - {KERNELS}
    assert {"r2d2net/py.typed", "r2d2net/native/kernels.c"} <= packed
    assert wheel.name.endswith("-py3-none-any.whl") == (KERNELS not in packed)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_the_wheel_has_the_kernels_where_there_is_a_compiler(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert KERNELS in archive.namelist()


def test_a_wheel_is_complete_without_a_compiler(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--outdir",
        str(tmp_path / "made"),
        str(source),
    ]
    subprocess.run(command, check=True, env={**os.environ, "CC": "no-such-compiler"}, capture_output=True)
    (made,) = (tmp_path / "made").iterdir()
    assert made.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(made) as bare, zipfile.ZipFile(wheel) as full:
        names, all_names = ({name for name in a.namelist() if ".dist-info/" not in name} for a in (bare, full))
    assert names == all_names - {KERNELS}


def test_the_environment_is_clean(environment: Path, tmp_path: Path) -> None:
    code = "import importlib.util; print([n for n in ('pytest', 'pyro', 'mypy') if importlib.util.find_spec(n)])"
    assert run(environment / "python", "-I", "-c", code, cwd=tmp_path).strip() == "[]"


def test_the_command_gives_its_version_and_help(environment: Path, tmp_path: Path) -> None:
    assert r2d2net.__version__ in run(environment / "r2d2net", "--version", cwd=tmp_path)
    text = run(environment / "r2d2net", "--help", cwd=tmp_path)
    assert all(command in text for command in ("fit", "predict", "evaluate", "inspect", "reproduce", "report"))


def test_python_fits_saves_loads_and_predicts(environment: Path, wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        native = KERNELS in archive.namelist()
    run(environment / "python", "-I", "-c", f"NATIVE = {native}\n{FIT}", cwd=tmp_path)


def test_the_command_line_fits_predicts_and_writes_its_page(environment: Path, tmp_path: Path) -> None:
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["height", "width", "price"])
        rows.writerows([[i % 7, (3 * i) % 11, 2.5 * (i % 7) + 0.01 * i] for i in range(60)])
    command = environment / "r2d2net"
    run(command, "fit", "rows.csv", "--target", "price", "--out", "run", "--epochs", "3", "--quiet", cwd=tmp_path)
    assert "<html" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")  # by the template of the package
    run(command, "predict", "run", "rows.csv", "-o", "predictions.csv", "--quiet", cwd=tmp_path)
    with (tmp_path / "predictions.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 60


def test_the_paper_s_tables_come_with_the_package(environment: Path, tmp_path: Path) -> None:
    listed = json.loads(run(environment / "r2d2net", "reproduce", "--list", "--json", cwd=tmp_path))
    assert listed
    code = (
        "from importlib.resources import files; print((files('r2d2net.paper.report') / 'paper_tables.csv').is_file())"
    )
    assert run(environment / "python", "-I", "-c", code, cwd=tmp_path).strip() == "True"


def test_requirements_are_followed_through_extras_and_markers() -> None:
    names = set(declared(["pandas>=2", "nowhere; python_version < '3'"]))
    assert {"pandas", "numpy", "python-dateutil"} <= names
    assert "nowhere" not in names
    with pytest.raises(PackageNotFoundError):
        list(declared(["surely-not-installed"]))
