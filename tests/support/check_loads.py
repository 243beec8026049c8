"""Usage: check_loads.py SHARDWELD TABLES WORK [NAME..]     (needs torch and transformers)

Holds what `shardweld check --target transformers` says of a directory against what transformers does with it: small models with the names and
shapes of TABLES (tests/data/hf_names), as they are and under other names. A directory that is refused, or of which a tensor would be random, must
have an error; one that loads whole must have none. Prints each disagreement.
"""

import json
import os
import pathlib
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
            ("rope_parameters", {"rope_type": "default", "rope_theta": "10000"}), ("quantization_config", "fp8"), ("id2label", [1])]


def cases_of(tables, wanted):
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
                    yield f"{path.stem}, {form} names {variant}", table["config"], changed
        if path.stem == "llama":
            for field, value in SETTINGS:
                yield f"llama, {field} {json.dumps(value)}", {**table["config"], field: value}, plan_tables.unfolded(table["saved"])


def main():
    import transformers

    shardweld, tables, work, *wanted = sys.argv[1:]
    transformers.logging.set_verbosity(50)
    transformers.utils.logging.disable_progress_bar()
    directory = pathlib.Path(work) / "model"
    n_cases = n_wrong = 0
    for label, config, names in cases_of(tables, wanted):
        architecture = config["architectures"][0]
        if not hasattr(transformers, architecture):
            continue
        shutil.rmtree(directory, ignore_errors=True)
        plan_tables.write_model(directory, config, names)
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
