"""Provenance of result files: settings, versions, commit, time."""

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
    """Describe the origin of a result.

    Args:
        settings: Settings of the run.
        seed: Seed of the run, if it has one.

    Returns:
        A dict for JSON: settings, seed, versions of Python, torch and r2d2net, commit, and the time.
    """
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
    """Record the commit of this process's code before long work, during which the checkout may change."""
    _commit()


@cache
def _commit() -> str | None:
    """Return the commit of the checkout that this package runs from, asked once a process; None if installed."""
    package = Path(__file__).resolve().parent
    try:
        description = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40"],
            cwd=package,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    # A site-packages folder inside another repository is not a checkout of this package.
    return description.stdout.strip() if package.parent.name == "src" else None
