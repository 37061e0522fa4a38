"""Tables of texts, categories, dates and gaps: the estimators read them as the command line does."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score

from r2d2net import R2D2Classifier, R2D2Regressor
from r2d2net.columns.column_detection import Targets, learn_inputs
from r2d2net.columns.format_rules import detect_format_rules
from r2d2net.errors import ColumnWarning, DataError

SMALL: dict[str, Any] = {"hidden": (), "epochs": 60, "draws": 30, "random_state": 0}


def mixed(rows: int = 240, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A number with gaps, a text, a declared category, a truth value and a date; the text and the number count."""
    g = np.random.default_rng(seed)
    area = g.normal(70, 20, rows)
    city = g.choice(["Basel", "Bern", "Chur"], rows)
    table = pd.DataFrame(
        {
            "area": np.where(g.random(rows) < 0.2, np.nan, area),
            "city": city,
            "class": pd.Categorical(g.choice([1, 2, 3], rows)),
            "new": g.random(rows) < 0.5,
            "built": pd.Timestamp("2000-01-01") + pd.to_timedelta(g.integers(0, 9000, rows), unit="D"),
        }
    )
    y = 3 * area + 100 * (city == "Bern") + g.normal(0, 5, rows)
    return table, y


@pytest.fixture(scope="module")
def regressor() -> R2D2Regressor:
    return R2D2Regressor(**{**SMALL, "epochs": 150}).fit(*mixed())


def test_mixed_columns_are_fitted_and_predicted(regressor: R2D2Regressor) -> None:
    x, y = mixed(200, seed=1)
    whole = x["area"].notna().to_numpy()
    residual = y - regressor.predict(x)
    assert np.sqrt(np.mean(residual[whole] ** 2)) < 15
    assert np.sqrt(np.mean(residual[~whole] ** 2)) < 90  # 60 is the share of the missing number
    assert regressor.n_features_in_ == 5
    assert regressor.feature_names_in_.tolist() == list(x.columns)
    low, high = regressor.predict_interval(x)
    assert low.shape == high.shape == y.shape
    assert regressor.score(x, y) > 0.7
    assert regressor.posterior_.predict(regressor.encode(x)).mean.shape == y.shape


def test_the_inputs_are_those_of_the_command_line(regressor: R2D2Regressor) -> None:
    x, y = mixed()
    targets = Targets.of(y, [], 0)
    learnt = learn_inputs(x, None, ["class"], rules=detect_format_rules(x), targets=targets)
    assert regressor.columns_ == learnt.columns
    assert [column.kind for column in regressor.columns_.used] == ["number", "category", "category", "category", "date"]
    assert regressor.columns_.used[0].inputs == ["area", "area=(missing)"]
    assert np.array_equal(regressor.encode(x), learnt.encoded.x)


def test_relevance_is_of_columns_by_name(regressor: R2D2Regressor) -> None:
    relevance = regressor.relevance_
    assert relevance.names == ["area", "city", "class", "new", "built"]
    assert relevance.kept.tolist() == [True, True, False, False, False]
    assert regressor.feature_importances_.shape == (5,)
    shown = relevance._repr_html_()
    assert shown.index("<td>area</td>") < shown.index("<td>city</td>") < shown.index("<td>built</td>")


def test_saved_and_loaded(regressor: R2D2Regressor, tmp_path: Any) -> None:
    x, _ = mixed(50, seed=2)
    again = R2D2Regressor.load(regressor.save(tmp_path))
    assert np.array_equal(again.predict(x), regressor.predict(x))
    assert again.columns_ == regressor.columns_
    assert again.relevance_.names == regressor.relevance_.names
    assert np.array_equal(again.feature_importances_, regressor.feature_importances_)


