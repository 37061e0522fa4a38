"""`r2d2net fit --ordinal`: levels in an order from file to page and predictions, and what is refused."""

import csv

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from r2d2net.errors import DataError, ParameterError
from r2d2net.estimators import R2D2Classifier
from r2d2net.likelihoods import Ordinal
from r2d2net.tables import run_folder
from r2d2net.tables.prediction_task import detect_task
from r2d2net.tables.settings import Settings
from table_runs import command

LEVELS = ["low", "medium", "high", "extreme"]
SMALL = ["--hidden", "8", "--epochs", "20", "--no-baselines", "--quiet"]


def made(rows=160, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 2))
    places = np.digitize(2 * x[:, 0] + rng.logistic(size=rows), [-1.0, 1.0, 2.5])
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "level": np.array(LEVELS)[places]})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("ordinal") / "levels.csv"
    made().to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(table):
    ended = command(
        "fit", table, "--target", "level", "--ordinal", ",".join(LEVELS), *SMALL, "--out", table.parent / "run"
    )
    assert ended.code == 0, ended.error
    return table.parent / "run"


def test_the_order_is_kept_from_fit_to_page(run, table):
    fitted = run_folder.load_run(run)
    assert (fitted.task.kind, list(fitted.task.classes)) == ("ordinal", LEVELS)
    assert fitted.estimator.posterior_.model.likelihood == Ordinal(tuple(LEVELS))
    rows = list(csv.DictReader(command("predict", run, table, "--quiet").out.splitlines()))
    assert list(rows[0])[:5] == ["prediction", *(f"p({level})" for level in LEVELS)]
    assert sum(float(rows[0][f"p({level})"]) for level in LEVELS) == pytest.approx(1, abs=1e-5)
    page = (run / "report.html").read_text()
    places = [page.index(f"{level} predicted as {level}") for level in LEVELS]
    assert places == sorted(places)


def test_it_predicts_and_is_evaluated(run, table):
    metrics = command("evaluate", run, table, "--json").json
    assert metrics["nll"] < metrics["constant"]["nll"] - 0.1
    assert command("inspect", run, "--json").json["task"]["kind"] == "ordinal"
    assert command("explain", run, table, "--rows", "2", "--draws", "10", "--json").json["rows"][0]["class"] in LEVELS


def test_the_model_is_loaded_as_a_classifier(run):
    loaded = R2D2Classifier.load(run / "model")
    assert loaded.labels_.tolist() == LEVELS
    assert loaded.predict([[4.0, 0.0]])[0] in ("high", "extreme")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ordinal", "low,medium,high"], "has 'extreme', which --ordinal low,medium,high does not list: add it"),
        (["--ordinal", "low,medium,high,extreme,worse"], "lists 'worse', which no row of level has: leave it out"),
        (["--ordinal", "low"], "list two levels or more by commas, from the lowest"),
        (["--ordinal", "low,high", "--task", "binary"], "the target is to be --task binary: leave one out"),
        (["--task", "ordinal"], "is of texts, whose order is not known: list its levels by --ordinal low,medium,high"),
        (["--ordinal", ",".join(LEVELS), "--algorithm", "edl"], "--algorithm edl is not for ordinal: use another"),
    ],
)
def test_refusals_are_one_line(table, options, message, tmp_path):
    ended = command("fit", table, "--target", "level", *options, "--out", tmp_path / "run")
    assert ended.code == 2
    assert message in ended.error
    assert ended.error.strip().count("\n") == 0


def test_numbers_are_ordered_by_size_and_written_in_any_way():
    column = pd.Series(["10", "2", "1.0", "1", "2", "10"])
    assert detect_task(column, "y", "ordinal").classes == ("1", "2", "10")
    assert detect_task(column, "y", order=("10", "2.0", "1")).classes == ("10", "2", "1")


def test_ordered_categories_of_parquet_are_recognised(tmp_path):
    pytest.importorskip("pyarrow")
    frame = made(60)
    frame["level"] = pd.Categorical(frame["level"], [*LEVELS, "none such"], ordered=True)
    path = tmp_path / "levels.parquet"
    frame.to_parquet(path)
    ended = command("fit", path, "--target", "level", *SMALL, "--test", "0", "--out", tmp_path / "run")
    assert ended.code == 0, ended.error
    assert run_folder.load_run(tmp_path / "run").task.classes == tuple(LEVELS)
    frame["level"] = frame["level"].cat.as_unordered()
    assert detect_task(frame["level"], "level").kind == "multiclass"


def test_settings_of_older_runs_have_no_order():
    plain = {name: value for name, value in Settings.of({"target": "y"}).plain().items() if name != "ordinal"}
    assert Settings.back(plain).ordinal == ()


ONE_LAYER = {"hidden": (), "epochs": 30, "random_state": 0}


