"""Folders of grids for tests of reports: small, with made-up results."""

import json

ORIGIN = {
    "versions": {"python": "3.11", "torch": "2.13"},
    "commit": "abc",
    "written": "2026-01-01T00:00:00+00:00",
    "seconds": 3600.0,
}


def cell(key, settings, result, **others):
    return {"key": key, "settings": settings, "seed": settings["seed"], **ORIGIN, "result": result, **others}


def write_grid(folder, artefact, cells, *, missing=(), **about):
    """Write the folder of a grid with the results of ``cells``, and without those of ``missing`` (key, settings)."""
    (folder / "cells").mkdir(parents=True)
    listed = [{"key": done["key"], "settings": done["settings"]} for done in cells]
    listed += [{"key": key, "settings": settings} for key, settings in missing]
    texts = {"artefact": artefact, "title": "a title", "scale": "machine", "reduced": "fewer images", **about}
    (folder / "grid.json").write_text(json.dumps({**texts, "cells": listed}))
    for done in cells:
        (folder / "cells" / f"{done['key']}.json").write_text(json.dumps(done))
    return folder


def simulation(mse, seeds=(0, 1, 2), setting="S2 L=1", floor=9.0, rhat=1.01):
    """Make up the rows and the oracle of one setting; ``mse`` has for each row a number for each seed."""
    made = []
    for seed in seeds:
        problem = {"setting": setting, "seed": seed, "replicate": seed}
        own = {"function_distance": 0.5, "function_error": 0.2, "spread": 2.0}
        oracle = {"rhat": rhat + seed / 10, "ess": 50.0, "mse": 10.0, **own}
        size = {"starts": 4, "chains": 2}
        settings = {"kind": "oracle", "row": "r2d2-svgi", **problem, "oracle": size}
        made.append(cell(f"oracle-r2d2-{seed}", settings, oracle))
        for row, values in mse.items():
            result = {
                "mse": values[seed],
                "nll": 1.0,
                "coverage": 0.9,
                "tried": [{"factor": 1.0, "validation": 2.0}, {"factor": 0.3, "validation": 1.0 + 2.0 * (seed == 2)}],
                "reference": {"oracle": floor, "least_squares": 500.0, "constant": 1000.0},
            }
            made.append(cell(f"{row}-{seed}", {"kind": "row", "row": row, **problem}, result))
        distances = {"inference_error": 5.0, "function_error": 1.0, "function_distance": 2.0}
        made.append(cell(f"judge-{seed}", {"kind": "judgement", "row": "r2d2-svgi", **problem}, distances))
    return made
