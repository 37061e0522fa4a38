"""Kernels against published random bits, the laws of their draws and torch's own update; what they do not depend on."""

import subprocess

import pytest
import torch
from scipy import stats
from torch import Tensor

from native_kernels import NEEDS_KERNELS, plant
from r2d2net.errors import ParameterError
from r2d2net.inference.adam import Step, no_moments
from r2d2net.inference.mean_field_family import FREE, Piece
from r2d2net.inference.native_step import numbers
from r2d2net.native import build, library

pytestmark = NEEDS_KERNELS
REJECT = 1e-6  # false alarms of a statistical test; seeds are pinned
MASK = 0xFFFFFFFF
TURNS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))


def threefry(counter: list[int], key: list[int]) -> list[int]:
    """Threefry4x32 with 20 rounds, as its paper writes it."""
    keys = [*key, 0x1BD11BDA ^ key[0] ^ key[1] ^ key[2] ^ key[3]]
    x = [(c + k) & MASK for c, k in zip(counter, key, strict=True)]
    for step in range(20):
        for (a, b), turn in zip(((0, 1), (2, 3)) if step % 2 == 0 else ((0, 3), (2, 1)), TURNS[step % 8], strict=True):
            x[a] = (x[a] + x[b]) & MASK
            x[b] = ((x[b] << turn | x[b] >> (32 - turn)) & MASK) ^ x[a]
        if step % 4 == 3:
            number = step // 4 + 1
            x = [(part + keys[(number + i) % 5]) & MASK for i, part in enumerate(x)]
            x[3] = (x[3] + number) & MASK
    return x


def drawn(n: int, key: int = 7, *, mean: float = 0.0, rho: float = -200.0, precision: float = 1.0) -> Tensor:
    return library.draw(torch.full((n,), mean), torch.full((n,), rho), torch.full((n,), precision), key)


def normal(n: int, seed: int) -> Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


# --- random bits


def test_the_reference_has_the_published_bits():
    """Known answers of Random123, the authors' library."""
    assert threefry([0] * 4, [0] * 4) == [0x9C6CA96A, 0xE17EAE66, 0xFC10ECD4, 0x5256A7D8]
    assert threefry([MASK] * 4, [MASK] * 4) == [0x2A881696, 0x57012287, 0xF6C7446E, 0xA16A6732]


@pytest.mark.parametrize(("key", "block", "stream"), [(0, 0, 0), (2**64 - 1, 5, 3), (0x0123456789ABCDEF, 2**33 + 1, 2)])
def test_bits_are_threefrys(key, block, stream):
    found = library.words(key, block, stream).view(4, 16)
    for lane in (0, 7, 15):
        counter = 16 * block + lane
        expected = threefry([counter & MASK, counter >> 32, stream, 0], [key & MASK, key >> 32, 0, 0])
        assert found[:, lane].tolist() == expected


def test_keys_come_from_the_generator():
    one, same, other = (torch.Generator().manual_seed(seed) for seed in (1, 1, 2))
    keys = [library.new_key(one) for _ in range(3)]
    assert keys == [library.new_key(same) for _ in range(3)]
    assert len({*keys, library.new_key(other)}) == 4
    assert all(0 <= key < 2**64 for key in keys)


# --- draws


def assert_normal(e: Tensor) -> None:
    assert stats.kstest(e.double().numpy(), "norm").pvalue > REJECT
    far = int((e.abs() > 4).sum())
    assert stats.binomtest(far, e.numel(), 2 * stats.norm.sf(4)).pvalue > REJECT
    assert abs(float(e.double().square().mean()) - 1) < 5 * (2 / e.numel()) ** 0.5


