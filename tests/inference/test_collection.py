"""Draws are kept evenly over the chain in the memory they may have, and come back whole from memory or file."""

from pathlib import Path

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net.inference import Draws
from r2d2net.inference.base import flatten
from r2d2net.inference.collection import (
    Collection,
    bytes_of,
    collected,
    first,
    keep,
    merged,
    no_draws,
    room_for,
)
from r2d2net.posterior import Posterior


def network(value, weights=3):
    """One draw whose every entry is ``value``."""
    counts = {"running": torch.full((1, 2), float(value)), "batches": torch.full((1,), value, dtype=torch.int64)}
    return Draws(
        torch.full((1, weights), float(value)),
        torch.full((1, 1), float(value)),
        counts,
        {"variance": torch.full((1, 1), float(value))},
    )


def chain(steps, capacity, every=1):
    kept = no_draws(capacity, network(0), every)
    for step in range(1, steps + 1):
        kept = keep(kept, network(step), step)
    return kept


@pytest.mark.parametrize(
    ("steps", "capacity", "every", "expected"),
    [
        (7, 8, 1, [1, 2, 3, 4, 5, 6, 7]),
        (8, 8, 3, [3, 6]),
        (9, 4, 1, [2, 4, 6, 8]),  # full at 4: every second of them stays, and from then on every second step
        (10, 4, 1, [4, 8]),  # full again at 8
        (33, 4, 1, [8, 16, 24, 32]),
        (5, 1, 1, [5]),
        (0, 4, 1, []),
    ],
)
def test_draws_are_evenly_spaced_whatever_the_length(steps, capacity, every, expected):
    kept = chain(steps, capacity, every)
    found = first(kept.draws, int(kept.number))
    assert len(kept.draws.weights) == capacity
    for tensor in flatten(found).values():
        assert tensor.flatten(1)[:, 0].tolist() == expected if tensor.dim() > 1 else tensor.tolist() == expected


def test_room_is_what_memory_allows():
    one = network(1)
    size = bytes_of(one)
    assert size == 4 * (3 + 1 + 2 + 1) + 8
    assert room_for(100, one, 1 << 30) == 100
    assert room_for(7, one, 1 << 30) == 8
    assert room_for(100, one, 11 * size) == 10
    assert room_for(1, one, 0) == 1
    with pytest.raises(
        rn.ParameterError, match=rf"^memory=10 is out of range: two draws of this network need {2 * size}"
    ):
        room_for(100, one, 10)


def test_chains_are_merged_at_the_length_of_the_shortest():
    short, long = (collected(torch.tensor(9), first(chain(n, 8).draws, n)) for n in (3, 5))
    both = merged([short, long])
    assert both.weights[..., 0].tolist() == [[1, 2, 3], [3, 4, 5]]
    assert both.buffers["batches"].tolist() == [[1, 2, 3], [3, 4, 5]]
    assert both.noise["variance"].shape == (2, 3, 1)


@pytest.fixture
def collection():
    model = rn.BayesianModel(nn.Linear(2, 1))
    return Collection(model, collected(torch.tensor(6), first(chain(6, 6).draws, 6)))


def values(drawn):
    return [int(v) for one in drawn for v in one.weights[:, 0]]


def test_draws_are_spread_over_all_that_are_stored(collection):
    g = torch.Generator().manual_seed(0)
    assert collection.available == 6
    assert values(collection.draws(6, g)) == [1, 2, 3, 4, 5, 6]
    assert values(collection.draws(6, g, at_once=4)) == [1, 2, 3, 4, 5, 6]
    for _ in range(50):
        few = values(collection.draws(3, g))
        assert [(value - 1) // 2 for value in few] == [0, 1, 2]
        many = values(collection.draws(15, g))
        assert {many.count(value) for value in range(1, 7)} == {2, 3}
    assert values([collection.center()]) == [3]
    assert collection.center().weights[0, 0] == 3.5
    assert collection.center().buffers["batches"].tolist() == [6]


def test_single_draws_are_uniform(collection):
    """6,000 draws of one of six: each count has deviation 29; five of them, false alarm 4e-6."""
    g = torch.Generator().manual_seed(0)
    drawn = [values(collection.draws(1, g))[0] for _ in range(6000)]
    assert all(abs(drawn.count(value) - 1000) < 145 for value in range(1, 7))


def test_noise_is_scaled_in_all_draws(collection):
    doubled = collection.with_noise_factor(2.0)
    assert torch.equal(doubled.state.noise["variance"], 2 * collection.state.noise["variance"])
    assert type(doubled) is Collection


# --- ensembles: what `fit` makes of several runs

X = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
Y = X[:, 0] + 0.1 * X[:, 1]


def net():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))


