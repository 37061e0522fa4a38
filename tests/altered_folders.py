"""Saved folders altered at random: by accident, as disks and people do it, or on purpose, with right digests.

`python altered_folders.py WHERE HOW COUNT SEED` alters copies of three folders (a posterior, an estimator, a run of
`r2d2net fit`), uses each and prints how that ended:

    accidents   bits, bytes, lengths, files exchanged, missing, or replaced by pipes and folders: all must be refused
    one part    a part is altered and its own digest is right, the manifest's is not: all must be refused
    signed      all digests are right, and what they sign cannot be: refused, or used with the same predictions

An alteration of the last kind changes types, shapes, names and the finiteness of numbers, never a number to another,
which nothing but a signature of its owner could tell. For the same reason a setting that is taken out, which earlier
versions did not have, may stand for its default.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load, save
from torch import nn

import r2d2net as rn
from r2d2net import R2D2Classifier, checkpoint
from r2d2net.errors import R2D2NetError
from signed_folders import sign, sign_tensors

SECONDS = 60  # of a load and a prediction
JUNK = (None, True, "", "a", "é" * 300, [], {}, [[1]], {"type": "R2D2", "arguments": {}}, "NaN", "../../etc/passwd")
NUMBERS = (-1, 1 << 40, 1 << 70, 1.5, float("nan"), float("inf"), -float("inf"))
X = torch.randn(30, 2, generator=torch.Generator().manual_seed(1))
Y = 3 * X[:, 0] + X[:, 1]


def network():
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))


def make(folder, slope):
    """Make the three folders and a table."""
    y = slope * Y
    rn.fit(rn.BayesianModel(network()), (X, y), epochs=2, verbose=False, checkpoint_to=folder / "posterior")
    labels = np.where(y > 0, "yes", "no")
    model = R2D2Classifier((3,), epochs=2, draws=5, random_state=0).fit(X.numpy(), labels)
    model.save(folder / "estimator")
    rows = zip(X.tolist(), y.tolist(), strict=True)
    lines = [f"{a:.3f},{'uvw'[i % 3]},2020-01-{1 + i % 28:02d},{target:.3f}" for i, ((a, _), target) in enumerate(rows)]
    (folder / "rows.csv").write_text("\n".join(["a,b,c,y", *lines]) + "\n")
    assert in_command(["fit", str(folder / "rows.csv"), "--target", "y", "--hidden", "3", "--epochs", "2", "--draws",
                       "5", "--no-baselines", "--quiet", "--out", str(folder / "run")]) is not None  # fmt: skip


def in_command(words):
    """Run a command in this process; None where it says in one line why not."""
    from table_runs import command

    ended = command(*words)
    if ended.code == 0:
        return ended.out
    assert ended.code == 2, (words, ended)
    assert ended.error.startswith("error: "), ended.error
    assert len(ended.error.splitlines()) == 1, ended.error
    return None


def use(kind, folder, rows):
    """Predict by a folder; None where it is refused in one line."""
    if kind == "run":
        return in_command(["predict", str(folder), str(rows), "--quiet"])
    try:
        if kind == "posterior":
            found = rn.load(folder, network()).predict(X, 5, seed=0).mean.numpy().tobytes()
        else:
            found = R2D2Classifier.load(folder).predict_proba(X.numpy()).tobytes()
    except R2D2NetError as error:
        message = str(error)
    else:
        return found
    assert len(message.splitlines()) == 1, message
    return None


def files_of(folder):
    """All files that the manifests of a folder vouch for, and the manifests."""
    found = []
    for manifest in folder.rglob("manifest.json"):
        listed = json.loads(manifest.read_text())["parts"]
        found += [manifest, *(manifest.parent / name for name in listed)]
    return sorted(set(found))


def accident(draw, folder, other):
    path = draw.choice(files_of(folder))
    content = path.read_bytes()
    place = draw.randrange(len(content))
    how = draw.choice(["bit", "byte", "cut", "more", "zeros", "block", "missing", "other", "fifo", "folder", "swap"])
    altered = content
    if how == "bit":
        altered = content[:place] + bytes([content[place] ^ (1 << draw.randrange(8))]) + content[place + 1 :]
    elif how == "byte":
        altered = content[:place] + draw.randbytes(1) + content[place + 1 :]
    elif how == "cut":
        altered = content[:place]
    elif how == "more":
        altered = content + draw.choice([b"\0", b"\n", b" ", draw.randbytes(50)])
    elif how == "zeros":
        altered = content[:place] + bytes(len(content) - place)
    elif how == "block":
        altered = content[:place] + draw.randbytes(64) + content[place + 64 :]
    elif how == "other":
        altered = (other / path.relative_to(folder)).read_bytes()
    elif how == "swap":
        altered = draw.choice(files_of(folder)).read_bytes()
    if how in ("missing", "fifo", "folder"):
        path.unlink()
        if how == "fifo":
            os.mkfifo(path)
        elif how == "folder":
            path.mkdir()
        return f"{how} {path.name}", True
    path.write_bytes(altered)
    return f"{how} {path.name}", altered != content


def places_of(tree, path=()):
    """All places in a tree of JSON."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places_of(value, (*path, key))


