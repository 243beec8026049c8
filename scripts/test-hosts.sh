#!/usr/bin/env bash
# Merges with ranks on several "hosts" of this machine that share nothing but a network and one directory, with shards that only one of
# them sees and with little bandwidth; compares files, exit codes, reads and traffic. Options: see --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
scripts/test-hosts.sh [options]
  --bin DIR     where shardweld and make_checkpoint are (build/bin)
  --hosts N     hosts, 3 or more (3)
  --rate RATE   bandwidth of each host in the limited case, as tc understands it (200mbit)
  --cases LIST  some of shared,local,limited,refused,dead,cut,more (all)

Needs root, iproute2, util-linux and Open MPI. Without them it says so and exits with 77; with "hosts" among
the words of SHARDWELD_REQUIRE it fails instead. However it ends, no process, link, mount or file is left: hosts
are namespaces below one process namespace, and files lie in memory (about 1 GB).
TEXT
}

source "$(dirname "${BASH_SOURCE[0]}")/../tests/hosts/apart.sh"
bin=$root/build/bin
export N_HOSTS=3 RATE=200mbit CASES='shared local limited refused dead cut more'
while (($#)); do
    case $1 in
        --bin) bin=$2; shift ;;
        --hosts) N_HOSTS=$2; shift ;;
        --rate) RATE=$2; shift ;;
        --cases) CASES=${2//,/ }; shift ;;
        --help) usage; exit 0 ;;
        *) echo "test-hosts.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
    esac
    shift
done
((N_HOSTS >= 3)) || { echo "test-hosts.sh: at least 3 hosts" >&2; exit 2; }

needs hosts
run_apart "$bin" hosts/run.sh
