#!/usr/bin/env bash
# The released binary is killed 1,500 times and loses nothing.
#
# Usage: bash .ci/crash.sh [SEED]     after `cargo build --release`; $VELELLA names another binary
#
# 1 in memory, for numbers; 2 on the disk, for its timing; 3 power cuts,
# where root, loop devices and a file system that copies by reference are at hand, else SKIPPED.
# The seeds come from the clock unless one is given, and are printed first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

VELELLA="${VELELLA:-${CARGO_TARGET_DIR:-$PWD/target}/release/velella}"
SEED="${1:-$(($(date +%s) * 1000))}"
MEMORY_KILLS=1300
DISK_KILLS=200

say() { printf '=== %s\n' "$*"; }

if [ -w /dev/shm ]; then
    say "in memory"
    "$VELELLA" crash-test --memory-backed --kills "$MEMORY_KILLS" --seed "$SEED"
else
    DISK_KILLS=$((DISK_KILLS + MEMORY_KILLS))
fi
say "on the disk"
"$VELELLA" crash-test --kills "$DISK_KILLS" --seed "$((SEED + 100000))"
say "power cuts"
"$VELELLA" crash-test --power-cut --kills 60 --seed "$((SEED + 200000))"
say "nothing was lost"
