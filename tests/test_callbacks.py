"""Callbacks of `fit`: what they see, and that a run does not depend on them."""

from __future__ import annotations

import csv
from typing import Any

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.callbacks import Callback, CSVLogger, TensorBoardLogger

G = torch.Generator().manual_seed(0)
X = torch.randn(60, 3, generator=G)
DATA = X, X[:, 0] + 0.1 * torch.randn(60, generator=G)


def fit(**arguments: Any) -> Any:
    torch.manual_seed(0)
    model = rn.BayesianModel(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)))
    return rn.fit(model, DATA, epochs=4, batch_size=20, verbose=False, **arguments)


class Seen(Callback):
    def __init__(self) -> None:
        self.steps: list[int] = []
        self.losses: list[float] = []
        self.lengths: list[int] = []
        self.posterior: Any = None

    def on_step(self, step: int, info: Any) -> None:
        self.steps.append(step)
        self.losses.append(float(info.nll))

    def on_epoch(self, history: Any) -> None:
        self.lengths.append(len(history))
        history[-1]["nll"] = 0.0  # of a copy
        history.clear()

    def on_end(self, posterior: Any) -> None:
        self.posterior = posterior


def test_they_see_steps_epochs_and_the_posterior_and_change_nothing() -> None:
    seen, entries = Seen(), []
    posterior = fit(callbacks=[seen, lambda history: entries.append(history[-1])])
    assert seen.steps == list(range(1, 13))
    assert seen.lengths == [1, 2, 3, 4]
    assert seen.posterior is posterior
    assert entries == posterior.history
    assert sum(seen.losses[-3:]) / 3 == pytest.approx(posterior.history[-1]["nll"])
    alone = fit()
    assert torch.equal(alone.state.mean, posterior.state.mean)
    assert alone.history == posterior.history


def test_a_csv_file_has_the_history(tmp_path: Any) -> None:
    posterior = fit(callbacks=[CSVLogger(tmp_path / "history.csv")], validation=0.2)
    with (tmp_path / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [{name: float(value) for name, value in row.items() if value} for row in rows] == posterior.history
    assert "kl" in rows[-1]
    with pytest.raises(rn.ParameterError, match=r"path=.* cannot be written"):
        fit(callbacks=[CSVLogger(tmp_path / "no" / "history.csv")])


def test_a_failing_callback_ends_a_run_that_can_be_resumed(tmp_path: Any) -> None:
    def stop(history: Any) -> None:
        if len(history) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(callbacks=[stop], checkpoint_to=tmp_path / "run", checkpoint_every="epoch")
    lengths: list[int] = []
    log = CSVLogger(tmp_path / "history.csv")
    posterior = fit(
        callbacks=[log, lambda h: lengths.append(len(h))], resume=tmp_path / "run", checkpoint_every="epoch"
    )
    assert lengths[-1] == 4
    assert torch.equal(posterior.state.mean, fit().state.mean)
    assert len((tmp_path / "history.csv").read_text().splitlines()) == 5


def test_tensorboard(tmp_path: Any) -> None:
    pytest.importorskip("tensorboard", reason="the extra `tensorboard` is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    posterior = fit(callbacks=[TensorBoardLogger(tmp_path, every=3)])
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    losses = [event.value for event in events.Scalars("epoch/nll")]
    assert losses == pytest.approx([entry["nll"] for entry in posterior.history])
    assert [event.step for event in events.Scalars("step/nll")] == [3, 6, 9, 12]


@pytest.mark.parametrize("wrong", [print, [3], [CSVLogger], CSVLogger("x.csv"), "print"])
def test_what_is_no_list_of_callbacks_is_refused(wrong: Any) -> None:
    with pytest.raises(rn.ParameterError, match="callbacks"):
        fit(callbacks=wrong)


def test_several_runs_have_none() -> None:
    with pytest.raises(rn.ParameterError, match="callbacks: these are 2 runs; give them to a fit of one run"):
        fit(callbacks=[print], restarts=2)
