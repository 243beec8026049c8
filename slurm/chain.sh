#!/bin/bash
# Merge, test and upload when a training job has ended well: slurm/chain.sh TRAINING-JOB CHECKPOINT TARGET [ORG/NAME]
# Run it on a login node; it prints the jobs. Each waits until the one before it has succeeded (afterok). When one fails, those behind it are
# cancelled (--kill-on-invalid-dep); else they would stay in the queue for ever. CHECKPOINT need not be there yet.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
training=$1
checkpoint=$2
target=$3
repository=${4:-}

# after JOB SCRIPT ARGUMENTS: submits and prints the new job. Where there are several clusters, sbatch adds ";cluster".
after() {
    local job
    job=$(sbatch --parsable --dependency="afterok:$1" --kill-on-invalid-dep=yes "$here/$2" "${@:3}")
    echo "${job%%;*}"
}
merge=$(after "$training" resume.sbatch "$checkpoint" "$target")
echo "merge $merge"
test=$(after "$merge" test.sbatch "$checkpoint" "$target")
echo "test $test"
if [[ -n $repository ]]; then
    echo "upload $(after "$test" upload.sbatch "$target" "$repository")"
fi
