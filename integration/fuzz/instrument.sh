#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Compiles what cargo asks for. What is compiled for the fuzzer alone gets BELLHOP_FUZZ_FLAGS too; everything else is
# compiled as for the tests, and so is shared with them.
case " $* " in
    # The flags are words.
    *' feature="libfuzzer" '*) exec "$@" $BELLHOP_FUZZ_FLAGS ;;
esac
exec "$@"
