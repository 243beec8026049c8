# Makes the hosts and looks into them: source it after lib.sh, as the first process of a namespace (see scripts/test-hosts.sh).
# $HOSTS is one directory for all hosts, as on a parallel file system; $LOCAL is another one on each host, as a local disk.
HERE="$TESTS/hosts"
export SHARDWELD HOSTS="$WORK/shared" LOCAL="$WORK/local"
mount -t tmpfs tmpfs "$WORK"
trap 'umount -l "$WORK"; rmdir "$WORK"' EXIT
# The first process of a namespace gets only signals that it asks for.
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$HOSTS" "$LOCAL"

run_cases() { # DIR: every DIR/CASE.sh of $CASES
    local cases case started n_done=0
    read -ra cases <<<"$CASES"
    for case in "${cases[@]}"; do
        started=$SECONDS
        source "$1/$case.sh"
        echo "$case: $((SECONDS - started)) s, $failures failures so far"
        n_done=$((n_done + 1))
    done
    # An error of the shell ends the loop and nothing else.
    ((n_done == ${#cases[@]})) || fail "only $n_done of ${#cases[@]} cases came to their end"
}

on_host() { # HOST COMMAND-LINE
    "$HERE/ssh.sh" "$@"
}

host_names() {
    seq -f 'h%g' "$N_HOSTS"
}

all_hosts() { # COMMAND-LINE
    local host
    for host in $(host_names); do
        on_host "$host" "$@"
    done
}

ranks_each() { # N: the layout with N ranks on each host
    host_names | sed "s/\$/:$1/" | paste -sd,
}

hosts_up() {
    local i
    ip link add br0 type bridge
    ip link set br0 up
    echo "127.0.0.1 localhost" >"$HOSTS/names"
    for ((i = 1; i <= N_HOSTS; ++i)); do
        echo "10.91.0.$i h$i" >>"$HOSTS/names"
    done
    for ((i = 1; i <= N_HOSTS; ++i)); do
        host_up "h$i" "10.91.0.$i" || return 1
    done
}

host_up() { # NAME ADDRESS
    local wait
    unshare --net --uts --ipc --mount "$HERE/host.sh" "$1" &
    echo $! >"$HOSTS/$1.pid"
    for ((wait = 0; wait < 200; ++wait)); do
        [[ ! -e "$HOSTS/$1.ready" ]] || break
        sleep 0.05
    done
    [[ -e "$HOSTS/$1.ready" ]] || { fail "host $1 does not start"; return 1; }
    ip link add "to-$1" type veth peer name eth0 netns "$(<"$HOSTS/$1.pid")"
    ip link set "to-$1" master br0 up
    on_host "$1" "ip addr add $2/24 dev eth0 && ip link set eth0 up"
}

# limit_rate RATE; "none" lifts it
limit_rate() {
    if [[ "$1" == none ]]; then
        all_hosts tc qdisc del dev eth0 root
    else
        all_hosts tc qdisc replace dev eth0 root tbf rate "$1" burst 256kb latency 50ms
    fi
}

# Bytes that the kernel counted leaving each host, one line each: headers, acknowledgements and launch included.
bytes_out() {
    all_hosts "awk '\$1 == \"eth0:\" { print \$10 }' /proc/net/dev"
}

# spread SOURCE SIDE-HOST HOST...: one checkpoint over local disks: shard files in turn to each HOST, all else to SIDE-HOST.
# $LOCAL/source on each host.
spread() {
    local source="$1" side="$2" file i=0
    shift 2
    local hosts=("$@")
    all_hosts "rm -rf '$LOCAL/source'; mkdir '$LOCAL/source'"
    while read -r file; do
        case "$file" in
            *.distcp | */model_optim_rng.pt | *_world_size_*_rank_*.pt)
                copy_to "${hosts[i % ${#hosts[@]}]}" "$source" "$file"
                i=$((i + 1))
                ;;
            *) copy_to "$side" "$source" "$file" ;;
        esac
    done < <(cd "$source" && find . -type f | sort -V)
}

# As soon as a merge into $HOSTS/out writes tensors; the ranks of other hosts live on.
kill_ranks_on() { # HOST
    local wait process
    for ((wait = 0; wait < 200; ++wait)); do
        [[ -z "$(find "$HOSTS/.out.shardweld-partial" -name 'model*.safetensors' 2>/dev/null)" ]] || break
        sleep 0.05
    done
    for process in /proc/[0-9]*; do
        [[ "$(<"$process/comm")" == shardweld && "$(readlink "$process/ns/net")" == "$(readlink "/proc/$(<"$HOSTS/$1.pid")/ns/net")" ]] 2>/dev/null &&
            grep -qzFx -- "$HOSTS/out" "$process/cmdline" &&
            kill -KILL "${process#/proc/}"
    done
}

copy_to() { # HOST SOURCE FILE
    on_host "$1" "cd '$2' && cp --parents '$3' '$LOCAL/source'" </dev/null
}
