#!/usr/bin/env bash
# What ssh is among real hosts: ssh.sh HOST COMMAND-LINE. $HOSTS/HOST.pid holds a process of that host.
exec nsenter --target "$(<"$HOSTS/$1.pid")" --net --uts --ipc --mount -- bash -c "cd '$PWD'; ${*:2}"
