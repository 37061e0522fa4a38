"""The step of a small perceptron's posterior as a CUDA graph: recorded once, then launched as a whole.

    steps 1, 2, 3 of a shape of batches    as usual, on a stream beside: libraries allocate what they need
    the next one                           recorded, which executes nothing, and replayed
    all others                             batch and numbers are copied to where the recording reads them; replayed

On a GPU such a step is some hundred kernels of a few microseconds, and waits for the host to launch them. What makes a
recording valid for other steps than its own:

* The vectors of the state are changed in place, so their addresses stay. A state with others (read from a checkpoint)
  is recorded anew.
* What changes with the number of the step (step sizes, Adam's corrections, the weights of KL and noise) is read from
  one tensor, as in compiled updates; Python numbers would be those of the recorded step for ever.
* The run's generator is registered: a replay takes the numbers from it that as many calls would, and moves it on. So a
  run draws the same numbers, and resumes to the bit.
* The host reads nothing of the device within the step, and decides nothing by it. Sweeps of the scales, every few
  steps, are not recorded: they draw by rejection.

Written for review and tested on the CPU, where a recording of torch's operations stands for the graph; it has not been
run on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from r2d2net import devices
from r2d2net.errors import ParameterError, Shown
from r2d2net.inference.adam import Step
from r2d2net.inference.joint_step import JointStep, Matrices, Moves, Sizes
from r2d2net.inference.mean_field_family import Family
from r2d2net.likelihoods import Categorical, Gaussian
from r2d2net.likelihoods.base import Noise
from r2d2net.model import BayesianModel

WARM_UP = 3  # steps of a shape of batches before one is recorded
FIX = "it needs a perceptron of up to 131,072 weights on a CUDA device, normal numbers or classes; leave it out"

Result = tuple[Tensor | None, Noise, Tensor]  # drawn weights, noise, losses


class Recorder(Protocol):
    """How work on a device is recorded."""

    def warm(self, work: Callable[[], Result]) -> Result:
        """Do work that is to be recorded later."""

    def record(self, work: Callable[[], Result], generator: torch.Generator) -> tuple[Result, Callable[[], None]]:
        """Record work without doing it; return where its results will be, and what does it."""


class CudaRecorder:
    """Records CUDA graphs."""

    def warm(self, work: Callable[[], Result]) -> Result:
        beside, here = torch.cuda.Stream(), torch.cuda.current_stream()
        beside.wait_stream(here)
        with torch.cuda.stream(beside):
            result = work()
        here.wait_stream(beside)
        return result

    def record(self, work: Callable[[], Result], generator: torch.Generator) -> tuple[Result, Callable[[], None]]:
        graph: Any = torch.cuda.CUDAGraph()
        if hasattr(graph, "register_generator_state"):  # later versions of torch find it themselves
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph):
            result = work()
        return result, graph.replay


class Recording(NamedTuple):
    """A recorded step: where it reads the batch, the noise and the numbers, where its results are, and what does it."""

    x: Tensor
    y: Tensor
    noise: Noise
    numbers: Tensor
    result: Result
    replay: Callable[[], None]


class GraphedStep:
    """The recorded steps of one run.

    Args:
        joint: The step.
        family: The family of q(w).
        recorder: How work is recorded.
    """

    def __init__(self, joint: JointStep, family: Family, recorder: Recorder) -> None:
        self.joint, self.family, self.recorder = joint, family, recorder
        self.state: Matrices | None = None
        self.generator: torch.Generator | None = None
        self.recordings: dict[Any, Recording] = {}
        self.taken: dict[Any, int] = {}

    def __call__(
        self,
        state: Matrices,
        noise: Noise,
        batch: tuple[Tensor, Tensor],
        generator: torch.Generator,
        sizes: Sizes,
        *,
        local: bool,
    ) -> Result:
        """Take a step in place, as `JointStep.mean_field` does of one posterior.

        Args:
            state: Means, deviations and what belongs to them, (1, weights); the same tensors in every step.
            noise: Learnt parameters of the likelihood, (1, ...).
            batch: Inputs (1, rows, inputs) and targets (1, rows, ...).
            generator: Source of randomness.
            sizes: Number and sizes of the step.
            local: Whether activations are drawn.

        Returns:
            The drawn weights, the new noise and the loss, in tensors of their own.
        """
        if state is not self.state or generator is not self.generator:
            self.state, self.generator, self.recordings, self.taken = state, generator, {}, {}
        shape = tuple((part.shape, part.dtype) for part in batch)
        numbers = devices.moved(_numbers(sizes, state.mean.dtype), state.mean.device)

        def work(x: Tensor, y: Tensor, known: Noise, own: Tensor) -> Result:
            moves = moves_by(own, self.joint.unit, self.joint.fixed_unit)
            return self.joint.mean_field(self.family, state, known, (x, y), [generator], moves, local=local)

        if self.taken.setdefault(shape, 0) < WARM_UP:
            self.taken[shape] += 1
            return self.recorder.warm(lambda: work(*batch, noise, numbers))
        recording = self.recordings.get(shape)
        if recording is None:
            x, y, known = batch[0].clone(), batch[1].clone(), {name: tensor.clone() for name, tensor in noise.items()}
            read = numbers.clone()
            result, replay = self.recorder.record(lambda: work(x, y, known, read), generator)
            recording = self.recordings[shape] = Recording(x, y, known, read, result, replay)
        recording.x.copy_(batch[0])
        recording.y.copy_(batch[1])
        recording.numbers.copy_(numbers)
        for name, tensor in noise.items():
            recording.noise[name].copy_(tensor)
        recording.replay()
        drawn, learnt, nll = recording.result
        own = {name: tensor.clone() for name, tensor in learnt.items()}
        return None if drawn is None else drawn.clone(), own, nll.clone()


def graphed_step_of(model: BayesianModel[Any], joint: JointStep | None, family: Family) -> GraphedStep:
    """Build the recorded step of a model's posterior.

    Args:
        model: The model.
        joint: Its step; None where it has none that is written out.
        family: The family of q(w).

    Returns:
        The step.

    Raises:
        ParameterError: If the step cannot be recorded: the host decides in it, or the device has no graphs.
    """
    # others learn their noise by what only the host knows
    if joint is None or model.device.type != "cuda" or type(model.likelihood) not in (Gaussian, Categorical):
        kind = f"does not suit this network on {model.device.type}"
        raise ParameterError(kind, argument="compile", value="graphs", fix=Shown(FIX))
    return GraphedStep(joint, family, CudaRecorder())


def _numbers(sizes: Sizes, dtype: torch.dtype) -> Tensor:
    """Return what changes with the number of a step, computed by the host in double precision."""
    of_mean, of_rho = Step.at(sizes.t, sizes.lr), Step.at(sizes.t, sizes.lr_rho)
    return torch.tensor([*of_mean[:4], *of_rho[:4], sizes.beta, sizes.noise_rate], dtype=dtype)


def moves_by(numbers: Tensor, unit: Tensor, fixed_unit: Tensor) -> Moves:
    """Return the steps of a posterior that read all numbers from one tensor.

    Args:
        numbers: Those of `_numbers`.
        unit: Unit of each weight's steps.
        fixed_unit: Unit of the steps of each deterministic parameter.

    Returns:
        The steps.
    """
    t, lr, first, second, *of_rho, beta, noise_rate = numbers.unbind()
    return Moves(
        Step(t, lr * unit, first, second), Step(*of_rho), Step(t, lr * fixed_unit, first, second), beta, noise_rate
    )
