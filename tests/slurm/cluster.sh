# A Slurm on the hosts: munge and a controller where the tests run, which is a login node on the hosts' network, and a slurmd on
# each host. Source it after hosts.sh. Files of the cluster lie in $SLURM; when the tests' namespace ends, all of it ends.
SLURM="$HOSTS/slurm"
export SLURM_CONF="$SLURM/slurm.conf"
LOGIN_ADDRESS=10.91.0.200

slurm_up() {
    mkdir -p "$SLURM"/{state,log}
    hostname login
    ip link set lo up
    ip addr add "$LOGIN_ADDRESS/24" dev br0
    echo "$LOGIN_ADDRESS login" >>"$HOSTS/names"
    mount --bind "$HOSTS/names" /etc/hosts
    start_munge
    write_slurm_conf
    slurmctld -D >"$SLURM/log/slurmctld.out" 2>&1 &
    local host
    for host in $(host_names); do
        start_node "$host"
    done
    eventually 30 all_idle || { fail "Slurm does not start"; tail -n 5 "$SLURM"/log/*; return 1; }
}

start_node() { # HOST
    on_host "$1" "$HERE/../slurm/node.sh '$1'" >>"$SLURM/log/$1.out" 2>&1 &
}

# lose_node HOST: whatever runs there ends without a word, and Slurm finds it down. What programs had in memory is gone with it; what slurmd has in its
# spool is not, sockets of PMIx for steps that are no more among it.
lose_node() {
    local process
    for process in /proc/[0-9]*; do
        [[ "$(<"$process/comm")" =~ ^(slurmd|slurmstepd|shardweld|bash|srun)$ ]] 2>/dev/null &&
            [[ "$(readlink "$process/ns/net")" == "$(readlink "/proc/$(<"$HOSTS/$1.pid")/ns/net")" && "${process#/proc/}" != "$(<"$HOSTS/$1.pid")" ]] &&
            kill -KILL "${process#/proc/}"
    done
    on_host "$1" "rm -rf '$LOCAL'/*.pid /dev/shm/*"
    scontrol update NodeName="$1" State=DOWN Reason=lost
}

find_node() { # HOST: it is back
    start_node "$1"
    scontrol update NodeName="$1" State=RESUME
}

start_munge() {
    (umask 077 && head -c 128 /dev/urandom >"$SLURM/munge.key")
    munged --foreground --force --num-threads=2 --key-file="$SLURM/munge.key" --socket="$SLURM/munge.socket" --pid-file="$SLURM/munged.pid" \
        --seed-file="$SLURM/munged.seed" --log-file="$SLURM/log/munged.log" >"$SLURM/log/munged.out" 2>&1 &
    eventually 10 munge -n --socket="$SLURM/munge.socket" || fail "munged does not start"
}

# Nodes claim more processors and memory than there are, and nothing is enforced: cgroups belong to the machine. Requeued jobs
# start again as soon as their old credentials have expired.
write_slurm_conf() {
    cat >"$SLURM_CONF" <<CONF
ClusterName=shardweld
SlurmctldHost=login($LOGIN_ADDRESS)
SlurmUser=root
SlurmdUser=root
AuthInfo=socket=$SLURM/munge.socket,cred_expire=5
StateSaveLocation=$SLURM/state
SlurmdSpoolDir=$LOCAL/spool
SlurmctldPidFile=$SLURM/slurmctld.pid
SlurmdPidFile=$LOCAL/slurmd.pid
SlurmctldLogFile=$SLURM/log/slurmctld.log
SlurmdLogFile=$SLURM/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=100000
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
KillWait=10
DefMemPerCPU=100
NodeName=DEFAULT CPUs=32 Boards=1 SocketsPerBoard=1 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=64000 TmpDisk=200000
$(host_names | awk '{ print "NodeName=" $1 " NodeAddr=" $1 }')
PartitionName=batch Nodes=$(host_names | paste -sd,) Default=YES
PartitionName=transfer Nodes=h1
CONF
    # Without this it looks for control groups where there may be none.
    echo "CgroupPlugin=cgroup/v1" >"$SLURM/cgroup.conf"
    # What PMIx keeps for a step goes where each node has its own.
    echo "PMIxCliTmpDirBase=$LOCAL" >"$SLURM/mpi.conf"
}

all_idle() {
    [[ "$(sinfo -h -N -p batch -o %T | grep -c '^idle$')" == "$N_HOSTS" ]]
}

# eventually SECONDS COMMAND...: until it succeeds, asked ten times a second, or every $PAUSE seconds.
eventually() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || return 1
        sleep "${PAUSE:-0.1}"
    done
}
