"""The microcanonical step: its map on the sphere and that map's Jacobian, the order of its error, and its size."""

import math

import pytest
import torch

from r2d2net.inference.chain_metric import Metric
from r2d2net.inference.microcanonical import (
    Point,
    any_direction,
    first_step_size,
    forget,
    leapfrog,
    learn,
    refuse_runaways,
)

DOUBLE = torch.float64


def gaussian(deviation):
    """U of independent normals."""

    def potential(w):
        return Point(w, (w / deviation).square().sum(-1) / 2, w / deviation**2, w)

    return potential


def start(chains, deviation, seed=0):
    g = torch.Generator().manual_seed(seed)
    like = torch.zeros(chains, len(deviation), dtype=DOUBLE)
    position = torch.empty_like(like).normal_(generator=g) * deviation
    return gaussian(deviation)(position), any_direction(like, g), g


def test_a_trajectory_is_reversible():
    """Back along the negative direction to where it came from, with the opposite error."""
    deviation = torch.tensor([0.5, 1.0, 3.0], dtype=DOUBLE)
    point, u, _ = start(5, deviation)
    unit, length = Metric(torch.ones_like(u)), torch.full((5,), 0.3, dtype=DOUBLE)
    there, v, error = leapfrog(gaussian(deviation), point, u, unit, length)
    back, w, returned = leapfrog(gaussian(deviation), there, -v, unit, length)
    torch.testing.assert_close(back.position, point.position)
    torch.testing.assert_close(w, -u)
    torch.testing.assert_close(returned, -error)
    torch.testing.assert_close(v.norm(dim=-1), torch.ones(5, dtype=DOUBLE))


def test_the_kinetic_term_is_the_logarithm_of_the_jacobian():
    """The map (w, u) -> (w', u') stretches volume by exp(-change of K): what makes a Metropolis step exact.

    In three dimensions, with the sphere in coordinates (angle, height), which keep its area.
    """
    deviation = torch.tensor([0.5, 1.0, 3.0], dtype=DOUBLE)
    potential, length = gaussian(deviation), torch.tensor([0.7], dtype=DOUBLE)

    def to_direction(a, h):
        r = torch.sqrt(1 - h * h)
        return torch.stack([r * torch.cos(a), r * torch.sin(a), h])

    def mapped(q):
        w, u = q[:3], to_direction(q[3], q[4])
        moved, v, _ = leapfrog(potential, potential(w[None]), u[None], Metric(torch.ones(1, 3, dtype=DOUBLE)), length)
        return torch.cat([moved.position[0], torch.atan2(v[0, 1], v[0, 0])[None], v[0, 2][None]])

    q = torch.tensor([0.3, -0.8, 2.0, 0.4, 0.2], dtype=DOUBLE)
    volume = torch.linalg.slogdet(torch.autograd.functional.jacobian(mapped, q)).logabsdet
    point = potential(q[None, :3])
    moved, _, error = leapfrog(
        potential, point, to_direction(q[3], q[4])[None], Metric(torch.ones(1, 3, dtype=DOUBLE)), length
    )
    kinetic = error - (moved.energy - point.energy)
    torch.testing.assert_close(volume, -kinetic[0])


@pytest.mark.parametrize("lengths", [(0.2, 0.1), (0.1, 0.05)])
def test_the_energy_error_falls_as_the_cube_of_the_step(lengths):
    deviation = torch.linspace(0.5, 2, 20, dtype=DOUBLE)
    point, u, _ = start(200, deviation)
    unit = Metric(torch.ones_like(u))
    coarse, fine = (
        leapfrog(gaussian(deviation), point, u, unit, torch.full((200,), e, dtype=DOUBLE))[2].square().mean().sqrt()
        for e in lengths
    )
    assert 2.8 < math.log2(coarse / fine) < 3.2


def test_the_bias_falls_as_the_square_of_the_step():
    """Excess of the variance without a Metropolis step, 500 chains of 20 weights: standard error 0.001 or so.

    Steps of 0.5 sqrt(d) have about the energy error of the default, 5e-4 for each weight, and 2% excess here.
    """
    deviation = torch.linspace(0.7, 1.4, 20, dtype=DOUBLE)
    potential, excess = gaussian(deviation), []
    for length in (0.7, 0.5, 0.35):
        point, u, g = start(500, deviation)
        e, unit, squares = torch.full((500,), length * math.sqrt(20), dtype=DOUBLE), Metric(torch.ones_like(u)), []
        for _ in range(200):
            point, u, _ = leapfrog(potential, point, u, unit, e)
            u = forget(u, torch.full_like(e, length), g)
            squares.append((point.position / deviation).square().mean())
        excess.append(float(torch.stack(squares[40:]).mean()) - 1)
    assert 0.035 < excess[0] < 0.055
    assert 0.014 < excess[1] < 0.026
    assert 0.004 < excess[2] < 0.013


def test_the_step_size_is_such_that_the_energy_error_has_the_variance_aimed_at():
    """The sixth root of it is within 20%: the sums remember about 50 steps, whose squared errors vary by a factor."""
    deviation = torch.linspace(0.5, 2, 100, dtype=DOUBLE)
    potential = gaussian(deviation)
    point, u, g = start(8, deviation)
    sizes, errors, unit = first_step_size(8, 100, u), [], Metric(torch.ones_like(u))
    for step in range(1500):
        moved, v, error = leapfrog(potential, point, u, unit, sizes.value)
        point, u, error, _ = refuse_runaways((point, u), (moved, v), error, 100.0)
        if step < 500:
            sizes = learn(sizes, error, 100, 5e-4)
        else:
            errors.append(error)
        u = forget(u, sizes.value / 10, g)
    variance = torch.stack(errors).square().mean(0) / 100
    assert ((variance / 5e-4) ** (1 / 6)).sub(1).abs().max() < 0.2


def test_directions_are_forgotten_over_their_length():
    """The mean cosine after n steps is exp(-n e / L) up to 1 / d: 1,000 chains, 4 standard errors."""
    g = torch.Generator().manual_seed(0)
    u = any_direction(torch.zeros(1000, 50, dtype=DOUBLE), g)
    v = u
    for _ in range(10):
        v = forget(v, torch.full((1000,), 0.05, dtype=DOUBLE), g)
    cosine = (u * v).sum(-1)
    assert abs(cosine.mean() - math.exp(-0.5)) < 4 * cosine.std() / math.sqrt(1000) + 0.01


def test_runaways_are_undone_and_turn_back():
    deviation = torch.ones(4, dtype=DOUBLE)
    point, u, _ = start(3, deviation)
    moved = point._replace(position=point.position + 1)
    error = torch.tensor([0.1, math.nan, 2000.0], dtype=DOUBLE)
    new, v, left, undone = refuse_runaways((point, u), (moved, u * 0.5), error, 10.0)
    assert undone.tolist() == [False, True, True]
    assert left.tolist() == [0.1, 0, 0]
    torch.testing.assert_close(new.position[0], moved.position[0])
    torch.testing.assert_close(new.position[1:], point.position[1:])
    torch.testing.assert_close(v[1:], -u[1:])
