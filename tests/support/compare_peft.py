#!/usr/bin/env python3
"""Loads a base and its adapter with PEFT and compares them with the folded model.

    compare_peft.py SPLIT FOLDED [EXACT]

SPLIT is a model directory with lora_adapter/ in it, FOLDED one with the adapter in its weights. Exits 1 when the adapter loads with
missing or unexpected tensors, when the model with it computes other logits than the folded one (beyond rounding), or, with EXACT, when
PEFT's own merge gives other logits at all.
"""
import os
import sys
import warnings

import torch
import transformers
from peft import PeftModel


def load(directory):
    config = transformers.AutoConfig.from_pretrained(directory)
    names = config.architectures or []
    kind = transformers.AutoModelForTokenClassification if any("TokenClassification" in name for name in names) \
        else transformers.AutoModelForCausalLM
    model, info = kind.from_pretrained(directory, dtype=torch.float32, output_loading_info=True)
    # Heads of token classification have a bias that trainers do not save.
    missing = [key for key in info["missing_keys"] if key != "score.bias"]
    if missing or info["unexpected_keys"]:
        sys.exit(f"{directory}: missing {missing}, unexpected {info['unexpected_keys']}")
    if getattr(getattr(model, "score", None), "bias", None) is not None:
        torch.nn.init.zeros_(model.score.bias)
    return model.eval()


def main():
    split, folded = sys.argv[1:3]
    warnings.simplefilter("ignore")
    adapter = os.path.join(split, "lora_adapter")
    base = load(split)
    plain = load(split)
    wanted = load(folded)
    model = PeftModel.from_pretrained(base, adapter).eval()
    result = model.load_adapter(adapter, adapter_name="default")
    missing = [key for key in result.missing_keys if "lora_" in key or "modules_to_save" in key]
    missing = [key for key in missing if not key.endswith("score.modules_to_save.default.bias")]
    if missing or result.unexpected_keys:
        sys.exit(f"adapter: missing {missing}, unexpected {result.unexpected_keys}")
    for name, parameter in model.named_parameters():
        if name.endswith("score.modules_to_save.default.bias"):
            torch.nn.init.zeros_(parameter)
    tokens = torch.arange(3, 35).reshape(2, 16)
    with torch.no_grad():
        logits = wanted(input_ids=tokens).logits
        difference = (model(input_ids=tokens).logits - logits).abs().max().item()
        unchanged = (plain(input_ids=tokens).logits - logits).abs().max().item()
        merged = (model.merge_and_unload()(input_ids=tokens).logits - logits).abs().max().item()
    scale = logits.abs().max().item()
    if difference > 1e-5 * scale:
        sys.exit(f"with the adapter: logits differ by {difference}")
    if unchanged < 1e-3 * scale:
        sys.exit("the adapter changes nothing: the comparison says nothing")
    if merged > (0 if len(sys.argv) > 3 else 1e-5 * scale):
        sys.exit(f"merged by PEFT: logits differ by {merged}")
    print("logits equal")


if __name__ == "__main__":
    main()
