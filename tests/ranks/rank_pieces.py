"""Pieces of code that processes run together; each leaves what it found under its name in ``told``."""

from __future__ import annotations

ALGORITHMS = """
def algorithms():
    x, y = rows()
    gaussian = rn.priors.Gaussian(0.5)
    found = {}
    for name, kind in [
        ("svgi", {}), ("svgi", {"estimator": "weights"}), ("svgi", {"estimator": "weights", "draws": 2, "clip": 1.0}),
        ("cavi", {}), ("svi", {}), ("mfvi", {}), ("radial", {}), ("map", {}), ("mcdropout", {}), ("edl", {}),
        ("dpn", {}), ("sgld", {"chains": 1}), ("sghmc", {"chains": 1}), ("hmc", {"chains": 1}),
    ]:
        classes, few = name in ("edl", "dpn"), name in ("mfvi", "map", "mcdropout", "edl", "dpn", "hmc")
        method = type(rn.inference.base.method_named(name))(**kind)
        torch.manual_seed(5)
        layers = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2 if classes else 1)
        net = nn.Linear(4, 1) if name == "hmc" else nn.Sequential(*layers)
        prior = {"prior": gaussian, "bias": gaussian} if few else {}
        model = rn.BayesianModel(net, likelihood=rn.likelihoods.Categorical() if classes else None, **prior)
        size = None if name == "hmc" else 60
        posterior = rn.fit(model, (x, (y > 0).long() if classes else y), method, epochs=6, seed=1, batch_size=size)
        found[f"{name} {kind}"] = bits(posterior)
    method = rn.inference.SVGI(estimator="weights")
    apart = rn.fit(rn.BayesianModel(nn.Linear(4, 1)), (x, y), method, epochs=6, seed=1, rank_draws="per-rank")
    shared = rn.fit(rn.BayesianModel(nn.Linear(4, 1)), (x, y), method, epochs=6, seed=1, rank_draws="shared")
    return {**found, "apart": bits(apart), "shared": bits(shared)}
told["algorithms"] = algorithms()
"""

LINEAR = """
def linear(size, epochs, estimator, draws=None):
    x, y = rows(400, 3)
    gaussian = rn.priors.Gaussian(1.0)
    model = rn.BayesianModel(nn.Linear(3, 1), gaussian, rn.likelihoods.Gaussian(noise=0.3), bias=gaussian)
    method = rn.inference.MFVI(lr=0.3, warm_up=0.0, estimator=estimator)
    options = dict(epochs=epochs, batch_size=size, seed=2, standardize=False, rank_draws=draws)
    posterior = rn.fit(model, (x, y), method, **options)
    design = torch.cat([x, torch.ones(400, 1)], 1).double()
    precision = design.T @ design / 0.09 + torch.eye(4).double()
    exact = torch.linalg.solve(precision, design.T @ y.double() / 0.09)
    deviation = precision.diagonal().rsqrt()
    shift = ((posterior.state.mean - exact) / deviation).abs().max()
    stretch = (posterior.source.deviation() / deviation - 1).abs().max()
    return {"bits": bits(posterior), "shift": float(shift), "stretch": float(stretch)}
"""

QUICK_LINEAR = LINEAR + "told['linear'] = linear(100, 250, 'local')\n"

SPLIT = """
def split():
    x, y = rows(200)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    method = rn.inference.SVGI(estimator="weights")
    state = rn.fit(rn.BayesianModel(net), (x, y), method, epochs=15, batch_size=50, seed=0).state
    return state.mean.tolist() + state.noise["variance"].tolist()
told["split"] = split()
"""

