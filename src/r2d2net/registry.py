"""The built-in priors, likelihoods, algorithms, networks and activations by name: the one list of each.

Whatever offers a choice reads it here: `fit`, the estimators, the command line and its help, `load`, and the tests
that compare the documentation with it. An entry names the place of its class below ``r2d2net``, "module:Class", which
is imported when it is first needed: names can be listed without torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any


class Registry(Mapping[str, str]):
    """Names that users write, in lower case, and the place of what each stands for.

    A place is "module:Class", or "module:Class.constructor" for a class with other hyperparameters than its defaults,
    or "module:function". Places in ``unnamed`` are of classes that saved runs name and users do not, or
    that no table has targets for.

    >>> registry = Registry("prior", {"gaussian": "priors.gaussian:Gaussian"})
    >>> list(registry), registry.class_names
    (['gaussian'], ('Gaussian',))
    """

    def __init__(self, kind: str, places: dict[str, str], unnamed: Sequence[str] = ()) -> None:
        self.kind = kind
        self._places = places
        self._homes = {_class_of(place): place.partition(":")[0] for place in (*places.values(), *unnamed)}

    def __getitem__(self, name: str) -> str:
        return self._places[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes, each once, without importing them."""
        return tuple(dict.fromkeys(_class_of(place) for place in self._places.values()))

    def knows(self, class_name: str) -> bool:
        """Whether a class of this name is built in, offered to users by a name or not."""
        return class_name in self._homes

    def get_class(self, class_name: str) -> Any:
        """Import the class of this name.

        Args:
            class_name: A name that the registry `knows`.
        """
        return getattr(import_module(f"r2d2net.{self._homes[class_name]}"), class_name)

    def classes(self) -> list[Any]:
        """Import all classes, in the order of the list."""
        return [self.get_class(class_name) for class_name in self.class_names]

    def constructor(self, name: str) -> Any:
        """Import what a name stands for: a class, one of its constructors, or a function."""
        return _imported(self._places[name])

    def holds(self, cls: type) -> bool:
        """Whether this very class is built in; one of another module with the same name is not."""
        return self.knows(cls.__name__) and self.get_class(cls.__name__) is cls


def _class_of(place: str) -> str:
    return place.partition(":")[2].split(".")[0]


@cache
def _imported(place: str) -> Any:
    module, _, path = place.partition(":")
    target: Any = import_module(f"r2d2net.{module}")
    for attribute in path.split("."):
        target = getattr(target, attribute)
    return target


PRIORS = Registry(
    "prior",
    {
        "r2d2": "priors.r2d2:R2D2",
        "adaptive": "priors.adaptive_r2d2:AdaptiveR2D2",
        "paper": "priors.r2d2:R2D2.paper",
        "gaussian": "priors.gaussian:Gaussian",
        "horseshoe": "priors.horseshoe:Horseshoe",
        "horseshoe+": "priors.horseshoe_plus:HorseshoePlus",
        "spike-and-slab": "priors.spike_slab:SpikeSlab",
        "dirichlet-laplace": "priors.dirichlet_laplace:DirichletLaplace",
        "double-pareto": "priors.generalized_double_pareto:GeneralizedDoublePareto",
        "group-r2d2": "priors.group_r2d2:GroupR2D2",
        "group-horseshoe": "priors.group_horseshoe:GroupHorseshoe",
    },
    unnamed=["priors.grouped_r2d2:GroupedR2D2"],
)

LIKELIHOODS = Registry(
    "likelihood",
    {
        "gaussian": "likelihoods.gaussian:Gaussian",
        "student-t": "likelihoods.student_t:StudentT",
        "heteroscedastic": "likelihoods.gaussian:Heteroscedastic",
        "log-normal": "likelihoods.log_normal:LogNormal",
        "gamma": "likelihoods.gamma:Gamma",
        "bernoulli": "likelihoods.discrete:Bernoulli",
        "categorical": "likelihoods.discrete:Categorical",
        "ordinal": "likelihoods.ordinal:Ordinal",
        "poisson": "likelihoods.discrete:Poisson",
        "negative-binomial": "likelihoods.negative_binomial:NegativeBinomial",
    },
    unnamed=["likelihoods.positions:CategoricalPositions", "likelihoods.positions:BernoulliLabels"],
)

# the likelihoods of numbers that the estimators and the command line offer by name
NUMBERS = ("gaussian", "student-t", "heteroscedastic", "log-normal", "gamma", "poisson", "negative-binomial")

ALGORITHMS = Registry(
    "algorithm",
    {
        "svgi": "inference.svgi:SVGI",
        "cavi": "inference.cavi:CAVI",
        "svi": "inference.svi:SVI",
        "mfvi": "inference.mfvi:MFVI",
        "radial": "inference.radial:Radial",
        "map": "inference.map:MAP",
        "mcdropout": "inference.mc_dropout:MCDropout",
        "deepensemble": "inference.deep_ensemble:DeepEnsemble",
        "edl": "inference.edl:EDL",
        "dpn": "inference.dpn:DPN",
        "sgld": "inference.sgld:SGLD",
        "sghmc": "inference.sghmc:SGHMC",
        "hmc": "inference.hmc:HMC",
        "mclmc": "inference.mclmc:MCLMC",
        "lineargibbs": "inference.linear_gibbs:LinearGibbs",
        "linearfirst": "inference.linear_first:LinearFirst",
    },
    unnamed=["inference.stacked:Stacked", "inference.mean_field_mixture:Combined", "shrinkage.pruned:Pruned"],
)

# The priors of the algorithms that do not suit every prior, the algorithms for classes only, those for one linear
# layer, and those for numbers by a network with a linear path. They follow from the traits of the classes, with which
# a test compares them; here they can be read without torch.
_FINITE_MODE = ("gaussian", "spike-and-slab", "double-pareto")
SUITABLE_PRIORS: Mapping[str, tuple[str, ...]] = {
    "mfvi": ("gaussian",),
    "map": _FINITE_MODE,
    "mcdropout": _FINITE_MODE,
    "deepensemble": _FINITE_MODE,
    "edl": _FINITE_MODE,
    "dpn": _FINITE_MODE,
}
FOR_CLASSES = ("edl", "dpn")
FOR_ONE_LAYER = ("lineargibbs",)
FOR_LINEAR_PATH = ("linearfirst",)

NETWORKS = Registry(
    "network",
    {
        "mlp": "nets.perceptron:mlp",
        "paper_mlp": "nets.perceptron:paper_mlp",
        "simple_cnn": "nets.simple_cnn:SimpleCNN",
        "lenet": "nets.lenet:LeNet",
        "alexnet": "nets.alexnet:AlexNet",
        "resnet50": "nets.resnet:resnet50",
        "resnet101": "nets.resnet:resnet101",
        "vgg": "nets.vgg:VGG",
        "vit": "nets.vit:ViT",
    },
)

# the name of each activation and of its class in torch.nn
ACTIVATIONS: Mapping[str, str] = {
    "relu": "ReLU",
    "softplus": "Softplus",
    "tanh": "Tanh",
    "gelu": "GELU",
    "silu": "SiLU",
    "elu": "ELU",
}
