"""Usage: check_tables.py SHARDWELD TABLES WORK [NAME..]

Runs `shardweld check` for transformers and vLLM on models with the names and shapes of TABLES (tests/data/hf_names), a tokenizer beside each.
None may have an error.
"""

import pathlib
import subprocess
import sys

import plan_tables

WORDS = '{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}'


def main():
    shardweld, tables, work, *wanted = sys.argv[1:]
    n_answers = n_failed = 0
    for path in sorted(pathlib.Path(tables).glob("*.json")):
        if wanted and path.stem not in wanted:
            continue
        table = plan_tables.json.loads(path.read_text())
        directory = pathlib.Path(work) / path.stem
        plan_tables.write_model(directory, table["config"], plan_tables.unfolded(table["saved"]))
        (directory / "tokenizer.json").write_text(WORDS)
        for target in ("transformers", "vllm"):  # the others ask the same of names
            run = subprocess.run([shardweld, "check", str(directory), "--target", target], capture_output=True, text=True)
            n_answers += 1
            if run.returncode:
                n_failed += 1
                print(f"FAILED: {path.stem} for {target}: {run.returncode} {run.stdout}{run.stderr}"[:700])
    print(f"{n_answers} answers, {n_failed} failed")
    sys.exit(n_failed > 0 or n_answers == 0)


main()