def ensemble(members=3, net=net, **options):
    model = rn.BayesianModel(net(), prior=rn.priors.Gaussian())
    method = rn.inference.DeepEnsemble(members=members)
    return rn.fit(model, (X, Y), method, **{"epochs": 3, "batch_size": 20, "verbose": False, "jobs": 1, **options})


def test_members_are_independent_runs_of_training():
    torch.manual_seed(0)
    start = net()
    together = ensemble(net=lambda: start)
    alone = rn.fit(
        rn.BayesianModel(start, prior=rn.priors.Gaussian()), (X, Y), "map", epochs=3, batch_size=20, verbose=False
    )
    assert together.state.weights.shape == (3, 1, alone.model.size)
    assert torch.equal(together.state.weights[0, 0], alone.state.mean)
    assert torch.equal(together.state.fixed[0, 0], alone.state.fixed)
    assert torch.equal(together.state.noise["variance"][0, 0], alone.state.noise["variance"])
    correlations = torch.corrcoef(together.state.weights[:, 0])
    assert float((correlations - torch.eye(3)).abs().max()) < 0.9  # other starts, other networks
    assert len(together.history) == 3


def test_a_prediction_has_each_member_once_with_its_own_noise_and_buffers():
    posterior = ensemble()
    prediction = posterior.predict(X[:5])
    assert prediction.samples.shape == (3, 5)
    assert prediction.noise_variance.expand(3, 5)[:, 0].unique().numel() == 3
    own = net().eval()
    for i, state_dict in enumerate(posterior.state_dicts(3)):
        own.load_state_dict(state_dict)
        with torch.no_grad():
            output = own(posterior.units.inputs(X[:5]))[:, 0]
        unit = posterior.units.y
        torch.testing.assert_close(prediction.samples[i], unit.center + unit.scale * output, rtol=1e-4, atol=1e-5)
    with pytest.raises(rn.ParameterError, match=r"^the mean weights of several solutions .* are no network"):
        posterior.predict(X, draws="mean")


def test_processes_change_nothing():
    one, two = (flatten(ensemble(jobs=jobs).state) for jobs in (1, 2))
    assert one.keys() == two.keys()
    assert all(torch.equal(tensor, two[name]) for name, tensor in one.items())


def test_validation_rows_correct_the_noise_of_the_whole():
    plain, corrected = (ensemble(validation=(X[:20], 3 * Y[:20])) for _ in range(2))
    assert plain.state.noise["variance"].shape == (3, 1, 1)
    alone = ensemble(members=1, validation=(X[:20], 3 * Y[:20]))
    ratio = corrected.state.noise["variance"] / ensemble().state.noise["variance"]
    assert torch.allclose(ratio, ratio[0]), "one factor for all members"
    assert float(ratio[0]) > 1.5
    assert alone.state.weights.shape[0] == 1


# --- files


def test_draws_in_a_file_are_read_as_they_are_needed(tmp_path):
    wide = nn.Linear(50_000, 1)
    x = torch.randn(8, 50_000, generator=torch.Generator().manual_seed(0))
    model = rn.BayesianModel(wide, prior=rn.priors.Gaussian())
    method = rn.inference.DeepEnsemble(members=2)
    posterior = rn.fit(model, (x, x[:, 0]), method, epochs=1, verbose=False, jobs=1)
    posterior.save(tmp_path)
    whole, mapped = rn.load(tmp_path, wide), rn.load(tmp_path, wide, mmap=True)
    assert torch.equal(mapped.predict(x).samples, whole.predict(x).samples)
    assert torch.equal(mapped.predict(x).samples, posterior.predict(x).samples)
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert str(tmp_path) in maps.read_text(), "the draws were copied into memory"


def test_a_damaged_file_is_refused_when_mapped(tmp_path):
    posterior = ensemble()
    path = posterior.save(tmp_path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(rn.CheckpointError, match="is not the part that"):
        rn.load(tmp_path, net(), mmap=True)
    path.write_bytes(b"")
    with pytest.raises(rn.CheckpointError, match="is not the part that"):
        rn.load(tmp_path, net(), mmap=True)


def test_draws_of_another_network_are_refused(tmp_path):
    posterior = ensemble()
    state = posterior.state._replace(weights=posterior.state.weights[..., 1:])
    Posterior(posterior.source.with_state(state), posterior.units, flat_target=True, settings=posterior.settings).save(
        tmp_path
    )
    with pytest.raises(rn.CheckpointError, match=r"^the saved run's draws of weights are \(3, 1, 20\)"):
        rn.load(tmp_path, net())
