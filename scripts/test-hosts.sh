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
  --cases LIST  some of shared,local,limited,refused,dead,more (all)

Needs root, iproute2, util-linux and Open MPI. Without them it says so and exits with 77; with "hosts" among
the words of SHARDWELD_REQUIRE it fails instead. However it ends, no process, link, mount or file is left: hosts
are namespaces below one process namespace, and files lie in memory (about 1 GB).
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$root/build/bin
export N_HOSTS=3 RATE=200mbit CASES='shared local limited refused dead more'
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

skip() {
    echo "SKIPPED: several hosts: $1"
    [[ ",${SHARDWELD_REQUIRE:-}," != *,hosts,* ]] || { echo "FAILED: hosts are required"; exit 1; }
    exit 77
}

# Debian keeps the tools of administrators apart.
export PATH=$PATH:/usr/sbin:/sbin
((EUID == 0)) || skip "not root"
for tool in ip tc unshare nsenter mpirun python3; do
    command -v "$tool" >/dev/null || skip "$tool is not installed"
done
mpirun --version 2>/dev/null | grep -q "Open MPI" || skip "mpirun is not Open MPI's"
# The namespaces of the test itself: its network is the switch, and when its first process ends the kernel ends all others.
apart=(unshare --mount --net --pid --fork --kill-child --mount-proc)
"${apart[@]}" sh -c 'ip link add br0 type bridge && ip link add p1 type veth peer name p2 && mount -t tmpfs none /mnt' 2>/dev/null ||
    skip "no right to make namespaces, links and mounts"
for program in shardweld make_checkpoint; do
    [[ -x $bin/$program ]] || { echo "test-hosts.sh: $bin/$program is missing: build it first (--bin DIR)" >&2; exit 1; }
done
exec "${apart[@]}" "$root/tests/hosts/run.sh" "$(cd "$bin" && pwd)/shardweld" "$root/tests"
