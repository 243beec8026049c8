# What the scripts that make hosts of namespaces need of the machine: source it, then call needs and apart.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# Debian keeps the tools of administrators apart.
export PATH=$PATH:/usr/sbin:/sbin
# The namespaces of the test itself: its network is the switch, and when its first process ends the kernel ends all others.
apart=(unshare --mount --net --uts --pid --fork --kill-child --mount-proc)

# needs WORD TOOL...: skips where the machine cannot do it, saying why; fails instead when SHARDWELD_REQUIRE has the WORD.
needs() {
    required=$1
    shift
    ((EUID == 0)) || skip "not root"
    local tool
    for tool in ip tc unshare nsenter mpirun python3 "$@"; do
        command -v "$tool" >/dev/null || skip "$tool is not installed"
    done
    mpirun --version 2>/dev/null | grep -q "Open MPI" || skip "mpirun is not Open MPI's"
    "${apart[@]}" sh -c 'ip link add br0 type bridge && ip link add p1 type veth peer name p2 && mount -t tmpfs none /mnt' 2>/dev/null ||
        skip "no right to make namespaces, links and mounts"
}

skip() {
    echo "SKIPPED: $required: $1"
    [[ ",${SHARDWELD_REQUIRE:-}," != *,$required,* ]] || { echo "FAILED: $required is required"; exit 1; }
    exit 77
}

# run_apart BIN SCRIPT: the script in namespaces of its own, with the program and the tests' directory as arguments.
run_apart() {
    local program
    for program in shardweld make_checkpoint; do
        [[ -x $1/$program ]] || { echo "$1/$program is missing: build it first (--bin DIR)" >&2; exit 1; }
    done
    exec "${apart[@]}" "$root/tests/$2" "$(cd "$1" && pwd)/shardweld" "$root/tests"
}
