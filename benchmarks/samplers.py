"""Speed of the samplers as ratios to a floor measured in the same run: `make bench`.

The floor is one randn + one rand + one log of the same size and dtype: no sampler can be much cheaper. One
thread, 2^20 elements, float32, chi log-uniform on 1e-12..1e2, rho = 1, lam = 0.1, and z ~ N(0, 2^2) for the
Polya-Gamma distribution. Every round times all contestants in turn, so that a busy moment of the machine hits them
alike; medians of the rounds are compared. The reference of the Polya-Gamma sampler is the sum of exponential variables
that defines the distribution, cut after 200 terms: at z = 0 its mean is 0.1% too small.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from scipy import stats

from r2d2net.distributions import ReciprocalInverseGaussian, sample_gig, sample_polya_gamma
from r2d2net.files import write_json
from r2d2net.provenance import provenance

SIZE = 1 << 20
LAM = 0.1
GAMMA_TERMS = 200
LIMITS = {"giG, eager": 10.0, "giG, compiled": 5.0, "reciprocal inverse Gaussian": 2.0, "Polya-Gamma": 25.0}


def log_uniform(size: int, generator: torch.Generator) -> torch.Tensor:
    """chi between 1e-12 and 1e2."""
    return 10 ** (14 * torch.rand(size, generator=generator) - 12)


def truncated_gamma_sum(z: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draw approximately from PG(1, z) by the first terms of the sum that defines it."""
    poles = (torch.arange(1, GAMMA_TERMS + 1) - 0.5).square() + (z[:, None] / (2 * math.pi)).square()
    exponential = torch.empty_like(poles).exponential_(generator=generator)
    return (exponential / poles).sum(1) / (2 * math.pi**2)


def floor(size: int, generator: torch.Generator) -> None:
    """Take the steps that any sampler of a continuous distribution needs."""
    torch.randn(size, generator=generator)
    torch.rand(size, generator=generator).log()


def seconds(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def contest(jobs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median time of each job; the jobs take turns, after an untimed round that warms everything up."""
    for job in jobs.values():
        job()
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            times[name].append(seconds(job))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21, help="timed rounds (default 21)")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder for the numbers")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    options = parser.parse_args()

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    chi = log_uniform(SIZE, generator)
    reciprocal = ReciprocalInverseGaussian(chi, 1.0)
    z = 2 * torch.randn(SIZE, generator=generator)
    jobs: dict[str, Callable[[], object]] = {
        "floor": lambda: floor(SIZE, generator),
        "giG, eager": lambda: sample_gig(chi, 1.0, LAM, generator),
        "reciprocal inverse Gaussian": lambda: reciprocal.sample((), generator),
        "Polya-Gamma": lambda: sample_polya_gamma(z, generator),
    }
    if not options.no_compile:
        jobs["giG, compiled"] = lambda: sample_gig(chi, 1.0, LAM, generator, compiled=True)
    times = contest(jobs, options.rounds)

    few = 200
    omega = chi[:few].double().sqrt().numpy()
    scipy_seconds = seconds(lambda: stats.geninvgauss.rvs(LAM, omega, size=few, random_state=0)) / few
    part = z[: 1 << 12]
    sum_seconds = contest({"sum": lambda: truncated_gamma_sum(part, generator)}, 5)["sum"] / part.numel()
    growth = {}
    for size in (10**4, 10**5, 10**6, 10**7):
        draw = partial(sample_gig, log_uniform(size, generator), 1.0, LAM, generator)
        growth[size] = 1e9 * contest({"draw": draw}, 5)["draw"] / size

    ratios = {name: value / times["floor"] for name, value in times.items()}
    console = Console()
    table = Table("sampler", "ns a draw", "ratio to floor", "limit")
    for name, value in times.items():
        limit = f"{LIMITS[name]:g}" if name in LIMITS else ""
        table.add_row(name, f"{1e9 * value / SIZE:.1f}", f"{ratios[name]:.2f}", limit)
    table.add_row("scipy geninvgauss, vector chi", f"{1e9 * scipy_seconds:.0f}", "", "")
    table.add_row(f"Polya-Gamma, {GAMMA_TERMS} terms of its sum", f"{1e9 * sum_seconds:.0f}", "", "")
    console.print(table)
    console.print(
        f"giG, eager, is {scipy_seconds * SIZE / times['giG, eager']:.0f} times as fast as scipy's vector sampler"
    )
    console.print("giG, eager, ns a draw by size: " + ", ".join(f"{n:.0e}: {v:.1f}" for n, v in growth.items()))
    settings = {"size": SIZE, "dtype": "float32", "threads": 1, "lam": LAM, "rounds": options.rounds}
    options.out.mkdir(parents=True, exist_ok=True)
    write_json(
        options.out / "samplers.json",
        {
            "seconds": times,
            "ratios": ratios,
            "limits": LIMITS,
            "scipy_seconds_per_draw": scipy_seconds,
            "gamma_sum_seconds_per_draw": sum_seconds,
            "nanoseconds_by_size": growth,
            **provenance(settings, seed=0),
        },
    )
    over = [name for name, limit in LIMITS.items() if ratios.get(name, 0) > limit]
    if over:
        console.print(f"over the limit: {', '.join(over)}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
