"""What every distribution owes as a citizen of torch.distributions, once for all classes."""

import pytest
import torch
from torch.distributions import Distribution

import r2d2net
from r2d2net.distributions import (
    BetaPrime,
    GeneralizedInverseGaussian,
    HalfCauchy,
    InverseGaussian,
    PolyaGamma,
    ReciprocalInverseGaussian,
    SpikeSlabNormal,
)
from reference import f64, seeded

# class, good values of its arguments, a bad value for each argument
CLASSES = {
    GeneralizedInverseGaussian: ((1.5, 0.7, -0.3), (-1.0, -1.0, torch.inf)),
    ReciprocalInverseGaussian: ((1.5, 0.7), (-1.0, 0.0)),
    InverseGaussian: ((1.5, 0.7), (0.0, torch.nan)),
    BetaPrime: ((1.5, 2.5), (0.0, torch.inf)),
    HalfCauchy: ((1.5,), (0.0,)),
    SpikeSlabNormal: ((0.3, 1.5, 0.1), (1.0, 0.0, torch.nan)),
    PolyaGamma: ((1.5, 1.0), (torch.inf, 1.5)),
}
WITHOUT_ENTROPY = {PolyaGamma}  # it has no closed form
every_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


def build(cls, dtype=torch.float64):
    """Batch shape (3, 2), the first argument of shape (3, 1) and the last of shape (2,)."""
    good = [torch.tensor(v, dtype=dtype) for v in CLASSES[cls][0]]
    good[0] = good[0] * torch.tensor([[1.0], [1.1], [1.2]], dtype=dtype)
    good[-1] = good[-1] * torch.ones(2, dtype=dtype)
    return cls(*good)


def statistics(q):
    """Mean, variance and, where there is one, entropy."""
    return [q.mean, q.variance] if type(q) in WITHOUT_ENTROPY else [q.mean, q.variance, q.entropy()]


@every_class
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shapes_and_dtypes(cls, dtype):
    q = build(cls, dtype)
    assert isinstance(q, Distribution)
    assert q.batch_shape == (3, 2)
    assert q.event_shape == ()
    x = q.sample((5,), generator=seeded(0))
    assert x.shape == (5, 3, 2)
    for value in (x, q.log_prob(x), *statistics(q)):
        assert value.dtype == dtype
        assert not value.isnan().any()
    assert q.log_prob(x).shape == (5, 3, 2)
    assert all(value.shape == (3, 2) for value in statistics(q))
    assert set(q.arg_constraints) <= set(vars(q)) | set(dir(q))
    assert bool(q.support.check(x).all())


@every_class
def test_expand(cls):
    q = build(cls)
    wide = q.expand((4, 3, 2))
    assert type(wide) is cls
    assert wide.batch_shape == (4, 3, 2)
    assert wide.sample((2,), generator=seeded(0)).shape == (2, 4, 3, 2)
    x = q.sample(generator=seeded(0))
    torch.testing.assert_close(wide.log_prob(x), q.log_prob(x).expand(4, 3, 2))
    for expanded, value in zip(statistics(wide), statistics(q), strict=True):
        torch.testing.assert_close(expanded, value.expand(4, 3, 2))


@every_class
def test_scalar_and_empty_batches(cls):
    scalar = cls(*CLASSES[cls][0])
    assert scalar.batch_shape == ()
    assert scalar.sample((3,), generator=seeded(0)).shape == (3,)
    assert type(scalar).__name__ in repr(scalar)
    empty = cls(*(torch.full((0, 2), v) for v in CLASSES[cls][0]))
    assert empty.sample((3,)).shape == (3, 0, 2)
    assert all(value.shape == (0, 2) for value in statistics(empty))


@every_class
def test_generator(cls):
    """The same seed gives the same draws, and torch's global generator is left alone."""
    q, state = build(cls), torch.get_rng_state()
    assert torch.equal(q.sample((9,), generator=seeded(1)), q.sample((9,), generator=seeded(1)))
    assert not torch.equal(q.sample((9,), generator=seeded(1)), q.sample((9,), generator=seeded(2)))
    assert torch.equal(state, torch.get_rng_state())


@every_class
def test_draws_carry_no_gradient(cls):
    q = cls(*(f64(v).requires_grad_() for v in CLASSES[cls][0]))
    assert not q.sample((3,), generator=seeded(0)).requires_grad
    assert all(value.requires_grad for value in statistics(q)[2:] or [q.mean])


@every_class
def test_validate_args_refuses_values_outside_the_support(cls):
    q = cls(*CLASSES[cls][0], validate_args=True)
    with pytest.raises(ValueError, match="support"):
        q.log_prob(torch.tensor(torch.nan))


@every_class
def test_validation_is_on_by_default(cls):
    with pytest.raises(ValueError, match="support"):
        cls(*CLASSES[cls][0]).log_prob(torch.tensor(torch.nan))
    if cls is not SpikeSlabNormal:
        with pytest.raises(ValueError, match="support"):
            cls(*CLASSES[cls][0]).log_prob(torch.tensor(-1.0))


@every_class
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_prob_of_infinity(cls, dtype):
    infinity = torch.tensor(torch.inf, dtype=dtype)
    assert bool((build(cls, dtype).log_prob(infinity) == -torch.inf).all())


@pytest.mark.parametrize(("chi", "rho", "lam"), [(1.0, 1.0, 0.0), (1.0, 1.0, 2.0), (1.0, 0.0, -0.3), (0.0, 1.0, 0.3)])
def test_log_prob_of_infinity_of_gig(chi, rho, lam):
    assert GeneralizedInverseGaussian(chi, rho, lam).log_prob(torch.tensor(torch.inf)) == -torch.inf


@every_class
def test_inference_mode(cls):
    """Everything works inside, and what it leaves in caches does not disturb autograd outside."""
    names = ("mean", "variance", "mean_log", "mean_inverse")

    def everything(q, x):
        found = [getattr(q, name) for name in names if hasattr(cls, name)]
        return torch.stack([*found, *statistics(q)[2:], q.log_prob(x)])

    arguments = [v * torch.ones(3, dtype=torch.float64) for v in CLASSES[cls][0]]
    with torch.inference_mode():
        inside = everything(cls(*arguments), torch.full((3,), 0.7, dtype=torch.float64))
        assert cls(*arguments).sample((2,), generator=seeded(0)).shape == (2, 3)
    leaves = [v.clone().requires_grad_() for v in arguments]
    outside = everything(cls(*leaves), torch.full((3,), 0.7, dtype=torch.float64))
    torch.testing.assert_close(outside.detach(), inside.clone(), rtol=0, atol=0)
    finite = outside[outside.isfinite()].sum()
    assert all(bool(g.isfinite().all()) for g in torch.autograd.grad(finite, leaves, allow_unused=True))


@every_class
def test_bad_arguments(cls):
    """One line that names the argument, for numbers and for tensors."""
    good, bad = CLASSES[cls]
    for i, name in enumerate(cls.arg_constraints):
        for kind in (float, f64):
            arguments = [kind(v) for v in good]
            arguments[i] = kind(bad[i])
            with pytest.raises(r2d2net.ParameterError, match=f"^{name} holds") as error:
                cls(*arguments)
            assert "\n" not in str(error.value)
