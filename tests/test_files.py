"""A file appears whole or not at all, and what stood there survives a failure."""

from pathlib import Path

import pytest

from r2d2net.files import replace_when_written, write_json
from r2d2net.provenance import provenance


def test_a_failure_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_json(path, {"value": 1})
    before = path.read_text()
    with pytest.raises(RuntimeError), replace_when_written(path) as partial:  # noqa: PT012
        partial.write_text("half")
        raise RuntimeError
    with pytest.raises(TypeError):
        write_json(path, {"value": object()})
    assert path.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_provenance_names_its_origin() -> None:
    origin = provenance({"epochs": 3}, seed=7)
    assert origin["settings"] == {"epochs": 3}
    assert origin["seed"] == 7
    assert {"python", "torch", "r2d2net"} <= set(origin["versions"])
