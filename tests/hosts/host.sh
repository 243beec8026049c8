#!/usr/bin/env bash
# The first process of a host, in its own network, name, IPC and mount namespaces: makes what is the host's own, then waits.
# host.sh NAME; $HOSTS is shared, $LOCAL is empty and of this host alone.
set -euo pipefail
hostname "$1"
ip link set lo up
mount --bind "$HOSTS/names" /etc/hosts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs "$LOCAL"
touch "$HOSTS/$1.ready"
exec sleep infinity
