"""Saves of Lightning's Trainer, whose module holds the model as `model`: ModelParallelStrategy (FSDP2) or FSDPStrategy (FSDP1).
Usage: torchrun --nproc_per_node 2 make_lightning.py model_parallel|fsdp"""
import os
import shutil
import sys

import lightning
import torch
from common import OUT, shard2, toy, whole, write_case
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

KIND = sys.argv[1]
NAME = "lightning_" + KIND
SOURCE = os.path.join(OUT, NAME, "source")


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = toy()

    def configure_model(self):
        if KIND == "model_parallel":
            shard2(self.model)

    def training_step(self, batch, _):
        return self.model(input_ids=batch, labels=batch).loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-2, momentum=0.9)


class Save(lightning.Callback):
    def on_train_batch_end(self, trainer, module, *_):
        trainer.save_checkpoint(os.path.join(SOURCE, f"epoch={trainer.current_epoch}-step={trainer.global_step}.ckpt"))

    def on_train_end(self, trainer, module):
        state = {name.removeprefix("_forward_module.").removeprefix("model."): value for name, value in whole(trainer.strategy.model).items()}
        write_case(NAME, "a checkpoint of Lightning's Trainer", toy().config.to_dict(), state, ["lightning", "transformers"])


if KIND == "model_parallel":
    strategy = ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=1, process_group_backend="gloo")
else:
    # Lightning takes up FSDP1 where there is a GPU only; what it saves is the same.
    first = FSDP.__init__
    FSDP.__init__ = lambda self, *args, device_id=None, **more: first(self, *args, device_id=torch.device("cpu"), **more)
    FSDPStrategy.root_device = torch.device("cpu")
    strategy = FSDPStrategy(state_dict_type="sharded", process_group_backend="gloo")
    connector = sys.modules["lightning.pytorch.trainer.connectors.accelerator_connector"]._AcceleratorConnector
    connector._check_strategy_and_fallback = lambda self: None
shutil.rmtree(SOURCE, ignore_errors=True)
trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy=strategy, max_steps=1, logger=False, enable_checkpointing=False,
                            enable_progress_bar=False, callbacks=[Save()])
trainer.fit(Module(), torch.utils.data.DataLoader([torch.arange(8) + i for i in range(4)], batch_size=2))
