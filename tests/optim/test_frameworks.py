"""`rn.optim.SVGI` under training loops of other libraries: the numbers of a loop by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import r2d2net as rn
from r2d2net.inference.base import flatten

pytestmark = pytest.mark.filterwarnings("ignore")  # what other libraries warn of is theirs
CLASSES = rn.likelihoods.Categorical()
ROWS, BATCH, EPOCHS = 48, 16, 4


def rows() -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 5, generator=g)
    return x, (x[:, 0] > 0).long()


def loader() -> DataLoader[Any]:
    return DataLoader(TensorDataset(*rows()), batch_size=BATCH)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2))


def optimiser(net: nn.Module, accumulated: int = 1) -> Any:
    steps = EPOCHS * ROWS // BATCH // accumulated
    return rn.optim.SVGI(net, n=ROWS, steps=steps, likelihood=CLASSES)


def by_hand(accumulated: int = 1) -> Any:
    net = network()
    opt = optimiser(net, accumulated)
    opt.train()
    for _ in range(EPOCHS):
        for number, (x, y) in enumerate(loader(), 1):
            (cross_entropy(net(x), y) / accumulated).backward()
            if number % accumulated == 0:
                opt.step()
                opt.zero_grad()
    opt.eval()
    return opt


def assert_same(opt: Any, other: Any, atol: float = 0.0) -> None:
    """Same posterior states, and the parameters are the means."""
    one, two = flatten(opt.posterior_state), flatten(other.posterior_state)
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        assert torch.allclose(tensor, two[name], atol=atol, rtol=0), name
    slot = opt.trainer.model.bayesian[0]
    assert torch.equal(dict(opt.net.named_parameters())[slot.name], slot.of(opt.posterior_state.mean))


@pytest.mark.parametrize("accumulated", [1, 3])
def test_lightning(accumulated: int, tmp_path: Any) -> None:
    lightning = pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")

    class Module(lightning.LightningModule):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def training_step(self, batch: Any, _: int) -> Tensor:
            return cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            self.opt = optimiser(self.net, accumulated)
            return self.opt

        def on_train_epoch_start(self) -> None:
            if accumulated > 1:  # batches between steps are passed through the network outside of step()
                self.opt.train()

        def on_train_epoch_end(self) -> None:
            self.opt.eval()

    module = Module()
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accumulate_grad_batches=accumulated,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(module, loader())
    if accumulated == 1:
        assert_same(module.opt, by_hand())
    else:  # where an epoch's draws end with eval() and begin with train() a draw more is made
        assert int(module.opt.posterior_state.step) == EPOCHS
    assert module.opt.posterior().predict(rows()[0]).mean.shape == (ROWS, 2)


def test_lightning_schedules_clips_and_resumes(tmp_path: Any) -> None:
    lightning = pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")

    class Module(lightning.LightningModule):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def training_step(self, batch: Any, _: int) -> Tensor:
            return cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            self.opt = optimiser(self.net)
            return [self.opt], [torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, EPOCHS)]

    def trainer(epochs: int) -> Any:
        return lightning.Trainer(
            max_epochs=epochs,
            gradient_clip_val=0.1,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=tmp_path,
        )

    whole, first, second = Module(), Module(), Module()
    trainer(EPOCHS).fit(whole, loader())
    part = trainer(2)
    part.fit(first, loader())
    part.save_checkpoint(tmp_path / "part.ckpt")
    trainer(EPOCHS).fit(second, loader(), ckpt_path=tmp_path / "part.ckpt", weights_only=True)
    assert whole.opt.param_groups[0]["lr"] == pytest.approx(0, abs=1e-6)
    assert_same(second.opt, whole.opt)


def test_skorch() -> None:
    skorch = pytest.importorskip("skorch", reason="skorch is not installed")
    x, y = rows()

    class Net(skorch.NeuralNetClassifier):  # type: ignore[name-defined, misc]
        def initialize_optimizer(self, *_: Any, **__: Any) -> Any:
            self.optimizer_ = optimiser(self.module_)
            return self

    net = Net(
        network(),
        criterion=nn.CrossEntropyLoss,
        max_epochs=EPOCHS,
        batch_size=BATCH,
        train_split=None,
        iterator_train__shuffle=False,
        verbose=0,
    )
    net.fit(x.numpy(), y.numpy())
    assert_same(net.optimizer_, by_hand())
    assert np.isfinite(net.predict_proba(x.numpy())).all()


def test_accelerate() -> None:
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    accelerator = accelerate.Accelerator(cpu=True)
    net = network()
    opt = optimiser(net)
    prepared, wrapped, batches = accelerator.prepare(net, opt, loader())
    wrapped.train()
    for _ in range(EPOCHS):
        for x, y in batches:
            accelerator.backward(cross_entropy(prepared(x), y))
            wrapped.step()
            wrapped.zero_grad()
    wrapped.eval()
    assert_same(opt, by_hand())


def test_hugging_face_trainer(tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="accelerate is not installed")

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
            logits = self.net(x)
            return {"loss": cross_entropy(logits, labels), "logits": logits}

    x, y = rows()
    items = [{"x": row, "labels": label} for row, label in zip(x, y, strict=True)]
    module = Classifier()
    opt = optimiser(module.net)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        max_grad_norm=0.0,
        lr_scheduler_type="constant",
    )

    class Trainer(transformers.Trainer):  # type: ignore[name-defined, misc]
        def _get_train_sampler(self, *_: Any) -> Any:
            return torch.utils.data.SequentialSampler(items)

    trainer = Trainer(
        model=module,
        args=arguments,
        train_dataset=items,
        optimizers=(opt, torch.optim.lr_scheduler.LambdaLR(opt, lambda _: 1.0)),
    )
    trainer.train()
    opt.eval()
    assert int(opt.posterior_state.step) == EPOCHS * ROWS // BATCH
    other = network()
    theirs = rn.optim.SVGI(other, n=ROWS, steps=EPOCHS * 3, likelihood=CLASSES, schedule="constant")
    theirs.train()
    for _ in range(EPOCHS):
        for inputs, labels in loader():
            cross_entropy(other(inputs), labels).backward()
            theirs.step()
            theirs.zero_grad()
    theirs.eval()
    assert_same(opt, theirs, atol=1e-5)
