"""`rn.optim`: the numbers of `fit`, in loops of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import r2d2net as rn
from r2d2net.errors import FitWarning
from r2d2net.inference.base import flatten
from r2d2net.network_inputs import Units
from r2d2net.optim import VariationalOptimizer

CLASSES = rn.likelihoods.Categorical()
OPTIMISERS = {name: getattr(rn.optim, name) for name in ("SVGI", "CAVI", "SVI", "MFVI", "Radial")}


def data(rows: int = 60, seed: int = 0) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 1, 6, 6, generator=g), torch.randint(0, 3, (rows,), generator=g)


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))


def made(net: Any, **arguments: Any) -> Any:
    defaults: dict[str, Any] = {"n": 60, "steps": 30, "likelihood": CLASSES}
    return rn.optim.SVGI(net, **{**defaults, **arguments})


def batch(number: int, rows: int = 20) -> tuple[Tensor, Tensor]:
    x, y = data()
    part = slice(number % 3 * rows, number % 3 * rows + rows)
    return x[part], y[part]


def steps(opt: Any, net: nn.Module, numbers: range, between: Callable[[], Any] = lambda: None) -> None:
    for number in numbers:
        x, y = batch(number)
        opt.zero_grad()
        with opt.sampled_params():
            opt.nll(net(x), y).backward()
        between()
        opt.step()


def equal(first: Any, second: Any) -> bool:
    one, other = flatten(first), flatten(second)
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_numbers_are_those_of_the_engine_of_fit_to_the_bit(name: str) -> None:
    prior = rn.priors.Gaussian(0.3) if name == "MFVI" else rn.priors.R2D2()
    net = network()
    model = rn.BayesianModel(net, prior, CLASSES)
    method = getattr(rn.inference, name)(start="net", estimator="weights")
    trainer, generator = method.build(model, n=60, steps=30), torch.Generator().manual_seed(3)
    state = trainer.init(data()[1], generator)
    opt = OPTIMISERS[name](net, prior, n=60, steps=30, likelihood=CLASSES, seed=3)
    for number in range(30):
        state, _ = trainer.step(state, batch(number), generator)
        steps(opt, net, range(number, number + 1))
    source = opt.posterior().source.state
    assert equal(source, state)


def test_regression_learns_the_noise_as_fit_does() -> None:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(200, 5, generator=g)
    y = x[:, 0] - 0.5 * x[:, 1] + 0.5 * torch.randn(200, generator=g)
    y = (y - y.mean()) / y.std(correction=0)
    net = nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 1))
    model = rn.BayesianModel(net)
    opt = rn.optim.SVGI(net, n=200, steps=400, likelihood=rn.likelihoods.Gaussian())
    for number in range(400):
        rows = slice(number % 4 * 50, number % 4 * 50 + 50)
        opt.zero_grad()
        with opt.sampled_params():
            opt.nll(net(x[rows]), y[rows]).backward()
        opt.step()
    posterior = opt.posterior()
    fitted = rn.fit(
        model,
        (x, y),
        rn.inference.SVGI(start="net", estimator="weights"),
        epochs=100,
        batch_size=50,
        verbose=False,
    )
    mine, theirs = (each.predict(x).mean for each in (posterior, fitted))
    assert mine.shape == theirs.shape == (200,)
    assert (mine - theirs).square().mean().sqrt() < 0.25  # of targets of deviation 1; other batches
    noises = [float(each.predict(x[:1]).aleatoric[0]) for each in (posterior, fitted)]
    assert noises[0] == pytest.approx(noises[1], rel=0.2)


def test_parameters_are_a_draw_inside_and_the_means_outside() -> None:
    net = network()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    opt = made(net)
    with opt.sampled_params():
        drawn = net[4].weight.detach().clone()
        with opt.sampled_params():  # within another it changes nothing
            assert torch.equal(drawn, net[4].weight)
    assert not torch.equal(drawn, before["4.weight"])
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    with opt.sampled_params():
        assert not torch.equal(drawn, net[4].weight)


def test_a_posterior_does_not_change_by_stepping_on(tmp_path: Any) -> None:
    net = network()
    opt = made(net)
    steps(opt, net, range(10))
    posterior, x = opt.posterior(), data()[0]
    before = posterior.predict(x).mean
    mean = net[4].weight.detach().clone()
    assert torch.equal(posterior.state_dict()["4.weight"], mean)
    steps(opt, net, range(10, 20))
    assert torch.equal(posterior.predict(x).mean, before)
    assert not torch.equal(net[4].weight, mean)
    loaded = rn.load(posterior.save(tmp_path).parent, network(5))
    assert torch.equal(loaded.predict(x).mean, before)
    assert loaded.settings["n"] == 60


def test_saved_and_loaded_it_goes_on_to_the_bit() -> None:
    whole, net = network(), network()
    opt = made(whole)
    steps(opt, whole, range(20))
    first = made(net)
    steps(first, net, range(9))
    saved = torch.load(_file(first.state_dict()), weights_only=True)
    weights = {name: value.clone() for name, value in net.state_dict().items()}
    other = network(7)
    other.load_state_dict(weights)
    again = made(other, seed=5)
    again.load_state_dict(saved)
    steps(first, net, range(9, 12))  # whose tensors are not those of what it saved
    steps(again, other, range(9, 20))
    assert equal(again.posterior_state._replace(buffers={}), opt.posterior_state._replace(buffers={}))
    assert all(torch.equal(value, whole.state_dict()[name]) for name, value in other.state_dict().items())


def _file(saved: Any) -> Any:
    import io

    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    return file


def test_a_state_of_another_network_is_refused() -> None:
    net = network()
    opt = made(net)
    steps(opt, net, range(1))
    other = made(nn.Linear(3, 1))
    with pytest.raises(ValueError, match="parameter group"):
        other.load_state_dict(opt.state_dict())
    torch.manual_seed(0)
    other = made(nn.Sequential(nn.Conv2d(1, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(), nn.Linear(80, 3)))
    with pytest.raises(rn.CheckpointError, match=r"the saved run holds .* the model needs"):
        other.load_state_dict(opt.state_dict())
    other = made(network(), prior=rn.priors.Horseshoe())
    with pytest.raises(rn.CheckpointError, match="the saved run"):
        other.load_state_dict(opt.state_dict())


def test_schedulers_set_the_step_sizes_of_means_and_deviations() -> None:
    net = network()
    opt = made(net)
    largest = [group["lr"] for group in opt.param_groups]
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda epoch: 0.0 if epoch >= 3 else 1.0)
    for number in range(6):
        steps(opt, net, range(number, number + 1))
        scheduler.step()
    assert [group["lr"] for group in opt.param_groups] == [0.0, 0.0]
    assert largest[1] == pytest.approx(largest[0] / 3)
    state = opt.posterior_state
    mean, rho = state.mean.clone(), state.rho.clone()
    steps(opt, net, range(6, 9))
    assert torch.equal(opt.posterior_state.rho, rho)
    # the prior's pull is proportional to the step size
    assert torch.equal(opt.posterior_state.mean, mean)


def test_a_constant_factor_of_a_scheduler_is_a_smaller_lr() -> None:
    nets = network(), network()
    ours = made(nets[0], schedule="constant", lr=0.1)
    torch.optim.lr_scheduler.LambdaLR(ours, lambda _: 0.5)
    theirs = made(nets[1], schedule="constant", lr=0.05)
    for opt, net in zip((ours, theirs), nets, strict=True):
        steps(opt, net, range(6))
    assert torch.allclose(ours.posterior_state.mean, theirs.posterior_state.mean, atol=1e-6)
    assert torch.allclose(ours.posterior_state.rho, theirs.posterior_state.rho, atol=1e-6)


def test_accumulated_draws_are_averaged_as_fit_averages_draws() -> None:
    net = network()
    model = rn.BayesianModel(net, None, CLASSES)
    method = rn.inference.SVGI(start="net", estimator="weights", draws=3)
    trainer, generator = method.build(model, n=60, steps=30), torch.Generator().manual_seed(0)
    state = trainer.init(data()[1], generator)
    opt = made(net)
    for number in range(5):  # before the first sweep, which would magnify rounding
        state, _ = trainer.step(state, batch(number), generator)
        x, y = batch(number)
        opt.zero_grad()
        for _ in range(3):
            with opt.sampled_params():
                (opt.nll(net(x), y) / 3).backward()
        opt.step()
    assert torch.allclose(opt.posterior_state.mean, state.mean, atol=2e-5)
    assert torch.allclose(opt.posterior_state.rho, state.rho, atol=2e-4)


def test_clipping_holds_for_means_and_deviations() -> None:
    """Adam's first moments are a tenth of the first gradients; of so many rows the prior has no share in them."""
    nets = network(), network()
    opts = [made(net, n=10**12) for net in nets]
    steps(opts[0], nets[0], range(1))
    steps(opts[1], nets[1], range(1), between=lambda: torch.nn.utils.clip_grad_norm_(nets[1].parameters(), 1e-3))
    moments = [opt.posterior_state.moments for opt in opts]
    norms = [10 * torch.cat([each["mean"].first, each["fixed"].first]).norm() for each in moments]
    assert float(norms[1]) == pytest.approx(1e-3, rel=1e-3)
    for name in ("mean", "rho", "fixed"):
        want = moments[0][name].first * (norms[1] / norms[0])
        assert torch.allclose(moments[1][name].first, want, rtol=1e-3, atol=1e-9)
        assert float(want.abs().max()) > 1e-7


