#!/usr/bin/env bash
# What `cmake --install` makes, moved to another place: the program and its parts, a program that uses the library, manual pages,
# completion, the module file. Arguments: the built program, the tests' directory, the build directory.
source "$(dirname "$0")/../cli/lib.sh"
BUILD="$3"
CASE="$TESTS/data/megatron/llama-tp4-legacy-bf16"

check() { # WHAT COMMAND...
    local what="$1"
    shift
    "$@" >"$WORK/out" 2>"$WORK/err" || { fail "$what"; head -5 "$WORK/err" "$WORK/out" | sed 's/^/    /'; return 1; }
}
skip() { echo "SKIPPED: $1"; }

check "cmake --install" cmake --install "$BUILD" --prefix "$WORK/first/prefix"
prefix="$WORK/moved here/shardweld"
mkdir -p "$(dirname "$prefix")" && mv "$WORK/first/prefix" "$prefix"
grep -rIlF -e "$WORK/first" -e "$BUILD" "$prefix" --exclude-dir=doc >"$WORK/named"
check "files name the place of the build or of the installation: $(cat "$WORK/named")" test ! -s "$WORK/named"

# The program and the parts that it loads or starts.
SHARDWELD="$prefix/bin/shardweld"
merge_case "$CASE" "$WORK/merged" 2
same_as_expected "$CASE" "$WORK/merged"
if [[ -e "$BUILD/bin/shardweld_hdf5.so" ]]; then
    merge_case "$CASE" "$WORK/hdf5" 2 --output_format hdf5
    expect_code 0 "$SHARDWELD" inspect "$WORK/hdf5" --backend hdf5
else
    skip "HDF5 was not built"
fi

# The library.
public=$(cd "$prefix/include" && find . -type f | sort | xargs)
check "other headers than the public ones are installed: $public" test "$public" = "./shardweld/comm.hpp ./shardweld/error.hpp \
./shardweld/events.hpp ./shardweld/examine.hpp ./shardweld/merge.hpp ./shardweld/open.hpp"
example="$WORK/example/merge_example"
if check "the example is configured" cmake -S "$TESTS/../examples/cpp" -B "$WORK/example" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" &&
    check "the example is built" cmake --build "$WORK/example"; then
    expect_code 0 mpirun -n 3 "$example" "$CASE/source" "$CASE/hf" "$WORK/consumed" && mv "$WORK/out" "$WORK/said"
    check "the example said: $(cat "$WORK/said")" grep -q '^39 tensors in 1 files by 3 ranks$' "$WORK/said"
    check "the example told no progress: $(cat "$WORK/said")" grep -q '^finished: moving tensors$' "$WORK/said"
    check "the library wrote to standard error" test ! -s "$WORK/err"
    same_as_expected "$CASE" "$WORK/consumed"
    check "program and library write the same files" diff -r -x shardweld_report.json "$WORK/merged" "$WORK/consumed"
    expect_code 12 "$example" "$CASE/source" "$CASE/hf" "$WORK/consumed"
    expect_code 2 mpirun -n 2 "$example" "$CASE/source" "$CASE/hf" "$WORK/other" fp7
    expect_code 3 "$example" "$CASE/nothing" "$CASE/hf" "$WORK/other"
fi

# A manual page for each command, without complaints of the formatter.
mapfile -t commands < <("$SHARDWELD" help | awk '/^Commands/ { on = 1; next } NF == 0 { on = 0 } on && /^  [a-z]/ && $1 != "help" { print $1 }')
check "commands are listed" test "${#commands[@]}" -ge 9
for page in shardweld "${commands[@]/#/shardweld-}"; do
    check "$page(1) is missing" test -s "$prefix/share/man/man1/$page.1"
    if command -v man >/dev/null; then
        LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z "$prefix/share/man/man1/$page.1" 2>"$WORK/complaints" >/dev/null
        check "$page(1): $(head -1 "$WORK/complaints")" test ! -s "$WORK/complaints"
    fi
