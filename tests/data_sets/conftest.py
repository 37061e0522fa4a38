"""Data tests decode into a cache of their own, and read real sets only where R2D2NET_DATA names them."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory):
    outer = os.environ.get("R2D2NET_CACHE")
    os.environ["R2D2NET_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    del os.environ["R2D2NET_CACHE"]
    if outer is not None:
        os.environ["R2D2NET_CACHE"] = outer


@pytest.fixture(autouse=True)
def no_catalogue(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that tests make are described by catalogue files that tests make."""
    if "real" not in request.fixturenames:
        monkeypatch.delenv("R2D2NET_DATA_CATALOGUE", raising=False)


@pytest.fixture(scope="session")
def real() -> Path:
    root = os.environ.get("R2D2NET_DATA")
    if not root:
        pytest.skip("R2D2NET_DATA is not set: no real data here")
    return Path(root)