def test_draws_are_normal():
    """Law, tails and variance, each with a false-alarm rate of 1e-6."""
    assert_normal(drawn(1 << 20))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("sqrtf(-2.0f * log_of(u))", "sqrtf(-1.98f * log_of(u))"),
        ("* 0x1p-31f + 0x1p-32f", "* (1.0f - 0x1p-10f) * 0x1p-31f + 0x1p-10f"),  # none beyond 3.8
        ("0.785398163397448f * 0x1p-29f", "0.6f * 0x1p-29f"),
        ("EVEN_ROUNDS FOUR_ROUNDS(10,", "EVEN_ROUNDS FOUR_ROUNDS(9,"),
    ],
    ids=["variance", "tail", "angle", "bits"],
)
def test_planted_faults_of_draws_are_seen(monkeypatch, tmp_path, right, wrong):
    plant(monkeypatch, tmp_path / "faulty", right, wrong)

    def proofs() -> None:
        assert_normal(drawn(1 << 20))
        test_bits_are_threefrys(0x0123456789ABCDEF, 1, 2)

    with pytest.raises(AssertionError):
        proofs()


@pytest.mark.parametrize("lag", [1, 16, 32, 64])
def test_draws_are_independent(lag):
    """Numbers of one counter are 16 apart, those of one radius 32, those of one lane 64: counts of pairs in a table of
    equally likely cells. False alarm once in a million runs."""
    cells = (stats.norm.cdf(drawn(1 << 19, key=lag).double().numpy()) * 12).astype(int).clip(0, 11)
    counts = torch.bincount(torch.from_numpy(cells[:-lag] * 12 + cells[lag:]), minlength=144)
    assert stats.chisquare(counts.numpy()).pvalue > REJECT


def test_keys_give_independent_draws():
    one, other = drawn(1 << 18, key=1), drawn(1 << 18, key=2)
    assert abs(float((one * other).mean())) < 5 / one.numel() ** 0.5


def test_draws_have_means_and_deviations():
    mean, rho, precision = normal(1000, 0), 3 * normal(1000, 1), normal(1000, 2).exp()
    expected = mean + drawn(1000, 5) / (rho.exp() + precision).sqrt()
    torch.testing.assert_close(library.draw(mean, rho, precision, 5), expected, rtol=1e-5, atol=1e-6)
    moment = mean.square() + 1 / (rho.exp() + precision)
    torch.testing.assert_close(library.second_moment(mean, rho, precision), moment, rtol=1e-5, atol=0)


def test_the_ends_of_float32():
    assert bool((drawn(64, rho=1e9) == 0).all() | (drawn(64, rho=1e9).abs() < 1e-18).all())
    assert torch.equal(drawn(64, rho=-1e9), drawn(64))
    assert bool(drawn(64, rho=float("nan")).isnan().all())
    assert bool(drawn(64, mean=float("nan")).isnan().all())


# --- updates


def pieces(n: int, seed: int) -> dict[str, Tensor]:
    rho, precision = 3 * normal(n, seed), (2 * normal(n, seed + 1)).exp()
    moments = [
        0.1 * normal(n, seed + 2),
        normal(n, seed + 3).square(),
        normal(n, seed + 4),
        normal(n, seed + 5).square(),
    ]
    names = ("precision", "mean", "rho", "mean_first", "mean_second", "rho_first", "rho_second")
    return dict(zip(names, (precision, normal(n, seed + 6), rho, *moments), strict=True))


def updated(state: dict[str, Tensor], t: int, *, native: bool, at_draw: bool, beta: float = 0.01) -> dict[str, Tensor]:
    """One step by the kernel or by torch, on copies; a draw far from the means at some weights."""
    state = {name: vector.clone() for name, vector in state.items()}
    g, drawn_weights = normal(len(state["mean"]), t), normal(len(state["mean"]), -t)
    in_log = g * (drawn_weights - state["mean"])
    changed = [state[name] for name in ("mean", "rho", "mean_first", "mean_second", "rho_first", "rho_second")]
    if native:
        last = drawn_weights if at_draw else in_log
        library.update(numbers(Step.at(t, 0.03), 0.01, beta), at_draw, state["precision"], g, last, *changed)
    else:
        scale = FREE.deviation(torch.empty_like(g), state["rho"], state["precision"])
        FREE.update(Piece(scale, *state_of(state), g, in_log), Step.at(t, 0.03), Step.at(t, 0.01), beta)
    return state


def state_of(state: dict[str, Tensor]) -> list[Tensor]:
    names = ("mean", "rho", "precision", "mean_first", "mean_second", "rho_first", "rho_second")
    return [state[name] for name in names]


