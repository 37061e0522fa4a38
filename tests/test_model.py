"""Any network can be made Bayesian, and stays as it was."""

import copy
import math

import pytest
import torch
from torch import nn

import r2d2net as rn
from architectures import ZOO, Case, Recurrent, Residual, Tied, mlp
from prior_cases import CASES
from r2d2net.inference import CAVI, SVGI, DeepEnsemble
from r2d2net.priors import R2D2, Gaussian, Horseshoe

ZOO_CASES = pytest.mark.parametrize("case", ZOO, ids=lambda case: case.name)


def fit_briefly(case: Case, algorithm: rn.inference.Method) -> rn.Posterior:
    model = rn.BayesianModel(case.net(), R2D2(), case.likelihood, norm=Gaussian())
    return rn.fit(model, (case.x, case.y), algorithm, epochs=3, batch_size=6, verbose=False)


@ZOO_CASES
@pytest.mark.parametrize("estimator", ["weights", "local"])
@pytest.mark.parametrize("method", [SVGI, CAVI])
def test_every_architecture_fits_and_predicts(case, method, estimator):
    posterior = fit_briefly(case, method(estimator=estimator, sweep_every=2))
    prediction = posterior.predict(case.x, draws=3)
    width = {"Categorical": int(case.y.max()) + 1, "Bernoulli": 2}.get(type(case.likelihood).__name__)
    expected = (3, *case.y.shape) if width is None else (3, 12, width)
    assert prediction.samples.shape == expected
    assert bool(torch.isfinite(prediction.log_prob(case.y)).all())
    assert bool(torch.isfinite(torch.tensor([entry["kl"] for entry in posterior.history if "kl" in entry])).all())


@ZOO_CASES
def test_the_network_passed_in_is_untouched(case):
    net = case.net().eval()
    next(net.parameters()).requires_grad_(False)
    before, flags = copy.deepcopy(net.state_dict()), [p.requires_grad for p in net.parameters()]
    model = rn.BayesianModel(net, R2D2(), case.likelihood)
    own = model.net.state_dict(keep_vars=True)
    for estimator in ("weights", "local"):
        rn.fit(model, (case.x, case.y), SVGI(estimator=estimator), epochs=2, verbose=False).predict(case.x, draws=2)
    assert all(own[name] is value for name, value in model.net.state_dict(keep_vars=True).items())
    assert all(
        torch.equal(before[name], value) for module in (net, model.net) for name, value in module.state_dict().items()
    )
    assert [p.requires_grad for p in net.parameters()] == flags
    assert not any(module.training for module in net.modules())
    assert all(p.grad is None for p in net.parameters())


