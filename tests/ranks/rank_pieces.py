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
    usual = rn.fit(rn.BayesianModel(nn.Linear(4, 1)), (x, y), method, epochs=6, seed=1)
    return {**found, "apart": bits(apart), "shared": bits(shared), "usual": bits(usual)}
told["algorithms"] = algorithms()
"""

LINEAR = """
def linear(size, epochs, estimator, draws=None, how="auto"):
    x, y = rows(400, 3)
    gaussian = rn.priors.Gaussian(1.0)
    model = rn.BayesianModel(nn.Linear(3, 1), gaussian, rn.likelihoods.Gaussian(noise=0.3), bias=gaussian)
    rates = {"lr": 0.3} if estimator == "local" else {"lr": 0.03, "lr_rho": 0.3, "draws": 4}  # weights are noisier
    method = rn.inference.MFVI(warm_up=0.0, estimator=estimator, **rates)
    options = dict(epochs=epochs, batch_size=size, seed=2, standardize=False, rank_draws=draws, ranks=how)
    posterior = rn.fit(model, (x, y), method, **options)
    design = torch.cat([x, torch.ones(400, 1)], 1).double()
    precision = design.T @ design / 0.09 + torch.eye(4).double()
    exact = torch.linalg.solve(precision, design.T @ y.double() / 0.09)
    deviation = precision.diagonal().rsqrt()
    shift = ((posterior.state.mean - exact) / deviation).abs().max()
    stretch = (posterior.source.deviation() / deviation - 1).abs().max()
    return {"bits": bits(posterior), "shift": float(shift), "stretch": float(stretch)}
"""

SHARDED = """
class Once(torch.utils.data.TensorDataset):
    def __getitem__(self, i):
        once[0] -= 1
        if once[0] == 0:
            raise rn.DataError("enough")
        return super().__getitem__(i)

def sharded(places):
    def fit(layers, method, how, prior=None, data=None, columns=4, **options):
        torch.manual_seed(3)
        model = rn.BayesianModel(nn.Sequential(*layers()), prior)
        options = {"epochs": 5, "batch_size": 32, "seed": 1, "ranks": how, **options}
        return rn.fit(model, rows(64, columns) if data is None else data, method, **options)

    def large():  # the first layer has blocks of 131,072 weights, and is cut there
        return nn.Linear(400, 400), nn.Tanh(), nn.Linear(400, 1)

    def small():
        return nn.Linear(4, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 1)

    found, inference = {}, rn.inference
    for name, layers, method, prior, columns in [
        ("SVGI", large, inference.SVGI(estimator="weights", averaging=1.0), None, 400),
        ("averaging", large, inference.SVGI(estimator="weights", averaging=0.1), None, 400),
        ("CAVI", large, inference.CAVI(estimator="weights"), rn.priors.R2D2.from_r2(), 400),
        ("horseshoe", small, inference.SVGI(estimator="weights", draws=2, clip=1.0), rn.priors.Horseshoe(), 4),
    ]:
        one = fit(layers, method, "auto", prior, columns=columns, rank_draws="shared")
        other = fit(layers, method, "sharded", prior, columns=columns)
        gaps = {
            key: float((a - b).double().norm() / a.double().norm().clamp(min=1e-30))
            for (key, a), b in zip(flatten(one.state).items(), flatten(other.state).values(), strict=True)
        }
        found[name] = {"bits": bits(other), "gaps": gaps}
    data, method = Once(*rows(64)), inference.SVGI(estimator="weights")
    options = dict(data=data, patience=9, validation=rows(20), standardize=False, checkpoint_every=0)
    once[0] = -1
    whole = fit(small, method, "sharded", resume=os.path.join(places, "whole"), **options)
    once[0] = 140
    try:
        fit(small, method, "sharded", resume=os.path.join(places, "stopped"), **options)
    except rn.DataError:
        found["stopped"] = os.path.exists(os.path.join(places, "stopped", "checkpoint.safetensors"))
    again = fit(small, method, "sharded", resume=os.path.join(places, "stopped"), **options)
    return {**found, "whole": bits(whole), "again": bits(again)}
once = [0]
told["sharded"] = sharded(os.environ["PLACES"])
"""

QUICK_LINEAR = LINEAR + "told['linear'] = linear(100, 250, 'local')\n"

SPLIT = """
def split():
    x, y = rows(200)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    method = rn.inference.SVGI(estimator="weights")
    state = rn.fit(rn.BayesianModel(net), (x, y), method, epochs=15, batch_size=50, seed=0, rank_draws="shared").state
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
        options["rank_draws"] = "shared"
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
        ((x, y), "sgld", {"ranks": "sharded"}), ((x, y), "svgi", {"ranks": "sharded", "rank_draws": "per-rank"}),
        ((x, y), rn.inference.SVGI(estimator="local"), {"ranks": "sharded"}),
        ((x, y), "svgi", {"ranks": "sharded", "restarts": 2}),
    ]:
        prior = rn.priors.Gaussian(0.5)
        try:
            rn.fit(rn.BayesianModel(nn.Linear(4, 1), prior, bias=prior), data, method, epochs=3, **options)
        except rn.R2D2NetError as error:
            errors.append(f"{type(error).__name__}: {error}")
    alone = rn.fit(rn.BayesianModel(nn.Linear(4, 1)), (x + rank, y), epochs=2, ranks="alone", seed=rank)
    chosen = rn.fit(rn.BayesianModel(nn.Linear(4, 1)), (x, y), "auto", epochs=2)
    regressor = rn.estimators.R2D2Regressor(epochs=2, algorithm="svgi").fit(x.numpy(), y.numpy())
    whole = {"chosen": chosen.settings["chosen"], "seed": regressor.posterior_.settings["seed"]}
    return {"errors": errors, "alone": bits(alone), **whole}
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
