#!/usr/bin/env bash
# Training checkpoints have the names of transformers' own module trees, heads that are tied included: torch loads each into a fresh model.
# Needs a Python with torch and transformers: $SHARDWELD_PYTHON, else python3. Skipped loudly without; a failure under
# SHARDWELD_REQUIRE=transformers.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python_with transformers transformers torch

"$python" - "$SHARDWELD" "$WORK" <<'PYTHON' >"$WORK/trees" 2>"$WORK/trees.err" || fail "$(cat "$WORK/trees"; tail -5 "$WORK/trees.err")"
import pathlib, subprocess, sys, warnings

import torch
import torch.distributed.checkpoint as dcp
import transformers

warnings.simplefilter("ignore")
program, work = sys.argv[1], pathlib.Path(sys.argv[2])
small = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=64, max_position_embeddings=32)
tokens = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
CASES = [
    ("Bert", small, ["ForMaskedLM", "ForSequenceClassification"]),
    ("Electra", dict(small, embedding_size=32), ["ForMaskedLM"]),
    ("Roberta", small, ["ForMaskedLM", "ForTokenClassification"]),
    ("DistilBert", dict(dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=64, max_position_embeddings=32), ["ForMaskedLM"]),
    ("Albert", dict(small, embedding_size=32), ["ForMaskedLM"]),
    ("DebertaV2", small, ["ForMaskedLM"]),
    ("ModernBert", dict(small, **tokens, cls_token_id=1, sep_token_id=2), ["ForMaskedLM"]),
    ("MPNet", small, ["ForMaskedLM"]),
    ("Llama", small, ["ForCausalLM", "ForSequenceClassification"]),
    ("Qwen2", dict(small, num_key_value_heads=2, tie_word_embeddings=True), ["ForCausalLM", "ForTokenClassification"]),
]
n_wrong = 0
for family, sizes, classes in CASES:
    for name in [family + kind for kind in classes]:
        config = getattr(transformers, family + "Config")(**sizes)
        model, fresh = (getattr(transformers, name)(config).to(torch.bfloat16) for _ in range(2))
        model.save_pretrained(work / name)
        run = subprocess.run([program, "reshape", work / name, work / (name + ".dcp"), "--to", "dcp:world=2", "-q", "--no_fsync"],
                             capture_output=True, text=True)
        keys = set()
        if run.returncode == 0:
            metadata = dcp.FileSystemReader(work / (name + ".dcp")).read_metadata()
            keys = {key[len("model."):] for key in metadata.state_dict_metadata}
        state = {"model": fresh.state_dict()}
        if keys == set(state["model"]):
            dcp.load(state, checkpoint_id=work / (name + ".dcp"))
            fresh.load_state_dict(state["model"])
            if all(torch.equal(value, fresh.state_dict()[key]) for key, value in model.state_dict().items()):
                continue
        n_wrong += 1
        print(name, run.stderr[:300], "written only", sorted(keys - set(state["model"]))[:5], "lacking", sorted(set(state["model"]) - keys)[:5])
sys.exit(n_wrong)
PYTHON
finish