@ZOO_CASES
@torch.no_grad()
def test_a_draw_loads_into_the_plain_network_and_gives_its_output(case):
    posterior = fit_briefly(case, SVGI())
    net = case.net().eval()
    inputs = posterior.units.inputs(case.x)
    outputs = posterior.outputs(case.x, 2, seed=5)
    for weights, expected in zip(posterior.sample(2, seed=5), outputs, strict=True):
        net.load_state_dict(posterior.state_dict(weights), strict=True)
        plain = net(*inputs) if isinstance(inputs, tuple) else net(inputs)
        # the same sums in another order, in float32
        torch.testing.assert_close(plain.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(outputs[0], outputs[1])


def test_running_statistics_are_learnt_and_kept_in_the_state():
    case = ZOO[1]
    posterior = fit_briefly(case, SVGI())
    assert int(posterior.state_dict()["1.num_batches_tracked"]) == 6
    assert int(posterior.model.buffers()["1.num_batches_tracked"]) == 0


def priors_of(model):
    return {slot.name: slot.prior for slot in (*model.bayesian, *model.fixed)}


def test_weights_biases_and_norms_get_their_own_prior():
    weight, bias, norm = R2D2(), Gaussian(2.0), Horseshoe()
    given = priors_of(rn.BayesianModel(Residual(), weight, bias=bias, norm=norm))
    assert given["body.0.weight"] is given["head.weight"] is weight
    assert given["body.0.bias"] is given["temperature"] is bias
    assert given["body.1.weight"] is given["norm.weight"] is norm  # the latter has three dimensions
    default = priors_of(rn.BayesianModel(Residual(), weight))
    assert default["norm.bias"] is None
    assert repr(default["head.bias"]) == repr(Gaussian(1.0))


def test_patterns_choose_the_prior_and_the_first_match_counts():
    given = priors_of(
        rn.BayesianModel(Residual(), {"head.*": Horseshoe(), "*.weight": R2D2(), "temperature": None}, bias=None)
    )
    assert isinstance(given["head.weight"], Horseshoe)
    assert isinstance(given["head.bias"], Horseshoe)
    assert isinstance(given["norm.weight"], R2D2)
    assert given["temperature"] is None
    assert given["body.0.bias"] is None


@pytest.mark.parametrize("deterministic", [["0.*"], "0.*"])
def test_all_but_the_last_layer_deterministic(deterministic):
    case = ZOO[0]
    model = rn.BayesianModel(mlp(), R2D2(), deterministic=deterministic)
    assert repr(model) == "BayesianModel(5 Bayesian and 16 deterministic parameters)"
    start = model.own_weights()[1]
    posterior = rn.fit(model, (case.x, case.y), SVGI(start="net"), epochs=3, verbose=False)
    draws = [posterior.state_dict(w) for w in posterior.sample(2, seed=0)]
    assert torch.equal(draws[0]["0.weight"], draws[1]["0.weight"])
    assert not torch.equal(draws[0]["2.weight"], draws[1]["2.weight"])
    assert not torch.equal(posterior.state.fixed, start)  # they are trained, only not random


# --- frozen parameters


def half_frozen(net=mlp):
    network = net()
    next(network.children()).requires_grad_(False)
    return network


FIXED_METHODS = ["svgi", "cavi", "map", "mcdropout", "deepensemble", "sgld", "sghmc", "hmc"]


@pytest.mark.parametrize("algorithm", FIXED_METHODS)
def test_parameters_that_require_no_gradient_keep_their_values(algorithm, tmp_path):
    case, net = ZOO[0], half_frozen()
    model = rn.BayesianModel(net, Gaussian())
    assert repr(model) == "BayesianModel(5 Bayesian and 0 deterministic parameters, 16 frozen)"
    own = {name: value.clone() for name, value in net[0].state_dict(prefix="0.").items()}
    if algorithm == "hmc":
        pytest.importorskip("pyro")
    method = {"deepensemble": DeepEnsemble(members=2)}.get(algorithm, algorithm)
    posterior = rn.fit(model, (case.x, case.y), method, epochs=6, jobs=1, verbose=False)
    draws = list(posterior.state_dicts(3, seed=0))
    assert all(torch.equal(drawn[name], value) for drawn in draws for name, value in own.items())
    assert algorithm == "map" or any(not torch.equal(drawn["2.weight"], draws[0]["2.weight"]) for drawn in draws)
    posterior.save(tmp_path)
    again = rn.load(tmp_path, net.requires_grad_(True))  # what is frozen is said by the file
    assert again.model.frozen == ("0.weight", "0.bias")
    assert torch.equal(again.predict(case.x).samples, posterior.predict(case.x).samples)


def test_what_is_frozen_can_be_said():
    assert rn.BayesianModel(half_frozen(), frozen=()).frozen == ()
    model = rn.BayesianModel(mlp(), frozen="*.bias", deterministic=["0.*"])
    assert model.frozen == ("0.bias", "2.bias")
    assert [slot.name for slot in (*model.bayesian, *model.fixed)] == ["2.weight", "0.weight"]
    assert model.with_prior(Gaussian()).frozen == model.frozen
    tied = ZOO[5].net()
    tied.embedding.requires_grad_(False)
    posterior = rn.fit(
        rn.BayesianModel(tied, likelihood=ZOO[5].likelihood), (ZOO[5].x, ZOO[5].y), epochs=2, verbose=False
    )
    drawn = next(posterior.state_dicts(1))
    assert torch.equal(drawn["decoder.weight"], tied.embedding.weight)
    assert torch.equal(drawn["embedding.weight"], tied.embedding.weight)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_networks_in_half_precision_are_one_clear_line(dtype):
    with pytest.raises(rn.ParameterError, match=rf"^net has '0.weight' as {dtype}, .*: give net.float\(\)$"):
        rn.BayesianModel(mlp().to(dtype))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"net": mlp().requires_grad_(False)}, ["net has only frozen parameters", "frozen=()"]),
        ({"frozen": "*"}, ["net has only frozen parameters"]),
        ({"frozen": ["head.*"]}, ["'head.*'", "0.weight, 0.bias, 2.weight, 2.bias"]),
        ({"prior": {"0.*": R2D2(), "2.*": R2D2()}, "frozen": "0.*"}, ["'0.*'", "frozen parameters alone (0.weight)"]),
        ({"prior": {"haed.*": R2D2()}}, ["'haed.*'", "0.weight, 0.bias, 2.weight, 2.bias"]),
        ({"deterministic": ["nothing"]}, ["'nothing'", "0.weight"]),
        ({"prior": {"*": None}}, ["every parameter deterministic"]),
        ({"prior": "r2d2"}, ["prior='r2d2'", "r2d2net.priors"]),
        ({"prior": {"0.weight": R2D2}}, ["is a class: write R2D2()"]),
        ({"bias": 1.0}, ["bias=1.0"]),
        ({"likelihood": "gaussian"}, ["likelihood='gaussian'", "r2d2net.likelihoods"]),
        ({"net": nn.ReLU()}, ["no parameters"]),
        ({"net": nn.LazyLinear(1)}, ["weight", "run it once"]),
    ],
)
def test_bad_arguments_are_one_clear_line(arguments, words):
    with pytest.raises(rn.ParameterError) as caught:
        rn.BayesianModel(**{"net": mlp(), **arguments})
    assert "\n" not in str(caught.value)
    assert all(word in str(caught.value) for word in words)