done
command -v man >/dev/null || skip "man is not installed: pages are not formatted"

# Completion in bash, fish and zsh offers every option that the help of a command lists, and the commands.
source "$prefix/share/bash-completion/completions/shardweld"
completed() { # WORDS...: what is offered for the last one, sorted
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _shardweld
    printf '%s\n' "${COMPREPLY[@]}" | sort
}
check "completion of commands: $(completed shardweld "")" test "$(completed shardweld "")" = "$(printf '%s\n' "${commands[@]}" help | sort)"
for command in "${commands[@]}"; do
    "$SHARDWELD" help "$command" | sed -nE 's/^(  -[A-Za-z], |      )(--[a-z_0-9]+).*/\2/p' | sort -u >"$WORK/listed"
    completed shardweld "$command" -- >"$WORK/offered"
    check "completion of $command: $(diff "$WORK/listed" "$WORK/offered")" cmp "$WORK/listed" "$WORK/offered"
done
for word in --lora --lora=; do
    words=(shardweld merge --lora)
    [[ $word == --lora ]] || words+=(=)
    check "the values of $word: $(completed "${words[@]}" "")" test "$(completed "${words[@]}" "" | xargs)" = "drop fold split"
done
# bash takes words apart at colons, as it does for COMP_WORDS.
check "a value behind a colon: $(completed shardweld merge --quantize gguf : q8)" test "$(completed shardweld merge --quantize gguf : q8)" = q8_0
check "values behind a colon: $(completed shardweld merge --quantize gguf :)" grep -qw f16 <(completed shardweld merge --quantize gguf :)
listed_recipes() { "$SHARDWELD" recipes | grep -oE "^$1[a-z0-9_]*" | sort | xargs; } # PREFIX
check "recipes are listed by name" test -n "$(listed_recipes qwen3_m)" -a -n "$(listed_recipes qwen3_n)"
check "recipes are completed: $(completed shardweld recipes qwen3_m)" test "$(completed shardweld recipes qwen3_m | xargs)" = "$(listed_recipes qwen3_m)"
if command -v fish >/dev/null; then
    offered() { HOME="$WORK" fish --no-config -c "source '$prefix/share/fish/vendor_completions.d/shardweld.fish'; complete -C '$1'" 2>&1 | cut -f1 | sort | xargs; }
    check "fish completes commands: $(offered "shardweld ")" test "$(offered "shardweld ")" = "$(printf '%s\n' "${commands[@]}" help | sort | xargs)"
    check "fish completes values: $(offered "shardweld merge --lora ")" test "$(offered "shardweld merge --lora ")" = "drop fold split"
    check "fish completes values with colons: $(offered "shardweld merge --quantize gguf:q8")" test "$(offered "shardweld merge --quantize gguf:q8")" = "gguf:q8_0"
    check "fish completes recipes: $(offered "shardweld recipes qwen3_m")" test "$(offered "shardweld recipes qwen3_m")" = "$(listed_recipes qwen3_m)"
    for command in "${commands[@]}"; do
        "$SHARDWELD" help "$command" | sed -nE 's/^(  -[A-Za-z], |      )(--[a-z_0-9]+).*/\2/p' | sort -u >"$WORK/listed"
        offered "shardweld $command --" | tr ' ' '\n' >"$WORK/offered"
        check "fish completes $command: $(diff "$WORK/listed" "$WORK/offered")" cmp "$WORK/listed" "$WORK/offered"
    done
else
    skip "fish is not installed: its completion is not tried"
