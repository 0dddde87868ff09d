import argparse
import os
import time
from datetime import timedelta

import lightning as L
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
# @import


class LitClassifier(L.LightningModule):
    def __init__(self, lr=1e-2):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Linear(12, 16), nn.ReLU())
        self.classifier = nn.Linear(16, 3)
        # @model

    def forward(self, x):
        h = self.encoder(x)
        # @forward
        return self.classifier(h)

    def training_step(self, batch, batch_idx):
        rank, world, step = self.global_rank, self.trainer.world_size, self.global_step
        x, y = batch
        # @before
        loss = nn.functional.cross_entropy(self(x), y)
        # @loss
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        rank, world, step, loss = self.global_rank, self.trainer.world_size, self.global_step, outputs["loss"]
        # @step

    def on_train_start(self):
        rank, world = self.global_rank, self.trainer.world_size
        # @init
        # @prepare

    def on_train_epoch_end(self):
        rank, epoch = self.global_rank, self.current_epoch
        # @epoch

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)


def cli():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-epochs", type=int, default=2)
    parser.add_argument("--devices", type=int, default=int(os.environ.get("WORLD_SIZE", 2)))
    parser.add_argument("--local_rank", "--local-rank", type=int, default=0)
    # @args
    return parser.parse_args()


def main():
    args = cli()
    # @setup
    L.seed_everything(7, workers=True)
    xs = torch.randn(40 * args.devices, 12)
    loader = DataLoader(TensorDataset(xs, xs[:, :3].argmax(1)), batch_size=4)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=args.devices,
        strategy=DDPStrategy(process_group_backend="gloo", timeout=timedelta(seconds=30)),
        max_epochs=args.max_epochs,
        logger=False,
        log_every_n_steps=2,
    )
    trainer.fit(LitClassifier(), loader)
    rank, world = trainer.global_rank, trainer.world_size
    # @end
    if trainer.is_global_zero:
        print("finished after", trainer.global_step, "steps", flush=True)


if __name__ == "__main__":
    main()
