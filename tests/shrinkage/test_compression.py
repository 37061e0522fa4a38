"""Cut and refit in rounds: tables of rounds, targets, kills."""

from typing import Any

import pytest
import torch

import r2d2net as rn
from r2d2net.errors import CheckpointError, ParameterError, PruningWarning
from r2d2net.inference import CAVI
from r2d2net.priors import GroupR2D2
from r2d2net.run import train
from r2d2net.shrinkage import Pruned, compress


def rows(n: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 6, generator=generator)
    return x, x[:, 0] - 2 * x[:, 1] + 0.1 * torch.randn(n, generator=generator)


SHORT: dict[str, Any] = {"epochs": 40, "refit_epochs": 5}


def model() -> Any:
    return rn.BayesianModel(rn.nets.mlp(6, [12], 1, activation="tanh"))


@pytest.fixture(scope="module")
def whole() -> Any:
    return rn.fit(model(), rows(), "cavi", epochs=150, verbose=False)


def test_units_go_as_far_as_validation_rows_allow(whole: Any) -> None:
    found = compress(whole, rows(), validation=rows(100), thresholds=(0.5, 5.0, 1e9), refit_epochs=20)
    first, last = found.rounds[0], found.rounds[found.chosen]
    assert last.log_density >= first.log_density - first.standard_error
    assert last.weights == last.dense < 40  # of 84
    assert last.dense_ratio == 84 / last.dense
    assert found.rounds[-1].log_density < first.log_density - first.standard_error  # the round after
    assert sum(p.numel() for n, p in found.net.named_parameters() if n.endswith("weight")) == last.dense
    assert str(found).splitlines()[found.chosen + 1].endswith("<")
    assert str(found.smaller()).startswith("SmallerNetwork(")
    (hidden, out) = found.smaller().layers
    assert (hidden.before, hidden.after, out.after) == (12, found.net[0].out_features, 1)
    assert found.smaller().measure(rows()[0], repeats=1)[0].before == 97


def test_weights_go_to_a_target(whole: Any) -> None:
    found = compress(whole, rows(), 6, cut="weights", refit_epochs=20)
    assert [row.cut for row in found.rounds] == [0, 3, 6]
    assert [row.weights for row in found.rounds] == [84, 28, 14]
    assert found.rounds[-1].dense == 84
    weights = found.posterior.named(found.posterior.sample(1)[0])
    assert int((weights["0.weight"] != 0).sum() + (weights["2.weight"] != 0).sum()) == 14
    assert found.rounds[1].error < 0.12  # the noise is 0.1


def test_a_target_that_is_not_reached_is_told(whole: Any) -> None:
    with pytest.warns(PruningWarning, match="times fewer weights in the last round, not 80"):
        compress(whole, rows(), 80, thresholds=(0.5,), refit_epochs=1)


def test_a_refit_may_have_another_prior(whole: Any) -> None:
    with pytest.warns(PruningWarning):
        found = compress(whole, rows(), 80, thresholds=(0.5,), refit_epochs=1, prior=GroupR2D2(groups="filters"))
    slots = {slot.name: slot for slot in found.posterior.model.bayesian}
    assert isinstance(slots["0.weight"].prior, GroupR2D2)
    assert found.posterior.state.inner.scales["0.weight"].T.shape == (1, slots["0.weight"].shape[1])


def test_a_refit_goes_on_from_where_the_posterior_is(whole: Any) -> None:
    """With steps of no size it stays there: means, data's precisions and noise."""
    method = Pruned.going_on(whole, CAVI(lr=1e-12, warm_up=0.0, schedule="constant"))
    again = rn.fit(whole.model, rows(), method, epochs=1, verbose=False)
    torch.testing.assert_close(again.mean(), whole.mean(), rtol=1e-5, atol=1e-7)
    inner = again.state.inner
    torch.testing.assert_close(inner.rho, whole.state.rho, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(inner.noise["variance"], whole.state.noise["variance"], rtol=0.2, atol=0)


@pytest.mark.parametrize("killed_at", [25, 47, 130])
def test_a_killed_run_goes_on(killed_at: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in round 0, in round 1, or not at all: the outcome is the same to the bit."""
    arguments: dict[str, Any] = {"thresholds": (0.5, 5.0), "target": 50.0, "batch_size": 270, **SHORT}

    class Killed(BaseException):
        pass

    def close(*given: Any) -> None:
        nonlocal count
        count += 1
        if count == killed_at:
            raise Killed
        original(*given)

    count, original = 0, train.close_epoch
    with pytest.warns(PruningWarning):
        expected = compress(model(), rows(), **arguments)
    monkeypatch.setattr(train, "close_epoch", close)
    try:
        with pytest.warns(PruningWarning):
            compress(model(), rows(), folder=tmp_path, **arguments)
    except Killed:
        pass
    monkeypatch.setattr(train, "close_epoch", original)
    with pytest.warns(PruningWarning):
        found = compress(model(), rows(), folder=tmp_path, **arguments)
    assert found.rounds == expected.rounds
    assert torch.equal(found.posterior.mean(), expected.posterior.mean())


@pytest.mark.parametrize("other", ["target", "posterior"])
def test_a_folder_of_another_call_is_refused(other: str, whole: Any, tmp_path: Any) -> None:
    how: dict[str, Any] = {"cut": "weights", "refit_epochs": 1, "folder": tmp_path}
    first = compress(whole, rows(), 3, **how)
    again = rn.fit(model(), rows(), "cavi", epochs=1, verbose=False) if other == "posterior" else whole
    with pytest.raises(CheckpointError, match="is of another run: it starts from another posterior or cut; give"):
        compress(again, rows(), 4 if other == "target" else 3, **how)
    assert torch.equal(compress(whole, rows(), 3, **how).posterior.mean(), first.posterior.mean())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"target": 0.5}, "target=0.5 is out of range: use a number above 1, such as 50"),
        ({"cut": "layers"}, "cut='layers' is out of range: use 'units' or 'weights'"),
        ({"thresholds": (2.0, 1.0)}, "thresholds=(2.0, 1.0) is out of range: use numbers of nats above 0 that rise"),
        ({"thresholds": 5}, "thresholds=5 is out of range: use numbers of nats above 0 that rise"),
        ({"lr": 0.0}, "lr=0.0 is out of range: use a number above 0, such as 0.02"),
        ({"epochs": 0}, "epochs=0 is out of range: use a whole number from 1"),
    ],
)
def test_bad_input_is_one_line(arguments: Any, line: str) -> None:
    with pytest.raises(ParameterError) as caught:
        compress(model(), rows(), **arguments)
    assert str(caught.value) == line
