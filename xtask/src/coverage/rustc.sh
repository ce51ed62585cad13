#!/bin/sh
# Compiles this workspace's own crates so that they count what is executed; called by cargo as
# RUSTC_WORKSPACE_WRAPPER.
exec "$@" -Cinstrument-coverage
