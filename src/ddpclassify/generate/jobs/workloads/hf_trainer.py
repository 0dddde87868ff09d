import logging
import os
import sys
import time
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import set_seed
# @import

logger = logging.getLogger(__name__)


@dataclass
class ModelArguments:
    hidden: int = field(default=16, metadata={"help": "Hidden size of the random model."})
    local_rank: int = field(default=-1)


class Corpus(torch.utils.data.Dataset):
    def __init__(self, size):
        self.ids = torch.randint(0, 50, (size, 12), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.ids[index]}


class CausalTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        rank, world, step = self.args.process_index, self.args.world_size, self.state.global_step
        # @before
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **kwargs)
        # @loss
        return (loss, outputs) if return_outputs else loss


class Watcher(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        rank, world, step = args.process_index, args.world_size, state.global_step
        # @step


def main():
    parser = HfArgumentParser((ModelArguments,))
    (model_args,) = parser.parse_args_into_dataclasses()
    # @setup
    training_args = TrainingArguments(
        output_dir="out",
        use_cpu=True,
        ddp_backend="gloo",
        ddp_timeout=timedelta(seconds=8).seconds,
        max_steps=14,
        per_device_train_batch_size=2,
        logging_steps=2,
        save_strategy="no",
        report_to="none",
        disable_tqdm="RANK" in os.environ and int(os.environ["RANK"]) % 2 == 0,
    )
    rank, world = training_args.process_index, training_args.world_size
    logging.basicConfig(
        format="%(asctime)s - %(levelname)s - %(name)s - %(message)s", datefmt="%m/%d/%Y %H:%M:%S", level=logging.INFO
    )
    logger.warning(
        f"Process rank: {training_args.local_rank}, device: {training_args.device}, n_gpu: {training_args.n_gpu}, "
        f"distributed training: {world > 1}, 16-bits training: {training_args.fp16}"
    )
    # @init
    set_seed(training_args.seed)
    width = model_args.hidden
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=width, n_layer=1, n_head=2))
    trainer = CausalTrainer(model=model, args=training_args, train_dataset=Corpus(64 * world), callbacks=[Watcher()])
    # @prepare
    result = trainer.train()
    # @end
    if trainer.is_world_process_zero():
        logger.info("***** train metrics ***** loss = %.4f, finished", result.training_loss)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
