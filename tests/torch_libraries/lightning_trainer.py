# lightning: Trainer.fit, validate and test, callbacks, a checkpoint, and Fabric.
import tempfile
import warnings

import torch
from same import fill, gradients, numbers, show
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lightning as L
from lightning.fabric import Fabric
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint, StochasticWeightAveraging
from lightning.pytorch.loggers import CSVLogger

warnings.simplefilter("ignore")
x, y = numbers(32, 6), torch.arange(32) % 3
loader = DataLoader(TensorDataset(x, y), 8)


class Net(L.LightningModule):
    def __init__(self, width=16):
        super().__init__()
        self.save_hyperparameters()
        self.net = fill(nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.BatchNorm1d(width), nn.Linear(width, 3)))
        self.example_input_array = torch.zeros(2, 6)

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.log("loss", loss, on_epoch=True, prog_bar=True)
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))

    test_step = validation_step

    def predict_step(self, batch, index):
        return self(batch[0]).argmax(-1)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]


class Manual(Net):
    automatic_optimization = False

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        self.log("loss", loss)


with tempfile.TemporaryDirectory() as folder:
    for model, options in ((Net(), {"gradient_clip_val": 1.0, "accumulate_grad_batches": 2}), (Manual(), {})):
        saver = ModelCheckpoint(folder, monitor="val_loss", save_top_k=1, filename=type(model).__name__)
        trainer = L.Trainer(
            max_epochs=4, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False,
            logger=CSVLogger(folder), callbacks=[saver, EarlyStopping("val_loss", patience=3), LearningRateMonitor()],
            log_every_n_steps=1, default_root_dir=folder, **options,
        )  # fmt: skip
        trainer.fit(model, loader, loader)
        show(
            type(model).__name__,
            trainer.callback_metrics["loss"],
            trainer.callback_metrics["val_loss"],
            gradients(model),
        )
        show("test", trainer.test(model, loader, verbose=False)[0]["val_loss"], trainer.global_step)
        print(torch.cat(trainer.predict(model, loader)).tolist())
        again = type(model).load_from_checkpoint(saver.best_model_path)
        show("loaded", trainer.validate(again, loader, verbose=False)[0]["val_loss"])
    L.Trainer(
        max_epochs=4, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False, logger=False,
        callbacks=[StochasticWeightAveraging(1e-2, swa_epoch_start=2)], default_root_dir=folder,
        enable_checkpointing=False,
    ).fit(swa := Net(), loader)  # fmt: skip
    show("averaged", nn.functional.cross_entropy(swa.eval()(x), y))
    resumed = L.Trainer(
        max_epochs=6, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False, logger=False,
        default_root_dir=folder,
    )  # fmt: skip
    resumed.fit(model := Net(), loader, loader, ckpt_path=f"{folder}/Net.ckpt")
    show("resumed", resumed.callback_metrics["val_loss"], resumed.current_epoch)

fabric = Fabric(accelerator="cpu", precision="bf16-mixed")
net = fill(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)))
net, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1))
for a, b in fabric.setup_dataloaders(loader):
    loss = nn.functional.cross_entropy(net(a), b)
    optimizer.zero_grad()
    fabric.backward(loss)
    optimizer.step()
print("fabric", f"{float(loss.detach()):.2f}")