def test_scaled_gradients_are_unscaled_and_overflow_skips_the_step() -> None:
    nets = network(), network()
    plain, scaled = (made(net) for net in nets)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    for number in range(7):
        x, y = batch(number)
        steps(plain, nets[0], range(number, number + 1))
        scaled.zero_grad()
        with scaled.sampled_params():
            scaler.scale(scaled.nll(nets[1](x), y)).backward()
        scaler.step(scaled)
        scaler.update()
    assert torch.allclose(plain.posterior_state.mean, scaled.posterior_state.mean, atol=1e-5)
    assert torch.allclose(plain.posterior_state.rho, scaled.posterior_state.rho, atol=1e-4)
    before = flatten(scaled.posterior_state)["step"].clone()
    scaled.zero_grad()
    with scaled.sampled_params():
        scaler.scale(scaled.nll(nets[1](x), y) * float("inf")).backward()
    scaler.step(scaled)
    assert torch.equal(scaled.posterior_state.step, before)


def test_a_loop_that_cannot_enclose_its_backward_pass_uses_train_and_eval() -> None:
    nets = network(), network()
    enclosed, open_ = (made(net) for net in nets)
    steps(enclosed, nets[0], range(12))
    open_.train()
    for number in range(12):
        x, y = batch(number)
        open_.nll(nets[1](x), y).backward()
        open_.step()
        nets[1].zero_grad()
    drawn = nets[1][4].weight.detach().clone()
    open_.eval()
    assert equal(open_.posterior_state, enclosed.posterior_state)
    assert torch.equal(nets[0][4].weight, nets[1][4].weight)
    assert not torch.equal(drawn, nets[1][4].weight)


