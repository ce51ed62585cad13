#!/usr/bin/env bash
# The server from outside: stock clients, kill -9, restart.
#
# Usage: bash .ci/e2e.sh           after `cargo build --release`; $VELELLA names another binary
#
# 1 redis-cli and redis-py find what they expect, and a Redis given the same commands answers the
# same; 2 redis-benchmark runs; 3 a writer notes what was acknowledged, the server is killed with
# -9 in the middle, started again, and must have all of it, once more under a mount namespace of
# its own where that is permitted; 4 SIGTERM ends in good order. What a machine lacks is skipped
# with a line that says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

VELELLA="${VELELLA:-${CARGO_TARGET_DIR:-$PWD/target}/release/velella}"
WORK="$(mktemp -d)"
DATA="$WORK/data"
SERVER=""
REDIS=""
PORT=""

say() { printf '=== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; sed 's/^/server: /' "$WORK"/server.*.log >&2 || true; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

stop_server() {
    [ -n "$SERVER" ] || return 0
    kill "-$1" "$SERVER" 2>/dev/null || true
    wait "$SERVER" 2>/dev/null || return $?
}
cleanup() {
    trap - EXIT
    stop_server KILL || true
    if [ -n "$REDIS" ]; then kill "$REDIS" 2>/dev/null || true; fi
    rm -rf "$WORK"
}
trap cleanup EXIT

# A port nobody listens on. Another program may take it first: start_server then tries the next.
free_port() {
    python3 - <<'PY'
import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])
PY
}

# start_server [PREFIX...]: leaves its process in SERVER and its port in PORT.
start_server() {
    local attempt log
    for attempt in 1 2 3 4 5; do
        PORT="$(free_port)"
        log="$WORK/server.$PORT.log"
        "$@" "$VELELLA" serve --port "$PORT" --dir "$DATA" >"$log" 2>&1 &
        SERVER=$!
        for _ in $(seq 1 300); do
            if ! kill -0 "$SERVER" 2>/dev/null; then break; fi
            if [ "$(timeout 5 redis-cli -p "$PORT" ping 2>/dev/null || true)" = PONG ]; then
                return 0
            fi
            sleep 0.1
        done
        stop_server KILL || true
        grep -q 'choose another port' "$log" || fail "the server did not start"
    done
    fail "no free port in five attempts"
}

cli() { timeout 20 redis-cli -p "$PORT" "$@"; }
expect() {
    local expected="$1" got
    shift
    got="$(cli "$@")" || fail "redis-cli $* ended with $?"
    [ "$got" = "$expected" ] || fail "redis-cli $*: expected '$expected', got '$got'"
}

have redis-cli || { say "SKIPPED: no redis-cli on this machine (package redis-tools)"; exit 0; }
have python3 || { say "SKIPPED: no python3 on this machine"; exit 0; }
[ -x "$VELELLA" ] || fail "$VELELLA is missing: run cargo build --release"
bytes="$(wc -c <"$VELELLA")"
[ "$bytes" -lt 12000000 ] || fail "$VELELLA has $bytes bytes, and should stay below 12 MB"

say "redis-cli"
start_server
expect OK set greeting "hello world"
expect "hello world" get greeting
expect 1 incr counter
expect 42 incrby counter 41
expect OK set brief 1 ex 100
expect 1 persist brief
expect 3 dbsize
expect OK flushall
expect 0 dbsize

say "redis-py"
timeout 60 python3 crates/server/tests/redis_py.py "$PORT" || fail "redis_py.py"

if have redis-server; then
    say "the same random commands to a Redis and to us"
    REDIS_PORT="$(free_port)"
    redis-server --port "$REDIS_PORT" --bind 127.0.0.1 --save '' --appendonly no \
        --dir "$WORK" >"$WORK/redis.log" 2>&1 &
    REDIS=$!
    for _ in $(seq 1 100); do
        [ "$(timeout 5 redis-cli -p "$REDIS_PORT" ping 2>/dev/null || true)" = PONG ] && break
        sleep 0.1
    done
    timeout 60 python3 crates/server/tests/differential.py "$REDIS_PORT" "$PORT" 20000 ||
        fail "differential.py"
    kill "$REDIS"
    wait "$REDIS" 2>/dev/null || true
    REDIS=""
else
    say "SKIPPED: no redis-server on this machine"
fi

if have redis-benchmark; then
    say "redis-benchmark"
    timeout 60 redis-benchmark -p "$PORT" -t ping,set,get,incr,mset -n 20000 -q |
        tr '\r' '\n' | grep 'per second' || fail "redis-benchmark"
    timeout 60 redis-benchmark -p "$PORT" -t set,get -n 100000 -q -P 16 |
        tr '\r' '\n' | grep 'per second' || fail "redis-benchmark -P 16"
else
    say "SKIPPED: no redis-benchmark on this machine"
fi
cli flushall >/dev/null

# kill_and_check NAME: writes through two connections, kills the server in the middle, starts it
# again (with RESTART before it) and looks for every write that was answered.
RESTART=()
kill_and_check() {
    local name="$1" writer pid="$SERVER"
    python3 .ci/acknowledged.py write "$PORT" "$name" "$WORK/$name.log" &
    writer=$!
    for _ in $(seq 1 200); do
        [ "$(wc -l 2>/dev/null <"$WORK/$name.log" || echo 0)" -ge 20000 ] && break
        sleep 0.05
    done
    kill -9 "$pid"
    wait "$pid" 2>/dev/null || true
    wait "$writer" || fail "the writer of $name"
    start_server ${RESTART[@]+"${RESTART[@]}"}
    python3 .ci/acknowledged.py check "$PORT" "$name" "$WORK/$name.log" || fail "lost writes: $name"
}

say "kill -9, start again"
kill_and_check first
say "kill -9 again, start again"
kill_and_check second
if unshare -m true 2>/dev/null; then
    say "kill -9, start again under unshare -m"
    RESTART=(unshare -m)
    kill_and_check third
    RESTART=()
else
    say "SKIPPED: this machine permits no mount namespace"
fi
python3 .ci/acknowledged.py check "$PORT" first "$WORK/first.log" || fail "lost writes: first"

say "SIGTERM"
expect OK set last write
stop_server TERM || fail "the server ended with $? on SIGTERM"
start_server
expect write get last
stop_server TERM || fail "the server ended with $? on SIGTERM"
SERVER=""
say "all good"
