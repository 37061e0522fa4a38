"""What a result file must say of its origin: versions, commit, settings, time."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch


def provenance(settings: dict[str, Any], seed: int | None = None) -> dict[str, Any]:
    """The origin of a result, ready for JSON."""
    return {
        "settings": settings,
        "seed": seed,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "r2d2net": version("r2d2net"),
        },
        "commit": _commit(),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def take_commit() -> None:
    """Note the commit of this process's code before long work: the checkout may have another when it is written."""
    _commit()


@cache
def _commit() -> str | None:
    """The commit of the checkout this package runs from, asked once a process; None for an installed copy."""
    here = Path(__file__).resolve().parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40"],
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    # A site-packages folder inside somebody's repository is not a checkout of ours.
    return found.stdout.strip() if here.parent.name == "src" else None
