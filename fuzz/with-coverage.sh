#!/bin/sh
# Compiles a crate of this workspace with LLVM's SanitizerCoverage, as libFuzzer reads it: counters for every edge, their places, and what is compared with
# what. Without the fold threshold the optimizer joins the very branches that the search climbs. Cargo calls this in rustc's place (RUSTC_WORKSPACE_WRAPPER)
# for the crates of the workspace alone, so that all others are built once for the tests and the fuzz targets.
exec "$@" \
    -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0
