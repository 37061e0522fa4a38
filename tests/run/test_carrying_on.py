"""Runs that go on: more epochs of the same rows, and a posterior as the prior of new ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import r2d2net as rn
from r2d2net.run.more_epochs import with_steps_left

G = torch.Generator().manual_seed(0)
X = torch.randn(600, 6, generator=G)
LINEAR = 50 + 10 * (2 * X[:, 0] - X[:, 1] + 0.5 * torch.randn(600, generator=G))
CURVED = 50 + 10 * (2 * torch.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * torch.randn(600, generator=G))


def model_of(hidden: list[int]) -> Any:
    torch.manual_seed(0)
    return rn.BayesianModel(rn.nets.mlp(6, hidden, 1), rn.priors.R2D2())


def nll(posterior: Any, y: Tensor) -> float:
    return -float(posterior.predict(X[400:]).log_prob(y[400:]).mean())


@pytest.mark.parametrize(
    ("hidden", "y", "epochs"),
    [pytest.param([], LINEAR, 60, id="linear"), pytest.param([20], CURVED, 150, id="mlp", marks=pytest.mark.slow)],
)
def test_two_halves_one_after_the_other_are_as_good_as_both_at_once(hidden: list[int], y: Tensor, epochs: int) -> None:
    model = model_of(hidden)
    how: dict[str, Any] = {"epochs": epochs, "batch_size": 50, "verbose": False}
    both = nll(rn.fit(model, (X[:400], y[:400]), **how), y)
    first = rn.fit(model, (X[:200], y[:200]), **how)
    second = rn.fit(model, (X[200:400].numpy(), y[200:400].numpy()), prior=first, **how)
    assert second.settings["n"] == 400
    assert nll(second, y) == pytest.approx(both, rel=0.05)
    assert len(second.history) == 2 * epochs
    assert nll(first, y) != nll(second, y)


def test_more_epochs_start_where_the_posterior_is(tmp_path: Any) -> None:
    model, data = model_of([]), (X[:100], LINEAR[:100])
    first = rn.fit(model, data, epochs=40, verbose=False)
    before = first.predict(X).mean
    more = rn.fit(model, data, start=first, epochs=5, verbose=False)
    again = rn.fit(model, data, epochs=5, verbose=False)
    assert torch.equal(first.predict(X).mean, before)  # steps on from it do not change it
    assert more.history[0]["nll"] < again.history[-1]["nll"]
    assert (more.predict(X).mean - before).abs().mean() < 0.2 * (again.predict(X).mean - before).abs().mean()
    assert more.settings["steps_before"] == int(first.state.step)
    loaded = rn.load(more.save(tmp_path).parent, rn.nets.mlp(6, [], 1))
    assert torch.equal(loaded.predict(X).mean, more.predict(X).mean)
    third = rn.fit(loaded.model, data, start=loaded, epochs=2, verbose=False)
    assert len(third.history) == 2


@pytest.mark.parametrize("algorithm", ["svgi", "cavi"])
@pytest.mark.parametrize("epochs", [1, 2, 5])
def test_few_epochs_more_do_not_throw_a_settled_run_out_of_its_optimum(algorithm: str, epochs: int) -> None:
    # with steps as large as at a start means were 10 to 25 off
    model, data = model_of([]), (X[:200], LINEAR[:200])
    first = rn.fit(model, data, algorithm, epochs=400, verbose=False)
    deviation = first.source.deviation()
    more = rn.fit(model, data, start=first, epochs=epochs, verbose=False)
    assert float(((more.state.mean - first.state.mean).abs() / deviation)[:2].max()) < 1
    again = rn.fit(model, data, start=more, epochs=epochs, verbose=False)
    assert again.settings["steps_before"] == int(first.state.step) + int(more.state.step)
    assert float(((again.state.mean - first.state.mean).abs() / deviation)[:2].max()) < 1
    if algorithm == "svgi":
        second = rn.fit(model, (X[200:400], LINEAR[200:400]), prior=first, epochs=epochs, verbose=False)
        assert float(((second.state.mean - first.state.mean).abs() / deviation)[:2].max()) < 2
        assert nll(second, LINEAR) < nll(first, LINEAR) + 0.02


def test_steps_and_temperature_go_on_where_they_were() -> None:
    model = model_of([])
    whole = rn.inference.SVGI().build(model, n=100, steps=1000)
    rest = with_steps_left(rn.inference.SVGI().build(model, n=100, steps=600), 400)
    for t in (100, 300, 600):
        assert rest.descent.learning_rate(t) == pytest.approx(whole.descent.learning_rate(400 + t))
        assert rest.temperature(t) == pytest.approx(whole.temperature(400 + t))


def test_a_run_that_starts_there_resumes_to_the_bit(tmp_path: Any) -> None:
    model, data = model_of([]), (X[:100], LINEAR[:100])
    first = rn.fit(model, data, epochs=10, verbose=False)

    def stop(history: Any) -> None:
        if len(history) == 2:
            raise KeyboardInterrupt

    how: dict[str, Any] = {"start": first, "epochs": 4, "verbose": False}
    with pytest.raises(KeyboardInterrupt):
        rn.fit(model, data, callbacks=[stop], checkpoint_to=tmp_path, checkpoint_every="epoch", **how)
    resumed = rn.fit(model, data, resume=tmp_path, **how)
    assert torch.equal(resumed.state.mean, rn.fit(model, data, **how).state.mean)


def test_refusals_are_one_line() -> None:
    model, data = model_of([]), (X[:60], LINEAR[:60])
    first = rn.fit(model, data, epochs=2, verbose=False)
    chains = rn.fit(model, data, rn.inference.SGLD(), epochs=4, verbose=False)
    other = rn.BayesianModel(rn.nets.mlp(6, [], 1), rn.priors.Horseshoe())
    method = rn.inference.SVGI()
    own = rn.Posterior.of(first.source, method, n=60, steps=2)
    wrong: list[tuple[str, Any, dict[str, Any]]] = [
        ("start=.* is of other data", (X[:50], LINEAR[:50]), {"start": first}),
        ("start=.* is of a loop of your own", data, {"start": own}),
        ("start=3 is no posterior", data, {"start": 3}),
        ("start=.* is not of a run that can go on", data, {"start": chains}),
        ("algorithm=CAVI differs from that of start", data, {"start": first, "algorithm": "cavi"}),
        ("restarts|start: these are 2 runs", data, {"start": first, "restarts": 2, "validation": 0.1}),
        ("patience=.* does not go with a posterior as prior", data, {"prior": first, "patience": 3}),
        ("algorithm=SGLD cannot carry on", data, {"prior": chains}),
        ("data is a stream", torch.utils.data.TensorDataset(*data), {"prior": first}),
    ]
    for message, rows, arguments in wrong:
        with pytest.raises(rn.ParameterError, match=message) as caught:
            rn.fit(model, rows, epochs=2, verbose=False, **arguments)
        assert "\n" not in str(caught.value)
    for name in ("start", "prior"):
        with pytest.raises(rn.ParameterError, match=f"{name}=.* is a posterior of another model"):
            rn.fit(other, data, **{name: first}, epochs=2, verbose=False)
