# For upload_test.sh: a Hub, clients, and runs in the background. Source it after lib.sh.
token="hf_SECRETsecretSECRETsecretSECRETsecret12"
hub="$WORK/hub"
declare -A pids=()
# Nobody's real token or Hub.
for variable in $(compgen -e | grep -E '^(HF_|HUGGING)'); do unset "$variable"; done
export HOME="$WORK/home" HF_HOME="$WORK/home/hf" no_proxy=127.0.0.1 NO_PROXY=127.0.0.1
mkdir -p "$HF_HOME" "$hub" "$WORK/runs"

# client FILE SCRIPT: a client that looks like the Hub's and does SCRIPT when told to upload.
client() {
    printf '#!/bin/sh\nif [ "$2" = --help ]; then echo REPO_ID; exit 0; fi\n%s\n' "$2" >"$1"
    chmod +x "$1"
}

# find_hf: prints the path of a real client.
find_hf() {
    local python beside
    python="$(command -v "${SHARDWELD_PYTHON:-python3}")"
    beside="$(dirname "$python")/hf"
    if [[ -n "${SHARDWELD_HF_CLI:-}" ]]; then
        echo "$SHARDWELD_HF_CLI"
    elif [[ -x "$beside" ]]; then
        echo "$beside"
    else
        "$python" -m venv "$WORK/venv" >/dev/null 2>&1 || return 1
        timeout 120 "$WORK/venv/bin/pip" install -q --disable-pip-version-check --no-compile huggingface_hub >/dev/null 2>&1 || return 1
        echo "$WORK/venv/bin/hf"
    fi
}

# start_hub: the stand-in, which ends with this script.
start_hub() {
    mkfifo "$WORK/hub.stop"
    python3 "$TESTS/support/hub.py" "$hub" "$token" <"$WORK/hub.stop" 2>"$WORK/hub.err" &
    exec 7>"$WORK/hub.stop"
    wait_for "$hub/port"
}

wait_for() {
    local turn
    for turn in {1..600}; do
        [[ ! -e "$1" ]] || return 0
        sleep 0.1
    done
    fail "$1 never came"
}

# begin NAME COMMAND...: runs in the background; its process is ${pids[NAME]}.
begin() {
    local name="$1"
    shift
    "$@" >"$WORK/runs/$name.out" 2>"$WORK/runs/$name.err" 7>&- &
    pids[$name]=$!
}

# ended NAME CODE TEXT...: waits for it; exit code, every text, and no secrets.
ended() {
    local name="$1" expected="$2" code=0 text
    shift 2
    wait "${pids[$name]}" || code=$?
    cp "$WORK/runs/$name.err" "$WORK/err"
    [[ "$code" == "$expected" ]] || fail "$name: exit code $code, expected $expected: $(head -c 600 "$WORK/err")"
    for text in "$@"; do
        expect_text "$text"
    done
    hides_secrets "$WORK/runs/$name.out" "$WORK/err"
}

child_of() {
    cut -d' ' -f1 "/proc/$1/task/$1/children"
}

# hides_secrets FILE... TEXT...: no file holds the token or a text.
hides_secrets() {
    local file secret files=() secrets=("$token" SECRETsecret)
    for file; do
        if [[ "$file" == /* ]]; then files+=("$file"); else secrets+=("$file"); fi
    done
    for secret in "${secrets[@]}"; do
        ! grep -qF -- "$secret" "${files[@]}" || fail "a secret is shown: $(grep -hF -- "$secret" "${files[@]}" | head -1)"
    done
}

# has_received ORG/NAME DIR: the Hub has exactly the directory's files, byte for byte, but for the report, which names paths and hosts.
has_received() {
    expect_absent "$hub/$1/files/shardweld_report.json"
    diff -r -x shardweld_report.json "$hub/$1/files" "$2" >"$WORK/diff" 2>&1 || fail "$1 is not what was sent: $(head -2 "$WORK/diff")"
}

is_private() {
    grep -qE '"visibility": "private"|"private": true' "$hub/$1/created.json"
}
