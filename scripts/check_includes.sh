#!/usr/bin/env bash
# The include graph of docs/design.md as a check: a module may include only the modules listed for it, no files and no folders
# include each other in a circle, third-party headers stay where they belong. Prints each violation; exits 1 if there is one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

declare -A ALLOWED=(
    [core]="core"
    [layout]="core layout"
    [io]="core io"
    [mpi]="core mpi"
    [numeric]="core numeric"
    [catalogue]="core layout catalogue"
    [models]="core layout models"
    [formats]="core layout io catalogue hdf5 formats"
    [outputs]="core hdf5 outputs"
    [plan]="core layout catalogue models outputs plan"
    [adapters]="core layout catalogue models outputs plan adapters"
    [execute]="core layout io mpi numeric catalogue outputs plan execute"
    [publish]="core io mpi models outputs plan process publish"
    [loaders]="core loaders"
    [process]="core process"
    [measure]="core io mpi measure"
    [upload]="core io outputs process upload"
    [app]="core layout io mpi numeric catalogue models formats outputs plan adapters execute loaders measure publish process upload app"
    [torch]="core numeric torch"
    [hdf5]="core hdf5"
)
# Rooms of a module: what else of the same module a room may include.
declare -A ROOMS=(
    [app/messages]=""
    [app/settings]="messages"
    [app/runtime]="messages settings"
    [app/report]="messages settings runtime"
    [app/survey]="messages settings runtime report"
    [app/tokenizer]=""
    [app/family]="messages settings runtime survey tokenizer"
    [app/compare]="messages settings report survey family"
    [app/merge]="messages settings runtime report survey family compare"
    [app/api]="commands messages settings runtime report survey family compare merge"
    [app/cli]="messages settings runtime"
    [app/commands]="cli messages settings runtime report survey family compare merge"
    [formats/bytecheckpoint]="containers shared megatron"
    [formats/colossalai]="containers shared hf"
    [formats/containers]=""
    [formats/shared]="containers"
    [formats/dcp]="containers shared hf"
    [formats/deepspeed]="containers shared"
    [formats/fsdp]="containers shared"
    [formats/hdf5]="containers shared"
    [formats/hf]="containers shared"
    [formats/megatron]="containers shared"
    [mpi/calls]=""
    [mpi/loading]=""
    [outputs/gguf]=""
    [outputs/hdf5]=""
    [outputs/safetensors]=""
    [plan/bind]=""
    [plan/schedule]="bind"
)
bad=0

complain() {
    echo "check_includes: $1" >&2
    bad=1
}

for module in "${!ALLOWED[@]}"; do
    for file in $(find "include/shardweld/$module" "src/$module" -name '*.[ch]pp' 2>/dev/null); do
        for used in $(sed -n 's|^#include "shardweld/\([a-z_]*\)/.*|\1|p' "$file"); do
            [[ " ${ALLOWED[$module]} " == *" $used "* ]] || complain "$file ($module) includes $used"
        done
    done
done
for directory in src/*/*/; do
    room="${directory#src/}"
    room="${room%/}"
    [[ -n "$(find "$directory" -name '*.[ch]pp' -print -quit)" ]] || continue
    [[ -v ROOMS[$room] ]] || complain "$directory is no room that this script knows"
    for file in $(find "$directory" -name '*.[ch]pp'); do
        for used in $(sed -n 's|^#include "\.\./\([a-z0-9_]*\)/.*|\1|p' "$file"); do
            [[ " ${ROOMS[$room]-} " == *" $used "* ]] || complain "$file ($room) includes $used"
        done
    done
done
includes() { # each file, and a file that it includes
    find include src -name '*.[ch]pp' -print0 | xargs -0 awk '
        function clean(path) { while (sub(/[^\/]+\/\.\.\//, "", path)) { } return path }
        /^#include "/ { split($0, quoted, "\""); directory = FILENAME; sub(/[^\/]*$/, "", directory)
            print FILENAME, quoted[2] ~ /^shardweld\// ? "include/" quoted[2] : clean(directory quoted[2]) }'
}
no_circle() { # WHAT; reads pairs
    local circle
    circle=$(awk '$1 != $2' | tsort 2>&1 >/dev/null) || complain "$1 include each other in a circle: $circle"
}
# A header and its source are one.
no_circle files < <(includes | sed -E 's,include/shardweld/,src/,g; s/\.[a-z]+( |$)/\1/g')
no_circle folders < <(includes | sed -E 's,/[^/ ]+( |$),\1,g')
third_party() { # HEADER-PATTERN ALLOWED-PATHS WHAT
    for file in $(grep -rlE "^#include <$1" include src || true); do
        [[ "$file" =~ $2 ]] || complain "$file includes $3 outside its place"
    done
}
third_party 'mpi\.h' '^src/mpi/calls/' 'mpi.h'
third_party 'hdf5\.h' '^src/hdf5/' 'hdf5.h'
third_party '(torch|ATen|c10)/' '^src/torch/' 'libtorch'
third_party 'nlohmann' '\.cpp$|^src/(app|publish|models|formats|adapters|loaders)/' 'a third-party header'
third_party 'nlohmann' '^src/' 'a third-party header'
exit "$bad"
