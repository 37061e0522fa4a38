"""What surrounds the package agrees with itself: workflows, Makefile, declared versions, changelog, ARCHITECTURE.md."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import r2d2net

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "r2d2net"
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = CONFIGURATION["project"]
TESTS = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):(?!=)", MAKEFILE, flags=re.MULTILINE))


CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./-]+\.(?:py|md|toml|yml|yaml|txt|csv|html|json)|[\w./-]+/")
MODULE = re.compile(r"[\w/]+\.py\b")


def pinned() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def requirements() -> list[Requirement]:
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    return [Requirement(text) for texts in lists for text in texts if not text.startswith("r2d2net[")]


def commands() -> list[str]:
    """Every shell command of the workflow, with the values that its matrix gives it."""
    expanded = []
    for job in TESTS["jobs"].values():
        rows = job.get("strategy", {}).get("matrix", {}).get("include", [{}])
        for step in job["steps"]:
            if "run" in step:
                expanded += {
                    re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda m, row=row: row[m[1]], step["run"]) for row in rows
                }
    return expanded


def test_workflows_run_targets_of_the_makefile_and_nothing_else() -> None:
    words = [command.split() for command in commands()]
    assert all(word[0] == "make" and word[1] in TARGETS for word in words), words
    assert {word[1] for word in words} >= {"lint", "test", "test-oldest", "test-newest", "docs", "demo", "dist"}


def test_targets_of_the_makefile_are_phony() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)
    assert set(phony.split()) == TARGETS


@pytest.mark.parametrize("target", sorted(TARGETS - {"clean"}))
def test_make_knows_what_to_do_for_a_target(target: str) -> None:
    done = subprocess.run(["make", "--dry-run", "--always-make", target], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_workflows_cover_the_systems_and_versions_that_the_package_declares() -> None:
    matrix = TESTS["jobs"]["pinned"]["strategy"]["matrix"]
    classifiers = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if "Python :: 3." in text]
    assert matrix["python"] == classifiers
    assert matrix["os"] == ["ubuntu-latest", "macos-latest"]
    assert PROJECT["requires-python"] == f">={classifiers[0]}"
    ends = {(row["target"], row["python"]) for row in TESTS["jobs"]["range"]["strategy"]["matrix"]["include"]}
    assert ends == {("test-oldest", classifiers[0]), ("test-newest", classifiers[-1])}


def test_pre_commit_checks_what_lint_checks() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    ruff, local = yaml.safe_load(text)["repos"]
    assert ruff["rev"] == f"v{pinned()['ruff']}"
    assert [hook["id"] for hook in ruff["hooks"]] == ["ruff-check", "ruff-format"]
    folders = re.search(r"ruff check (.*)", MAKEFILE)
    assert folders is not None
    assert {hook["files"] for hook in ruff["hooks"]} == {f"^({'|'.join(folders[1].split())})/"}
    assert [hook["entry"] for hook in local["hooks"]] == [".venv/bin/mypy", ".venv/bin/lint-imports"]


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_constraints_pin_a_version_that_is_declared(requirement: Requirement) -> None:
    version = pinned().get(canonicalize_name(requirement.name))
    assert version is not None, f"{requirement.name} has no line in constraints.txt"
    assert version in requirement.specifier


@pytest.mark.parametrize("text", PROJECT["dependencies"])
def test_every_dependency_declares_its_oldest_version(text: str) -> None:
    assert [specifier.operator for specifier in Requirement(text).specifier] == [">="]


def test_changelog_has_a_section_of_the_version() -> None:
    titles = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert titles[0] == "[Unreleased]"
    assert titles[1].startswith(f"[{r2d2net.__version__}] - ")


def test_architecture_names_every_package() -> None:
    named = set(CODE.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")))
    packages = {folder.parent.relative_to(PACKAGE).as_posix() + "/" for folder in PACKAGE.rglob("*/__init__.py")}
    modules = {path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__")}
    assert packages | modules <= named, sorted((packages | modules) - named)


def test_architecture_draws_the_layers_that_import_linter_checks() -> None:
    (contract,) = CONFIGURATION["tool"]["importlinter"]["contracts"]
    layers = [line.replace("r2d2net.", "").split(" | ") for line in contract["layers"]]
    depth = {name: i for i, names in enumerate(layers) for name in names}
    picture = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("```")[1]
    drawn = [name for name in re.findall(r"\w+", picture) if name in depth]
    assert sorted(drawn) == sorted(depth)
    assert [depth[name] for name in drawn] == sorted(depth.values())


@pytest.mark.parametrize("page", [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs" / "design").glob("*.md"))], ids=str)
def test_design_pages_name_files_that_exist(page: Path) -> None:
    """Names in backquotes with a file's ending or a closing slash, and all of modules, are in package or checkout."""
    text = page.read_text(encoding="utf-8")
    names = {name for name in CODE.findall(text) if FILE.fullmatch(name)} | set(MODULE.findall(text))
    missing = {name for name in names if not ((PACKAGE / name).exists() or (ROOT / name).exists())}
    assert not missing, f"{page.name} names files that do not exist: {sorted(missing)}"
    assert page.name != "ARCHITECTURE.md" or len(names) > 20