def assert_same_update(at_draw: bool = True, beta: float = 0.01) -> None:
    for t in (1, 2, 50, 5000):
        state = pieces(1000, 10 * t)
        if t == 1:
            for name in ("mean_first", "mean_second", "rho_first", "rho_second"):
                state[name] = no_moments(state["mean"]).first
        found, expected = (updated(state, t, native=native, at_draw=at_draw, beta=beta) for native in (True, False))
        for name, vector in expected.items():
            # beta c s^2 - beta is rounded in units of beta, and Adam's first step knows no scale
            torch.testing.assert_close(found[name], vector, rtol=3e-5, atol=3e-6 * max(1, beta))


@pytest.mark.parametrize("at_draw", [True, False])
@pytest.mark.parametrize("beta", [0.01, 0.0, 10.0])
def test_updates_are_torchs(at_draw, beta):
    assert_same_update(at_draw, beta)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("#define BETA2 0.999f", "#define BETA2 0.998f"),
        ("(root + s.size * c)", "(root + 1.01f * s.size * c)"),
        ("+ s.beta * (c /", "+ 1.01f * s.beta * (c /"),
        ("(1.0f - BETA1) * (-rise - rho", "(1.0f - BETA1) * (rise - rho"),
    ],
)
def test_planted_faults_of_updates_are_seen(monkeypatch, tmp_path, right, wrong):
    plant(monkeypatch, tmp_path / "faulty", right, wrong)
    with pytest.raises(AssertionError):
        assert_same_update(beta=1.0)


def test_what_is_no_number_stays_so():
    """A run that diverges must show it."""
    state = pieces(100, 0)
    changed = [state[name] for name in ("mean", "rho", "mean_first", "mean_second", "rho_first", "rho_second")]
    g = torch.full((100,), float("nan"))
    library.update(numbers(Step.at(1, 0.1), 0.1, 0.1), True, state["precision"], g, g, *changed)
    assert all(bool(vector.isnan().all()) for vector in changed)


# --- what results do not depend on


def everything(n: int = 1000) -> list[Tensor]:
    """All that the kernels of steps compute from the same numbers."""
    state = pieces(n, 3)
    found = [library.draw(state["mean"], state["rho"], state["precision"], 11)]
    return [*found, *updated(state, 2, native=True, at_draw=True).values()]


@pytest.mark.parametrize("n", [1000, 64, 1, 0])
def test_all_levels_compute_the_same_bits(n):
    levels = {library.use_level(most) for most in range(3)}
    found = []
    for level in levels:
        library.use_level(level)
        found.append(everything(n))
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


def test_parts_and_threads_change_nothing(monkeypatch):
    threads, whole = torch.get_num_threads(), everything(5000)
    try:
        for part, count in ((64, 1), (640, 2), (1 << 17, 2), (64, 3)):
            monkeypatch.setattr(library, "PART", part)
            torch.set_num_threads(count)
            assert all(map(torch.equal, whole, everything(5000)))
    finally:
        torch.set_num_threads(threads)


def test_a_draw_is_the_start_of_a_longer_one():
    assert torch.equal(drawn(1000), drawn(3001)[:1000])


# --- what is refused


@pytest.mark.parametrize("wrong", [torch.zeros(4, dtype=torch.float64), torch.zeros(8)[::2]])
def test_other_tensors_are_refused(wrong):
    with pytest.raises(
        ParameterError, match=r"^a native kernel got a .*: it needs contiguous float32 ones on the CPU$"
    ):
        library.draw(torch.zeros(4), torch.zeros(4), wrong, 0)


def test_a_library_of_other_sources_is_not_used(monkeypatch, tmp_path):
    plant(monkeypatch, tmp_path / "other", "#define LANES 16", "#define LANES  16")
    source = tmp_path / "other" / "numbers.h"
    source.write_text(source.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert library.problem() == f"cannot be used ({build.LIBRARY} was built from other sources: {library.BUILD})"


def test_a_compiler_that_fails_is_one_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert build.main() == 1
    assert "the kernels were not built: " in capsys.readouterr().err
    monkeypatch.setenv("CC", "false")
    with pytest.raises(subprocess.CalledProcessError):
        build.build(tmp_path / "kernels.so")
    assert not list(tmp_path.iterdir())
