"""A file appears whole or not at all, and what stood there survives a failure."""

import json
import os
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


def test_links_lead_to_what_is_replaced_and_pipes_stay(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "there" / "result.json")
    for value in (1, 2):
        write_json(link, {"value": value})
        assert link.is_symlink()
        assert json.loads((tmp_path / "there" / "result.json").read_text()) == {"value": value}
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_json(tmp_path / "pipe", {"value": 3})
    assert json.loads(os.read(reader, 100)) == {"value": 3}
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_provenance_names_its_origin() -> None:
    origin = provenance({"epochs": 3}, seed=7)
    assert origin["settings"] == {"epochs": 3}
    assert origin["seed"] == 7
    assert {"python", "torch", "r2d2net"} <= set(origin["versions"])