def test_a_network_that_returns_no_tensor_is_refused():
    class Nested(Recurrent):
        def forward(self, x):
            return ((super().forward(x),),)

    case = ZOO[4]
    with pytest.raises(rn.ParameterError, match=r"^net returns tuple: wrap it in a module that returns one tensor$"):
        rn.fit(rn.BayesianModel(Nested()), (case.x, case.y), verbose=False)


def test_he_scale_follows_the_fan_in_of_the_layer():
    model = rn.BayesianModel(Residual(), R2D2())
    scale = {slot.name: slot.of(model.he_scale()) for slot in model.bayesian}
    for name, fan_in in [("body.0.weight", 18), ("body.0.bias", 18), ("head.weight", 32), ("temperature", 2)]:
        torch.testing.assert_close(scale[name], torch.full_like(scale[name], math.sqrt(2 / fan_in)))
    assert scale["temperature"].shape == ()


def test_he_start_draws_matrices_zeroes_biases_and_keeps_the_rest():
    model = rn.BayesianModel(Residual(), R2D2(), norm=Gaussian())
    mean, _ = model.he_start(torch.Generator().manual_seed(0))
    start = {slot.name: slot.of(mean) for slot in model.bayesian}
    assert bool((start["head.bias"] == 0).all())
    assert bool((start["norm.weight"] == 1).all())
    assert float(start["temperature"]) == 1
    # 96 draws: a factor 1.4 is over five standard errors of the deviation, false alarm below 1e-6
    assert 1 / 1.4 < float(start["head.weight"].std()) / math.sqrt(2 / 32) < 1.4


def test_slots_are_views_also_of_scalars_and_of_stacked_draws():
    model = rn.BayesianModel(Residual(), R2D2())
    stacked = torch.arange(2.0 * model.size).view(2, -1)
    for slot in model.bayesian:
        part = slot.of(stacked)
        assert part.shape == (2, *slot.shape)
        assert torch.equal(part[1], slot.of(stacked[1]))
        assert part.data_ptr() == stacked[0, slot.start :].data_ptr()


