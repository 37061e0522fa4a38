"""`write_onnx` and `r2d2net export`: files with the numbers of `predict`."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net import onnx_export
from r2d2net.onnx_export import write_onnx
from table_runs import command

pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
pytest.importorskip("onnxscript", reason="the extra `onnx` is not installed")
ort = pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")

X = 5 + 3 * torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
Y = 1000 + 100 * X[:, 0]


def fitted(likelihood: Any = None, y: torch.Tensor = Y, width: int = 1) -> Any:
    torch.manual_seed(0)
    model = rn.BayesianModel(rn.nets.mlp(4, [6], width), likelihood=likelihood)
    return rn.fit(model, (X, y), epochs=3, verbose=False)


def run(path: Any, x: np.ndarray) -> list[np.ndarray]:
    session = ort.InferenceSession(str(path))
    dtype = {"tensor(float)": np.float32, "tensor(double)": np.float64}[session.get_inputs()[0].type]
    found: list[np.ndarray] = session.run(None, {"x": x.astype(dtype)})
    return found


@pytest.mark.parametrize("draws", ["mean", 9])
def test_a_file_takes_any_number_of_rows_in_the_users_units(draws: Any, tmp_path: Any) -> None:
    posterior = fitted()
    report = write_onnx(posterior, tmp_path / "model.onnx", X, draws=draws, spread=True)
    for rows in (1, 7, 30):
        mean, std = run(report.path, X[:rows].numpy())
        want = posterior.predict(X[:rows], draws, seed=0)
        assert mean.shape == (rows,)
        assert np.allclose(mean, want.mean.numpy(), rtol=1e-5)
        assert np.allclose(std, want.std.numpy(), rtol=1e-3)
    assert report.difference < 0.01
    assert report.rows == 30
    assert 0 < report.row_milliseconds < 1000
    import onnx

    facts = {entry.key: entry.value for entry in onnx.load(report.path).metadata_props}
    assert json.loads(facts["r2d2net"]) == {"draws": draws, "seed": 0}


def test_images_and_classes(tmp_path: Any) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(20, 1, 8, 8), torch.arange(20) % 2
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 2))
    posterior = rn.fit(rn.BayesianModel(net, likelihood=rn.likelihoods.Categorical()), (x, y), epochs=2, verbose=False)
    report = write_onnx(posterior, tmp_path / "model.onnx", x)
    assert np.allclose(run(report.path, x[:3].numpy())[0], posterior.predict(x[:3], "mean").mean.numpy(), atol=1e-5)


def test_other_numbers_are_refused_and_leave_no_file(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = fitted()
    monkeypatch.setattr(onnx_export, "NEAR", 0.0)
    with pytest.raises(rn.ParameterError, match="other numbers in ONNX than predict"):
        write_onnx(posterior, tmp_path / "model.onnx", X)
    assert list(tmp_path.iterdir()) == []


def test_networks_with_a_step_named_like_an_output(tmp_path: Any) -> None:
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.Linear(X.shape[1], 6), nn.Linear(1, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.head(torch.relu(self.layer(x)).mean(1, keepdim=True))
            return out

    torch.manual_seed(0)
    model = rn.BayesianModel(Pooled(), likelihood=rn.likelihoods.Categorical())
    posterior = rn.fit(model, (X, (X[:, 0] > 0).long()), epochs=2, verbose=False)
    report = write_onnx(posterior, tmp_path / "model.onnx", X)
    assert np.allclose(run(report.path, X[:3].numpy())[0], posterior.predict(X[:3], "mean").mean.numpy(), atol=1e-5)


def test_log_normal_targets_by_the_mean_network(tmp_path: Any) -> None:
    posterior = fitted(rn.likelihoods.LogNormal())
    report = write_onnx(posterior, tmp_path / "model.onnx", X, spread=True)
    far = 30 * X[:5]  # where means are bounded
    want = posterior.predict(far, "mean")
    for found, own in zip(run(report.path, far.numpy()), (want.mean, want.std), strict=True):
        assert np.allclose(found, own.numpy(), rtol=1e-4)


def test_refusals_are_one_line(tmp_path: Any) -> None:
    posterior = fitted(rn.likelihoods.LogNormal())
    with pytest.raises(rn.ParameterError, match=r"cannot be followed .*; use posterior\.to_module") as caught:
        write_onnx(posterior, tmp_path / "model.onnx", X, draws=4)
    assert "\n" not in str(caught.value)
    with pytest.raises(rn.ParameterError, match="x has fewer than 2 rows"):
        write_onnx(fitted(), tmp_path / "model.onnx", X[:1])
    with pytest.raises(rn.ParameterError, match="cannot be written"):
        write_onnx(fitted(), tmp_path / "no" / "model.onnx", X)
    with pytest.raises(rn.DataError, match="x has shape"):
        write_onnx(fitted(), tmp_path / "model.onnx", X[:, :2])


def test_the_command_line(tmp_path: Any) -> None:
    g = np.random.default_rng(0)
    table = pd.DataFrame({"size": g.normal(100, 20, 60), "city": g.choice(["a", "b"], 60)})
    table["price"] = 3 * table["size"] + 40 * (table["city"] == "a")
    table.to_csv(tmp_path / "rows.csv", index=False)
    fit = ("fit", tmp_path / "rows.csv", "--target", "price", "--prior", "r2d2", "--hidden", "4", "--epochs", "2")
    assert command(*fit, "--out", tmp_path / "run", "--no-baselines").code == 0
    done = command("export", tmp_path / "run", "--onnx", tmp_path / "new" / "model.onnx", "--draws", "6", "--json")
    assert done.code == 0, done.error
    said = json.loads(done.out)
    assert said["draws"] == 6
    assert said["targets"] == ["price"]
    assert len(said["inputs"]) == 3
    x = np.column_stack([[100.0, 80.0], [1.0, 0.0], [0.0, 1.0]])
    assert run(tmp_path / "new" / "model.onnx", x)[0].shape == (2,)
    done = command("export", tmp_path / "run", "--onnx", tmp_path / "model.onnx")
    assert "the mean network" in done.out
    assert "latency" in done.out
    wrong = command("export", tmp_path / "run", "--onnx", tmp_path / "model.onnx", "--draws", "0")
    assert wrong.code == 2
    assert wrong.error.strip() == "error: --draws 0 is no number: use mean or a whole number from 1"
    kept = (tmp_path / "rows.csv").read_bytes()
    for name, what in {"rows.csv": "does not end in .onnx", "run": "is a folder"}.items():
        wrong = command("export", tmp_path / "run", "--onnx", tmp_path / name)
        assert wrong.code == 2
        assert what in wrong.error
    assert (tmp_path / "rows.csv").read_bytes() == kept