def alter_json(draw, tree):
    places = list(places_of(tree))
    *above, last = draw.choice(places)
    parent = tree
    for key in above:
        parent = parent[key]
    value = parent[last]
    how = draw.choice(["lost", "junk", "junk", "number", "deep", "named"])
    if how == "lost":
        del parent[last]
    elif how == "number" and isinstance(value, (int, float)):
        parent[last] = draw.choice(NUMBERS)
    elif how == "deep":
        parent[last] = json.loads("[" * 900 + "]" * 900)
    elif how == "named" and isinstance(parent, dict):
        parent[f"{last}é"] = parent.pop(last)
    else:
        parent[last] = draw.choice([junk for junk in JUNK if type(junk) is not type(value)])
    return f"{how} {'.'.join(map(str, (*above, last)))[:60]}"


def alter_tensor(draw, tensors):
    name = draw.choice(sorted(tensors))
    tensor = tensors[name]
    how = draw.choice(["nan", "inf", "shape", "flat", "dtype", "lost", "named", "empty", "more", "complex"])
    if how in ("nan", "inf") and tensor.is_floating_point() and tensor.numel():
        tensor = tensor.clone()
        tensor.view(-1)[draw.randrange(tensor.numel())] = float(how)
        tensors[name] = tensor
    elif how == "shape":
        tensors[name] = tensor.expand(draw.choice([2, 3]), *tensor.shape).contiguous()
    elif how == "flat":
        tensors[name] = tensor.reshape(-1)[: max(1, tensor.numel() - 1)].clone()
    elif how == "dtype":
        others = [torch.float16, torch.float64, torch.int64, torch.bool, torch.uint8, torch.bfloat16]
        tensors[name] = tensor.to(draw.choice([other for other in others if other != tensor.dtype]))
    elif how == "lost":
        del tensors[name]
    elif how == "named":
        tensors[f"{name}x"] = tensors.pop(name)
    elif how == "empty":
        tensors[name] = tensor.reshape(-1)[:0].clone()
    elif how == "complex":
        tensors[name] = tensor.to(torch.complex64)
    else:
        how, tensors[f"more/{name}"] = "more", tensor.clone()
    return f"{how} {name}"