def test_a_finished_fit_in_a_folder_is_loaded(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = mixed(100)
    first = R2D2Regressor(**SMALL).fit_in(tmp_path, x, y)
    monkeypatch.setattr("r2d2net.run.train._loop", lambda *_: pytest.fail("fitted again"))
    again = R2D2Regressor(**SMALL).fit_in(tmp_path, x, y)
    assert np.array_equal(again.predict(x), first.predict(x))


def test_classes_of_mixed_columns_with_validation_rows() -> None:
    x, y = mixed()
    labels = np.where(y > np.median(y), "dear", "cheap")
    held, of_held = mixed(60, seed=3)
    validation = held, np.where(of_held > np.median(y), "dear", "cheap")
    model = R2D2Classifier(**SMALL, validation=validation).fit(x, labels)
    assert model.score(*validation) > 0.75
    assert model.predict_proba(held).shape == (60, 2)


def test_several_targets_and_many_levels() -> None:
    x, y = mixed(400)
    x["street"] = [f"street {i % 90}" for i in range(400)]
    both = np.stack([y, 40.0 * (np.arange(400) % 90)], axis=1)
    model = R2D2Regressor(**SMALL).fit(x, both)
    (street,) = [column for column in model.columns_.used if column.name == "street"]
    assert street.inputs == ["target output 0 by street", "target output 1 by street"]
    assert model.score(x, both) > 0.7


def test_cross_validation() -> None:
    x, y = mixed(150)
    scores = cross_val_score(R2D2Regressor(**SMALL), x, y, cv=3)
    assert scores.min() > 0.4


def test_the_stacked_default_takes_them_too() -> None:
    x, y = mixed(40)
    model = R2D2Regressor(random_state=0, draws=20, time=0.1).fit(x[["area", "city"]], y)
    assert model.predict(x[["area", "city"]]).shape == (40,)


def test_numbers_without_gaps_are_fitted_as_arrays_are() -> None:
    g = np.random.default_rng(0)
    x = g.normal(size=(60, 3)) * 10
    y = x[:, 0] + g.normal(size=60)
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    model = R2D2Regressor(**SMALL).fit(frame, y)
    assert np.array_equal(model.predict(frame), R2D2Regressor(**SMALL).fit(x, y).predict(x))
    assert not hasattr(model, "columns_")
    gap = frame.copy()
    gap.iloc[0, 1] = np.nan
    filled = frame.copy()
    filled.iloc[0, 1] = np.median(x[:, 1])
    assert np.array_equal(model.predict(gap), model.predict(filled))
    assert model.relevance_.names == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (lambda x: x.to_numpy(), "X is a ndarray.*give a pandas DataFrame with the columns 'area', 'city'"),
        (lambda x: x.drop(columns="city"), "feature names"),
        (lambda x: x[:0], "X has 0 rows"),
        (lambda x: x.assign(area="large"), "column 'area': 50 of 50 filled cells cannot be read"),
    ],
)
def test_rows_of_another_kind_are_refused(regressor: R2D2Regressor, rows: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        regressor.predict(rows(mixed(50, seed=4)[0]))


def test_arrays_with_gaps_or_texts_are_refused_in_one_line() -> None:
    x, y = mixed(50)
    for rows in (x[["area"]].to_numpy(), x[["area", "city"]].to_numpy()):
        with pytest.raises(DataError, match=r"^X: .*; give training rows .* as a pandas DataFrame") as caught:
            R2D2Regressor(**SMALL).fit(rows, y)
        assert "\n" not in str(caught.value)


def test_tables_that_cannot_be_used_are_one_line() -> None:
    x, y = mixed(50)
    for table, message in [
        (x[["city"]].assign(city="Bern"), "no column can be used: 'city' .constant."),
        (pd.concat([x, x[["city"]]], axis=1), "X has 2 columns 'city': rename all but one"),
    ]:
        with pytest.raises(DataError, match=message) as caught:
            R2D2Regressor(**SMALL).fit(table, y)
        assert "\n" not in str(caught.value)


def test_infinite_numbers_are_refused_in_training_and_prediction() -> None:
    table = pd.DataFrame({"a": np.linspace(-1, 1, 40), "kind": ["x", "y"] * 20})
    model = R2D2Regressor(hidden=(), algorithm="cavi", epochs=5, random_state=0).fit(table, table["a"].to_numpy())
    wild = table.assign(a=table["a"].mask(table["a"] > 0.9, np.inf))
    message = r"^X holds an infinite number in the column 'a': replace it, or leave the cell missing$"
    with pytest.raises(DataError, match=message):
        model.predict(wild)
    with pytest.raises(DataError, match=message):
        model.fit(wild, table["a"].to_numpy())


@pytest.mark.parametrize("cell", [np.inf, "inf", "-Infinity", "1e999"])
def test_infinite_numbers_among_objects_and_texts_are_refused(cell: Any) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=60)
    column = (
        numbers.astype(object) if isinstance(cell, float) else np.array([f"{each:.3f}" for each in numbers], object)
    )
    good = pd.DataFrame({"kind": rng.choice(["u", "v"], 60), "a": column})
    bad = good.copy()
    bad.loc[3, "a"] = cell
    model = R2D2Regressor(hidden=(), epochs=3, random_state=0).fit(good, numbers)
    message = r"^X holds a number that is infinite or beyond 1e\+100 in the column 'a': replace it, or leave the cell"
    for call in (lambda: model.predict(bad), lambda: R2D2Regressor(hidden=(), epochs=3).fit(bad, numbers)):
        with pytest.raises(DataError, match=message):
            call()
    good.loc[0, "kind"] = "inf"  # a level
    R2D2Regressor(hidden=(), epochs=3).fit(good, numbers)


def test_columns_written_otherwise_than_in_training_are_told_in_one_line(regressor: R2D2Regressor) -> None:
    table, _ = mixed(6, seed=1)
    table["area"] = [70.0, "80", "much", 70.0, 70.0, 70.0]
    table.loc[2, "city"] = "Genf"
    with pytest.warns(ColumnWarning) as caught:
        regressor.predict(table)
    assert [str(warning.message) for warning in caught] == [
        "X: texts where the training rows had numbers, read as numbers: 'area'; 1 cell unreadable, taken as missing: "
        "area 1; 1 cell of levels unknown to the model: city 1"
    ]


def test_texts_and_dates_in_a_table_of_numbers(tmp_path: Any) -> None:
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["a", "b"])
    fitted = R2D2Regressor(**SMALL).fit(table, table["a"])
    fitted.save(tmp_path)
    for model in (fitted, R2D2Regressor.load(tmp_path)):
        with pytest.warns(ColumnWarning, match="^X: texts where the training rows had numbers, read as numbers: 'b'$"):
            as_texts = model.predict(table.assign(b=table["b"].map(repr)))
        np.testing.assert_array_equal(as_texts, model.predict(table))
        with pytest.raises(DataError, match="X holds dates in the column 'b', and the training rows had numbers there"):
            model.predict(table.assign(b=pd.Timestamp("2020-01-01")))
