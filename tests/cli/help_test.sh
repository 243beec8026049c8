#!/usr/bin/env bash
# help --json tells all that can be said on the command line; manual pages and completions, which the build makes of it, hold it whole.
source "$(dirname "$0")/lib.sh"

for shell in bash zsh fish; do
    expect_code 0 "$SHARDWELD" help "--completion=$shell" && [[ "$(<"$WORK/out")" =~ split(\\t)?\ fold(\\t)?\ drop ]] || fail "$shell: no values"
done
expect_code 2 "$SHARDWELD" help --completion=tcsh && expect_text "bash, zsh or fish"
# A program that was taken away from its files says what it lacks.
cp "$SHARDWELD" "$WORK/alone"
expect_code 3 "$WORK/alone" help --completion=bash && expect_text "/share/bash-completion/completions/shardweld is not there"

# Help fits a narrow terminal, also that of commands in Python.
for command in '' merge reshape plan inspect test diff watch sbatch check upload; do
    expect_code 0 env COLUMNS=60 "$SHARDWELD" help $command && ! grep -E '^.{61}' "$WORK/out" || fail "help $command is wider than 60 columns"
done

# What the documents say of an exit code, and of all; an error names the command that says it.
expect_code 0 env COLUMNS=96 "$SHARDWELD" help 11 && [[ "$(<"$WORK/out")" == "Exit code 11 stopped"*"Run the same command again: it continues." ]] || fail "help 11: $(<"$WORK/out")"
expect_code 0 "$SHARDWELD" help codes && [[ "$(grep -c '^Exit code ' "$WORK/out")" == "$(grep -c '^## ' "$TESTS/../docs/using/errors.md")" ]] || fail "help codes"
grep -qE '\]\(|^.{97}' "$WORK/out" && fail "a link, or a line that is too long: $(grep -E '\]\(|^.{97}' "$WORK/out")"
expect_code 2 "$SHARDWELD" help 99 && expect_text "there is no exit code 99" && ! grep -q "see:" "$WORK/err" || fail "a usage error: $(<"$WORK/err")"
expect_code 3 "$SHARDWELD" inspect "$WORK/none" && [[ "$(tail -n 1 "$WORK/err")" == "  see: shardweld help 3" ]] || fail "no way to read on: $(<"$WORK/err")"

expect_code 0 "$SHARDWELD" help --json
python3 - "$WORK/out" "$(dirname "$SHARDWELD")/../share" <<'PY' || fail "help --json, manual pages and completions do not agree"
import json, pathlib, re, sys
told = json.load(open(sys.argv[1]))
text_of = lambda name: (pathlib.Path(sys.argv[2]) / name).read_text()
bash, zsh = text_of("bash-completion/completions/shardweld"), text_of("zsh/site-functions/_shardweld")
fish = text_of("fish/vendor_completions.d/shardweld.fish")
page = text_of("man/man1/shardweld.1")
for row in told["exit_codes"]:
    assert f'\\fB{row["code"]}\\fP\n{row["meaning"]}\n' in page.replace("\\-", "-"), row
for command in told["commands"]:
    name = command["name"]
    page = text_of(f"man/man1/shardweld-{name}.1")
    listed = {option["name"] for option in told["options"] if option["is_listed"] and name in option["help_by_command"]}
    completed = re.search(f'^        {name}\\) words="(.*)" ;;$', bash, re.M).group(1)
    assert set(re.findall(r"\\fB\\-\\-(\w+)\\", page)) == listed, name
    assert set(re.findall(r"--(\w+)", completed)) == listed, name
    has_files = any(name in row["commands"] for row in told["files"])
    for section in ("EXIT STATUS", "ENVIRONMENT", *(["FILES"] if has_files else []), "EXAMPLES"):
        assert re.search(rf"^\.SH {section}\n(?!\.SH)", page, re.M), (name, section)
for option in told["options"]:
    name, words = option["name"], option["words"]
    assert (f'        __{name}) words="{" ".join(words)}"' in bash) == bool(words), name
    if words and option["is_listed"]:
        assert f"({' '.join(words)})'".replace(":", "\\:") in zsh, name
        assert f" -l {name} -x -a '{' '.join(word + chr(92) + 't' for word in words)}'" in fish, name
PY
finish
