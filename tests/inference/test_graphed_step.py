"""Recorded steps against steps as usual, by a recording of torch's operations on the CPU in place of a CUDA graph."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import r2d2net as rn
from r2d2net import inference, likelihoods, priors
from r2d2net.errors import ParameterError
from r2d2net.inference.base import copied, flatten
from r2d2net.inference.graphed_step import GraphedStep

READS = ("_local_scalar_dense", "is_nonzero", "nonzero", "equal")  # for which the host would wait: no graph has them
STEPS = 40


def tensors_of(parts):
    for part in parts:
        if isinstance(part, torch.Tensor):
            yield part
        elif isinstance(part, (list, tuple)):
            yield from tensors_of(part)


class Recording(TorchDispatchMode):
    """Lists operations with their arguments; numbers and the places of tensors are those of the recording."""

    def __init__(self):
        super().__init__()
        self.calls, self.before, self.made = [], {}, set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        assert func.overloadpacket.__name__ not in READS, f"the host waits for {func}"
        given = [*tensors_of(args), *tensors_of(kwargs.values())]
        places = {tensor.untyped_storage().data_ptr() for tensor in given}
        if func._schema.is_mutable:
            for tensor in given:
                if tensor.untyped_storage().data_ptr() not in self.made:
                    self.before.setdefault(id(tensor), (tensor, tensor.clone()))
        out = func(*args, **kwargs)
        new = [t if t.untyped_storage().data_ptr() not in places else None for t in tensors_of([out])]
        self.made |= {t.untyped_storage().data_ptr() for t in new if t is not None}
        self.calls.append((func, args, kwargs, new))
        return out

    def replay(self):
        for func, args, kwargs, outputs in self.calls:
            for known, value in zip(outputs, tensors_of([func(*args, **kwargs)]), strict=True):
                if known is not None:
                    known.copy_(value)


class FakeRecorder:
    """Records as a GPU does: nothing is done while recording, and a replay reads and writes the recorded places."""

    def __init__(self):
        self.recorded, self.replayed = 0, 0

    def warm(self, work):
        return work()

    def record(self, work, generator):
        recording, state = Recording(), generator.get_state()
        with recording:
            result = work()
        for tensor, value in reversed(recording.before.values()):
            tensor.copy_(value)
        generator.set_state(state)
        self.recorded += 1

        def replay():
            self.replayed += 1
            recording.replay()

        return result, replay


def stepped(method, prior, likelihood=None, *, graphed, interrupted=False, **options):
    """State, losses and generator after steps on batches of two sizes, and the recorder."""
    torch.manual_seed(1)
    g = torch.Generator().manual_seed(2)
    x = torch.randn(33, 4, generator=g).double()
    y = torch.sin(x[:, :1]) + 0.1 * torch.randn(33, 1, generator=g).double()
    if isinstance(likelihood, likelihoods.Categorical):
        y = (y[:, 0] > 0).long()
    model = rn.BayesianModel(rn.nets.mlp(4, [9, 5], 2 if y.dim() == 1 else 1).double(), prior, likelihood, **options)
    trainer, recorder = method.build(model, n=33, steps=STEPS), FakeRecorder()
    assert trainer.joint is not None
    if graphed:
        trainer.graphed = GraphedStep(trainer.joint, trainer.family, recorder)
    generator = torch.Generator().manual_seed(3)
    state, losses = trainer.init(y, generator), []
    for t in range(STEPS):
        rows = slice(0, 20) if t % 2 == 0 else slice(20, 33)
        state, info = trainer.step(state, (x.roll(t, 0)[rows], y.roll(t, 0)[rows]), generator)
        losses.append(info.nll)
        if interrupted and t == STEPS // 2:
            state = copied(state)
    return {**flatten(state), "losses": torch.stack(losses), "generator": generator.get_state()}, recorder


CASES = {
    "svgi": (inference.SVGI(), priors.R2D2(), None, {}),
    "svgi-drawn": (inference.SVGI(estimator="weights", averaging=1.0), priors.R2D2(), None, {}),
    "svgi-scaled-classes": (inference.SVGI(variance="scaled"), priors.Horseshoe(), likelihoods.Categorical(), {}),
    "cavi-fixed-biases": (inference.CAVI(), priors.R2D2(), None, {"bias": None}),
    "radial": (inference.Radial(), priors.R2D2(), None, {}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("interrupted", [False, True])
def test_replays_are_steps(case, interrupted):
    """The same random numbers; Adam with numbers as tensors rounds otherwise, which grows over steps and sweeps."""
    method, prior, likelihood, options = CASES[case]
    plain, _ = stepped(method, prior, likelihood, graphed=False, **options)
    found, recorder = stepped(method, prior, likelihood, graphed=True, interrupted=interrupted, **options)
    assert recorder.recorded == (4 if interrupted else 2)  # of each size of batch, for each place of the state
    assert recorder.replayed == STEPS - 3 * recorder.recorded
    for name, tensor in plain.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-7, atol=1e-9, msg=lambda m, name=name: f"{name}: {m}")


def test_numbers_of_the_recorded_step_would_be_noticed(monkeypatch):
    """What a wrong recording would do, of step sizes that stay those of the recorded step."""
    plain, _ = stepped(inference.SVGI(), priors.R2D2(), graphed=False)
    call = GraphedStep.__call__

    def stuck(self, state, noise, batch, generator, sizes, **options):
        return call(self, state, noise, batch, generator, sizes._replace(lr=0.1), **options)

    monkeypatch.setattr(GraphedStep, "__call__", stuck)
    found, _ = stepped(inference.SVGI(), priors.R2D2(), graphed=True)
    assert not torch.allclose(found["mean"], plain["mean"], rtol=1e-3)


@pytest.mark.parametrize(
    ("net", "likelihood"), [(nn.Linear(3, 1), None), (nn.Linear(3, 1), likelihoods.StudentT()), (nn.GRU(3, 1), None)]
)
def test_what_has_no_graph_is_refused_in_one_line(net, likelihood):
    with pytest.raises(ParameterError, match=r"^compile='graphs' does not suit this network on cpu: it needs a percep"):
        inference.SVGI(compile="graphs").build(rn.BayesianModel(net, likelihood=likelihood), n=10, steps=10)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("estimator", ["local", "weights"])
def test_graphs_on_a_gpu(estimator):
    """In float32, whose rounding grows over the steps; another draw of the noise would differ by more."""
    x = torch.randn(100, 3, device="cuda")
    y = x[:, :1].sin()
    ends = []
    for path in ("graphs", False):
        model = rn.BayesianModel(rn.nets.mlp(3, [8], 1).cuda())
        trainer = inference.SVGI(compile=path, estimator=estimator, start="he").build(model, n=100, steps=STEPS)
        generator = torch.Generator("cuda").manual_seed(0)
        state = trainer.init(y, generator)
        for _ in range(STEPS):
            state, _ = trainer.step(state, (x, y), generator)
        ends.append(state.mean)
    torch.testing.assert_close(*ends, rtol=1e-2, atol=1e-2)