def test_training_mode_goes_on_after_loading() -> None:
    nets = network(), network()
    first, again = (made(net) for net in nets)
    first.train()
    again.train()

    def go(opt: Any, net: nn.Module, numbers: range) -> None:
        for number in numbers:
            x, y = batch(number)
            opt.zero_grad()
            opt.nll(net(x), y).backward()
            opt.step()

    go(first, nets[0], range(5))
    again.load_state_dict(first.state_dict())
    nets[1].load_state_dict({**nets[1].state_dict(), **dict(nets[0].named_buffers())})
    for opt, net in zip((first, again), nets, strict=True):
        go(opt, net, range(5, 12))
    assert equal(first.posterior_state._replace(buffers={}), again.posterior_state._replace(buffers={}))


def test_a_closure_is_called_at_a_draw() -> None:
    nets = network(), network()
    ours, theirs = (made(net) for net in nets)
    steps(ours, nets[0], range(10))
    for number in range(10):
        x, y = batch(number)

        def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
            theirs.zero_grad()
            loss: Tensor = theirs.nll(nets[1](x), y)
            loss.backward()
            return loss

        with torch.no_grad():
            assert float(theirs.step(closure).detach()) > 0
    assert equal(ours.posterior_state, theirs.posterior_state)


def test_gradients_of_elsewhere_are_refused() -> None:
    net = network()
    opt = made(net)
    x, y = batch(0)
    assert int(opt.posterior_state.step) == 0
    opt.nll(net(x), y).backward()
    with pytest.raises(rn.ParameterError, match=r"gradients that are not of a draw[:;] call backward"):
        opt.step()
    with pytest.raises(rn.ParameterError, match="gradients that are not of a draw"), opt.sampled_params():
        opt.nll(net(x), y).backward()
    opt.zero_grad()
    with opt.sampled_params():
        loss = opt.nll(net(x), y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    opt.zero_grad()
    with opt.sampled_params():
        opt.nll(net(x), y).backward()
        with pytest.raises(rn.ParameterError, match="inside sampled_params"):
            opt.step()
    opt.step()
    with pytest.raises(rn.ParameterError, match=r"zero_grad\(\) after step\(\)"):
        opt.step()
    opt.zero_grad()
    opt.step()  # without gradients it does nothing, as in torch
    assert int(opt.posterior_state.step) == 1


def test_a_failed_pass_leaves_no_gradient() -> None:
    net = network()
    opt = made(net)
    with pytest.raises(RuntimeError, match=r"shape|size|channel"), opt.sampled_params():
        net(torch.randn(3, 2, 6, 6))
    assert torch.equal(net[4].weight, opt.trainer.model.bayesian[2].of(opt.posterior_state.mean))
    assert all(parameter.grad is None for parameter in net.parameters())


def test_weights_loaded_into_the_network_are_the_means() -> None:
    net, other = network(), network(3)
    opt = made(net)
    steps(opt, net, range(2))
    net.load_state_dict(other.state_dict())
    assert torch.equal(opt.posterior().state_dict()["4.weight"], other[4].weight)
    net[4].weight.data = torch.zeros(3, 64)  # which puts other memory behind the parameter
    assert float(opt.posterior().state_dict()["4.weight"].abs().max()) == 0
    steps(opt, net, range(2))
    assert float(net[4].weight.detach().abs().max()) > 0


def test_a_network_may_move_before_the_first_step() -> None:
    net = network()
    opt = made(net)
    assert opt.posterior_state.mean.dtype == torch.float32
    net.double()
    x, y = batch(0)
    for _ in range(8):
        opt.zero_grad()
        with opt.sampled_params():
            opt.nll(net(x.double()), y).backward()
        opt.step()
    assert opt.posterior().state.mean.dtype == torch.float64
    net.float()
    with pytest.raises(rn.ParameterError, match="moved to another device or dtype after the first step"):
        opt.posterior()


def test_parameters_alone_have_no_prior_on_vectors() -> None:
    net = network()
    opt = made(net.parameters(), prior=rn.priors.Horseshoe())
    steps(opt, net, range(12))
    with pytest.raises(rn.ParameterError, match=r"net is not known.*; give posterior\(net\)"):
        opt.posterior()
    posterior = opt.posterior(net)
    kinds = {slot.name: type(slot.prior).__name__ for slot in posterior.model.bayesian}
    assert kinds == {"0.weight": "Horseshoe", "4.weight": "Horseshoe"}
    assert [slot.name for slot in posterior.model.fixed] == ["0.bias", "1.weight", "1.bias", "4.bias"]
    mean = posterior.state_dict()
    assert all(torch.equal(mean[name], value) for name, value in net.state_dict().items())
    assert posterior.source.kl().isfinite()
    with pytest.raises(rn.ParameterError, match="the optimiser was not made of"):
        opt.posterior(network())


def test_groups_and_named_parameters() -> None:
    net = network()
    assert made(net.named_parameters()).posterior(net).model.size == made(net.parameters()).posterior(net).model.size
    with pytest.raises(rn.ParameterError, match="params are groups"):
        made([{"params": net.parameters()}])
    with pytest.raises(rn.ParameterError, match="param_group cannot be added"):
        made(net).add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    with pytest.raises(rn.ParameterError, match="params holds no parameter"):
        made([])
    with pytest.raises(rn.ParameterError, match="params"):
        made([torch.zeros(3)])
    with pytest.raises(rn.ParameterError, match="params"):
        made(3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"clip": 1.0}, r"clip=1\.0 is a setting of fit: call torch.nn.utils.clip_grad_norm_"),
        ({"draws": 3}, "draws=3 is a setting of fit"),
        ({"learning_rate": 3}, "learning_rate=3 is no argument of SVGI: use one of .*temperature"),
        ({"n": 0}, "n=0"),
        ({"steps": 1.5}, r"steps=1\.5"),
        ({"lr": -1.0}, r"lr=-1\.0"),
        ({"schedule": "linear"}, "schedule='linear'"),
        ({"likelihood": "classes"}, "likelihood"),
        ({"prior": "r2d2"}, "prior"),
        ({"deterministic": ["9.*"]}, "matches no parameter"),
    ],
)
def test_bad_arguments_are_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(rn.ParameterError, match=message) as caught:
        made(network(), **arguments)
    assert "\n" not in str(caught.value)


