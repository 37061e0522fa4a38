"""On an accelerator the host waits once an epoch, and not in a step: counted as if the CPU were one."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import r2d2net as rn
from r2d2net import devices

READS = ("_local_scalar_dense", "is_nonzero", "nonzero", "equal")  # for which the host waits


class Reads(TorchDispatchMode):
    """Counts reads of numbers; those of whole numbers are of step counters, which are on the CPU everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in READS and args[0].dtype != torch.int64:
            self.number += 1
        return func(*args, **(kwargs or {}))


@pytest.fixture
def as_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "waits", lambda device: True)


def model(prior: Any = None) -> Any:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2))
    return rn.BayesianModel(net, rn.priors.R2D2() if prior is None else prior, rn.likelihoods.Categorical())


X = torch.randn(160, 3, generator=torch.Generator().manual_seed(0))
DATA = X, (X[:, 0] > 0).long()


def reads_by_epoch(method: Any, prior: Any = None) -> Counter[int]:
    """Return how many numbers are read in each epoch of 16 steps with two sweeps."""
    counted = Reads()
    ends: list[int] = []
    with counted:
        rn.fit(
            model(),
            DATA,
            method,
            epochs=5,
            batch_size=10,
            verbose=False,
            callbacks=[lambda _: ends.append(counted.number)],
        )
    return Counter({epoch: ends[epoch] - ends[epoch - 1] for epoch in range(1, 5)})


@pytest.mark.usefixtures("as_accelerator")
@pytest.mark.parametrize("estimator", ["weights", "local"])
@pytest.mark.parametrize("name", ["SVGI", "CAVI", "SVI"])
def test_one_read_an_epoch(name: str, estimator: Any) -> None:
    reads = reads_by_epoch(getattr(rn.inference, name)(estimator=estimator))
    assert [reads[epoch] for epoch in (1, 2, 3)] == [1, 1, 1]  # the last epoch also looks at the KL


@pytest.mark.usefixtures("as_accelerator")
@pytest.mark.parametrize("prior", [rn.priors.Horseshoe(), rn.priors.SpikeSlab(), rn.priors.Gaussian()], ids=repr)
def test_one_read_an_epoch_under_other_priors(prior: Any) -> None:
    reads = reads_by_epoch(rn.inference.SVGI(), prior)
    assert [reads[epoch] for epoch in (1, 2, 3)] == [1, 1, 1]


def test_the_count_sees_the_reads_of_every_step_of_the_cpu() -> None:
    assert reads_by_epoch(rn.inference.SVGI())[1] >= 16


@pytest.mark.usefixtures("as_accelerator")
def test_numbers_are_those_of_the_cpu() -> None:
    fitted = rn.fit(model(), DATA, epochs=3, batch_size=40, verbose=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "waits", lambda device: False)
        plain = rn.fit(model(), DATA, epochs=3, batch_size=40, verbose=False)
    assert torch.equal(fitted.state.mean, plain.state.mean)
    assert [e["nll"] for e in fitted.history] == pytest.approx([e["nll"] for e in plain.history], rel=1e-5)


@pytest.mark.usefixtures("as_accelerator")
def test_divergence_shows_at_the_end_of_its_epoch(tmp_path: Any) -> None:
    torch.manual_seed(0)

    class Bad(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls = nn.Linear(3, 2), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            out: torch.Tensor = self.layer(x)
            return out * float("nan") if self.calls > 20 else out

    broken = rn.BayesianModel(Bad(), likelihood=rn.likelihoods.Categorical())
    with pytest.raises(rn.DivergenceError, match=r"the loss became nan at step (20|30|40|32|48|64)"):
        rn.fit(broken, DATA, epochs=9, batch_size=10, verbose=False, checkpoint_to=tmp_path / "run")


def test_transfers_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """To a GPU they start from pinned memory; there is none here, so the calls are looked at."""
    calls: list[Any] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: calls.append("pinned") or self)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *where, **how: calls.append((where, how)) or self)
    devices.moved(torch.zeros(2), torch.device("cuda", 0))
    assert calls == ["pinned", ((torch.device("cuda", 0),), {"non_blocking": True})]
