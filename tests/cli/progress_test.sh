#!/usr/bin/env bash
# What a terminal gets, also behind mpirun, whose ranks write into pipes: one live line that fits, in colours unless NO_COLOR is set; and that
# nothing of it gets into pipes.
source "$(dirname "$0")/lib.sh"
fsdp="$TESTS/data/torch/fsdp2_w4_bf16_qwen2_tied/source"

# on_terminal COLUMNS COMMAND...: runs it on a terminal of so many columns; what that got is in $WORK/out.
on_terminal() {
    rm -rf "$WORK/model"
    python3 - "$@" >"$WORK/out" <<'PYTHON' || fail "code $? on a terminal: $*"
import fcntl, os, pty, struct, subprocess, sys, termios
main, side = pty.openpty()
fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, int(sys.argv[1]), 0, 0))
process = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=side, stderr=side, env={**os.environ, "TERM": "xterm"})
os.close(side)
try:
    while part := os.read(main, 1 << 16):
        os.write(1, part)
except OSError:  # nobody has the other end any more
    pass
sys.exit(process.wait())
PYTHON
}

# fits COLUMNS: there are live lines, none of them wider, and nothing is left of the last.
fits() {
    python3 - "$1" "$WORK/out" <<'PYTHON' || fail "live lines at $1 columns: $(cat -v "$WORK/out" | head -c 2000)"
import re, sys
text = open(sys.argv[2], newline="").read()
live = [re.sub(r"\x1b\[\d*m", "", part) for part in re.findall(r"\r\x1b\[K([^\r\n]*)", text)]
bars = [line for line in live if line.startswith("moving tensors")]
assert bars and all(len(line) < int(sys.argv[1]) for line in bars), bars
assert int(sys.argv[1]) < 60 or all("[" in line and " of 78.5 kB" in line for line in bars), bars
assert "moving tensors" not in text[text.index("wrote:"):]
PYTHON
}

merging=("$SHARDWELD" merge "$fsdp" "$WORK/model")
for columns in 40 100; do
    on_terminal "$columns" mpirun -n 2 "${merging[@]}" && fits "$columns"
    on_terminal "$columns" "${merging[@]}" && fits "$columns"
done
grep -q $'\x1b\[32m' "$WORK/out" || fail "no colours on a terminal"
on_terminal 100 env NO_COLOR=1 mpirun -n 2 "${merging[@]}" && fits 100
! grep -q $'\x1b\[[0-9]*m' "$WORK/out" || fail "colours although NO_COLOR is set"
on_terminal 100 env TERM=dumb mpirun -n 2 "${merging[@]}"
! grep -q $'\x1b' "$WORK/out" || fail "a live line on a dumb terminal"

rm -rf "$WORK/model"
expect_code 0 mpirun -n 2 "${merging[@]}"
! grep -q $'[\r\x1b]' "$WORK/out" "$WORK/err" || fail "a live line in a pipe"
finish
