"""`fetch`: public originals over HTTPS, by pooch, with pinned checksums and resumed downloads.

pooch checks the checksum and puts the file in its place. Its own downloader can neither resume a download nor refuse a
redirection to another protocol, so `Download` takes that part: it writes to a hidden `.NAME.part` beside the final
place, keeps an interrupted download and continues it by an HTTP range request. A complete file with a wrong checksum
is deleted. Archives are kept as they are: `load` reads inside them, so nothing is unpacked.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from r2d2net.data.entry import Remote
from r2d2net.data.loading import known
from r2d2net.data.verifying import checksum
from r2d2net.errors import DataError, ParameterError, Shown

CHUNK = 1 << 20
Progress = Callable[[int, int | None], None]  # called with the bytes so far and in total


def fetch(name: str, root: str | Path, progress: Callable[[str], Progress] | None = None) -> list[Path]:
    """Download the originals of a data set into its folder below ``root``, unless they exist already.

    Args:
        name: The name of the set.
        root: The folder that holds the sets' folders; created if missing.
        progress: Called with the name of each file; returns the function that is called with the number of bytes so
            far and in total.

    Returns:
        The paths of the files.

    Raises:
        ParameterError: If the set is not known or has no public files.
        DataError: If a download fails, or a file exists with another checksum.
    """
    entry = known(name, root)
    if entry.bundled:
        fix = "load it without fetching"
        raise ParameterError(f"needs no files ({entry.note})", value=Shown(name), fix=fix)
    if not entry.remotes:
        files = " and ".join(entry.preferred(entry.splits[0]).files[entry.splits[0]])
        fix = f"put {files} into {Path(root) / entry.folders[0]} yourself"
        raise ParameterError("cannot be fetched", value=Shown(name), fix=fix)
    folder = Path(root).expanduser() / entry.folders[0]
    return [fetch_file(r, folder, Download(progress=progress(r.file) if progress else None)) for r in entry.remotes]


def fetch_file(remote: Remote, folder: Path, download: Download | None = None) -> Path:
    """Download one file and check it; an existing file with another checksum is kept and reported."""
    import pooch

    target = folder / remote.file
    algorithm, _, expected = remote.checksum.partition(":")
    by_hand = f"put {target.name} ({algorithm} {expected}) into {target.parent} yourself"
    if target.exists():
        if checksum(target, algorithm) == expected:
            return target
        problem = f"exists with another checksum than {remote.checksum}"
        raise DataError(problem, value=target, fix="remove it to fetch it again")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        pooch.get_logger().setLevel("ERROR")
        pooch.retrieve(remote.url, remote.checksum, target.name, target.parent, downloader=download or Download())
    except ValueError as error:  # what pooch raises for a wrong checksum
        problem = "sent another file than pinned, nothing was kept"
        raise DataError(problem, value=Shown(remote.url), fix=by_hand) from error
    except (urllib.error.URLError, HTTPException, OSError) as error:
        plain = error if isinstance(error, urllib.error.HTTPError) else getattr(error, "reason", error)
        reason = " ".join(str(plain).split())
        fix = f"try again, or {by_hand}"
        raise DataError(f"could not be fetched ({reason})", value=Shown(remote.url), fix=fix) from error
    return target


@dataclass(frozen=True)
class Download:
    """A pooch downloader that continues where the last attempt stopped.

    Attributes:
        schemes: The allowed protocols, for redirections too. Only tests allow more.
        timeout: The number of seconds to wait for an answer.
        progress: Called with the number of bytes so far and in total.
    """

    schemes: tuple[str, ...] = ("https",)
    timeout: float = 30.0
    progress: Progress | None = None

    def __call__(self, url: str, output_file: Any, pooch: Any) -> None:
        output = Path(output_file)
        partial = output.parent / f".{Path(urlsplit(url).path).name}.part"
        self._stream(url, partial)
        os.replace(partial, output)

    def _stream(self, url: str, partial: Path) -> None:
        start = partial.stat().st_size if partial.exists() else 0
        request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
        self._check(url)
        opener = urllib.request.build_opener(_Redirect(self._check))
        try:
            response = opener.open(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 416 or not start:  # 416: nothing is left after `start`, or the file has shrunk
                raise
            partial.unlink()
            return self._stream(url, partial)
        with response:
            resumed = response.status == 206
            length = response.headers.get("Content-Length")
            done = start if resumed else 0
            total = done + int(length) if length else None
            with partial.open("ab" if resumed else "wb") as file:
                while chunk := response.read(CHUNK):
                    file.write(chunk)
                    done += len(chunk)
                    if self.progress:
                        self.progress(done, total)
        if total is not None and done != total:
            raise OSError(f"the connection broke after {done} of {total} bytes; the next attempt continues there")
        return None

    def _check(self, url: str) -> None:
        if urlsplit(url).scheme not in self.schemes:
            raise OSError(f"{url} is not an address of {' or '.join(self.schemes)}")


class _Redirect(urllib.request.HTTPRedirectHandler):
    """Follows redirections to allowed protocols only."""

    def __init__(self, check: Callable[[str], None]) -> None:
        self.check = check

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        try:
            self.check(newurl)
        except OSError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)
