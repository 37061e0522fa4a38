"""Pickles that call functions, by the known ways: all are refused in one line, and nothing is called."""

import os
import pickle
import struct
import tempfile
from pathlib import Path

import pytest

from r2d2net.data.formats.restricted_pickle import read_pickle
from r2d2net.errors import DataError

MARKER = Path(tempfile.gettempdir()) / f"r2d2net-gadget-{os.getpid()}"  # what a gadget that is called leaves
TOUCH = f"touch {MARKER}"
CALLS = [
    *("os system", "posix system", "nt system", "os popen", "os execv", "os remove", "os _exit", "os.path join"),
    *("builtins eval", "builtins exec", "builtins compile", "builtins __import__", "builtins open", "builtins getattr"),
    *("__builtin__ eval", "builtins bytearray", "builtins type", "builtins map", "builtins filter", "builtins dict"),
    *("subprocess Popen", "subprocess check_output", "commands getoutput", "pty spawn", "shutil rmtree", "shutil copy"),
    *("importlib import_module", "runpy run_path", "runpy _run_code", "code interact", "timeit timeit", "pdb run"),
    *("operator attrgetter", "operator methodcaller", "functools partial", "functools reduce", "itertools starmap"),
    *("webbrowser open", "urllib.request urlopen", "socket create_connection", "http.client HTTPConnection"),
    *("ctypes CDLL", "ctypes.util find_library", "pickle loads", "_pickle loads", "cloudpickle loads", "marshal loads"),
    *(
        "types FunctionType",
        "types CodeType",
        "copyreg _reconstructor",
        "copyreg __newobj__",
        "copy_reg _reconstructor",
    ),
    *("torch load", "torch.serialization load", "torch.hub load", "torch._utils _rebuild_tensor_v2", "torch.jit load"),
    *("numpy load", "numpy.core.multiarray scalarx", "numpy.f2py compile", "numpy.testing._private.utils runstring"),
    *("numpy.lib.npyio load", "numpy.ctypeslib load_library", "numpy.distutils.exec_command exec_command"),
    *("numpy __builtins__", "numpy os.system", "numpy.random __randomstate_ctor", "numpy core.multiarray._reconstruct"),
    *(
        "pandas read_pickle",
        "joblib load",
        "joblib.numpy_pickle NumpyArrayWrapper",
        "asyncio.unix_events _UnixSubprocess",
    ),
    *(
        "collections OrderedDict",
        "bdb Bdb",
        "cProfile run",
        "venv create",
        "logging.config _resolve",
        "lib2to3.pgen2 x",
    ),
    *(
        "_codecs decode",
        "_codecs lookup",
        "codecs encode",
        "codecs open",
        "builtins bytesx",
        "sys exit",
        "signal alarm",
    ),
]


def name_of(module, name, protocol):
    """The opcodes that put a name on the stack, as protocols 0 and 4 write them."""
    if protocol == 0:
        return f"c{module}\n{name}\n".encode()
    texts = [b"\x8c" + bytes([len(text.encode())]) + text.encode() for text in (module, name)]
    return b"\x80\x04" + texts[0] + texts[1] + b"\x93"


def gadgets():
    touch = f"(S'{TOUCH}'\ntR.".encode()
    for call in CALLS:
        module, _, name = call.partition(" ")
        for protocol in (0, 4):
            yield f"{call} {protocol}", name_of(module, name, protocol) + touch
        yield f"{call} inst", f"(S'{TOUCH}'\ni{module}\n{name}\n.".encode()
        yield f"{call} obj", b"(" + name_of(module, name, 0) + b"S'touch'\no."
        yield f"{call} newobj", name_of(module, name, 0) + b"(S'touch'\nt\x81."
    array, dtype = b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy\ndtype\n"
    yield "state of a function", array + b"}(S'_call'\ncos\nsystem\nub."
    yield "state of a known function", array + b"}(S'_call'\n" + array + b"ub."
    yield "slots of a function", array + b"N}(S'_call'\nNu\x86b."
    yield "objects in an array", dtype + b"(S'O8'\nI0\nI1\ntR."
    yield "code in an array's state", array + b"(I1\ntR(I1\n(I1\ntcos\nsystem\nI00\nS'x'\ntb."
    yield "an array of 2^40", array + b"(I1\ntR(I1\n(L1099511627776L\nt" + dtype + b"(S'u1'\ntRI00\nS'x'\ntb."
    yield "an extension", b"\x82\x01."
    yield "a persistent id", b"Pos.system\n."
    yield "a persistent id from the stack", b"S'x'\nQ."
    yield "a text of 2^62 bytes", b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"x."
    yield "a frame of 2^62 bytes", b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"N."
    yield "bytes of 2^31", b"\x80\x04B" + struct.pack("<I", (1 << 31) - 1) + b"x."
    yield "a memo far away", b"\x80\x04Nr" + struct.pack("<I", (1 << 32) - 2) + b"h\x07."
    yield "an out-of-band buffer", b"\x80\x05\x97."
    yield "deep lists", b"(l" * 200_000 + b"a" * 199_999 + b"."
    yield "a stack that ends", b"(tR."
    yield "nothing", b""
    yield "no end", b"N"


GADGETS = dict(gadgets())


def test_no_gadget_is_called():
    refused, harmless = 0, []
    for what, content in GADGETS.items():
        try:
            harmless.append((what, read_pickle(content, Path("file.pkl"))))
        except DataError as error:
            message = str(error)
            assert len(message.splitlines()) == 1, what
            refused += 1
        assert not MARKER.exists(), what
    print(f"{len(GADGETS)} gadgets: {refused} refused")
    assert refused >= len(GADGETS) - 1 > 400
    for what, value in harmless:  # nothing but containers and plain values may come out
        assert type(value) in (list, tuple, dict, int, str, bytes, type(None)), what


def test_the_corpus_would_work_on_an_ordinary_unpickler(monkeypatch):
    called = []
    monkeypatch.setattr("posix.system", called.append)
    pickle.loads(GADGETS["posix system 0"])
    pickle.loads(GADGETS["posix system 4"])
    assert called == [TOUCH] * 2


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_cut_pickles_are_one_line(cut):
    content = pickle.dumps({"data": b"x" * 40, "labels": [1, 2]})[:cut]
    with pytest.raises(DataError) as error:
        read_pickle(content, Path("file.pkl"))
    assert len(str(error.value).splitlines()) == 1
