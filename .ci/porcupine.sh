#!/usr/bin/env bash
# A second opinion on concurrent histories: a sample of what the campaign `histories` recorded is
# judged by porcupine, a Go module that knows nothing of stamps; and a falsified one is refused.
# Without Go, or where its module cannot be had, this says so loudly and passes; our own judge that
# does not compile is a failure.
#
# What it judges: of each history all that the clients of the first process did, key by key. Each
# operation in there returned: none is pending, neither at the end nor when the crash image was
# taken, since the clients go on beside it. What a crash left, and what was done after it, is
# judged by our own checker alone.
#
# Usage: bash .ci/porcupine.sh [HISTORIES [SEED]]     50, from a seed that follows from the commit
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
    echo "SKIPPED: porcupine has judged nothing: $1" >&2
    exit 0
}

command -v go >/dev/null || skip "go is not installed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Only what is fetched may be missing: the judge is ours, and so are its go.mod and go.sum.
cd crates/reliability/porcupine
go mod edit -json >/dev/null
if ! went=$(go mod download 2>&1); then
    echo "$went" >&2
    case $went in *"checksum mismatch"* | *"go.sum"*) exit 1 ;; esac
    skip "its module cannot be had"
fi
go build -o "$work/judge" .
cd - >/dev/null

# Every commit draws others, of those that no soak uses.
commit=$(git rev-parse --short=8 HEAD 2>/dev/null || echo 3e8)
histories=${1:-50} seed=${2:-$((10 ** 12 + 16#${commit:0:8}))}
echo "seed $seed: bash .ci/porcupine.sh $histories $seed"
cargo build --quiet --release --package velella-reliability
VELELLA_EXPORT="$work/histories.jsonl" \
    "${CARGO_TARGET_DIR:-target}/release/reliability" histories --runs "$histories" --seed "$seed"
# Threads are the system's, so no seed repeats a history: what is refused is kept.
if ! "$work/judge" < "$work/histories.jsonl"; then
    kept=$(mktemp "${TMPDIR:-/tmp}/velella-refused-XXXXXX.jsonl")
    cp "$work/histories.jsonl" "$kept"
    echo "the histories are kept in $kept" >&2
    exit 1
fi

# Control: one read that nobody can have made.
python3 - "$work/histories.jsonl" > "$work/falsified.jsonl" <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
reads = [line for line in lines if line["kind"] == "read"]
reads[len(reads) // 2]["output"] = "nobody wrote this"
for line in lines:
    print(json.dumps(line))
PYTHON
if "$work/judge" < "$work/falsified.jsonl"; then
    echo "porcupine let a falsified history pass" >&2
    exit 1
fi
echo "porcupine agrees, and refuses what was falsified"
