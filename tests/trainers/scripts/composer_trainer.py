"""Composer: one linear layer, on a CPU. composer_trainer.py FOLDER"""

import sys

import torch
from composer import Trainer
from composer.models import ComposerClassifier

folder = sys.argv[1]
torch.manual_seed(1)
rows = torch.utils.data.TensorDataset(torch.rand(80, 4), torch.randint(0, 2, (80,)))
model = ComposerClassifier(torch.nn.Sequential(torch.nn.Linear(4, 2)), num_classes=2)
trainer = Trainer(
    model=model, train_dataloader=torch.utils.data.DataLoader(rows, batch_size=8),
    optimizers=torch.optim.Adam(model.parameters()),
    max_duration="24ba", device="cpu", run_name="tiny", save_folder=folder, save_interval="4ba",
    save_num_checkpoints_to_keep=2, autoresume=True, progress_bar=False, log_to_console=True,
    console_log_interval="2ba",
)  # fmt: skip
trainer.fit()
trainer.close()
