"""Saved runs: nothing is lost on the way, and whatever is wrong with a file is one clear error."""

import copy
import errno
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import r2d2net as rn
from prior_cases import CASES
from r2d2net import checkpoint
from r2d2net.errors import CheckpointError, ParameterError
from r2d2net.inference.base import flatten, unflatten
from r2d2net.manifest import replacing
from r2d2net.posterior import Posterior

FAST = {"epochs": 2, "batch_size": 12, "seed": 1, "verbose": False}


def tensors():
    shared = torch.arange(6.0)
    return {
        "double": torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
        "half": torch.tensor([1.5, float("inf"), float("nan")], dtype=torch.float16),
        "bfloat": torch.tensor([[-0.0]], dtype=torch.bfloat16),
        "whole": torch.tensor(2**62),
        "bool": torch.tensor([True, False]),
        "scalar": torch.tensor(0.1),
        "empty": torch.zeros(0, 3),
        "generator": torch.Generator().manual_seed(3).get_state(),
        "shared/whole": shared,
        "shared/part": shared[2:4],
        "transposed": torch.arange(6.0).view(2, 3).T,
        "expanded": torch.tensor(1.0).expand(4),
    }


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run" / "posterior.safetensors"
    checkpoint.write(path, {"a": torch.arange(3.0), "b/c": torch.tensor(7)}, {"settings": {"lr": 0.1}})
    return path


def network(width=3):
    return nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 1))


def data(rows=24):
    x = torch.randn(rows, 2, generator=torch.Generator().manual_seed(1))
    return x, 10 + 3 * x[:, 0] + x[:, 1].sin()


def bits(tensor):
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def is_one_line(error):
    return "\n" not in str(error.value)


# --- the file


def test_round_trip_keeps_every_bit(tmp_path):
    header = {"history": [{"nll": 0.1 + 0.2, "kl": float("inf")}], "order": {"b": 1, "a": [None, "é"]}}
    checkpoint.write(tmp_path / "new" / "file", tensors(), header)
    found, read = checkpoint.read(tmp_path / "new" / "file")
    assert read == {"format": checkpoint.FORMAT, **header}
    assert list(read["order"]) == ["b", "a"]
    assert found.keys() == tensors().keys()
    for name, tensor in tensors().items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert bits(found[name]) == bits(tensor)
        assert found[name].data_ptr() % 64 == 0 or found[name].numel() == 0
    assert found["shared/part"].untyped_storage().nbytes() == 8


def test_tree_round_trip():
    state = {"moments": rn.inference.adam.Moments(torch.zeros(2), torch.ones(2)), "none": {}}
    flat = flatten(state)
    assert sorted(flat) == ["moments/first", "moments/second"]
    filled = unflatten(state, {name: tensor + 1 for name, tensor in flat.items()})
    assert type(filled["moments"]) is rn.inference.adam.Moments
    assert filled["none"] == {}
    assert torch.equal(filled["moments"].second, torch.full((2,), 2.0))
    for wrong, message in [
        ({"moments/first": torch.zeros(2)}, "lacks 'moments/second'"),
        ({**flat, "more": torch.zeros(1)}, "also holds 'more'"),
        ({**flat, "moments/first": torch.zeros(3)}, r"\(3,\) torch.float32, the model needs \(2,\)"),
        ({**flat, "moments/first": torch.zeros(2).double()}, "torch.float64"),
    ]:
        with pytest.raises(CheckpointError, match=message):
            unflatten(state, wrong)


def test_every_truncation_is_noticed(file):
    content = file.read_bytes()
    for length in range(len(content)):
        file.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="truncated, altered or not a saved run") as error:
            checkpoint.read(file)
        assert is_one_line(error)


def test_every_altered_byte_is_noticed(file):
    content = file.read_bytes()
    draw = np.random.default_rng(0)
    for position in range(len(content)):  # length, header, padding, data
        altered = bytearray(content)
        altered[position] ^= int(draw.integers(1, 256))
        file.write_bytes(altered)
        with pytest.raises(CheckpointError, match="truncated, altered or not a saved run") as error:
            checkpoint.read(file)
        assert is_one_line(error)
    for more in (content + b"\0", content + content, b"\0" + content):
        file.write_bytes(more)
        with pytest.raises(CheckpointError, match="truncated, altered"):
            checkpoint.read(file)


