#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs a program of a VM's with an X server of its own, and prints the pixels of its screen each time they have changed: in one line, as
# hexadecimal words. The first argument is the side of the screen, which is a square.

side=$1
shift
mkdir /tmp/screen
# It does not begin anew when a program has ended, since the next one may connect just then.
Xvfb -displayfd 3 -nolisten tcp -noreset -screen 0 "${side}x${side}x24" -fbdir /tmp/screen 3> /tmp/number 2> /tmp/said &
server=$!
# It says its number when it is ready.
until [ -s /tmp/number ]; do
    kill -0 $server || { cat /tmp/said; exit 1; }
    sleep 0.1
done
DISPLAY=:$(cat /tmp/number) env "$@" > /tmp/said 2>&1 &
program=$!
last=
while kill -0 $program; do
    tail -c $((side * side * 4)) /tmp/screen/Xvfb_screen0 > /tmp/pixels
    sum=$(cksum < /tmp/pixels)
    [ "$sum" = "$last" ] || { od -An -v -w$((side * side * 4)) -tx4 /tmp/pixels; }
    last=$sum
    sleep 1
done
cat /tmp/said
