"""One-line errors for damaged files: whatever a parser raises becomes a `DataError` that names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from r2d2net.errors import DataError, R2D2NetError

FIX = "put an intact copy in its place"


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn any failure to read ``path`` as ``kind`` into a one-line `DataError`.

    Parsers of damaged files raise almost anything (struct.error, zlib.error, EOFError, KeyError, IndexError...), so
    everything is converted here except errors of this package that name the file already.
    """
    try:
        yield
    except DataError as error:
        if str(path) in str(error):
            raise
        raise damaged(path, kind, error) from error
    except R2D2NetError:
        raise
    except MemoryError as error:  # a damaged count may request any amount
        raise damaged(path, kind, "it asks for more memory than there is") from error
    except OSError as error:
        if error.errno is None:  # not from the system: Pillow and gzip raise OSError for bad content
            raise damaged(path, kind, error) from error
        reason = (error.strerror or str(error)).lower()
        raise DataError(f"cannot be read ({reason})", value=path, fix=FIX) from error
    except Exception as error:
        raise damaged(path, kind, error) from error


def damaged(path: Path, kind: str, reason: object) -> DataError:
    """Return the error for a file that does not hold what is expected, with the reason in one line."""
    line = " ".join(str(reason).split())[:200] or type(reason).__name__
    return DataError(f"is not {kind}, or damaged ({line})", value=path, fix=FIX)
