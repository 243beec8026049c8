#!/usr/bin/env python3
"""Loads two model directories with transformers and compares what they compute.

    compare_logits.py MERGED EXPECTED HF

MERGED is a complete model directory; EXPECTED holds the weights a framework expects, or is the
rank file of a job with one rank, whose module tree is loaded as it is; HF holds the config that goes with them. Exits 1
when MERGED loads with missing or unexpected tensors or its logits are not exactly those of the expected model.
"""
import os
import shutil
import sys
import tempfile

import torch
import transformers


def kind_of(config):
    name = (config.architectures or [""])[0]
    if "TokenClassification" in name:
        return transformers.AutoModelForTokenClassification
    if "ForConditionalGeneration" in name:
        return transformers.AutoModelForImageTextToText
    return transformers.AutoModelForCausalLM


def load(directory):
    kind = kind_of(transformers.AutoConfig.from_pretrained(directory))
    model, info = kind.from_pretrained(directory, dtype=torch.float32, output_loading_info=True)
    return model.eval(), info


def load_module_tree(rank_file, directory):
    config = transformers.AutoConfig.from_pretrained(directory)
    model = kind_of(config).from_config(config, dtype=torch.float32)
    model.load_state_dict(torch.load(rank_file), strict=True)
    return model.eval()


def load_expected(expected, hf):
    if os.path.isfile(expected):
        return load_module_tree(expected, hf)
    with tempfile.TemporaryDirectory() as reference:
        for source in (hf, expected):
            for name in os.listdir(source):
                shutil.copy(os.path.join(source, name), reference)
        return load(reference)[0]


def main():
    merged, expected, hf = sys.argv[1:4]
    wanted = load_expected(expected, hf)
    got, info = load(merged)
    # Heads of token classification have a bias that trainers do not save; layers beyond the model's (MTP) are not its own.
    missing = [key for key in info["missing_keys"] if key != "score.bias"]
    unexpected = [key for key in info["unexpected_keys"] if f".layers.{got.config.num_hidden_layers}." not in key]
    if missing or unexpected:
        sys.exit(f"missing {missing}, unexpected {unexpected}")
    for model in (wanted, got):
        if getattr(getattr(model, "score", None), "bias", None) is not None:
            torch.nn.init.zeros_(model.score.bias)
    tokens = torch.arange(3, 35).reshape(2, 16) % wanted.config.get_text_config().vocab_size
    with torch.no_grad():
        difference = (wanted(input_ids=tokens).logits - got(input_ids=tokens).logits).abs().max().item()
    if difference != 0:
        sys.exit(f"logits differ by {difference}")
    if os.path.exists(os.path.join(hf, "tokenizer_config.json")):
        transformers.AutoTokenizer.from_pretrained(merged)
    print("logits equal")


if __name__ == "__main__":
    main()