class TestClassifier:
    """`R2D2Classifier(likelihood="ordinal")` and `Ordinal` with labels."""

    def test_numbers_have_their_order(self):
        frame = made()
        y = frame["level"].map(LEVELS.index).to_numpy() * 5
        model = R2D2Classifier(**ONE_LAYER, likelihood="ordinal").fit(frame[["a", "b"]], y)
        assert model.classes_.tolist() == [0, 5, 10, 15]
        assert model.predict_proba(frame[["a", "b"]]).shape == (160, 4)
        assert model.score(frame[["a", "b"]], y) > 0.45

    def test_texts_have_the_order_that_is_given(self, tmp_path):
        frame = made()
        x, y = frame[["a", "b"]], frame["level"].to_numpy()
        model = R2D2Classifier(**ONE_LAYER, likelihood=Ordinal(tuple(LEVELS)), validation=(x[:40], y[:40])).fit(x, y)
        assert model.labels_.tolist() == LEVELS
        assert model.score(x, y) > 0.45
        again = R2D2Classifier.load(model.save(tmp_path))
        np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))

    def test_an_ordered_categorical_has_the_order_of_its_categories(self, tmp_path):
        frame = made()
        x, kind = frame[["a", "b"]], pd.CategoricalDtype([*LEVELS, "never seen"], ordered=True)
        listed = R2D2Classifier(**ONE_LAYER, likelihood=Ordinal(tuple(LEVELS))).fit(x, frame["level"])
        y = frame["level"].astype(kind)
        for column in (y, y.array, y.to_frame()["level"].reset_index(drop=True)):
            model = R2D2Classifier(**ONE_LAYER, likelihood="ordinal").fit(x, column)
            assert model.labels_.tolist() == LEVELS
            np.testing.assert_array_equal(model.predict_proba(x), listed.predict_proba(x))
        again = R2D2Classifier.load(model.save(tmp_path))
        np.testing.assert_array_equal(again.predict(x), model.predict(x))

    def test_ordered_numbers_have_the_order_of_their_categories_and_unordered_ones_their_size(self):
        frame = made()
        numbers = frame["level"].map(dict(zip(LEVELS, (3, 1, 2, 0), strict=True)))
        for ordered, labels in ((True, [3, 1, 2, 0]), (False, [0, 1, 2, 3])):
            y = numbers.astype(pd.CategoricalDtype([3, 1, 2, 0], ordered=ordered))
            model = R2D2Classifier(**ONE_LAYER, likelihood="ordinal").fit(frame[["a", "b"]], y)
            assert model.labels_.tolist() == labels
        y = frame["level"].astype(pd.CategoricalDtype(LEVELS, ordered=True))
        assert R2D2Classifier(**ONE_LAYER).fit(frame[["a", "b"]], y).labels_.tolist() == sorted(LEVELS)
        with pytest.raises(DataError, match="y holds texts, whose order is not known"):
            R2D2Classifier(likelihood="ordinal").fit(frame[["a", "b"]], frame["level"].astype("category"))

    @pytest.mark.parametrize(
        ("likelihood", "error", "message"),
        [
            ("ordinal", DataError, "y holds texts, whose order is not known: give it, such as likelihood=Ordinal"),
            (Ordinal(4), DataError, "y holds texts, whose order is not known"),
            (Ordinal(("low", "high")), DataError, "y holds the label 'extreme', which likelihood does not list"),
            (Ordinal((*LEVELS, "worse")), DataError, "y holds no label 'worse'"),
            ("poisson", ParameterError, "likelihood='poisson' is not for classes"),
        ],
    )
    def test_what_does_not_fit_is_told(self, likelihood, error, message):
        frame = made()
        with pytest.raises(error, match=message.replace("(", "\\(")):
            R2D2Classifier(**ONE_LAYER, likelihood=likelihood).fit(frame[["a", "b"]], frame["level"])


def test_scorers_of_scikit_learn_read_the_probabilities_of_ordinal_texts():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((200, 2))
    y = np.array(LEVELS)[np.digitize(2 * x[:, 0] + generator.logistic(size=200), [-2, 0, 2])]
    model = R2D2Classifier((), likelihood=Ordinal(tuple(LEVELS)), epochs=60, random_state=0).fit(x, y)
    probabilities = model.predict_proba(x)
    own = probabilities[np.arange(200), [sorted(LEVELS).index(label) for label in y]]
    assert log_loss(y, probabilities) == pytest.approx(-np.log(own).mean(), rel=1e-5)
    assert log_loss(y, probabilities) < 1.15  # 1.39 by guessing
    assert model.classes_.tolist() == sorted(LEVELS)
    assert (model.predict(x) == model.classes_[probabilities.argmax(1)]).all()
