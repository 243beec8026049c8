"""Checkpoints of transformers' Trainer and of trl's SFTTrainer, which is one, with FSDP2.
Usage: torchrun --nproc_per_node 2 make_trainer.py transformers|trl"""
import os
import shutil
import sys

import torch
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType
from common import OUT, toy, whole, write_case
from transformers import Trainer, TrainingArguments

KIND = sys.argv[1]
NAME = "trainer_" + KIND
SOURCE = os.path.join(OUT, NAME, "source")

# accelerate takes up FSDP where there is a GPU only; what it saves is the same.
first = AcceleratorState.__init__


def with_fsdp(self, *args, fsdp_plugin=None, **more):
    first(self, *args, fsdp_plugin=fsdp_plugin, **more)
    if fsdp_plugin is not None:
        fsdp_plugin.set_mixed_precision = lambda *_, **__: None
        self.distributed_type = DistributedType.FSDP
        self.fsdp_plugin = fsdp_plugin


AcceleratorState.__init__ = with_fsdp
shutil.rmtree(SOURCE, ignore_errors=True)
settings = dict(output_dir=SOURCE, max_steps=1, save_steps=1, per_device_train_batch_size=2, report_to=[], use_cpu=True, optim="sgd", fsdp="full_shard",
                fsdp_config={"fsdp_version": 2, "state_dict_type": "SHARDED_STATE_DICT", "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]})
rows = [{"input_ids": [i, 1, 2, 3], "labels": [i, 1, 2, 3], "attention_mask": [1] * 4} for i in range(8)]
if KIND == "trl":
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    words = {f"w{i}": i for i in range(32)}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="w0")), eos_token="w1", pad_token="w2")
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer
    trainer = SFTTrainer(toy(), args=SFTConfig(**settings), train_dataset=Dataset.from_list(rows), processing_class=tokenizer)
else:
    trainer = Trainer(toy(), args=TrainingArguments(**settings), train_dataset=rows)
trainer.train()
config = toy().config.to_dict()
write_case(NAME, "the output directory of the trainer", config, whole(trainer.model_wrapped), ["transformers", "accelerate"] + (["trl"] if KIND == "trl" else []))
