#!/usr/bin/env bash
# node.sh NAME: the daemon of a node, in the namespaces of its host.
set -euo pipefail
mkdir -p "$LOCAL/spool"
exec slurmd -D -N "$1"