def test_foreign_files(tmp_path, monkeypatch):
    path = tmp_path / "file"
    save_file({"a": torch.zeros(2)}, path, metadata={"r2d2net": "{}", "sha256": "0" * 64})
    with pytest.raises(CheckpointError, match="altered or not a saved run"):
        checkpoint.read(path)
    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(CheckpointError, match="altered or not a saved run"):
        checkpoint.read(path)
    torch.save({"a": torch.zeros(2)}, path)
    with pytest.raises(CheckpointError, match="altered or not a saved run"):
        checkpoint.read(path)
    with pytest.raises(CheckpointError, match="is not there: give the folder of a saved run"):
        checkpoint.read(tmp_path / "missing")
    with pytest.raises(CheckpointError, match="could not be read: Is a directory") as error:
        checkpoint.read(tmp_path)
    assert is_one_line(error)
    monkeypatch.setattr(checkpoint, "FORMAT", 99)
    checkpoint.write(path, {}, {})
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="has format 99, this version of r2d2net reads 1"):
        checkpoint.read(path)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_failed_write_keeps_the_old_file(file, monkeypatch, call):
    before = file.read_bytes()

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(CheckpointError, match=r"could not be written: .*No space left on device") as error:
        checkpoint.write(file, {"a": torch.ones(3)}, {})
    assert is_one_line(error)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]


def test_folder_that_is_a_file(file):
    with pytest.raises(CheckpointError, match="could not be written"):
        checkpoint.write(file / "more", {}, {})


def test_nothing_is_pickled(tmp_path, monkeypatch):
    def forbidden(*arguments, **options):
        raise AssertionError("pickled")

    net, (x, y) = network(), data()
    model = rn.BayesianModel(net)
    fit = rn.fit  # imports joblib's cloudpickle, which needs the classes of pickle
    for name in ("load", "loads", "dump", "dumps", "Unpickler", "Pickler"):
        monkeypatch.setattr(pickle, name, forbidden)
    monkeypatch.setattr(torch, "load", forbidden)
    monkeypatch.setattr(torch, "save", forbidden)
    fit(model, (x, y), resume=tmp_path, checkpoint_every=0, **FAST)
    rn.load(tmp_path, net)
    package = Path(rn.__file__).parent
    ours = [path for path in package.rglob("*.py") if "formats" not in path.parts]  # of data that others published
    assert not [path for path in ours if "import pickle" in path.read_text()]


# --- the posterior


@pytest.mark.parametrize("algorithm", [rn.inference.SVGI, rn.inference.CAVI])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_saved_and_loaded_posteriors_are_the_same(tmp_path, case, algorithm):
    net, (x, y) = network(), data()
    posterior = rn.fit(rn.BayesianModel(net, prior=case.prior), (x, y), algorithm(sweep_every=1), **FAST)
    assert posterior.save(tmp_path / "run") == tmp_path / "run" / "posterior.safetensors"
    before = {name: parameter.clone() for name, parameter in net.state_dict().items()}
    loaded = rn.load(tmp_path / "run", net=net)
    assert_same_posterior(posterior, loaded, x)
    assert repr(loaded.model.bayesian[0].prior) == repr(case.prior)
    assert all(torch.equal(net.state_dict()[name], tensor) for name, tensor in before.items())


LIKELIHOODS = {
    "Gaussian": (rn.likelihoods.Gaussian(noise=0.5), 1, lambda y: y.double()),
    "Heteroscedastic": (rn.likelihoods.Heteroscedastic(), 2, lambda y: y),
    "Categorical": (rn.likelihoods.Categorical(), 3, lambda y: (y > y.mean()).long()),
    "Bernoulli": (rn.likelihoods.Bernoulli(), 1, lambda y: (y > y.mean()).long()),
    "Poisson": (rn.likelihoods.Poisson(), 1, lambda y: y.abs().round()),
}


@pytest.mark.parametrize(("likelihood", "width", "target"), LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_every_likelihood_is_saved(tmp_path, likelihood, width, target):
    x, y = data()
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, width))
    model = rn.BayesianModel(net, {"0.weight": rn.priors.R2D2.from_r2(0.5, 2.0, 0.3)}, likelihood)
    posterior = rn.fit(model, (x, target(y)), **FAST)
    rn.save(posterior, str(tmp_path))
    assert_same_posterior(posterior, rn.load(str(tmp_path), net), x)


def assert_same_posterior(one, other, x):
    for tree in ("state", "units"):
        first, second = flatten(getattr(one, tree)), flatten(getattr(other, tree))
        assert {name: bits(tensor) for name, tensor in first.items()} == {k: bits(v) for k, v in second.items()}
    assert one.history == other.history
    assert torch.equal(one.predict(x, seed=5).samples, other.predict(x, seed=5).samples)
    assert torch.equal(one.predict(x, "mean").mean, other.predict(x, "mean").mean)


class Swapped(nn.Module):
    """The parameters of a plain network under the same names, in another order."""

    def __init__(self):
        super().__init__()
        self.add_module("2", nn.Linear(3, 1))
        self.add_module("0", nn.Linear(2, 3))