SEVERAL = """
def several():
    x, y = rows(120)
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1))
    gaussian, few = rn.priors.Gaussian(0.5), dict(epochs=3, jobs=1)
    flat = rn.BayesianModel(net, gaussian, bias=gaussian)
    ensemble = rn.fit(flat, (x, y), rn.inference.DeepEnsemble(members=9), **few)
    chosen = rn.fit(rn.BayesianModel(net), (x, y), restarts=3, seed=4, **few)
    chains = rn.fit(rn.BayesianModel(net), (x, y), rn.inference.SGLD(chains=3), epochs=6, jobs=1)
    return {"bits": [bits(p) for p in (ensemble, chosen, chains)], "candidates": chosen.candidates}
told["several"] = several()
"""

PREDICTED = """
def predicted():
    x, y = rows(101)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    posterior = rn.fit(rn.BayesianModel(net), (x, y), epochs=2)
    whole, split = posterior.predict(x, 7), posterior.predict(x, 7, ranks="split")
    one = posterior.predict(x[:1], 7, ranks="split")
    gap = float((whole.mean - split.mean).abs().max())
    return {"gap": gap, "rows": len(split.mean), "one": len(one.mean), "mean": split.mean.tolist()}
told["predicted"] = predicted()
"""

STREAMS = """
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset

class Stream(IterableDataset):
    def __init__(self, rows):
        self.rows, self.seen = rows, []
    def __iter__(self):
        for x, y in zip(*self.rows):
            self.seen.append(float(x[0]))
            yield x, y

class Recorded(TensorDataset):
    def __getitem__(self, i):
        seen.append(i)
        return super().__getitem__(i)

def streams():
    x, y = rows(96)
    found = {}
    data = Recorded(x, y)
    loaders = {"plain": DataLoader(data, batch_size=24, shuffle=True), "dataset": data,
               "stream": DataLoader(Stream((x, y)), batch_size=12), "odd": DataLoader(data, batch_size=19)}
    if torch.distributed.is_initialized():
        loaders["sampler"] = DataLoader(data, batch_size=12, sampler=DistributedSampler(data, seed=1))
    for name, loader in loaders.items():
        seen.clear()
        torch.manual_seed(2)
        method = rn.inference.SVGI(estimator="weights")
        options = dict(n=96 if name == "stream" else None, batch_size=24 if name == "dataset" else None)
        posterior = rn.fit(rn.BayesianModel(nn.Linear(4, 1)), loader, method, epochs=3, **options)
        settings = posterior.settings
        found[name] = {"bits": bits(posterior), "n": settings["n"], "batches": settings["batches"], "seen": len(seen),
                       "nll": posterior.history[-1]["nll"]}
    return found
seen = []
told["streams"] = streams()
"""

REFUSED = """
def refused():
    x, y = rows(60)
    errors = []
    for data, method, options in [
        ((x, y), "mclmc", {}), ((x, y), "lineargibbs", {}), ((x, y), "map", {"rank_draws": "per-rank"}),
        ((x + rank, y), "map", {}), ((x, y), "map", {"seed": rank}), ((x, y), "map", {"ranks": "all"}),
    ]:
        prior = rn.priors.Gaussian(0.5)
        try:
            rn.fit(rn.BayesianModel(nn.Linear(4, 1), prior, bias=prior), data, method, epochs=3, **options)
        except rn.R2D2NetError as error:
            errors.append(f"{type(error).__name__}: {error}")
    alone = rn.fit(rn.BayesianModel(nn.Linear(4, 1)), (x + rank, y), epochs=2, ranks="alone", seed=rank)
    return {"errors": errors, "alone": bits(alone)}
told["refused"] = refused()
"""

FAILING = """
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        if rank == 1 and i == 40:
            raise rn.DataError("row 40 cannot be read")
        return torch.full((4,), float(i)) / 64, torch.tensor(i / 64)

def failing():
    lines = []
    for _ in range(2):
        try:
            rn.fit(rn.BayesianModel(nn.Linear(4, 1)), Rows(), epochs=3, batch_size=16)
        except rn.R2D2NetError as error:
            lines.append(f"{type(error).__name__}: {error}")
    return lines
told["failing"] = failing()
"""
