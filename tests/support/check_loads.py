"""Usage: check_loads.py SHARDWELD TABLES WORK [NAME..]     (needs torch and transformers)

Holds what `shardweld check --target transformers` says of a directory against what transformers does with it: small models with the names and
shapes of TABLES (tests/data/hf_names), as they are and under other names. A directory that is refused, or of which a tensor would be random, must
have an error; one that loads whole must have none. Prints each disagreement.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import warnings

import plan_tables

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore")


def renamed(old, new):
    return lambda names: {new + name[len(old):] if name.startswith(old) else name: shape for name, shape in names.items()}


def of_peft(names):
    return {"base_model.model." + (name.replace(".q_proj.weight", ".q_proj.base_layer.weight")): shape for name, shape in names.items()}


def row_more(part):
    def lengthen(names):
        found = [name for name in names if name.endswith(part)]
        return {name: [shape[0] + 1, *shape[1:]] if name in found[:1] else shape for name, shape in names.items()} if found else None

    return lengthen


def outside_less(names):
    """One tensor less of those that belong to no layer."""
    found = [name for name in names if not any(part.isdigit() for part in name.split(".")) and not name.startswith(("lm_head", "model.norm"))]
    return {name: shape for name, shape in names.items() if name != found[len(found) // 2]} if len(found) > 4 else None


def less(part):
    def drop(names):
        found = [name for name in names if part in name]
        return {name: shape for name, shape in names.items() if name not in found[-1:]} if found else None

    return drop


def text_alone(names):
    """The names of the text model under a config with a tower."""
    for inner in ("model.language_model.", "language_model.model.", "thinker.model."):
        if any(name.startswith(inner) for name in names):
            return {name.replace(inner, "model.", 1).replace("language_model.lm_head", "lm_head"): shape for name, shape in names.items()}
    return None


def all_less(part):
    """Without a tensor of all layers."""
    return lambda names: {name: shape for name, shape in names.items() if not name.endswith(part)}


def is_of_tower(name):
    return re.search("visual|vision_|audio_tower", name)


def all_less_of_tower(*parts):
    return lambda names: {name: shape for name, shape in names.items() if not (name.endswith(parts) and is_of_tower(name))}


def reshaped(part, change):
    def alter(names):
        found = [name for name in names if name.endswith(part) and not is_of_tower(name)]  # whose shapes are not checked
        return {name: change(shape) if name == found[0] else shape for name, shape in names.items()} if found else None

    return alter


def component(old, new, part=""):
    return lambda names: {name.replace(f".{old}.", f".{new}.") if part in name else name: shape for name, shape in names.items()}


VARIANTS = {
    "as they are": lambda names: names,
    "without model.": renamed("model.", ""),
    "behind model.": lambda names: {"model." + name: shape for name, shape in names.items()},
    "behind module.": lambda names: {"module." + name: shape for name, shape in names.items()},
    "behind policy.model.": lambda names: {"policy.model." + name: shape for name, shape in names.items()},
    "of PEFT": of_peft,
    "of the text model": text_alone,
    "a norm less": less("norm"),
    "an expert less": less(".experts."),
    "a layer's projection less": less("proj.weight"),
    "a bias less": less(".bias"),
    "a tensor outside of layers less": outside_less,
    "a row of the head more": row_more("lm_head.weight"),
    "no correction of the router": all_less("correction_bias"),
    "no bias of the head": all_less("score.bias"),
    "no projection into a tower's attention": all_less_of_tower(".qkv.weight", ".q_proj.weight", ".wqkv.weight"),
    "no second norm of a tower": all_less_of_tower(".norm2.weight", ".layer_norm2.weight", ".final_layer_norm.weight", ".ffn_norm.weight"),
    "a norm of one number": reshaped("norm.weight", lambda shape: []),
    "a projection of more dims": reshaped("proj.weight", lambda shape: [1, *shape]),
    "a column of the embedding more": reshaped("embed_tokens.weight", lambda shape: [shape[0], shape[1] + 1]),
    "experts of another component": component("block_sparse_moe", "mlp", ".experts."),
    "all of another component": component("block_sparse_moe", "mlp"),
}


def load(directory, architecture):
    """What is wrong, "" for nothing."""
    import torch
    import transformers

    try:
        _, told = getattr(transformers, architecture).from_pretrained(directory, dtype=torch.bfloat16, output_loading_info=True)
    except Exception as error:  # noqa: BLE001: refused
        return f"{type(error).__name__}: {error}"[:200]
    wrong = {kind: sorted(map(str, told[kind]))[:2] for kind in ("missing_keys", "mismatched_keys") if told[kind]}
    return json.dumps(wrong) if wrong else ""


# Settings of Llama, of which transformers' configuration refuses some.
SETTINGS = [("rms_norm_eps", 1), ("rms_norm_eps", "1e-6"), ("rms_norm_eps", 1e-5), ("attention_dropout", 0), ("attention_dropout", "0"),
            ("initializer_range", 1), ("hidden_act", "swishy"), ("hidden_act", "relu2"), ("dtype", "bf16"), ("dtype", "float16"),
            ("eos_token_id", [1, "2"]), ("eos_token_id", [1, 2]), ("bos_token_id", "1"), ("tie_word_embeddings", 0),
            ("layer_types", ["full_attention"]), ("layer_types", ["full_attention", "sliding_attention"]),
            ("rms_norm_eps", None), ("head_dim", None), ("num_key_value_heads", None), ("tie_word_embeddings", None), ("sliding_window", None),
            ("vocab_size", None), ("layer_norm_eps", None), ("attention_bias", None), ("bos_token_id", None), ("use_cache", None),
            ("rope_parameters", {"rope_type": "default", "rope_theta": "10000"}), ("quantization_config", "fp8"), ("id2label", [1])]


def called(name):
    return lambda directory: (directory / "model.safetensors").rename(directory / name)


def indexed(metadata, name="part.safetensors"):
    """The weights in a file that an index names; `metadata` as JSON."""

    def arrange(directory):
        tensors = list(header_of(directory))
        called(name)(directory)
        index = '{%s"weight_map": %s}' % (metadata and f'"metadata": {metadata}, ', json.dumps(dict.fromkeys(tensors, name)))
        (directory / "model.safetensors.index.json").write_text(index)

    return arrange


def header_of(directory):
    data = (directory / "model.safetensors").read_bytes()
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def headed(change):
    """With another text of the header."""

    def arrange(directory):
        path = directory / "model.safetensors"
        data = path.read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        text = change(data[8:end].decode().rstrip()).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data[end:])

    return arrange


def first_entry(text):
    return json.dumps(dict([next(iter(json.loads(text).items()))]))[1:-1]


# How the files of Llama lie, of which transformers or safetensors refuses some.
ARRANGED = {
    "in model.bin": called("model.bin"),
    "in model.pt": called("model.pt"),
    "in weights.safetensors": called("weights.safetensors"),
    "with an index": indexed("{}"),
    "with an index without metadata": indexed(""),
    "with an index of null metadata": indexed("null"),
    "with an index whose metadata is a number": indexed("1"),
    "with an index that states NaN": indexed('{"total_size": NaN}'),
    "with a blank in front of the header": headed(lambda text: " \n" + text),
    "with blanks behind the header": headed(lambda text: text + " \n"),
    "with a NUL behind the header": headed(lambda text: text + "\0"),
    "with null metadata in the header": headed(lambda text: '{"__metadata__": null, ' + text[1:]),
    "with a list of metadata in the header": headed(lambda text: '{"__metadata__": [], ' + text[1:]),
    "with a number in the header's metadata": headed(lambda text: '{"__metadata__": {"a": 1}, ' + text[1:]),
    "with metadata twice in the header": headed(lambda text: '{"__metadata__": {}, "__metadata__": {}, ' + text[1:]),
    "with a tensor twice in the header": headed(lambda text: "{" + first_entry(text) + ", " + text[1:]),
    "with another tensor of a name before it in the header": headed(
        lambda text: "{" + first_entry(text).replace("BF16", "F16") + ", " + text[1:]),
    "with a further field in the header": headed(lambda text: text.replace('"dtype"', '"more": {"a": [1, null]}, "dtype"', 1)),
    "with a field twice in the header": headed(lambda text: text.replace('"dtype"', '"dtype": "BF16", "dtype"', 1)),
    "with a byte order mark in the header": headed(lambda text: "\ufeff" + text),
}


def cases_of(tables, wanted):
    """What it is called, config.json, names and shapes, and how the files lie."""
    for path in sorted(pathlib.Path(tables).glob("*.json")):
        table = json.loads(path.read_text())
        if (wanted and path.stem not in wanted) or not table["source"].startswith("transformers"):
            continue
        for form in ("saved", "module"):
            if form not in table:
                continue
            names = plan_tables.unfolded(table[form])
            for variant, change in VARIANTS.items():
                changed = change(names)
                if changed and (variant == "as they are" or (form == "saved" and changed != names)):
                    yield f"{path.stem}, {form} names {variant}", table["config"], changed, None
        if path.stem == "llama":
            for field, value in SETTINGS:
                yield f"llama, {field} {json.dumps(value)}", {**table["config"], field: value}, plan_tables.unfolded(table["saved"]), None
            for label, arrange in ARRANGED.items():
                yield f"llama {label}", table["config"], plan_tables.unfolded(table["saved"]), arrange


def main():
    import transformers

    shardweld, tables, work, *wanted = sys.argv[1:]
    transformers.logging.set_verbosity(50)
    transformers.utils.logging.disable_progress_bar()
    directory = pathlib.Path(work) / "model"
    n_cases = n_wrong = 0
    for label, config, names, arrange in cases_of(tables, wanted):
        architecture = config["architectures"][0]
        if not hasattr(transformers, architecture):
            continue
        shutil.rmtree(directory, ignore_errors=True)
        plan_tables.write_model(directory, config, names)
        if arrange:
            arrange(directory)
        wrong = load(directory, architecture)
        run = subprocess.run([shardweld, "check", str(directory), "--target", "transformers"], capture_output=True, text=True)
        n_cases += 1
        if run.returncode not in (0, 14) or (run.returncode == 14) != bool(wrong):
            n_wrong += 1
            print(f"WRONG: {label}: check gives {run.returncode}, transformers {wrong or 'loads it'}")
            print("".join(f"    {line[:300]}\n" for line in run.stdout.splitlines() + run.stderr.splitlines() if line.startswith("error")), end="")
    print(f"{n_cases} directories, {n_wrong} answers wrong")
    sys.exit(n_wrong > 0 or n_cases == 0)


if __name__ == "__main__":
    main()
