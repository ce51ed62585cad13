#!/usr/bin/env bash
# A second opinion on concurrent histories: a sample of what the campaign `histories` recorded is
# judged by porcupine, a Go module that knows nothing of stamps; and a falsified one is refused.
# Without Go, or where its module cannot be had, this says so loudly and passes.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
    echo "SKIPPED: porcupine has judged nothing: $1" >&2
    exit 0
}

command -v go >/dev/null || skip "go is not installed"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd crates/reliability/porcupine && go build -o "$work/judge" .) || skip "its module cannot be had"

cargo build --quiet --release --package velella-reliability
VELELLA_EXPORT="$work/histories.jsonl" \
    "${CARGO_TARGET_DIR:-target}/release/reliability" histories --runs "${1:-50}" --seed "${2:-1000}"
"$work/judge" < "$work/histories.jsonl"

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
