"""Tables from CSV and Parquet files, whole or block by block.

Cells of a CSV file are read as text, whatever they look like: so "007" stays a code and a column does not change its
kind from one block to the next. `columns` decides what is a number.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import re
import warnings
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r2d2net.columns.column_names import FIX, are_data
from r2d2net.columns.phrases import quoted_names
from r2d2net.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = (",", ";", "\t", "|")
LINES = 50  # of a file's beginning, by which its separator is found
BLOCK_ROWS = 100_000  # read at a time
LONGEST_FIELD = 2**31 - 1  # characters
MOST_LINE = 1 << 26  # bytes
MOST_UNPACKED = 1 << 33  # bytes of a packed file; of one that is not packed its own size
PIECE = 1 << 20  # bytes read at a time to tell the encoding
WINDOWS = "cp1252"
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f\x81\x8d\x8f\x90\x9d]")  # no signs of such a text
UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}")  # a letter there, two strange signs here
UNUSED = "\x1f"  # a sign that no line has, so that lines stay whole
PARQUET = (".parquet", ".pq")
HINT = "pip install 'r2d2net[parquet]', or use CSV"


def is_parquet(path: Path) -> bool:
    """Return whether a file's name says that it is Parquet; all other files are taken for CSV."""
    return path.suffix.lower() in PARQUET


def require_parquet(path: Path) -> None:
    """Refuse Parquet where pyarrow is not installed."""
    if is_parquet(path) and find_spec("pyarrow") is None:
        raise DataError((":", " Parquet needs pyarrow"), value=path, fix=HINT)


def read_table(path: Path) -> pd.DataFrame:
    """Read all rows of a file.

    Args:
        path: CSV or Parquet file.

    Returns:
        A data frame; the cells of a CSV file are texts.

    Raises:
        DataError: The file cannot be read as a table.
    """
    import pandas as pd

    blocks = list(read_blocks(path, BLOCK_ROWS))
    return blocks[0] if len(blocks) == 1 else pd.concat(blocks, ignore_index=True)


