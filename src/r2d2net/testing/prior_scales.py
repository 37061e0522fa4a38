"""Checks of a prior's scale variables: finite at every size of weights, shapes, groups, source of randomness."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from r2d2net.errors import ParameterError
from r2d2net.priors.base import Shape, require_groups
from r2d2net.testing.contract_error import demand

DTYPES = (torch.float64, torch.float32)


def check_extremes(prior: Any) -> None:
    """Check that both modes keep scales and variances finite at weights of 0, 1e-30 and 1e30, alone and mixed."""
    for dtype in DTYPES:
        for size in (0.0, 1e-30, 1e30):
            require_finite_scales(prior, torch.full((1,), size, dtype=dtype))
            mixed = torch.tensor([size, 1.0, -size], dtype=dtype).repeat(4, 5)
            require_finite_scales(prior, mixed)
            require_finite_scales(prior, mixed, groups=(4, 1))


def check_million(prior: Any) -> None:
    """Check the same for layers of a million weights that are all zero, or all 1e30."""
    for size in (0.0, 1e30):
        require_finite_scales(prior, torch.full((1000, 1000), size), sweeps=1)


def require_finite_scales(prior: Any, w: Tensor, *, groups: tuple[int, ...] = (), sweeps: int = 3) -> None:
    """Raise unless both modes, started from the prior, keep every scale and variance positive and finite at this w.

    A scale variable of which the prior draws zeros or negative numbers, such as an indicator, need only be finite.
    """
    generator = torch.Generator().manual_seed(0)
    many = prior.init_scales((1000,), torch.Generator().manual_seed(1), dtype=w.dtype)
    positive = {name for name, value in many._asdict().items() if bool((value > 0).all())}
    start = prior.init_scales(w.shape, generator, groups=groups, dtype=w.dtype)
    drawn = point = start
    where = f"at weights up to {float(w.abs().max()):g} in {w.dtype}"
    for _ in range(sweeps):
        drawn = prior.gibbs(w, drawn, generator)
        factors = prior.cavi(w.square(), point)
        point = factors.scales
        for mode, scales in (("gibbs", drawn), ("cavi", point)):
            for name, value in scales._asdict().items():
                demand(value.dtype == w.dtype, f"{mode} gives {name} in {value.dtype}, the weights are {w.dtype}")
                demand(bool(torch.isfinite(value).all()), f"{mode} gives {name} that is not finite {where}")
                lowest = torch.finfo(w.dtype).tiny / 2 if name in positive else -math.inf
                demand(bool((value >= lowest).all()), f"{mode} gives {name} = {float(value.min()):g} {where}")
            _demand_positive(f"the variance of the scales of {mode}", prior.variance(scales), where)
        _demand_positive("the precision of the factors", factors.precision, where)


def _demand_positive(what: str, value: Tensor, where: str) -> None:
    fits = bool(torch.isfinite(value).all()) and bool((value > 0).all())
    demand(fits, f"{what} is not positive and finite {where}")


def check_shapes(prior: Any) -> None:
    """Check that global scales have the shape ``groups``, local ones that of w, in both modes, also of size zero.

    Scales that some weights of a layer share have a shape between the two: each broadcasts to the next.
    """
    shapes = [((4, 3), (4, 1)), ((4, 3), (1, 3)), ((4, 3), ()), ((2, 4, 3), (2, 1, 1)), ((), ())]
    empty = [((0,), ()), ((0, 3), (0, 1)), ((3, 0), (3, 1)), ((3, 0), ())]
    for shape, groups in [*shapes, *empty]:
        generator = torch.Generator().manual_seed(0)
        w = prior.sample(shape, generator, groups=groups)
        scales = prior.init_scales(shape, generator, groups=groups)
        factors = prior.cavi(w.square(), scales)
        drawn = prior.gibbs(w, scales, generator)
        case = f"for weights of shape {shape} in groups {groups}"
        weights = {
            "sample": w,
            "variance": prior.variance(drawn),
            "precision": factors.precision,
            "log_variance": factors.log_variance(),
        }
        for name, value in weights.items():
            demand(tuple(value.shape) == shape, f"{name} has shape {tuple(value.shape)} {case}")
        for mode, values in (("init_scales", scales), ("gibbs", drawn), ("cavi", factors.scales)):
            demand(type(values) is type(scales), f"{mode} gives a {type(values).__name__} {case}")
            for name, value in values._asdict().items():
                fits = tuple(value.shape) in (shape, groups) or _is_between(groups, value.shape, shape)
                demand(fits, f"{mode} gives {name} of shape {tuple(value.shape)} {case}")
        demand(math.isfinite(float(factors.bound(w.square()))), f"the bound is not finite {case}")


def _is_between(small: Shape, middle: Shape, large: Shape) -> bool:
    """Return whether the first shape broadcasts to the second, and that to the third, of as many dimensions."""
    try:
        require_groups(large, middle)
        require_groups(middle, small)
    except ParameterError:
        return False
    return len(middle) == len(large)


def check_groups(prior: Any) -> None:
    """Check that groups which do not broadcast to the shape of the weights are refused."""
    for shape, groups in [((4, 3), (4,)), ((4, 3), (2, 1)), ((3,), (4, 1)), ((3,), (0,))]:
        for draw in (prior.init_scales, prior.sample):
            try:
                draw(shape, groups=groups)
            except ParameterError as error:
                fits = (error.argument, error.value) == ("groups", groups) and error.fix is not None
                demand(fits, f"groups={groups} are refused by {error!s}: call require_groups(shape, groups)")
            else:
                demand(False, f"{draw.__name__} takes groups={groups} for weights of shape {shape}")


def check_independence(prior: Any) -> None:
    """Check that groups side by side are as independent as if each were alone: no group feels another's weights."""
    calm = torch.full((2, 3), 0.5, dtype=torch.float64)
    wild = torch.stack([calm[0], torch.full_like(calm[1], 1e6)])
    start = prior.init_scales((2, 3), torch.Generator().manual_seed(0), groups=(2, 1), dtype=calm.dtype)
    precision = [prior.cavi(w.square(), start).precision[0] for w in (calm, wild)]
    close = torch.allclose(precision[0], precision[1], rtol=1e-10, atol=0)
    demand(close, f"cavi gives precisions {precision[0].tolist()}, and {precision[1].tolist()} beside another group")


