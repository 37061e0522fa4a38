"""The effective number of weights: 0 where a weight follows its prior, 1 where the data fix it."""

import torch

import r2d2net as rn
from r2d2net.network_inputs import no_units
from r2d2net.posterior import Posterior
from r2d2net.shrinkage import effective_weights


def posterior_of(method, prior):
    model = rn.BayesianModel(torch.nn.Linear(3, 1), prior=prior)
    running = method.build(model, n=10, steps=1)
    state = running.init(torch.linspace(-1, 1, 10)[:, None], torch.Generator().manual_seed(0))
    return Posterior(running.source(state), no_units(torch.zeros(())), flat_target=False)


def test_a_weight_counts_by_what_the_data_add_to_its_precision():
    posterior = posterior_of(rn.inference.SVGI(), rn.priors.R2D2())
    weights, bias = torch.tensor([1.0, 100.0, 1e8]), torch.tensor([1.0])  # prior precisions
    added = torch.tensor([1.0, 300.0, 1e-3, 1e6])  # 1 / s^2 = prior precision + added
    state = posterior.state._replace(precision=torch.cat([weights, bias]), rho=added.log())
    changed = Posterior(posterior.source.with_state(state), posterior.units, flat_target=False)
    found = effective_weights(changed)
    assert found is not None
    torch.testing.assert_close(torch.tensor(found["weight"]), torch.tensor(0.5 + 0.75), atol=1e-5, rtol=0)
    assert 0.99 < found["bias"] <= 1


def test_points_have_no_such_number():
    assert effective_weights(posterior_of(rn.inference.MAP(), rn.priors.Gaussian())) is None


def test_weights_that_share_what_they_do_never_count_more_than_the_rows():
    """Of 60 copies of one input the data of 8 rows determine at most 8 weights, where mean-field counts most of 60."""
    x = torch.randn(8, 1, generator=torch.Generator().manual_seed(0)).expand(8, 60).contiguous()
    model = rn.BayesianModel(torch.nn.Linear(60, 1), prior=rn.priors.Gaussian())
    posterior = rn.fit(model, (x, x[:, 0]), "svi", epochs=300, seed=0, verbose=False)
    source = posterior.source
    plain = (1 - source.deviation().double().square() * source.state.precision.double()).clamp(0, 1)
    found = effective_weights(posterior)
    assert found is not None
    assert float(plain.sum()) > 8
    assert sum(found.values()) <= 8 * (1 + 1e-12)
    torch.testing.assert_close(found["weight"] / found["bias"], float(plain[:60].sum() / plain[60:].sum()))