def alter(draw, folder):
    """Alter what a part says; its own digest, if it has one, is right."""
    path = draw.choice([path for path in files_of(folder) if path.name != "manifest.json"])
    content = path.read_bytes()
    if path.suffix == ".json":
        tree = json.loads(content)
        what = alter_json(draw, tree)
        path.write_text(json.dumps(tree, indent=2) + "\n")
    else:
        length = int.from_bytes(content[:8], "little")
        described = json.loads(content[8 : 8 + length])
        header, tensors = json.loads(described["__metadata__"]["r2d2net"]), dict(load(content))
        kind = draw.random()
        if kind < 0.15:  # what safetensors itself reads
            place = draw.choice(["header", "offsets", "text", "length"])
            what = f"raw {place}"
            if place == "length":
                content = draw.choice([0, 7, 1 << 40, (1 << 64) - 1, length + 8]).to_bytes(8, "little") + content[8:]
            elif place == "offsets":
                name = draw.choice([name for name in described if name != "__metadata__"])
                described[name]["data_offsets"] = [draw.choice([-1, 0, 1 << 50]), draw.choice([0, 5, 1 << 60])]
                text = json.dumps(described).encode()
                content = len(text).to_bytes(8, "little") + text + content[8 + length :]
            else:
                described["__metadata__"]["r2d2net"] = draw.choice(["", "[", "[]", "3", "[" * 100_000, '{"format": 1}'])
                text = json.dumps(described).replace('": ', '":').encode()
                content = len(text).to_bytes(8, "little") + text + content[8 + length :]
        else:
            what = alter_json(draw, header) if kind < 0.5 and header else alter_tensor(draw, tensors)
            text = json.dumps(header)
            content = bytes(save(tensors, metadata={"r2d2net": text, "sha256": checkpoint.ZEROS}))
        path.write_bytes(sign_tensors(path, content))
    return f"{what} of {path.name}"


def resign(folder):
    for manifest in sorted(folder.rglob("manifest.json"), key=lambda path: -len(path.parts)):  # the model's first
        sign(manifest.parent)


def hang(*_):
    raise RuntimeError(f"a folder took more than {SECONDS} s")


def main(place, how, count, seed):
    """Alter and use so many folders, and count."""
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", rn.errors.FitWarning)
    signal.signal(signal.SIGALRM, hang)
    draw = random.Random(seed)
    for name in ("made", "other"):
        if not (place / name).exists():
            (place / name).mkdir()
            make(place / name, 1 if name == "made" else -5)
    made, rows = place / "made", place / "made" / "rows.csv"
    kinds = ("posterior", "estimator", "run")
    expected = {kind: use(kind, made / kind, rows) for kind in kinds}
    assert all(found is not None for found in expected.values())
    counts = dict.fromkeys(("refused", "same", "default", "changed", "failed", "not altered"), 0)
    for number in range(count):
        kind = kinds[number % 3]
        folder = place / f"altered-{os.getpid()}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(made / kind, folder)
        if how == "accidents":
            what, is_altered = accident(draw, folder, place / "other" / kind)
            if not is_altered:
                counts["not altered"] += 1
                continue
        else:
            before = {path: path.read_bytes() for path in files_of(folder)}
            what = alter(draw, folder)
            if all(path.read_bytes() == content for path, content in before.items()):  # of an empty tensor, say
                counts["not altered"] += 1
                continue
            if how == "signed":
                resign(folder)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            found = use(kind, folder, rows)
            end = "refused" if found is None else "same" if found == expected[kind] else "changed"
            if end == "changed" and what.startswith(("lost ", "named ")):
                end = "default"
        except BaseException as error:
            end = "failed"
            print(f"{kind}: {what}: {type(error).__name__}: {str(error)[:300]}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        counts[end] += 1
        if end == "changed" or (end == "same" and how != "signed"):
            print(f"{kind}: {what}: {end}")
    print(f"{how}:", ", ".join(f"{number} {end}" for end, number in counts.items()))
    return counts


def run(place, how, count, seed, timeout=3600):
    """Do that in a process of bounded memory, and return the counts."""
    command = f"ulimit -v 12000000; exec nice -n 10 {sys.executable} {__file__} {place} '{how}' {count} {seed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
