#!/usr/bin/env bash
# Commands that are programs of their own: found on PATH and beside the program, started with what was typed, described in the help.
source "$(dirname "$0")/lib.sh"

mkdir -p "$WORK/prefix/bin" "$WORK/prefix/libexec/shardweld" "$WORK/path"
cp "$SHARDWELD" "$WORK/prefix/bin/shardweld"
MOVED="$WORK/prefix/bin/shardweld"
COMMANDS="$TESTS/../python/commands"
cp -r "$COMMANDS/shardweld_commands" "$WORK/prefix/libexec/shardweld/"
cp "$COMMANDS/shardweld-command" "$WORK/prefix/libexec/shardweld/shardweld-greet"
cp "$COMMANDS/shardweld-command" "$WORK/prefix/libexec/shardweld/shardweld-recipes-greet"
cat >"$WORK/prefix/libexec/shardweld/shardweld_commands/greet.py" <<'PY'
"""For the test."""
import os
import signal
from shardweld_commands.command import *

def run(given):
    if "signal" in given:
        os.kill(os.getpid(), getattr(signal, given.get("signal")))
    if "fail" in given:
        raise Failed(MISMATCH, "it does not fit", "look again", "a file")
    print(given.get("whom"), *map(float, given.all("told")), *given.all("how"), *given.passed_on, ask(["help", "verify"])["name"], program())
    return int(given.get("code", "0"))

COMMAND = Command("greet", run)
PY
cat >"$WORK/prefix/libexec/shardweld/shardweld_commands/descriptions/greet.json" <<'JSON'
{"usage": "shardweld greet WHOM", "summary": "greets", "about": ["Examples:", "  shardweld greet me"], "arguments": ["whom"], "needs": ["whom"], "needs": ["whom"], "passes_on": "verify",
 "refuses": ["bw_limit"], "exit_codes": {"16": "nobody is there"}, "options": [
  {"name": "whom", "value": "NAME", "help": "who is greeted"}, {"name": "code", "value": "N", "kind": "number", "help": "the exit code"},
  {"name": "signal", "value": "NAME", "help": "ends by it"}, {"name": "fail", "letter": "f", "help": "fails"},
  {"name": "told", "value": "TIME", "kind": "seconds", "is_repeated": true, "help": "printed"}, {"name": "how", "value": "HOW", "words": ["Low", "high"], "help": "printed"}]}
JSON
cp "$WORK/prefix/libexec/shardweld/shardweld_commands/descriptions/"{greet,recipes-greet}.json
sed 's/Command("greet"/Command("recipes-greet"/' "$WORK/prefix/libexec/shardweld/shardweld_commands/greet.py" \
    >"$WORK/prefix/libexec/shardweld/shardweld_commands/recipes_greet.py"
