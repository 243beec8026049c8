#!/bin/bash
# Merge, test and upload when a training job has ended well: slurm/chain.sh TRAINING-JOB CHECKPOINT TARGET [ORG/NAME] [options of shardweld merge]
# Run it on a login node; it prints the jobs. Each waits until the one before it has succeeded (afterok). When one fails, those behind it are
# cancelled (--kill-on-invalid-dep); else they would stay in the queue for ever. CHECKPOINT need not be there yet.
# Options of sbatch go into MERGE_SBATCH (merge and test) and UPLOAD_SBATCH, words between blanks:
#   MERGE_SBATCH="-A account -p batch --nodes=2" UPLOAD_SBATCH="-A account -p transfer" slurm/chain.sh 4711 ckpt merged me/model --dtype bf16
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
(($# >= 3)) || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
training=$1
checkpoint=$2
target=$3
shift 3
repository=
[[ ${1:---} == -* ]] || { repository=$1; shift; }
read -ra for_merge <<<"${MERGE_SBATCH:-}"
read -ra for_upload <<<"${UPLOAD_SBATCH:-}"

# after JOB ARGUMENTS-OF-SBATCH: submits and prints the new job. Where there are several clusters, sbatch adds ";cluster".
after() {
    local job
    job=$(sbatch --parsable --dependency="afterok:$1" --kill-on-invalid-dep=yes "${@:2}")
    echo "${job%%;*}"
}
merge=$(after "$training" "${for_merge[@]}" "$here/merge.sbatch" "$checkpoint" "$target" "$@")
echo "merge $merge"
test=$(after "$merge" "${for_merge[@]}" "$here/test.sbatch" "$checkpoint" "$target" "$@")
echo "test $test"
if [[ -n $repository ]]; then
    echo "upload $(after "$test" "${for_upload[@]}" "$here/upload.sbatch" "$target" "$repository")"
fi