def test_an_unknown_likelihood_and_unseen_targets_are_said() -> None:
    net = network()
    opt = rn.optim.SVGI(net, n=60)
    x, y = batch(0)
    with opt.sampled_params():
        nn.functional.cross_entropy(net(x), y).backward()
    opt.step()
    with pytest.raises(rn.ParameterError, match="likelihood is not known: give likelihood"):
        opt.posterior()
    with pytest.raises(rn.ParameterError, match=r"learns variance from the targets.*opt\.nll"):
        made(network(), likelihood=rn.likelihoods.Gaussian()).posterior()


def test_targets_in_other_units_are_warned_of_and_units_convert() -> None:
    net = nn.Linear(2, 1)
    opt = made(net, likelihood=rn.likelihoods.Gaussian())
    x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    with pytest.warns(FitWarning, match="y has standard deviation .*: standardise them"):
        opt.nll(net(x), 1e6 * x[:, 0])
    opt = made(nn.Linear(2, 1), likelihood=rn.likelihoods.Gaussian())
    opt.nll(opt.net(x), x[:, 0])
    from r2d2net.likelihoods.base import Unit

    units = Units(torch.tensor([1.0, 1.0]), torch.tensor([2.0, 2.0]), Unit(torch.tensor([5.0]), torch.tensor([3.0])))
    posterior = opt.posterior(units=units)
    want = 5 + 3 * opt.net((x - 1) / 2).squeeze(1)
    assert torch.allclose(posterior.predict(x, "mean").mean, want, atol=1e-5)


