"""Usage: make_families.py TABLES OUT [NAME..]     (needs torch and transformers)

Makes a model of random bf16 values for each table of tests/data/hf_names whose class transformers has, and for further classes of some:
bare base models and other heads. OUT/NAME/expected is what save_pretrained writes; OUT/NAME/fsdp holds the rank files of FSDP2 with two
ranks, and OUT/NAME/dcp the directory that torch.distributed.checkpoint writes of the same state. Two processes do it, ranks 0 and 1.
"""

import json
import os
import pathlib
import subprocess
import sys

RANKS = 2
# Tables of a class of which other classes are made too.
MORE = {"llama": ["LlamaModel", "LlamaForQuestionAnswering"], "qwen2": ["Qwen2Model"], "qwen3": ["Qwen3ForQuestionAnswering"],
        "mistral": ["MistralForQuestionAnswering"], "gpt_neox": ["GPTNeoXModel", "GPTNeoXForTokenClassification"],
        "qwen3_moe": ["Qwen3MoeModel"], "qwen3.tied": ["Qwen3Model", "Qwen3ForSequenceClassification"], "gemma3_text": ["Gemma3TextModel"],
        "gpt2": ["GPT2ForQuestionAnswering"], "qwen2_5_vl": ["Qwen2_5_VLModel"]}
# save_pretrained of 5.23 and 5.24 writes the text model's layers as `blocks`, which no released file does.
LEFT_OUT = {"kimi_k25": "save_pretrained misnames the text model's layers",
            "glm4_moe.unshared": "tensors without elements are left aside in rank files"}

# Defaults of rotary embeddings that do not fit heads of 12.
ROPE = {"ernie4_5_vl_moe": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 2, 2]}}


def cases_of(tables, wanted):
    import transformers

    for path in sorted(pathlib.Path(tables).glob("*.json")):
        table = json.loads(path.read_text())
        if not table["source"].startswith("transformers") or path.stem in LEFT_OUT:
            continue
        config = table["config"]
        if path.stem in ROPE:
            config["text_config"]["rope_parameters"] = ROPE[path.stem]
        for name in [config["architectures"][0], *MORE.get(path.stem, [])]:
            case = path.stem if name == config["architectures"][0] else f"{path.stem}.{name}"
            if hasattr(transformers, name) and (not wanted or case in wanted):
                yield case, name, config


def completed(config):
    """Small tables leave out what has a default; some defaults do not fit a small vocabulary."""
    whole = {key: float("inf") if value == {"__float__": "Infinity"} else value for key, value in config.items()}
    for key, value in whole.items():
        if isinstance(value, dict):
            whole[key] = completed(value)
        if isinstance(value, list):
            whole[key] = [float("inf") if one == {"__float__": "Infinity"} else one for one in value]
    if "vocab_size" in whole:
        whole.setdefault("pad_token_id", 0)
    return whole


def model_of(name, config):
    import torch
    import transformers

    torch.manual_seed(7)
    made = transformers.AutoConfig.for_model(**{key: value for key, value in completed(config).items() if key != "architectures"})
    model = getattr(transformers, name)(made).to(torch.bfloat16).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape).to(parameter.dtype))
        for buffer_name, buffer in model.named_buffers():
            if buffer.is_floating_point() and buffer_name in model.state_dict():
                buffer.copy_(torch.randn(buffer.shape).to(buffer.dtype))
    return model


def save(case, name, config, out, rank):
    import torch
    import torch.distributed
    import torch.distributed.checkpoint
    from torch.distributed.fsdp import fully_shard

    model = model_of(name, config)
    expected, fsdp, dcp = (out / case / part for part in ("expected", "fsdp", "dcp"))
    if rank == 0:
        model.save_pretrained(expected)
        fsdp.mkdir(parents=True)
        (fsdp / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": RANKS}))
        model = model_of(name, config)  # saving may change the module
    torch.distributed.barrier()
    fully_shard(model, mesh=torch.distributed.init_device_mesh("cpu", (RANKS,)))
    state = model.state_dict()
    torch.save(state, fsdp / f"model_world_size_{RANKS}_rank_{rank}.pt")
    torch.distributed.checkpoint.save(state, checkpoint_id=dcp)


def run(tables, out, wanted, rank):
    import torch.distributed

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{out}/meeting", rank=rank, world_size=RANKS)
    for case, name, config in cases_of(tables, wanted):
        try:
            save(case, name, config, out, rank)
        except Exception as error:  # noqa: BLE001: told, and the class left out
            if rank == 0:
                (out / f"{case}.failed").write_text(f"{type(error).__name__}: {error}"[:300])
        torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def main():
    tables, out, *wanted = sys.argv[1:]
    out = pathlib.Path(out).absolute()
    out.mkdir(parents=True, exist_ok=True)
    rank = os.environ.get("MAKE_FAMILIES_RANK")
    if rank is not None:
        run(tables, out, wanted, int(rank))
        return
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "MAKE_FAMILIES_RANK": str(at)}) for at in range(RANKS)]
    sys.exit(max(abs(one.wait()) for one in ranks))


main()
