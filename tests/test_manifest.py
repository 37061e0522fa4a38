"""Folders vouch for themselves: any altered, missing, foreign or half-replaced part is refused before any is used."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net import R2D2Regressor, manifest
from r2d2net.errors import CheckpointError, UnvouchedWarning
from r2d2net.manifest import opened, replacing
from signed_folders import sign
from table_runs import command

OLD = Path(__file__).parent / "data" / "saved-0.1.0"


def folder_of(path, value):
    with replacing(path) as staging:
        staging.json("a.json", {"value": value})
        staging.tensors("b.safetensors", {"x": torch.full((3,), float(value))}, {"value": value})
    return path


def values(path):
    with opened(path) as parts:
        tensors, header = parts.tensors("b.safetensors")
        return parts.json("a.json")["value"], header["value"], float(tensors["x"][0])


def test_every_byte_counts(tmp_path):
    folder_of(tmp_path, 1)
    assert values(tmp_path) == (1, 1, 1.0)
    for path in sorted(tmp_path.iterdir()):
        content = path.read_bytes()
        for place in range(len(content)):
            path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
            with pytest.raises(CheckpointError) as error:
                values(tmp_path)
            assert "\n" not in str(error.value)
        path.write_bytes(content)
    assert values(tmp_path) == (1, 1, 1.0)


def test_parts_of_two_folders_do_not_mix(tmp_path):
    one, two = folder_of(tmp_path / "one", 1), folder_of(tmp_path / "two", 2)
    for name in ("a.json", "b.safetensors", "manifest.json"):
        mixed = tmp_path / f"mixed-{name}"
        shutil.copytree(one, mixed)
        shutil.copy(two / name, mixed / name)
        with pytest.raises(CheckpointError, match=r"is not the part that manifest\.json names"):
            values(mixed)
    (one / "a.json").unlink()
    with pytest.raises(CheckpointError, match=r"a.json is not there"):
        values(one)
    shutil.copy(two / "a.json", two / "c.json")
    with pytest.raises(CheckpointError, match=r"c.json is not in the manifest"), opened(two) as parts:
        parts.json("c.json")
    (two / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match=r"was written with a manifest.json, which is not there"):
        values(two)


def dying_after(renames):
    """Stands for os.replace in a process that is killed after so many renames."""
    replace, left = os.replace, iter(range(renames))

    def rename(*names):
        if next(left, None) is None:
            raise KeyboardInterrupt
        replace(*names)

    return rename


def test_a_kill_leaves_the_old_parts_or_the_new_ones(tmp_path, monkeypatch):
    """The n-th rename of a second save never happens: what is read is all old or all new, and the next save mends."""
    seen = set()
    for renames in range(6):
        folder = folder_of(tmp_path / str(renames), 1)
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", dying_after(renames))
            patch.setattr(manifest.Staging, "drop", lambda self: None)
            try:
                folder_of(folder, 2)
            except KeyboardInterrupt:
                assert renames < 5
        seen.add(values(folder))
        folder_of(folder, 3)
        assert values(folder) == (3, 3, 3.0)
        assert sorted(path.name for path in folder.iterdir()) == ["a.json", "b.safetensors", "manifest.json"]
    assert seen == {(1, 1, 1.0), (2, 2, 2.0)}


def test_only_regular_files_of_bounded_size_are_read(tmp_path):
    folder_of(tmp_path, 1)
    for name in ("a.json", "b.safetensors", "manifest.json"):
        kept = (tmp_path / name).read_bytes()
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
        with pytest.raises(CheckpointError, match="is no regular file"):
            values(tmp_path)
        (tmp_path / name).unlink()
        (tmp_path / name).symlink_to("/dev/zero")
        with pytest.raises(CheckpointError, match="is no regular file"):
            values(tmp_path)
        (tmp_path / name).unlink()
        (tmp_path / name).write_bytes(kept)
    with open(tmp_path / "manifest.json", "r+b") as file:
        file.truncate(1 << 40)  # sparse
    with pytest.raises(CheckpointError, match="bytes, and such a file at most"):
        values(tmp_path)


def test_a_manifest_names_no_file_elsewhere(tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    folder = folder_of(tmp_path / "run", 1)
    for name in ("../secret.json", str(secret), "a/../../secret.json"):
        entry = {"bytes": 2, "sha256": "0" * 64}
        (folder / "manifest.json").write_text(manifest._text({name: entry}, {}))
        with pytest.raises(CheckpointError, match="names a part outside its folder"):
            values(folder)


def test_run_folders_vouch_for_run_json_and_model(tmp_path):
    """run.json of one fit beside the model of another is refused, as is every other foreign part."""
    for k, seed in enumerate((0, 1)):
        x = np.random.default_rng(seed).normal(size=(30, 2))
        rows = "\n".join(f"{a:.3f},{b:.3f},{(1 + 9 * k) * a:.3f}" for a, b in x)
        (tmp_path / "rows.csv").write_text(f"a,b,y\n{rows}\n")
        made = command("fit", tmp_path / "rows.csv", *("--target", "y", "--hidden", "2", "--epochs", "2"),
                       *("--no-baselines", "--out", tmp_path / f"run{k}"))  # fmt: skip
        assert made.code == 0, made.error
    one, two = tmp_path / "run0", tmp_path / "run1"
    listed = list(json.loads((one / "manifest.json").read_text())["parts"])
    assert set(listed) == {
        *("run.json", "metrics.json", "relevance.json", "history.json", "effects.json"),
        *("checks.json", "novelty.safetensors", "background.safetensors", "model/manifest.json"),
    }
    for name in (*listed, "model/estimator.json", "model/posterior.safetensors"):
        kept = (one / name).read_bytes()
        (one / name).write_bytes((two / name).read_bytes())
        if (one / name).read_bytes() != kept:
            ended = command("predict", one, tmp_path / "rows.csv")
            assert ended.code == 2, name
            assert len(ended.error.splitlines()) == 1
            assert "manifest.json names" in ended.error
        (one / name).write_bytes(kept)
    shutil.rmtree(one / "model")
    shutil.copytree(two / "model", one / "model")
    assert "model/manifest.json is not the part" in command("predict", one, tmp_path / "rows.csv").error
    (two / "report.html").write_text("notes of my own")
    assert command("predict", two, tmp_path / "rows.csv").code == 0
    assert manifest.changed_documents(two) == ["report.html"]


# --- folders of 0.1.0, which had no manifest


def test_folders_of_0_1_0_are_read_with_one_warning(tmp_path):
    shutil.copytree(OLD, tmp_path / "old")
    old = tmp_path / "old"
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(1))
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    with pytest.warns(UnvouchedWarning, match="saved by an older version") as said:
        posterior = rn.load(old / "posterior", net)
    assert len(said) == 1
    np.testing.assert_allclose(posterior.predict(x[:5], 10, seed=0).mean, np.load(old / "posterior.npy"), rtol=1e-5)
    assert rn.load(old / "posterior", net).history == posterior.history  # without another warning
    with pytest.warns(UnvouchedWarning) as said:
        model = R2D2Regressor.load(old / "estimator")
    assert len(said) == 1
    np.testing.assert_allclose(model.predict(x[:5].numpy()), np.load(old / "estimator.npy"), rtol=1e-5)
    ended = subprocess.run(
        [sys.executable, "-m", "r2d2net", "predict", old / "run", old / "rows.csv"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": ""},
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("note: ") == 1
    assert "saved by an older version" in ended.stderr
    expected = np.genfromtxt(old / "predictions.csv", delimiter=",", skip_header=1, usecols=range(5))
    found = np.genfromtxt(ended.stdout.splitlines(), delimiter=",", skip_header=1, usecols=range(5))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_a_signature_can_be_renewed(tmp_path):
    folder_of(tmp_path, 1)
    content = json.loads((tmp_path / "a.json").read_text())
    (tmp_path / "a.json").write_text(json.dumps({**content, "value": 7}))
    sign(tmp_path)
    assert values(tmp_path)[0] == 7