def test_it_is_an_optimizer_of_torch_with_frozen_parts_and_tied_weights() -> None:
    torch.manual_seed(0)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
            self.b.weight = self.a.weight
            self.a.bias.requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(torch.tanh(self.b(self.a(x))))
            return out

    net = Tied()
    opt = made(net)
    assert isinstance(opt, torch.optim.Optimizer)
    assert isinstance(opt, VariationalOptimizer)
    frozen = net.a.bias.detach().clone()
    x, y = torch.randn(30, 4), torch.randint(0, 3, (30,))
    for _ in range(10):
        opt.zero_grad()
        with opt.sampled_params():
            assert net.a.weight is net.b.weight
            opt.nll(net(x), y).backward()
        opt.step()
    assert torch.equal(net.a.bias, frozen)
    out = opt.posterior().outputs(x, "mean")[0]
    assert torch.allclose(out, net(x), atol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_padding_rows_stay_as_they_are(sparse: bool) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(6, 4, padding_idx=0, sparse=sparse), nn.Flatten(), nn.Linear(12, 3))
    with torch.no_grad():
        net[0].weight[0] = 2.5
    opt = made(net)
    x, y = torch.randint(0, 6, (30, 3)), torch.randint(0, 3, (30,))
    for _ in range(20):
        opt.zero_grad()
        with opt.sampled_params():
            assert bool((net[0].weight[0] == 2.5).all())
            assert not bool((net[0].weight[1] == 2.5).any())
            opt.nll(net(x), y).backward()
        opt.step()
        assert bool((net[0].weight[0] == 2.5).all())
    assert torch.allclose(opt.posterior().outputs(x, "mean")[0], net(x), atol=1e-5)


def test_wrapped_networks_are_unwrapped() -> None:
    net = network()
    opt = made(nn.DataParallel(net))
    steps(opt, net, range(3))
    assert opt.posterior().state_dict().keys() == net.state_dict().keys()


def test_units_that_are_none_are_refused() -> None:
    optimizer = rn.optim.SVGI(nn.Linear(2, 1), n=4, steps=4, likelihood=rn.likelihoods.Gaussian(noise=0.1))
    with pytest.raises(rn.ParameterError, match="units=3 is no Units"):
        optimizer.posterior(units=3)  # type: ignore[arg-type]
