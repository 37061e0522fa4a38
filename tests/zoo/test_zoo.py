"""Any network in one line: fitted for two epochs, predicted, saved, loaded, with the same bits, and its state dicts."""

import warnings

import pytest
import torch

import r2d2net as rn
from r2d2net.errors import FitWarning
from zoo.cases import ZOO, seeded


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")  # of the libraries; those of r2d2net are looked at below
@pytest.mark.parametrize("name", ZOO)
def test_fit_predict_save_load(name, tmp_path):
    make, key = ZOO[name]
    case = make(key)
    build = seeded(case.net)
    net = build()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    model = rn.BayesianModel(net, likelihood=case.likelihood, **case.options)
    assert model.summary()["count"].sum() == sum(p.numel() for p in net.parameters())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", FitWarning)
        posterior = rn.fit(model, (case.x, case.y), epochs=2, batch_size=6, verbose=False)
    started = posterior.settings["algorithm"]["arguments"]["start"]
    if case.start == "net":
        assert started == "net"
        assert any("starts from its weights" in str(line.message) for line in said)
    predicted = posterior.predict(case.x, 4)
    assert torch.isfinite(predicted.samples).all()
    assert torch.isfinite(predicted.log_prob(case.likelihood.target(case.y).to(predicted.samples.device))).all()
    for key, value in net.state_dict().items():
        assert torch.equal(value, before[key]), f"fit changes {key}"
    posterior.save(tmp_path)
    again = rn.load(tmp_path, build())
    assert torch.equal(again.predict(case.x, 4).samples, predicted.samples)
    fresh = build()
    states = list(posterior.state_dicts(2, seed=0))
    for state in states:
        fresh.load_state_dict(state)
    learnt = [slot.name for slot in model.bayesian]
    assert any(not torch.equal(states[0][name], states[1][name]) for name in learnt if name in states[0])
    for name in model.frozen:
        assert torch.equal(dict(fresh.named_parameters())[name], dict(net.named_parameters())[name])
