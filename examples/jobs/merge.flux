#!/bin/bash
# Flux: flux batch examples/jobs/merge.flux CHECKPOINT TARGET [more options of shardweld merge]
#flux: --job-name=shardweld
#flux: --nslots=8
#flux: --cores-per-slot=2
#flux: --nodes=2
#flux: --time-limit=30m
#flux: --output=shardweld.{{id}}.log
set -uo pipefail
checkpoint=$1
target=$2
shift 2
# What is left of the job's time, less two minutes. Open MPI 5 and Flux meet by PMIx (flux-pmix), Open MPI 4 by its own plugin for Flux.
left=$(flux job timeleft | cut -d. -f1)
flux run --nodes=2 --ntasks=8 --cores-per-task=2 shardweld merge --resume --if_complete verify --local_dir "$checkpoint" --target_dir "$target" \
    --report "$target.report.json" --stop_at "+$((left > 240 ? left - 120 : left / 2))s" "$@"
code=$?
# 11: stopped, can be resumed.
if ((code == 11 && ${RUN:-1} < 20)); then
    flux --parent batch --env=RUN=$((${RUN:-1} + 1)) "$0" "$checkpoint" "$target" "$@"
fi
exit "$code"
