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
        on_host "$host" "$HERE/../slurm/node.sh '$host'" >"$SLURM/log/$host.out" 2>&1 &
    done
    eventually 30 all_idle || { fail "Slurm does not start"; tail -n 5 "$SLURM"/log/*; return 1; }
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
KillWait=2
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

# eventually SECONDS COMMAND...: until it succeeds.
eventually() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}
