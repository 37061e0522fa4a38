"""A Ray cluster: one that runs already, or one of this machine that ends when its work is done.

Ray itself keeps waiting when one of its system processes dies; whoever waits for tasks asks `require_alive` meanwhile.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from r2d2net.errors import ParameterError, RankError

SECONDS = 10.0  # within which a cluster must answer, and between two looks at whether it lives


def imported_ray(argument: str) -> Any:
    """Import Ray.

    Args:
        argument: The argument by which the user asked for it.

    Returns:
        The module.

    Raises:
        ParameterError: If it is not installed.
    """
    try:
        import ray
    except ImportError as error:
        fix = "pip install 'r2d2net[ray]'"
        raise ParameterError("needs ray", argument=argument, value="ray", fix=fix) from error
    return ray


@contextmanager
def connected(address: str | None, workers: int | None, argument: str) -> Iterator[Any]:
    """Connect to a cluster, or start one on this machine that ends afterwards.

    Args:
        address: The cluster; None for one of this machine.
        workers: Number of CPUs of one of this machine; None for its cores.
        argument: The argument by which the user asked for Ray.

    Yields:
        The module ``ray``, connected.

    Raises:
        ParameterError: Ray is not installed, or there is no cluster at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a library must not have its users reported
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # a task without a GPU leaves devices as they are
    ray = imported_ray(argument)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    if address is None:
        options |= {"address": "local", "num_cpus": workers, "include_dashboard": False}
    else:
        options |= {"address": address}
    try:
        if address is not None and (where := re.fullmatch(r"(?:ray://)?(.+):(\d+)", address)):
            # Ray itself keeps trying for minutes
            socket.create_connection((where[1], int(where[2])), timeout=SECONDS).close()
        ray.init(**options)
    except (OSError, ValueError, OverflowError, RuntimeError, ray.exceptions.RayError) as error:
        reason = " ".join(str(error).split())[:200]
        fix = "give the address of a running cluster"
        if address is None:
            raise ParameterError(f"a Ray of this machine cannot be used ({reason})", fix=fix) from error
        raise ParameterError(f"cannot be used ({reason})", argument="address", value=address, fix=fix) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def require_alive(ray: Any, fix: str) -> None:
    """Raise a `RankError` if a system process of the Ray that was started here has died.

    Ray itself goes on without tasks when its raylet dies, and ends this process a minute after its store.

    Args:
        ray: The module, connected.
        fix: What the user may do.
    """
    dead = dead_process(ray)
    if dead is not None:
        raise RankError(f"{dead}, a process of Ray, has ended", fix=fix)


def dead_process(ray: Any) -> str | None:
    """Return the name of a system process of the Ray that was started here, if one has died."""
    node = getattr(getattr(ray, "_private", None), "worker", None)
    node = getattr(node, "_global_node", None)
    dead = [] if node is None else [str(name) for name, _ in node.dead_processes()]
    return dead[0] if dead else None