def check_generator(prior: Any) -> None:
    """Check that the generator decides every draw, that torch's own is not used, and that draws carry no graph."""
    before = torch.random.get_rng_state()
    first, second = (prior.sample((3, 2), torch.Generator().manual_seed(9)) for _ in range(2))
    demand(torch.equal(first, second), "sample gives two results for one seed of the generator")
    other = prior.sample((3, 2), torch.Generator().manual_seed(10))
    demand(not torch.equal(first, other), "sample gives one result for two seeds of the generator")
    w = torch.ones(3, 2, requires_grad=True)
    draws = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(9)
        draws.append(prior.gibbs(w, prior.init_scales(w.shape, generator), generator))
    for name, value, again in zip(draws[0]._fields, *draws, strict=True):
        demand(torch.equal(value, again), f"gibbs gives two results of {name} for one seed of the generator")
        demand(not value.requires_grad, f"gibbs gives {name} with a graph: detach the weights, as `squared` does")
    used = not torch.equal(before, torch.random.get_rng_state())
    demand(not used, "torch's global generator was used: draw from the generator that is handed over")


def check_inference_mode(prior: Any) -> None:
    """Check that what was first computed in inference mode serves autograd afterwards, with the same numbers."""
    m = torch.tensor([[0.02, 0.05], [0.3, 0.1]], dtype=torch.float64)
    point = torch.tensor([0.3, 2.0], dtype=torch.float64)
    scales = prior.init_scales(m.shape, torch.Generator().manual_seed(2), groups=(2, 1), dtype=m.dtype)
    with torch.inference_mode():
        inside = prior.cavi(m, scales).bound(m).item(), prior.log_prob(point).sum().item()
        prior.gibbs(m.sqrt(), scales, torch.Generator().manual_seed(2))
    m.requires_grad_()
    point.requires_grad_()
    bound, density = prior.cavi(m, scales).bound(m), prior.log_prob(point).sum()
    demand((bound.item(), density.item()) == inside, "the bound or density differs between inference mode and autograd")
    for name, value, leaf in (("bound", bound, m), ("log_prob", density, point)):
        finite = bool(torch.autograd.grad(value, leaf)[0].isfinite().all())
        demand(finite, f"the gradient of {name} is not finite")


def check_in_place(prior: Any) -> None:
    """Check that `gibbs_` and `cavi_` write 1 / v of the scales that they return, and `cavi_` that of `cavi`."""
    w = torch.linspace(-2, 3, 12, dtype=torch.float64).reshape(3, 4)

    def start() -> Any:
        return prior.init_scales(w.shape, torch.Generator().manual_seed(4), dtype=w.dtype)

    precision = torch.empty_like(w)
    swept = prior.gibbs_(w, start(), precision, torch.Generator().manual_seed(6))
    torch.testing.assert_close(precision, 1 / prior.variance(swept), rtol=1e-10, atol=0)
    point = prior.cavi_(w.square(), start(), precision)
    torch.testing.assert_close(precision, 1 / prior.variance(point), rtol=1e-6, atol=0)
    torch.testing.assert_close(precision, prior.cavi(w.square(), start()).precision, rtol=1e-6, atol=0)
