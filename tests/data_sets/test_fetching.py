"""Downloads from a server of our own on this machine: checked, resumed, refused."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from r2d2net.data.entry import Remote
from r2d2net.data.fetching import Download, fetch, fetch_file
from r2d2net.data.known_sets import PUBLIC
from r2d2net.errors import DataError, ParameterError

CONTENT = bytes(range(256)) * 4000
PLAIN = Download(schemes=("http",), timeout=5)


class Server(BaseHTTPRequestHandler):
    """Serves CONTENT; /cut breaks off half-way unless asked for a range, /stubborn knows no ranges."""

    asked: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        given = self.headers.get("Range")
        Server.asked.append(given)
        if self.path == "/missing":
            return self.send_error(404)
        if self.path in ("/elsewhere", "/far"):
            self.send_response(302)
            self.send_header("Location", "/file" if self.path == "/far" else "ftp://127.0.0.1/file")
            return self.end_headers()
        start = int(given.removeprefix("bytes=").removesuffix("-")) if given and self.path != "/stubborn" else 0
        if start >= len(CONTENT):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        end = len(CONTENT) // 2 if self.path in ("/cut", "/stubborn") and not given else len(CONTENT)
        self.wfile.write(CONTENT[start:end])
        return None

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def base() -> Iterator[str]:
    Server.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def remote(url: str, content: bytes = CONTENT, algorithm: str = "sha256") -> Remote:
    return Remote("sub/file.bin", url, f"{algorithm}:{hashlib.new(algorithm, content).hexdigest()}")


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_a_file_is_fetched_once(base: str, tmp_path: Path, algorithm: str) -> None:
    seen: list[tuple[int, int | None]] = []
    download = Download(schemes=("http",), progress=lambda done, total: seen.append((done, total)))
    path = fetch_file(remote(f"{base}/far", algorithm=algorithm), tmp_path, download)
    assert path == tmp_path / "sub" / "file.bin"
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    count = len(Server.asked)
    assert fetch_file(remote(f"{base}/far", algorithm=algorithm), tmp_path, download) == path
    assert len(Server.asked) == count
    assert [p.name for p in path.parent.iterdir()] == ["file.bin"]


def test_a_broken_download_goes_on_where_it_stopped(base: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="broke after 512000 of 1024000 bytes"):
        fetch_file(remote(f"{base}/cut"), tmp_path, PLAIN)
    (part,) = (tmp_path / "sub").iterdir()
    assert part.read_bytes() == CONTENT[:512_000]
    assert fetch_file(remote(f"{base}/cut"), tmp_path, PLAIN).read_bytes() == CONTENT
    assert Server.asked == [None, "bytes=512000-"]


def test_a_server_without_ranges_starts_again(base: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".stubborn.part").write_bytes(b"old")
    assert fetch_file(remote(f"{base}/stubborn"), tmp_path, PLAIN).read_bytes() == CONTENT


def test_a_partial_file_longer_than_the_original_is_dropped(base: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".file.part").write_bytes(CONTENT + b"more")
    assert fetch_file(remote(f"{base}/file"), tmp_path, PLAIN).read_bytes() == CONTENT


def test_a_wrong_checksum_is_refused_and_nothing_kept(base: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"sent another file than pinned, nothing was kept: put file\.bin") as caught:
        fetch_file(remote(f"{base}/file", b"something else"), tmp_path, PLAIN)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "sub").iterdir()) == []


def test_a_file_of_another_content_is_left_alone(base: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file.bin").write_bytes(b"precious")
    with pytest.raises(DataError, match=r"another checksum .* remove it to fetch it again"):
        fetch_file(remote(f"{base}/file"), tmp_path, PLAIN)
    assert (tmp_path / "sub" / "file.bin").read_bytes() == b"precious"
    assert Server.asked == []


@pytest.mark.parametrize("path", ["/missing", "/elsewhere"])
def test_what_cannot_be_fetched_is_said_in_one_line(base: str, tmp_path: Path, path: str) -> None:
    with pytest.raises(DataError) as caught:
        fetch_file(remote(f"{base}{path}"), tmp_path, PLAIN)
    message = str(caught.value)
    assert "\n" not in message
    assert f"into {tmp_path / 'sub'} yourself" in message
    assert "file.bin" in message
    assert ("404" if path == "/missing" else "is not an address of http") in message


def test_only_https(base: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not an address of https"):
        fetch_file(remote(f"{base}/file"), tmp_path)
    assert Server.asked == []
    for entry in PUBLIC.values():
        for pinned in entry.remotes:
            assert pinned.url.startswith("https://")
            algorithm, digest = pinned.checksum.split(":")
            assert len(bytes.fromhex(digest)) == hashlib.new(algorithm).digest_size


def test_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with pytest.raises(DataError) as caught:
        fetch("mnist", tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert "put train-images-idx3-ubyte.gz (sha256 440fcabf" in message
    assert f"into {tmp_path / 'mnist'} yourself" in message


def test_sets_without_public_files(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"prostate cannot be fetched: put prostate\.data into"):
        fetch("prostate", tmp_path)
    with pytest.raises(ParameterError, match=r"diabetes needs no files \(comes with scikit-learn\): load it"):
        fetch("diabetes", tmp_path)
    with pytest.raises(ParameterError, match="no data set known here"):
        fetch("nope", tmp_path)
