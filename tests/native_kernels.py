"""What tests of the native kernels share: kernels built where there is a compiler, and kernels with a planted fault."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from r2d2net.native import build, library


def _built() -> bool:
    """Whether the kernels of the present sources can be used; they are built if a compiler is at hand."""
    if library.problem() is not None:
        try:
            build.build()
        except (OSError, subprocess.CalledProcessError):
            return False
        library._library.cache_clear()
    return library.problem() is None


NEEDS_KERNELS = pytest.mark.skipif(not _built(), reason="the native kernels need a C compiler")


def plant(monkeypatch: Any, folder: Path, right: str, wrong: str) -> None:
    """Let the library be one that is built from sources with one text in place of another."""
    folder.mkdir()
    found = 0
    for name in build.SOURCES:
        text = (build.FOLDER / name).read_text(encoding="utf-8")
        found += text.count(right)
        (folder / name).write_text(text.replace(right, wrong), encoding="utf-8")
    assert found == 1, f"{right!r} stands in the sources {found} times"
    for module in (build, library):
        monkeypatch.setattr(module, "FOLDER", folder)
    monkeypatch.setattr(build, "FLAGS", ("-O1" if flag == "-O3" else flag for flag in build.FLAGS))  # the same bits
    build.build()
    library._library.cache_clear()


def without_library(monkeypatch: Any, folder: Path) -> None:
    """Let the package be one whose kernels were never built."""
    for name in build.SOURCES:
        shutil.copy(build.FOLDER / name, folder / name)
    for module in (build, library):
        monkeypatch.setattr(module, "FOLDER", folder)
