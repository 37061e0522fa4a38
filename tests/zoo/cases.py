"""Networks that others wrote, built from their configurations with random weights, each with data that it takes.

A case is made when it is asked for, since its library may be missing: `pytest.importorskip` then skips with a reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from r2d2net import likelihoods

ROWS = 12


class Case(NamedTuple):
    """A network, its data, its likelihood, and what is to be said to `BayesianModel` besides."""

    net: Callable[[], nn.Module]  # the same weights at every call
    x: Any
    y: Tensor
    likelihood: Any
    options: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    start: str = "he"


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def tokens(length: int, words: int = 20) -> Tensor:
    return torch.randint(1, words, (ROWS, length), generator=torch.Generator().manual_seed(length))


def classes(count: int) -> Tensor:
    return torch.arange(ROWS) % count


def seeded(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """Return a maker of networks whose weights are the same at every call."""

    def build() -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return make()

    return build


CLASSES, POSITIONS = likelihoods.Categorical(), likelihoods.CategoricalPositions()
TOKENS = likelihoods.CategoricalPositions(dim=-1)
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def named(length: int = 6) -> dict[str, Tensor]:
    ids = tokens(length)
    mask = torch.ones_like(ids)
    mask[::2, 4:] = 0
    return {"input_ids": ids, "attention_mask": mask}


# --- torch alone


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.inner = nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.norm, self.up = nn.BatchNorm2d(4), nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.head = nn.Conv2d(5, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        inner = torch.relu(self.norm(self.inner(torch.relu(self.down(x)))))
        return self.head(torch.cat([x, self.up(inner)], 1))


class TwoTowers(nn.Module):
    """Keyword-only inputs of two kinds, and a dict of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(20, 4, padding_idx=0, sparse=True)
        self.numbers, self.head = nn.Linear(3, 4), nn.Linear(8, 2)

    def forward(self, *, words: Tensor, numbers: Tensor) -> dict[str, Tensor]:
        both = torch.cat([self.words(words), self.numbers(numbers)], 1)
        return {"features": both, "scores": self.head(both)}


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm = nn.Embedding(20, 4, padding_idx=0), nn.LSTM(4, 3, bidirectional=True, batch_first=True)
        self.head = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Any]:
        hidden, state = self.lstm(self.words(x))
        return self.head(hidden), state


