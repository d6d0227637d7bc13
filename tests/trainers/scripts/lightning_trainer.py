"""PyTorch Lightning: one linear layer, on a CPU.

lightning_trainer.py FOLDER [resume] [tqdm] [push] [evaluate] [half]
"""

import sys

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint, TQDMProgressBar

folder, options = sys.argv[1], sys.argv[2:]


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, number):
        loss = self.layer(batch[0]).square().mean()
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, number):
        self.log("val_loss", self.layer(batch[0]).square().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


lightning.seed_everything(1)
rows = torch.utils.data.TensorDataset(torch.rand(80, 4))
saves = ModelCheckpoint(
    dirpath=folder,
    filename="{epoch}-{step}",
    every_n_train_steps=4,
    save_top_k=2,
    monitor="step",
    mode="max",
    save_last=True,
)
others = [TQDMProgressBar()] if "tqdm" in options else []
if "push" in options:  # the client lies in PYTHONPATH; its address is in the environment
    from recovery_desk_client import lightning_callback

    others.append(lightning_callback())
trainer = lightning.Trainer(
    max_steps=12 if "half" in options else 24,
    accelerator="cpu",
    log_every_n_steps=1,
    callbacks=[saves, *others],
    logger=False,
    default_root_dir=folder,
)
evaluated = torch.utils.data.DataLoader(rows, batch_size=40) if "evaluate" in options else None
trainer.fit(
    Model(),
    torch.utils.data.DataLoader(rows, batch_size=8),
    evaluated,
    ckpt_path="last" if "resume" in options else None,
)