def read_blocks(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    """Read the rows of a file, so many at a time.

    Args:
        path: CSV or Parquet file.
        rows: Largest number of rows of a block.

    Yields:
        At least one block, which has no rows where the file has none.

    Raises:
        DataError: The file cannot be read as a table.
    """
    _require_file(path)
    require_parquet(path)
    with _one_line(path):
        if is_parquet(path):
            yield from _parquet_blocks(path, rows)
        else:
            _require_lines(path)
            yield from _csv_blocks(path, rows)


def separator_of(path: Path) -> str:
    """Return the sign that separates the fields of a CSV file; "" for Parquet."""
    with _one_line(path):
        return "" if is_parquet(path) else _separator(path)


def encoding_note(path: Path) -> list[str]:
    """Return a note for the user if a CSV file is no Unicode text, else no note."""
    if is_parquet(path) or _encoding(path) != WINDOWS:
        return []
    return [
        f"{path.name} is no UTF-8 text and is read as Windows text (cp1252): if letters are wrong, save it as UTF-8"
    ]


def digest(path: Path) -> str:
    """Return the SHA-256 digest of a file's bytes."""
    _require_file(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _csv_blocks(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    import pandas as pd

    separator, names = _header(path)
    blank = {"skip_blank_lines": len(names) > 1}  # in a file of one column an empty line is a cell without a value
    with pd.read_csv(path, names=names, header=0, chunksize=rows, **_options(path, separator), **blank) as blocks:
        while True:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                try:
                    block = next(blocks)
                except StopIteration:
                    return
                except pd.errors.ParserWarning as warning:
                    problem = "has rows with more fields than its header"
                    raise DataError(problem, value=path, fix="mend or quote them") from warning
            yield block


def _options(path: Path, separator: str) -> dict[str, Any]:
    plain = {"dtype": str, "index_col": False, "encoding": _encoding(path), "skipinitialspace": True}
    # "NA" may be Namibia and "None" a plan: only columns of numbers and dates have words for nothing (see `cells`)
    return {"sep": separator, "keep_default_na": False, "na_values": [""], **plain}


def _encoding(path: Path) -> str:
    """Return UTF-8, unless the file has the mark of UTF-16, as "Unicode text" of spreadsheets has, or is cp1252."""
    stat = path.stat()
    return _detect_encoding(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=16)  # a file is opened several times, and the whole of it tells
def _detect_encoding(path: Path, size: int, changed: int) -> str:
    unicode = codecs.getincrementaldecoder("utf-8")()
    with open(path, "rb") as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        file.seek(0)
        try:
            while piece := file.read(PIECE):
                unicode.decode(piece)
            unicode.decode(b"", final=True)
        except UnicodeDecodeError:
            file.seek(0)
            return WINDOWS if all(_is_windows(piece) for piece in iter(lambda: file.read(PIECE), b"")) else "utf-8-sig"
    return "utf-8-sig"


def _require_lines(path: Path) -> None:
    """Refuse a file that no memory holds: a line of gigabytes, or a packed file of a few MB that unpacks to many GB."""
    stat = path.stat()
    problem, fix = _find_size_problem(path, stat.st_size, stat.st_mtime_ns)
    if problem:
        raise DataError(problem, value=path, fix=fix)


@lru_cache(maxsize=16)
def _find_size_problem(path: Path, size: int, changed: int) -> tuple[str, str]:
    from pandas.io.common import get_handle

    with get_handle(path, "rb", compression="infer", is_text=False) as unpacked:
        line = whole = 0
        while piece := unpacked.handle.read(PIECE):
            assert isinstance(piece, bytes)
            whole += len(piece)
            last = piece.rfind(b"\n")
            line = line + len(piece) if last < 0 else len(piece) - last - 1
            if line > MOST_LINE:
                return (
                    f"has a line of more than {MOST_LINE >> 20} MB",
                    "it is no table, or its lines end in another way",
                )
            if whole > max(size, MOST_UNPACKED):
                return f"unpacks to more than {MOST_UNPACKED >> 30} GB", "unpack it, and give a part of its rows"
    return "", ""


def _is_windows(piece: bytes) -> bool:
    """Return whether bytes may be text as Excel writes it on Windows: no damaged UTF-8, and no packed or other file."""
    return CONTROL.search(piece) is None and UTF8.search(piece) is None


def _header(path: Path) -> tuple[str, list[str]]:
    """Return the separator of the fields, and the names of the columns."""
    import pandas as pd

    separator = _separator(path)
    first = pd.read_csv(path, header=None, nrows=1, **_options(path, separator)).iloc[0]
    cells = ["" if pd.isna(cell) else str(cell).strip() for cell in first]
    return separator, _distinct(path, [cell or f"Unnamed: {i}" for i, cell in enumerate(cells)])


def _separator(path: Path) -> str:
    """Return the separator that cuts the header and the first rows into equally many fields.

    Where that is so of several, commas come last: names and numbers have them, too. Where it is so of none, it is the
    one that most rows agree with, then the one that cuts the header into most names.
    """
    lines = _first_lines(path)
    widths = {separator: _widths(lines, separator) for separator in SEPARATORS}
    fitting = [separator for separator in SEPARATORS if widths[separator][0] > 1] or SEPARATORS

    def fitness(separator: str) -> tuple[float, bool, int]:
        header, *rows = widths[separator]
        agreeing = sum(width == header for width in rows) / max(1, len(rows))
        return agreeing, agreeing == 1 and separator != "," and header > 1, header

    return max(fitting, key=fitness)


def _widths(lines: list[str], separator: str) -> list[int]:
    """Return the numbers of fields of the header and the first rows; at least that of the header."""
    records = [len(record) for record in csv.reader(lines, delimiter=separator, skipinitialspace=True)]
    whole = records if len(lines) < LINES else records[:-1]  # a quoted field may have been cut
    return whole or [1]


def _first_lines(path: Path) -> list[str]:
    """Return the first lines that are not blank, as they are, of a file that may be packed."""
    lines = _lines(path, LINES)
    first = list(islice((line for line in lines if line.strip()), LINES))
    lines.close()
    return first


def _lines(path: Path, block: int) -> Generator[str, None, None]:
    """Read the lines of a file that may be packed, so many at a time."""
    import pandas as pd

    raw = {**_options(path, UNUSED), "quoting": csv.QUOTE_NONE, "skipinitialspace": False, "skip_blank_lines": False}
    with pd.read_csv(path, header=None, usecols=[0], chunksize=block, **raw) as blocks:
        for lines in blocks:
            yield from (f"{line}\n" for line in lines[0].fillna(""))


def _csv_problem(path: Path) -> tuple[str, str] | None:
    """Find the line that pandas could not read: the problem and its fix, None if there is no such line.

    Python's csv module reads the lines one by one. If it ends in mid-record, a quotation mark was not closed.
    """
    ended = False

    def lines() -> Iterator[str]:
        nonlocal ended
        yield from _lines(path, BLOCK_ROWS)
        ended = True

    limit = csv.field_size_limit(LONGEST_FIELD)
    try:
        reader = csv.reader(lines(), delimiter=_separator(path), skipinitialspace=True)
        width = 0
        for record in reader:
            if ended:
                return "a quotation mark is opened and not closed", "close or remove it"
            width = width or len(record)
            if len(record) > width:
                problem = f"line {reader.line_num} has {len(record)} fields where {width} are expected"
                return problem, "mend it, or quote cells with the separator in them"
    except (ValueError, EOFError, OSError, csv.Error, zlib.error):
        return None  # the lines cannot be read either: what pandas says is told
    finally:
        csv.field_size_limit(limit)
    return None


def _is_syntax_error(error: Exception) -> bool:
    import pandas as pd

    return isinstance(error, pd.errors.ParserError)


def _parquet_blocks(path: Path, rows: int) -> Iterator[pd.DataFrame]:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            names = _distinct(path, [str(name).strip() for name in file.schema_arrow.names])
            empty = True
            for batch in file.iter_batches(rows):
                # whole numbers beside missing ones stay whole: floats do not tell long ones apart
                block = pa.Table.from_batches([batch]).to_pandas(ignore_metadata=True, integer_object_nulls=True)
                block.columns = names
                empty = False
                yield block
            if empty:
                block = file.schema_arrow.empty_table().to_pandas(ignore_metadata=True)
                block.columns = names
                yield block
    except pa.ArrowException as error:
        raise DataError(f"cannot be read as Parquet: {_first_line(error)}", value=path) from error


def stored_types(path: Path) -> dict[str, Any]:
    """Return the types of a Parquet file's columns; none of a CSV file, whose cells are texts."""
    if not is_parquet(path):
        return {}
    from pyarrow.parquet import read_schema
    from pyarrow.types import is_dictionary

    types = {field.name.strip(): field.type for field in read_schema(path)}
    return {name: kind.value_type if is_dictionary(kind) else kind for name, kind in types.items()}


def _distinct(path: Path, names: list[str]) -> list[str]:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        fix = f"its first line looks like data: {FIX}" if are_data(names) else "rename them"
        raise DataError(f"has several columns called {quoted_names(repeated)}", value=path, fix=fix)
    return names


def _require_file(path: Path) -> None:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is not there"
        raise DataError(what, value=path, fix="give a CSV or Parquet file")


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Turn whatever a parser raises into one line that names the file."""
    try:
        yield
    except DataError:
        raise
    except UnicodeDecodeError as error:
        what = f"no {'UTF-16' if '16' in error.encoding else 'UTF-8'} text (byte {error.object[error.start]:#04x})"
        raise DataError(f"is {what}", value=path, fix="save it as UTF-8") from error
    except (ValueError, OverflowError, EOFError, LookupError, csv.Error, zlib.error) as error:
        problem = _csv_problem(path) if _is_syntax_error(error) else None
        if problem is not None:
            raise DataError((":", f" {problem[0]}"), value=path, fix=problem[1]) from error
        raise DataError(f"cannot be read as a table: {_first_line(error)}", value=path) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or _first_line(error)}", value=path) from error


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
