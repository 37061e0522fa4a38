"""Adds the native kernels to the wheel where there is a C compiler; without one the wheel is pure Python, and complete.

The library has no code of Python's own, so one wheel serves all versions of Python on a platform. hatchling runs this
file for wheels and for editable installations, which then have the library beside its sources.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "src/r2d2net/native"


class KernelHook(BuildHookInterface):
    """Compiles the kernels before the files of a wheel are collected."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels and mark the wheel as one for this platform; say so where that is not possible.

        Args:
            version: "standard" or "editable".
            build_data: What hatchling is told about the wheel, changed in place.
        """
        compiler = runpy.run_path(str(Path(self.root) / FOLDER / "build.py"))
        try:
            library = compiler["build"]()
        except (OSError, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", None) or error
            print(f"without native kernels, which are optional: {reason}", file=sys.stderr)
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(f"/{FOLDER}/{library.name}")
