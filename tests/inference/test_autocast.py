"""The forward pass in bfloat16: the same gradients up to its rounding, and everything kept in float32."""

import pytest
import torch
from torch import nn

import r2d2net as rn
from architectures import ZOO
from r2d2net.inference import CAVI, SVGI
from r2d2net.run.global_generator import lent_generator

ESTIMATORS = pytest.mark.parametrize("estimator", ["weights", "local"])
ROUNDING = 2.0**-8  # of bfloat16, which has 8 significant bits


@ESTIMATORS
@pytest.mark.parametrize("case", [ZOO[0], ZOO[1], ZOO[2]], ids=lambda case: case.name)
def test_gradients_differ_by_rounding_alone(case, estimator):
    """A few roundings in a row, none of which cancel here: 8 of them, where 3.1 at most were measured."""
    model = rn.BayesianModel(case.net(), likelihood=case.likelihood)
    y, found = case.likelihood.target(case.y), []
    for autocast in (None, "bfloat16"):
        running = SVGI(estimator=estimator, autocast=autocast).build(model, n=12, steps=1)
        state = running.init(y, torch.Generator().manual_seed(0))
        with lent_generator(0, torch.device("cpu")):
            g = torch.Generator().manual_seed(1)
            drawn, scale = running.draw(state, g)
            drawn = None if estimator == "local" else drawn
            output, gradients = running._gradients(state, drawn, scale, case.x, y, g)
        found.append(
            (output, torch.cat(gradients.mean), torch.cat(list(gradients.rho)), gradients.fixed, gradients.nll)
        )
    for plain, cast in zip(*found, strict=True):
        assert cast.dtype == torch.float32
        assert float((plain - cast).norm()) <= 8 * ROUNDING * float(plain.norm())
    assert not torch.equal(found[0][0], found[1][0])


@ESTIMATORS
def test_training_ends_close_to_float32_and_stays_in_it(estimator):
    """Noise 0.3 on y, so a rounding error of 3e-3 of unit activations hardly counts: nll within 0.05 of float32's."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(200, 3, generator=draw)
    y = x[:, 0].sin() + x[:, 1] + 0.3 * torch.randn(200, generator=draw)
    model = rn.BayesianModel(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)))
    plain, cast = (
        rn.fit(model, (x, y), CAVI(estimator=estimator, autocast=autocast), epochs=30, verbose=False)
        for autocast in (None, "bfloat16")
    )
    assert plain.history[-1]["nll"] < plain.history[0]["nll"] - 0.5
    assert cast.history[-1]["nll"] == pytest.approx(plain.history[-1]["nll"], abs=0.05)
    assert {t.dtype for t in (cast.state.mean, cast.state.rho, cast.state.precision)} == {torch.float32}
    assert cast.source.kl().dtype == torch.float32
    assert cast.predict(x, 2).samples.dtype == torch.float32


def test_networks_that_cannot_are_refused_in_one_line(monkeypatch):
    with pytest.raises(rn.ParameterError, match=r"^autocast='bfloat16' is out of range: it needs a float32 network"):
        SVGI(autocast="bfloat16").build(rn.BayesianModel(nn.Linear(3, 1).double()), n=1, steps=1)

    def unable(*arguments, **options):
        raise RuntimeError("\"lstm_cell\" not implemented for 'BFloat16'\nmore")

    model = rn.BayesianModel(nn.Linear(3, 1))
    running = SVGI(autocast="bfloat16", estimator="weights").build(model, n=2, steps=1)
    generator = torch.Generator().manual_seed(0)
    state = running.init(torch.zeros(2, 1), generator)
    monkeypatch.setattr(model, "call", unable)
    with pytest.raises(rn.ParameterError, match=r"^autocast='bfloat16' does not suit this network here: .*$") as caught:
        running.step(state, (torch.zeros(2, 3), torch.zeros(2, 1)), generator)
    assert "\n" not in str(caught.value)
