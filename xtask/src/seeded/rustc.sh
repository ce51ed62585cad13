#!/bin/sh
# Compiles this workspace's own crates with the faults in them; called by cargo as
# RUSTC_WORKSPACE_WRAPPER, so that what others wrote is compiled once for all builds.
exec "$@" --cfg velella_seeded