printf '#!/bin/sh\necho "other $SHARDWELD_PROGRAM $*"\nexit 7\n' >"$WORK/path/shardweld-other"
printf '#!/bin/sh\necho wrong\n' >"$WORK/path/shardweld-merge"
printf '#!/bin/sh\necho wrong\n' >"$WORK/path/shardweld-greet"
chmod +x "$WORK/path"/*
export PATH="$WORK/path:$PATH"

# The installed one is before PATH's, knows its program, reads its own and another command's options.
expect_code 0 "$MOVED" greet me --report x --sha256 -v && [[ "$(<"$WORK/out")" == "me --report=x --sha256 --verbose verify $MOVED" ]] || fail "$(<"$WORK/out")"
expect_code 9 "$MOVED" greet me --code 9
expect_code 6 "$MOVED" greet me --fail && [[ "$(<"$WORK/err")" == $'error: it does not fit\n  where: a file\n  hint: look again\n  see: shardweld help 6' ]] || fail "$(<"$WORK/err")"
expect_code 2 "$MOVED" greet me --cod 9 && expect_text "did you mean --code?"
expect_code 2 "$MOVED" greet me you
expect_code 2 "$MOVED" greet --fail && expect_text "no --whom is given"
expect_code 2 "$MOVED" greet --fail && expect_text "no --whom is given"
expect_code 2 "$MOVED" greet me --bw_limit 1G && expect_text "--bw_limit is not an option of greet"
expect_code 2 "$MOVED" greet me --code x
expect_code 2 "$MOVED" greet me --how slow && expect_text "Low or high"
expect_code 0 "$MOVED" greet --told 2m --how=low --told=.5 -vq -- --me && [[ "$(<"$WORK/out")" == "--me 120.0 0.5 Low --verbose --quiet verify $MOVED" ]] || fail "$(<"$WORK/out")"
# What other tools call an option is taken, or is said.
for words in "-tp 0" "-tp=0" "--tp-size 0" "--tensor-parallel-size 0" "--num-shard 0"; do
    expect_code 2 "$SHARDWELD" check "$WORK" $words && expect_text "--tp 0 is not a number"
done
expect_code 2 "$SHARDWELD" check "$WORK" --gpus 8 && expect_text "did you mean --tp N?"
# Started by itself it has the program read its words.
PATH="$WORK/prefix/bin:$PATH" expect_code 9 "$WORK/prefix/libexec/shardweld/shardweld-greet" me --code=9
expect_code 10 env SHARDWELD_PROGRAM=/bin/true "$WORK/prefix/libexec/shardweld/shardweld-greet" me
PATH="$WORK/prefix/bin:$PATH" expect_code 0 "$WORK/prefix/libexec/shardweld/shardweld-greet" --describe && expect_out '"name": "greet"'
expect_code 2 "$MOVED" greet me --code 1 --code 2
expect_code 143 bash -c '"$0" greet me --signal SIGTERM; exit $?' "$MOVED"
expect_code 0 "$MOVED" recipes greet me && expect_out "me verify"
# In the help as any other.
expect_code 0 "$MOVED" help && grep -q '^  greet  *greets$' "$WORK/out" || fail "no greet in the overview"
expect_code 0 "$MOVED" help greet && expect_out "--whom NAME"
expect_code 0 "$MOVED" greet -h && expect_out "--whom NAME"
expect_code 0 "$MOVED" help --json
python3 - "$WORK/out" <<'PY' || fail "help --json without the installed command"
import json, sys
told = json.load(open(sys.argv[1]))
assert {"greet", "recipes-greet", "merge"} <= {row["name"] for row in told["commands"]}
by_name = {row["name"]: row for row in told["options"]}
assert by_name["code"]["help_by_command"]["greet"] == "the exit code" and "greet" in by_name["sha256"]["help_by_command"]
assert "greet" not in by_name["bw_limit"]["help_by_command"]
assert "greet" in next(row for row in told["exit_codes"] if row["code"] == 16)["commands"]
PY
# What is not described as this program reads it: one message, and no listing.
greet_json="$WORK/prefix/libexec/shardweld/shardweld_commands/descriptions/greet.json"
cp "$greet_json" "$WORK/greet.json"
sed -i 's/"summary"/"sumary"/; s/"about"/"bout"/' "$greet_json"
expect_code 5 "$MOVED" help --json && expect_text greet && [[ ! -s "$WORK/out" ]] || fail "a description without its text: $(<"$WORK/out")"
expect_code 0 "$MOVED" help && expect_out "(broken)"
cp "$WORK/greet.json" "$greet_json"
expect_code 0 "$MOVED" help --json
# One process, whatever a launcher starts.
expect_code 0 mpirun -n 3 "$MOVED" greet all && [[ "$(grep -c '^all' "$WORK/out")" == 1 ]] || fail "not once: $(<"$WORK/out")"
# Others come from PATH, and get their words as they are. Built-in commands stay what they are, and so does a directory.
expect_code 7 "$MOVED" other 'a b' --c && [[ "$(<"$WORK/out")" == "other $MOVED a b --c" ]] || fail "$(<"$WORK/out")"
expect_code 2 "$MOVED" merge
mkdir "$WORK/at" "$WORK/at/other"
expect_code 3 env -C "$WORK/at" "$MOVED" other
expect_code 2 env -C "$WORK/at" "$MOVED" ../path/shardweld-other
expect_code 2 "$MOVED" othr
expect_code 2 "$MOVED" grete && expect_text "greet"
# Without Python: help, and what is missing.
mkdir "$WORK/bare"
PATH="$WORK/bare" "$MOVED" help greet >"$WORK/out" && expect_out "--whom NAME"
PATH="$WORK/bare" "$MOVED" greet me 2>"$WORK/err"; [[ $? == 3 ]] && expect_text "python3" || fail "without Python: $(<"$WORK/err")"
finish
