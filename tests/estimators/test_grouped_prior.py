"""Estimators under a prior for groups of columns, by name: categories belong together, bad names are one line."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import r2d2net as rn
from r2d2net import ParameterError
from r2d2net.priors import R2D2

GENES = [f"g{i}" for i in range(6)]
CLINICAL = ["sex", "age", "constant"]
GROUPS = {"genes": GENES, "clinical": CLINICAL}


def table(rows: int = 60) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(rows, 6)), columns=GENES)
    x["sex"], x["age"], x["constant"] = rng.choice(["f", "m", "x"], rows), rng.normal(50, 10, rows), 1.0
    return x, np.asarray(x["age"] / 10 + 2 * (x["sex"] == "m") + 0.3 * rng.normal(size=rows))


def prior(groups: Any = GROUPS) -> Any:
    return R2D2.from_r2(0.5, 2.0, 0.9, groups=groups)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "options", [{"hidden": (), "algorithm": "lineargibbs", "epochs": 60}, {"hidden": (4,), "epochs": 5}]
)
def test_groups_of_columns(options: dict[str, Any], tmp_path: Any) -> None:
    x, y = table()
    model = rn.R2D2Regressor(prior=prior(), random_state=0, **options).fit(x, y)
    assert model.posterior_.model.bayesian[0].prior.groups == {"genes": [0, 1, 2, 3, 4, 5], "clinical": [6, 7, 8, 9]}
    model.save(tmp_path, relevance=False)
    again = rn.R2D2Regressor.load(tmp_path)
    assert np.array_equal(again.predict(x), model.predict(x))
    assert again.prior.groups == GROUPS


@pytest.mark.filterwarnings("ignore")
def test_numbers_are_columns_of_the_table() -> None:
    x, y = table()
    by_number = prior({"genes": range(6), "clinical": [6, 7, 8]})
    model = rn.R2D2Classifier(prior=by_number, hidden=(), epochs=3, random_state=0).fit(x, y > 5)
    assert model.posterior_.model.bayesian[0].prior.groups["clinical"] == [6, 7, 8, 9]
    numbers = rn.R2D2Regressor(prior=by_number, hidden=(), epochs=3, random_state=0)
    numbers.fit(np.random.default_rng(0).normal(size=(60, 9)), y)
    assert numbers.posterior_.model.bayesian[0].prior.groups["clinical"] == [6, 7, 8]


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (
            {"genes": GENES[:-1], "clinical": CLINICAL},
            "groups leave out the column 'g5': put every column into a group",
        ),
        ({"genes": GENES, "clinical": ["sex"]}, "groups leave out the column 'age'"),
        ({"genes": ["g0", "gg1"], "clinical": CLINICAL}, "groups name an unknown column, 'gg1': did you mean 'g1'"),
        ({"genes": GENES, "clinical": ["sex", "age"], "rest": ["constant"]}, "groups: no column of 'rest' is an input"),
        (
            {"genes": list(range(6)), "clinical": ["g0", 6, 7, 8]},
            "groups have the column 'g0' in 'genes' and 'clinical'",
        ),
    ],
)
def test_bad_names_are_one_line(groups: Any, words: str) -> None:
    x, y = table()
    with pytest.raises(ParameterError, match=words):
        rn.R2D2Regressor(prior=prior(groups), hidden=(), epochs=2).fit(x, y)


def test_names_need_a_table() -> None:
    x = np.zeros((20, 9))
    with pytest.raises(ParameterError, match="groups name the column 'g0', and these inputs have no names"):
        rn.R2D2Regressor(prior=prior(), hidden=(), epochs=2).fit(x, np.arange(20.0))
