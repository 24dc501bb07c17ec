#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Compiles what cargo asks for. The targets, and crates that BELLHOP_FUZZ_CRATES names, get BELLHOP_FUZZ_FLAGS too;
# everything else is compiled without: the program around the targets, too, which handles faults of counters.
crate=none
after=
for word in "$@"; do
    if [ "$after" = --crate-name ]; then crate=$word; fi
    after=$word
done
# The flags are words.
case " $BELLHOP_FUZZ_CRATES " in
    *" $crate "*) exec "$@" $BELLHOP_FUZZ_FLAGS ;;
esac
case "$crate $* " in
    'bellhop_fuzz '*' feature="libfuzzer" '*) exec "$@" $BELLHOP_FUZZ_FLAGS ;;
esac
exec "$@"
