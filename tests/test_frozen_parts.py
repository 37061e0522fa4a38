"""A frozen backbone is in memory once, in no file, and known by its fingerprint."""

import copy
import pickle

import pytest
import torch
from torch import nn

import r2d2net as rn
from r2d2net import checkpoint
from r2d2net.inference import SVGI, DeepEnsemble, MCDropout


def headed(seed=0):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 300), nn.ReLU(), nn.Linear(300, 50), nn.ReLU(), nn.Linear(50, 1))
    net[:3].requires_grad_(False)
    return net


X = torch.randn(30, 3, generator=torch.Generator().manual_seed(1))
DATA = X, X.sum(1)


def fitted(net, algorithm=None, prior=None, **arguments):
    return rn.fit(rn.BayesianModel(net, prior), DATA, algorithm or SVGI(), epochs=2, verbose=False, **arguments)


@pytest.mark.parametrize("algorithm", [SVGI(estimator="local"), MCDropout(), DeepEnsemble(members=2)])
def test_all_copies_share_its_memory(algorithm):
    net = headed()
    posterior = fitted(net, algorithm, rn.priors.Gaussian(), jobs=1)
    model = posterior.model
    trainer = algorithm.build(model, n=30, steps=2)
    inner = [value.net for value in vars(trainer).values() if hasattr(value, "net")]
    inner += [value for value in vars(trainer).values() if isinstance(value, nn.Module)]
    networks = [model.net, model.with_prior(rn.priors.Gaussian(0.1)).net, *inner]
    assert len(networks) == (3 if isinstance(algorithm, DeepEnsemble) else 4)  # with that of the trainer
    assert all(other[0].weight.data_ptr() == net[0].weight.data_ptr() for other in networks)
    assert all(other[4].weight.data_ptr() != net[4].weight.data_ptr() for other in networks)
    held = sum(tensor.numel() for tensor in rn.inference.base.flatten(posterior.state).values())
    assert held < 20 * model.size < net[2].weight.numel()


def test_a_file_holds_what_was_learnt_and_the_backbones_fingerprint(tmp_path):
    net = headed()
    posterior = fitted(net)
    path = posterior.save(tmp_path)
    assert path.stat().st_size < 20_000 < 4 * net[2].weight.numel()
    again = rn.load(tmp_path, copy.deepcopy(net))
    assert torch.equal(again.predict(X).samples, posterior.predict(X).samples)
    assert again.model.frozen == posterior.model.frozen


def test_another_backbone_is_refused_in_one_line(tmp_path):
    fitted(headed()).save(tmp_path)
    message = (
        r"^net has other values in its 4 frozen parameters \(0.weight\) than the saved run's backbone: give the "
        r"pretrained network that was fitted$"
    )
    with pytest.raises(rn.CheckpointError, match=message):
        rn.load(tmp_path, headed(seed=1))
    slightly = headed()
    with torch.no_grad():
        slightly[2].weight[7, 7] += 1e-6
    with pytest.raises(rn.CheckpointError, match=message):
        rn.load(tmp_path, slightly)


def test_an_interrupted_run_is_not_continued_with_another_backbone(tmp_path):
    fitted(headed(), checkpoint_to=tmp_path)
    with pytest.raises(rn.CheckpointError, match="fingerprint"):
        fitted(headed(seed=1), resume=tmp_path)
    assert torch.equal(fitted(headed(), resume=tmp_path).mean(), fitted(headed()).mean())


def test_files_of_earlier_versions_hold_the_values(tmp_path):
    net = headed()
    posterior = fitted(net)
    path = posterior.save(tmp_path)
    tensors, header = checkpoint.read(path)
    tensors |= {f"state/buffers/{name}": net.get_parameter(name).detach() for name in posterior.model.frozen}
    del header["settings"]["model"]["fingerprint"]
    header.pop("format")
    header.pop("vouched")
    checkpoint.write(path, tensors, header)
    (tmp_path / "manifest.json").unlink()
    other = headed(seed=1)
    before = other[0].weight.clone()
    with pytest.warns(rn.errors.UnvouchedWarning):
        again = rn.load(tmp_path, other)
    assert torch.equal(again.predict(X).samples, posterior.predict(X).samples)
    assert torch.equal(other[0].weight, before)


def test_a_change_in_place_is_refused_by_every_use():
    net = headed()
    posterior = fitted(net)
    drawn = next(posterior.state_dicts(1))
    net.load_state_dict(drawn)  # writes the same values
    before = posterior.predict(X)
    with torch.no_grad():
        net[2].weight.mul_(2)
    for use in (lambda: posterior.predict(X), posterior.state_dict, lambda: fitted_again(posterior)):
        with pytest.raises(rn.ParameterError, match=r"^net had its frozen parameter '2.weight' changed in place"):
            use()
    with torch.no_grad():
        net[2].weight.div_(2)
    assert torch.equal(posterior.predict(X).samples, before.samples)


def fitted_again(posterior):
    return rn.fit(posterior.model, DATA, epochs=1, verbose=False)


def test_a_model_that_was_sent_to_another_process_watches_its_own_copy():
    net = headed()
    model = pickle.loads(pickle.dumps(rn.BayesianModel(net)))
    with torch.no_grad():
        net[2].weight.mul_(2)
    assert model.frozen_parts.fingerprint()
    with torch.no_grad():
        model.frozen_parts.tensors["2.weight"].mul_(2)
    with pytest.raises(rn.ParameterError):
        model.frozen_parts.require_unchanged()