fi
if command -v zsh >/dev/null; then
    # What a terminal shows after a tab.
    offered() { timeout 20 zsh -f "$TESTS/install/completed.zsh" "$prefix/share/zsh/site-functions" "$1" 2>&1 | sort -u | xargs; }
    check "zsh completes commands: $(offered "shardweld ")" test "$(offered "shardweld ")" = "$(printf '%s\n' "${commands[@]}" help | sort | xargs)"
    for option in "--lora " "--lora="; do
        check "zsh completes the values of $option: $(offered "shardweld merge $option")" test "$(offered "shardweld merge $option")" = "drop fold split"
    done
    check "zsh completes values with colons: $(offered "shardweld merge --quantize gguf:q4")" test "$(offered "shardweld merge --quantize gguf:q4")" = "gguf:q4_0 gguf:q4_1"
    check "zsh completes recipes: $(offered "shardweld recipes qwen3_n")" test "$(offered "shardweld recipes qwen3_n")" = "$(listed_recipes qwen3_n)"
    for command in "${commands[@]}"; do
        "$SHARDWELD" help "$command" | sed -nE 's/^(  -[A-Za-z], |      )(--[a-z_0-9]+).*/\2/p' | sort -u >"$WORK/listed"
        offered "shardweld $command --" | tr ' ' '\n' | tr -d = >"$WORK/offered"
        check "zsh completes $command: $(diff "$WORK/listed" "$WORK/offered")" cmp "$WORK/listed" "$WORK/offered"
    done
else
    skip "zsh is not installed: its completion is not tried"
fi
check "a directory is completed" test "$(completed shardweld merge --local_dir "$CASE/sour")" = "$CASE/source"

# The module file, as Tcl with the commands that it uses: the prefix is where it lies now.
if command -v tclsh >/dev/null; then
    cat >"$WORK/modules.tcl" <<'TCL'
foreach ignored {module-whatis conflict} { proc $ignored args {} }
foreach set {prepend-path setenv} { proc $set {name value} { puts "$name=$value" } }
proc module {do name} { puts "$do $name" }
proc is-loaded name { return 0 }
set ModulesCurrentModulefile [lindex $argv 0]
source $ModulesCurrentModulefile
TCL
    check "the module file" env -u SLURM_PMIX_FENCE SHARDWELD_MPI_MODULE=openmpi/4 tclsh "$WORK/modules.tcl" "$(echo "$prefix"/share/modulefiles/shardweld/*)" && mv "$WORK/out" "$WORK/said"
    check "the module file said $(cat "$WORK/said")" grep -qxF "PATH=$prefix/bin" "$WORK/said"
    check "the module file said $(cat "$WORK/said")" test "$(grep -cxE 'load openmpi/4|SLURM_PMIX_FENCE=ring' "$WORK/said")" = 2
else
    skip "tclsh is not installed: the module file is not read"
fi

# The check for ReFrame, without it: its checkpoint is merged, and a changed byte is found.
cat >"$WORK/checked.py" <<'PYTHON'
import sys
import types
from unittest import mock

reframe = mock.MagicMock(RunOnlyRegressionTest=object, simple_test=lambda test: test)
sys.modules.update({name: reframe for name in ("reframe", "reframe.utility", "reframe.utility.sanity", "reframe.core", "reframe.core.builtins")})
check = types.ModuleType("check")
exec(open(sys.argv[1]).read(), check.__dict__)
if sys.argv[2] == "write":
    check.write_checkpoint(sys.argv[3], check.shapes_of(1), 1)
else:
    sys.exit(check.differences(sys.argv[3], ["model.safetensors"], 1) or 0)
PYTHON
reframe=(python3 "$WORK/checked.py" "$prefix/share/doc/shardweld/reframe/shardweld_check.py")
check "the check for ReFrame makes a checkpoint" "${reframe[@]}" write "$WORK/checkpoint"
expect_code 0 mpirun -n 2 "$SHARDWELD" merge "$WORK/checkpoint" "$WORK/checked" -q --no_fsync
check "the check for ReFrame finds differences" "${reframe[@]}" compare "$WORK/checked"
printf '\x7f' | dd of="$WORK/checked/model.safetensors" bs=1 seek=1000000 conv=notrunc status=none
expect_code 1 "${reframe[@]}" compare "$WORK/checked"
expect_text ".weight']"

finish