class Causal(nn.Module):
    """A decoder with a mask of minus infinity, under gradient checkpointing."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.head(checkpoint(self.layer, self.words(x), src_mask=mask, is_causal=True, use_reentrant=False))


class FrozenHalf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5)).bfloat16()
        self.body.requires_grad_(False).eval()
        self.head = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x.bfloat16()).float())


def normed(how: Callable[[nn.Module], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(how(nn.Linear(3, 8)), nn.Tanh(), nn.Linear(8, 2))


def plain(name: str) -> Case:
    next_token = tokens(7)
    known = tokens(6, 5)
    known[:, 3:] = -100
    return {
        "u-net": lambda: Case(UNet, normal(ROWS, 1, 8, 8), (normal(ROWS, 8, 8) > 0).long(), POSITIONS),
        "two towers": lambda: Case(
            TwoTowers,
            {"words": tokens(4), "numbers": normal(ROWS, 3)},
            classes(2),
            CLASSES,
            {"output": "scores"},
        ),
        "tagger": lambda: Case(Tagger, tokens(6), known, TOKENS),
        "causal": lambda: Case(Causal, next_token[:, :-1], next_token[:, 1:], TOKENS),
        "frozen half": lambda: Case(FrozenHalf, normal(ROWS, 3), normal(ROWS), likelihoods.Gaussian()),
        "weight norm": lambda: Case(
            normed(nn.utils.parametrizations.weight_norm), normal(ROWS, 3), normal(ROWS, 2), likelihoods.Gaussian()
        ),
        "spectral norm": lambda: Case(
            normed(nn.utils.parametrizations.spectral_norm), normal(ROWS, 3), normal(ROWS, 2), likelihoods.Gaussian()
        ),
        "several labels": lambda: Case(
            lambda: nn.Linear(3, 4), normal(ROWS, 3), (normal(ROWS, 4) > 0).long(), likelihoods.BernoulliLabels()
        ),
        "counts": lambda: Case(
            lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)),
            normal(ROWS, 3),
            torch.stack([classes(4), classes(3)], 1),
            likelihoods.Poisson(),
        ),
        "double": lambda: Case(
            lambda: nn.Linear(3, 1).double(), normal(ROWS, 3), normal(ROWS).double(), likelihoods.Gaussian()
        ),
    }[name]()


PLAIN = ("u-net", "two towers", "tagger", "causal", "frozen half", "weight norm", "spectral norm", "several labels")
PLAIN += ("counts", "double")

# --- transformers


def hugging_face(name: str) -> Case:
    t = pytest.importorskip("transformers", reason="transformers is not installed")
    vocabulary = {"vocab_size": 20, "num_labels": 3}
    image = {"image_size": 8, "patch_size": 4, "num_channels": 1, "num_labels": 3}
    llama = {**vocabulary, **SMALL, "num_key_value_heads": 2, "max_position_embeddings": 16, "pad_token_id": 0}
    y, spoken = classes(3), tokens(6)
    spoken[:, :2] = -100
    return {
        "bert": lambda: Case(
            lambda: t.BertForSequenceClassification(t.BertConfig(**vocabulary, **SMALL, max_position_embeddings=16)),
            named(), y, CLASSES,
        ),
        "distilbert": lambda: Case(
            lambda: t.DistilBertForSequenceClassification(
                t.DistilBertConfig(**vocabulary, dim=16, n_layers=1, n_heads=2, hidden_dim=16)
            ),
            named(), y, CLASSES,
        ),
        "bert, tokens": lambda: Case(
            lambda: t.BertForTokenClassification(t.BertConfig(**vocabulary, **SMALL, max_position_embeddings=16)),
            named(), torch.where(named()["attention_mask"] == 1, tokens(6, 3), -100), TOKENS,
        ),
        "gpt2": lambda: Case(
            lambda: t.GPT2LMHeadModel(t.GPT2Config(vocab_size=20, n_embd=16, n_layer=1, n_head=2, n_positions=16)),
            named(), spoken, TOKENS,
        ),
        "llama": lambda: Case(lambda: t.LlamaForSequenceClassification(t.LlamaConfig(**llama)), named(), y, CLASSES),
        "t5 encoder": lambda: Case(
            lambda: t.T5ForTokenClassification(
                t.T5Config(vocab_size=20, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, num_labels=3)
            ),
            named(), tokens(6, 3), TOKENS,
        ),
        "vit": lambda: Case(
            lambda: t.ViTForImageClassification(t.ViTConfig(**SMALL, **image)), normal(ROWS, 1, 8, 8), y, CLASSES
        ),
        "resnet": lambda: Case(
            lambda: t.ResNetForImageClassification(
                t.ResNetConfig(num_channels=1, embedding_size=8, hidden_sizes=[8], depths=[1], num_labels=3)
            ),
            normal(ROWS, 1, 16, 16), y, CLASSES,
        ),
        "convnext": lambda: Case(
            lambda: t.ConvNextForImageClassification(
                t.ConvNextConfig(num_channels=1, hidden_sizes=[8, 8], depths=[1, 1], num_stages=2, num_labels=3)
            ),
            normal(ROWS, 1, 32, 32), y, CLASSES,
        ),
        "wav2vec2": lambda: Case(
            lambda: t.Wav2Vec2ForSequenceClassification(
                t.Wav2Vec2Config(
                    **SMALL, num_labels=3, conv_dim=(8, 8), conv_stride=(5, 2), conv_kernel=(10, 3),
                    num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, num_feat_extract_layers=2,
                    classifier_proj_size=8, mask_time_prob=0.0,
                )
            ),
            normal(ROWS, 200), y, CLASSES,
        ),
    }[name]()  # fmt: skip


HUGGING_FACE = ("bert", "distilbert", "bert, tokens", "gpt2", "llama", "t5 encoder", "vit", "resnet", "convnext")
HUGGING_FACE += ("wav2vec2",)

# --- adapters


def adapters(name: str) -> Case:
    t = pytest.importorskip("transformers", reason="transformers is not installed")
    peft = pytest.importorskip("peft", reason="peft is not installed")
    configs = {
        "lora": lambda: peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"]),
        "dora": lambda: peft.LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query"], use_dora=True),
        "ia3": lambda: peft.IA3Config(task_type="SEQ_CLS", target_modules=["key"], feedforward_modules=[]),
    }

    def make() -> nn.Module:
        config = t.BertConfig(vocab_size=20, num_labels=3, **SMALL, max_position_embeddings=16)
        return peft.get_peft_model(t.BertForSequenceClassification(config), configs[name]())

    return Case(make, named(), classes(3), CLASSES, {}, "net")


ADAPTERS = ("lora", "dora", "ia3")

# --- others


def others(name: str) -> Case:
    if name == "timm vit":
        pytest.importorskip("timm", reason="timm or torchvision, which it needs, is missing", exc_type=ImportError)
        import timm

        make = lambda: timm.create_model(  # noqa: E731
            "vit_tiny_patch16_224", img_size=32, patch_size=16, embed_dim=12, depth=1, num_heads=2, num_classes=3
        )
        return Case(make, normal(ROWS, 3, 32, 32), classes(3), CLASSES)
    pyg = pytest.importorskip("torch_geometric.nn", reason="torch-geometric is not installed")

    class Graph(nn.Module):
        """A graph that all rows share; a row is a node by its number."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("features", normal(ROWS, 4))
            self.register_buffer("edges", torch.stack([torch.arange(ROWS), torch.arange(ROWS).roll(1)]))
            self.first, self.second = pyg.GCNConv(4, 8), pyg.GCNConv(8, 3)

        def forward(self, nodes: Tensor) -> Tensor:
            hidden = torch.relu(self.first(self.features, self.edges))
            return self.second(hidden, self.edges)[nodes]

    return Case(Graph, torch.arange(ROWS), classes(3), CLASSES)


OTHERS = ("timm vit", "graph")
ZOO = {
    **{f"torch: {name}": (plain, name) for name in PLAIN},
    **{f"transformers: {name}": (hugging_face, name) for name in HUGGING_FACE},
    **{f"peft: {name}": (adapters, name) for name in ADAPTERS},
    "timm: vit": (others, "timm vit"),
    "torch-geometric: gcn": (others, "graph"),
}