def test_another_net_is_one_clear_error(tmp_path):
    net = network()
    rn.fit(rn.BayesianModel(net), data(), **FAST).save(tmp_path)
    more = nn.Sequential(*network(), nn.Linear(1, 1))
    buffered = nn.Sequential(*network(), nn.BatchNorm1d(1, affine=False))
    for other, message in [
        (nn.Sequential(nn.Linear(2, 3)), r"at parameter '2.bias': saved \(1,\), net has nothing"),
        (network(4), r"at parameter '0.bias': saved \(3,\), net has \(4,\)"),
        (more, r"at parameter '3.bias': saved nothing, net has \(1,\)"),
        (buffered, "lacks 'buffers/3.num_batches_tracked': it was made for another net"),
        (network().double(), "torch.float32, the model needs .* torch.float64"),
        (Swapped(), "its parameters are not in the order"),
    ]:
        with pytest.raises(CheckpointError, match=message) as error:
            rn.load(tmp_path, net=other)
        assert is_one_line(error)
    rn.fit(rn.BayesianModel(buffered), data(), **FAST).save(tmp_path)
    with pytest.raises(CheckpointError, match=r"also holds 'buffers/3.num_batches_tracked'"):
        rn.load(tmp_path, net=net)


def test_what_is_not_a_saved_posterior(tmp_path):
    with pytest.raises(CheckpointError, match="is not there"):
        rn.load(tmp_path, net=network())
    checkpoint.write(tmp_path / "checkpoint.safetensors", {}, {})
    with pytest.raises(CheckpointError, match=r"interrupted run: finish it by fit\(\.\.\., resume="):
        rn.load(tmp_path, net=network())
    posterior = rn.fit(rn.BayesianModel(network()), data(), **FAST)
    own = Posterior(posterior.source, posterior.units, flat_target=True)
    with pytest.raises(ParameterError, match="has no settings"):
        own.save(tmp_path)


SAVED = ["settings", "history", "candidates", "settings/model", "settings/algorithm", "settings/n", "settings/network"]
SAVED += ["settings/model/likelihood", "settings/algorithm/type", "settings/epochs", "settings/flat_target"]


def spoilt(header, name, how):
    """The header without an entry, or with a number in its place."""
    header = copy.deepcopy(header)
    *way, last = name.split("/")
    place = header
    for step in way:
        place = place[step]
    if how == "lacks":
        del place[last]
    else:
        place[last] = 3
    return header


def save_anew(folder, tensors, header):
    """Save what a posterior's file holds with new digests."""
    with replacing(folder) as staging:
        staging.tensors("posterior.safetensors", tensors, header)


def test_a_whole_file_with_an_incomplete_header_is_one_clear_error(tmp_path):
    model = rn.BayesianModel(network())
    rn.fit(model, data(), checkpoint_to=tmp_path, **FAST)
    path = tmp_path / "posterior.safetensors"
    tensors, header = checkpoint.read(path)
    for name in SAVED:
        save_anew(tmp_path, tensors, spoilt(header, name, "lacks"))
        with pytest.raises(CheckpointError, match=rf"^\S+ is damaged, it lacks '{name.replace('/', '.')}': ") as error:
            rn.load(tmp_path, network())
        assert is_one_line(error)
    for name in ("settings", "settings/model"):
        save_anew(tmp_path, tensors, spoilt(header, name, "is a number"))
        with pytest.raises(CheckpointError, match=rf"is damaged, '{name.replace('/', '.')}' is 3") as error:
            rn.load(tmp_path, network())
        assert is_one_line(error)
    save_anew(tmp_path, {k: v for k, v in tensors.items() if k != "units/x_scale"}, header)
    with pytest.raises(CheckpointError, match="lacks 'x_scale'"):
        rn.load(tmp_path, network())
    save_anew(tmp_path, tensors, spoilt(header, "settings", "lacks"))
    for several in ({}, {"restarts": 2, "jobs": 1}):
        with pytest.raises(CheckpointError, match="lacks 'settings'"):
            rn.fit(model, data(), resume=tmp_path, **FAST, **several)


@pytest.mark.parametrize("several", [{}, {"restarts": 2, "jobs": 1}], ids=["one run", "several"])
def test_a_whole_checkpoint_with_an_incomplete_header_is_one_clear_error(tmp_path, several):
    checkpoint.write(tmp_path / "checkpoint.safetensors", {}, {})
    with pytest.raises(CheckpointError, match=r"checkpoint.safetensors lacks 'settings'") as error:
        rn.fit(rn.BayesianModel(network()), data(), resume=tmp_path, **FAST, **several)
    assert is_one_line(error)


def test_what_is_no_network():
    for bad in (lambda: rn.BayesianModel("net"), lambda: rn.load("run", lambda x: x)):
        with pytest.raises(ParameterError, match=r"^net is a (str|function): give a torch.nn.Module$"):
            bad()


def test_priors_and_arguments_that_this_version_does_not_know(tmp_path):
    posterior = rn.fit(rn.BayesianModel(network()), data(), **FAST)
    posterior.settings["algorithm"]["arguments"]["speed"] = 9
    posterior.save(tmp_path)
    with pytest.raises(CheckpointError, match=r"SVGI is not that of this version of r2d2net: .*speed"):
        rn.load(tmp_path, network())
    posterior.settings["algorithm"]["type"] = "Magic"
    posterior.save(tmp_path)
    with pytest.raises(CheckpointError, match=r"names the algorithm 'Magic', which r2d2net does not have"):
        rn.load(tmp_path, network())