def test_tied_weights_are_one_parameter():
    model = rn.BayesianModel(Tied(), R2D2())
    assert [slot.name for slot in model.bayesian] == ["embedding.weight", "decoder.bias"]
    drawn = model.state_dict(*model.own_weights(), model.buffers())
    assert torch.equal(drawn["embedding.weight"], drawn["decoder.weight"])


@pytest.mark.parametrize("case", ZOO[:2], ids=lambda case: case.name)
def test_double_networks_stay_double(case):
    model = rn.BayesianModel(case.net().double(), R2D2(), case.likelihood)
    posterior = rn.fit(model, (case.x.double(), case.y), epochs=2, verbose=False)
    assert posterior.predict(case.x, draws=2).samples.dtype == torch.float64
    assert posterior.mean().dtype == torch.float64


def test_whole_targets_fit_a_double_network():
    model = rn.BayesianModel(mlp().double(), R2D2())
    posterior = rn.fit(model, (ZOO[0].x.double(), torch.arange(12)), epochs=2, verbose=False)
    assert posterior.predict(ZOO[0].x, draws=2).mean.dtype == torch.float64


def test_output_of_the_mean_network():
    posterior = fit_briefly(ZOO[0], SVGI())
    net = mlp().eval()
    net.load_state_dict(posterior.state_dict())
    expected = net(posterior.units.inputs(ZOO[0].x)).detach()
    torch.testing.assert_close(posterior.outputs(ZOO[0].x, "mean")[0], expected)


@pytest.mark.parametrize("prior", [case.prior for case in CASES], ids=repr)
@pytest.mark.parametrize("algorithm", [SVGI(sweep_every=2), SVGI(variance="scaled"), CAVI(sweep_every=2)], ids=repr)
def test_every_prior_serves_every_algorithm_down_to_a_scalar(prior, algorithm):
    case = ZOO[2]
    model = rn.BayesianModel(Residual(), {"head.*": prior, "temperature": prior}, case.likelihood)
    posterior = rn.fit(model, (case.x, case.y), algorithm, epochs=8, verbose=False)
    assert posterior.named(posterior.sample(2, seed=0))["temperature"].shape == (2,)
    assert bool(torch.isfinite(posterior.predict(case.x, draws=2).probs).all())
    assert math.isfinite(posterior.history[-1]["kl"])


# --- another prior


def test_with_prior_changes_bayesian_weights_alone():
    """Residual has weights of layers, of normalisation in three dimensions, biases, and a scalar."""
    given = {"head.*": R2D2(), "body.0.weight": Horseshoe(), "body.3.weight": None}
    model = rn.BayesianModel(Residual(), given, norm=Gaussian(0.1))
    other = model.with_prior(R2D2.adaptive())
    before, after = ({slot.name: repr(slot.prior) for slot in m.bayesian} for m in (model, other))
    assert before.keys() == after.keys()
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"head.weight", "body.0.weight"}
    assert {after[name] for name in changed} == {repr(R2D2.adaptive())}
    assert all(torch.equal(a, b) for a, b in zip(model.own_weights(), other.own_weights(), strict=True))
    assert other.net is not model.net
    with pytest.raises(rn.ParameterError, match="prior='auto' is no prior: use one of"):
        model.with_prior("auto")
    with pytest.raises(rn.ParameterError, match=r"prior=Gaussian\(.*\) has no place: give one weight matrix"):
        rn.BayesianModel(mlp(), {"*.bias": Gaussian()}).with_prior(Gaussian())


@pytest.mark.parametrize(
    ("net", "linear"),
    [
        (nn.Linear(3, 1), True),
        (nn.Sequential(nn.Flatten(), nn.Dropout(0.1), nn.Sequential(nn.Identity(), nn.Linear(3, 2))), True),
        (rn.nets.mlp(3, [], 2), True),
        (rn.nets.mlp(3, [2], 2), False),
        (mlp(), False),
        (nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1)), False),  # linear in x, not in its weights
        (nn.Sequential(nn.Linear(3, 1), nn.Sigmoid()), False),
        (nn.Conv1d(1, 1, 3), False),
        (Recurrent(), False),
    ],
    ids=repr,
)
def test_which_networks_are_linear(net, linear):
    assert rn.BayesianModel(net).is_linear is linear
