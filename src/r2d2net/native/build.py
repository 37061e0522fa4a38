"""Compiles the kernels by the machine's C compiler: when the package is built, or later by hand.

    python -m r2d2net.native.build

`CC` names the compiler, else the one that built Python, else `cc`. Nothing but the standard library is imported here:
the build of the wheel (`hatch_build.py`) runs this file by its path, without the package.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from pathlib import Path

FOLDER = Path(__file__).parent
SOURCES = ("kernels.c", "numbers.h")
LIBRARY = "kernels.so"
FLAGS = (
    *("-std=gnu11", "-O3", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"),
    *("-fno-math-errno", "-fno-trapping-math"),  # roots and selections as vector code
    "-ffp-contract=off",  # the same bits on every processor
)


def digest() -> int:
    """Compute the number by which a library knows the sources it was built from.

    Returns:
        A CRC of the sources, of 32 bits.
    """
    return zlib.crc32(b"".join((FOLDER / name).read_bytes() for name in SOURCES))


def build(target: Path | None = None) -> Path:
    """Compile the kernels.

    Args:
        target: The library to write; by default where the package looks for it.

    Returns:
        The library.

    Raises:
        OSError: If there is no compiler, or the folder cannot be written.
        subprocess.CalledProcessError: If the compiler fails; ``stderr`` says why.
    """
    target = FOLDER / LIBRARY if target is None else target
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    with tempfile.TemporaryDirectory(dir=target.parent) as room:  # a library in use must not be overwritten
        made = Path(room) / LIBRARY
        source = str(FOLDER / SOURCES[0])
        command = [*compiler, *FLAGS, f"-DDIGEST={digest()}u", source, "-o", str(made), "-lm"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        made.replace(target)
    return target


def main() -> int:
    """Compile the kernels into the package.

    Returns:
        The exit code.
    """
    try:
        print(build())
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"the kernels were not built: {getattr(error, 'stderr', None) or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
