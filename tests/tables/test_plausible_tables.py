"""Tables as people might have them, drawn by hypothesis: the reader takes them or says in one line why not."""

import csv
import io
from collections import Counter

import pytest

pytest.importorskip("hypothesis", reason="hypothesis is not installed")
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from r2d2net.errors import R2D2NetError
from r2d2net.tables.settings import Settings
from r2d2net.tables.training_table import read_training_table

FEW, MANY = 60, 10_000
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
WORDS = st.sampled_from(
    ["", "NA", "n/a", "-", "?", "null", "None", "nan", "inf", "1e400", "=1+1", "é", '"', "a,b", "x" * 300]
)
NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.floats(allow_nan=True).map(repr),
    st.floats(-1e6, 1e6).map(lambda value: f"{value:,.2f}"),
    st.integers(0, 99).map(lambda value: f"{value} %"),
    st.floats(0, 1e4).map(lambda value: f"€ {value:.2f}".replace(".", ",")),
)
DATES = st.datetimes().map(lambda moment: moment.strftime("%Y-%m-%d"))
TIMES = st.datetimes().map(lambda moment: moment.strftime("%d/%m/%Y %H:%M"))
LEVELS = st.sampled_from(["red", "green", "blue", "Red ", "0", "1", "yes", "no", "True"])
KINDS = (
    NUMBERS,
    st.floats(-5, 5).map(lambda value: f"{value:.3f}"),
    st.integers(0, 5).map(str),
    DATES,
    TIMES,
    LEVELS,
    NAMES,
)


@st.composite
def tables(draw):
    """The bytes of a file, and settings."""
    rows = draw(st.integers(12, 40))
    names = draw(
        st.lists(NAMES.map(str.strip).filter(lambda name: name not in ("", "y")), min_size=1, max_size=6, unique=True)
    )
    columns = []
    for _ in names:
        kind, odd = draw(st.sampled_from(KINDS)), draw(st.sampled_from([0, 0, 5]))
        cells = draw(st.lists(kind, min_size=1, max_size=rows))
        cells = (cells * rows)[:rows]  # repeated, so that examples stay small
        for _ in range(draw(st.integers(0, odd))):
            cells[draw(st.integers(0, rows - 1))] = draw(WORDS)
        columns.append(cells)
    target = draw(st.sampled_from([KINDS[1], KINDS[1], LEVELS, LEVELS, NUMBERS]))
    cells = draw(st.lists(target, min_size=2, max_size=6, unique=True))
    columns.append((cells * rows)[:rows])
    file = io.StringIO()
    writer = csv.writer(
        file, delimiter=draw(st.sampled_from(",;\t|")), lineterminator=draw(st.sampled_from(["\n", "\r\n"]))
    )
    writer.writerow([*names, "y"])
    writer.writerows(zip(*columns, strict=True))
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16"]))
    options = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "task": st.sampled_from(["auto", "auto", "auto", "regression", "multiclass"]),
                "decimal": st.sampled_from([",", "."]),
                "dates": st.sampled_from(["day", "month"]),
                "test": st.sampled_from([0.0, 0.2, 0.5]),
            },
        )
    )
    return file.getvalue().encode(encoding), {"target": "y", **options}


def read_drawn(path, examples):
    """Read so many drawn tables, and count how that ended."""
    ends = Counter()

    @settings(
        max_examples=examples, database=None, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(tables())
    def read(drawn):
        content, options = drawn
        path.write_bytes(content)
        try:
            table = read_training_table(path, Settings.of(options))
        except R2D2NetError as error:
            message = str(error)
            assert len(message.splitlines()) == 1, message
            ends["refused"] += 1
        else:
            assert len(table.x) + len(table.test_rows) <= content.count(b"\n")
            ends["accepted"] += 1

    read()
    print(f"{sum(ends.values()):,} tables: {ends['accepted']:,} accepted, {ends['refused']:,} refused in one line")
    return ends


def test_drawn_tables_are_read_or_refused_in_one_line(tmp_path):
    assert read_drawn(tmp_path / "rows.csv", FEW)["accepted"] >= FEW / 4


@pytest.mark.slow
def test_ten_thousand_drawn_tables_are_read_or_refused_in_one_line(tmp_path):
    assert read_drawn(tmp_path / "rows.csv", MANY)["accepted"] >= MANY / 2
