#!/usr/bin/env bash
# Runs the job scripts of slurm/ and those of `plan --sbatch` on a real Slurm with two nodes, made of namespaces of this machine: merges over
# nodes, arrays, chains, time limits, signals and dead ranks; compares files, exit codes and the states of jobs. Options: see --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
scripts/test-slurm.sh [options]
  --bin DIR     where shardweld and make_checkpoint are (build/bin)
  --nodes N     nodes, 2 or more (2)
  --cases LIST  some of launch,merge,leftovers,staging,mount,array,chain,resume,cut,watch,signals,sbatch (all)
                pmi: alone, for a program that uses MPICH

Needs root, Slurm (slurmctld, slurmd, slurm-client), munge, iproute2, util-linux and Open MPI. Without them it says so and exits
with 77; with "slurm" among the words of SHARDWELD_REQUIRE it fails instead. A Slurm of the machine's own is neither used nor touched.
However the test ends, no process, mount or file is left: all runs below one process namespace, and files lie in memory (about 1 GB).
TEXT
}

source "$(dirname "${BASH_SOURCE[0]}")/../tests/hosts/apart.sh"
bin=$root/build/bin
export N_HOSTS=2 CASES='launch merge leftovers staging mount array chain resume cut watch signals sbatch'
while (($#)); do
    case $1 in
        --bin) bin=$2; shift ;;
        --nodes) N_HOSTS=$2; shift ;;
        --cases) CASES=${2//,/ }; shift ;;
        --help) usage; exit 0 ;;
        *) echo "test-slurm.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
    esac
    shift
done
((N_HOSTS >= 2)) || { echo "test-slurm.sh: at least 2 nodes" >&2; exit 2; }

needs slurm munged munge slurmctld slurmd sbatch srun scancel scontrol squeue sinfo
run_apart "$bin" slurm/run.sh
