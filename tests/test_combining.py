"""`rn.combine`: several runs as one mixture."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import r2d2net as rn

X = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
Y = 5 + X[:, 0]


def model() -> Any:
    torch.manual_seed(0)
    return rn.BayesianModel(rn.nets.mlp(3, [4], 1))


def runs(count: int = 3) -> list[Any]:
    return [rn.fit(model(), (X, Y), epochs=3, seed=seed, verbose=False) for seed in range(count)]


def test_draws_are_of_each_part_as_often_and_are_saved_like_any_other(tmp_path: Any) -> None:
    parts = runs()
    mixture = rn.combine(parts)
    assert len(mixture.sample(10, seed=0)) == 10
    samples = mixture.sample(3000, seed=0)
    means = torch.stack([part.mean() for part in parts])
    spread = torch.stack([part.source.deviation() for part in parts])
    error = (spread.square().mean(0) / 3000).sqrt()  # of equal counts of each part
    assert bool(((samples.mean(0) - means.mean(0)).abs() < 5 * error).all())
    variance = spread.square().mean(0) + means.var(0, correction=0)
    # a sample variance has a relative error of at most sqrt(2 / 3000) = 2.6%, less between parts; 5 of them
    assert bool((samples.var(0) / variance - 1).abs().max() < 0.13)
    loaded = rn.load(mixture.save(tmp_path).parent, rn.nets.mlp(3, [4], 1))
    assert torch.equal(loaded.predict(X).samples, mixture.predict(X).samples)
    assert torch.allclose(mixture.to_module(9)(X), mixture.predict(X, 9).mean, atol=1e-4)
    assert mixture.predict(X, 7).samples.shape == (7, 60)
    parts[0].source.state.mean.add_(100)
    assert torch.equal(loaded.predict(X).samples, mixture.predict(X).samples)


def test_refusals_are_one_line() -> None:
    first, second = runs(2)
    other = rn.fit(model(), (X, 2 * Y), epochs=1, verbose=False)
    cavi = rn.fit(model(), (X, Y), "cavi", epochs=1, verbose=False)
    sampled = rn.fit(model(), (X, Y), "sgld", epochs=4, verbose=False)
    wrong: list[tuple[Any, str]] = [
        ([first], "posteriors is no list of two"),
        ([first, 3], "holds int at 1"),
        ([first, other], "differs in units"),
        ([first, cavi], "differs in the algorithm"),
        ([first, sampled], "holds one of SGLD"),
    ]
    for given, message in wrong:
        with pytest.raises(rn.ParameterError, match=message):
            rn.combine(given)
    with pytest.raises(rn.ParameterError, match="has no mean network"):
        rn.combine([first, second]).mean()


def test_runs_of_other_rows_are_refused_where_units_do_not_tell() -> None:
    network = rn.BayesianModel(rn.nets.mlp(3, [], 1))
    how: dict[str, Any] = {"epochs": 1, "standardize": False, "verbose": False}
    first, second = rn.fit(network, (X, Y), **how), rn.fit(network, (X, 10 - Y), **how)
    with pytest.raises(rn.ParameterError, match="differs in rows, or their order at 1"):
        rn.combine([first, second])


def fitted(tmp_path: Any = None, **options: Any) -> Any:
    defaults = {"epochs": 3, "restarts": 3, "combine": True, "jobs": 1, "verbose": False}
    return rn.fit(model(), (X, Y), checkpoint_to=tmp_path, **{**defaults, **options})


def test_restarts_combine_to_the_mixture_of_their_runs(tmp_path: Any) -> None:
    """The parts are those that restarts would choose among, and are saved, loaded and resumed as one posterior."""
    mixture = fitted(tmp_path)
    held = (X[:9], Y[:9])
    candidates = rn.fit(model(), (X, Y), epochs=3, restarts=3, validation=held, jobs=1, verbose=False)
    best = min(candidates.candidates, key=lambda run: run["validation"])["restart"]
    part = mixture.source.sources()[best]
    assert torch.equal(part.state.mean, candidates.source.state.mean)
    assert len({float(part.state.mean.sum()) for part in mixture.source.sources()}) == 3
    assert mixture.settings["algorithm"]["type"] == "Combined"
    assert mixture.settings["n"] == 60  # nothing is held out
    predicted = mixture.predict(X, 9).samples
    assert torch.equal(rn.load(tmp_path, rn.nets.mlp(3, [4], 1)).predict(X, 9).samples, predicted)
    again = rn.fit(model(), (X, Y), epochs=3, restarts=3, combine=True, resume=tmp_path, jobs=1, verbose=False)
    assert torch.equal(again.predict(X, 9).samples, predicted)
    assert mixture.health["verdict"] == again.health["verdict"] != "not checked"
    with pytest.raises(rn.CheckpointError, match="is of another run"):
        fitted(None, resume=tmp_path, epochs=4)


def test_validation_rows_correct_the_noise_of_the_whole_mixture() -> None:
    """One factor for all parts, as their noise alone differs from that without validation rows."""
    held = (X[:9], Y[:9] + torch.randn(9, generator=torch.Generator().manual_seed(3)))
    one, other = fitted(validation=held), fitted()
    ratios = torch.stack(
        [
            mine.state.noise["variance"] / theirs.state.noise["variance"]
            for mine, theirs in zip(one.source.sources(), other.source.sources(), strict=True)
        ]
    )
    assert float(ratios.max() / ratios.min()) == pytest.approx(1, rel=1e-5)
    assert abs(float(ratios[0].log())) > 0.1
    assert "validation" in one.history[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"restarts": 1}, "^combine=True: there is one run; give restarts=4, say$"),
        ({"prior": "auto"}, "^combine=True and prior='auto', which chooses among runs: leave one of them out$"),
        ({"algorithm": "sgld"}, "^combine=True: SGLD has no mean-field posteriors to mix; use SVGI, CAVI, SVI"),
        ({"algorithm": "mclmc"}, "^combine=True: MCLMC has no"),
        ({"combine": "yes"}, "^combine='yes' is out of range: use True or False$"),
    ],
)
def test_what_does_not_go_with_combine_is_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(rn.ParameterError, match=message) as caught:
        fitted(**options)
    assert "\n" not in str(caught.value)
