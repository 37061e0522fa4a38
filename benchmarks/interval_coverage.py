"""Do intervals of the default model hold? Coverage under Gaussian, heteroscedastic and heavy-tailed noise.

    python benchmarks/interval_coverage.py  [--seeds 0 1] [--rows 500] [--out results/benchmarks]

    y = x_1 + sin(2 x_2) + e,   x ~ N(0, I_3),   e = N(0, .5^2) | N(0, (.5 exp(.7 x_3))^2) | .5 t_2

`R2D2Regressor` by its defaults: the likelihood chosen by rows left out, intervals calibrated. Given are the shares of
4,000 new rows inside intervals of 50, 80, 90 and 95%, calibrated and the model's own; and at 90% those of the fifths of
rows with the least and the largest x_3, along which the heteroscedastic noise grows. Results are written to
interval-coverage.json as they come, and those that are there are not computed again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from r2d2net.estimators import R2D2Regressor
from r2d2net.files import write_json
from r2d2net.provenance import provenance

LEVELS = (0.5, 0.8, 0.9, 0.95)
NOISES = ("gaussian", "heteroscedastic", "t2")
NEW = 4000


def rows_of(noise: str, rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of one of the problems."""
    x = rng.normal(size=(rows, 3))
    e = rng.standard_t(2, size=rows) if noise == "t2" else rng.normal(size=rows)
    scale = 0.5 * np.exp(0.7 * x[:, 2]) if noise == "heteroscedastic" else 0.5
    return x, x[:, 0] + np.sin(2 * x[:, 1]) + scale * e


def measure(noise: str, rows: int, seed: int) -> dict[str, Any]:
    """Fit one table and return coverage of new rows."""
    rng = np.random.default_rng([seed, NOISES.index(noise)])
    x, y = rows_of(noise, rows, rng)
    new, truth = rows_of(noise, NEW, rng)
    start = time.perf_counter()
    model = R2D2Regressor(random_state=seed, n_jobs=-1).fit(x, y)
    seconds = time.perf_counter() - start
    calibration = model.posterior_.calibration
    found: dict[str, Any] = {"seconds": round(seconds, 1), "likelihood": model.posterior_.settings["likelihood"]}
    order = new[:, 2].argsort()
    for name, used in (("calibrated", calibration), ("own", None)):
        model.posterior_.calibration = used
        covered, widths = {}, {}
        for level in LEVELS:
            low, high = model.predict_interval(new, level)
            inside = (low <= truth) & (truth <= high)
            covered[str(level)], widths[str(level)] = float(inside.mean()), float((high - low).mean())
            if level == 0.9:
                fifth = len(order) // 5
                ends = {"least": float(inside[order[:fifth]].mean()), "largest": float(inside[order[-fifth:]].mean())}
        found[name] = {"coverage": covered, "width": widths, "coverage_at_90_by_x3": ends}
    found["rmse"] = float(np.sqrt(np.square(model.predict(new) - truth).mean()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    given = parser.parse_args()
    path = given.out / "interval-coverage.json"
    content = json.loads(path.read_text()) if path.exists() else {}
    for seed in given.seeds:
        for noise in NOISES:
            key = f"{noise}, {given.rows} rows, seed {seed}"
            if key in content:
                continue
            result = measure(noise, given.rows, seed)
            settings = {"noise": noise, "rows": given.rows, "new": NEW, "levels": list(LEVELS)}
            content[key] = {"results": result, **provenance(settings, seed)}
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, content)
            shown = ", ".join(f"{level} {share:.3f}" for level, share in result["calibrated"]["coverage"].items())
            print(f"{key}: {result['likelihood']['name']}, calibrated {shown}", flush=True)
    for noise in NOISES:
        for name in ("calibrated", "own"):
            every = [e["results"][name]["coverage"] for k, e in content.items() if k.startswith(f"{noise}, ")]
            means = {level: np.mean([each[level] for each in every]) for level in map(str, LEVELS)}
            print(noise, name, {level: round(float(mean), 3) for level, mean in means.items()})


if __name__ == "__main__":
    main()
