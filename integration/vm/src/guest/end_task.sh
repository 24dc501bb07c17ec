#!/bin/busybox sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# What systemd does after the task of a guest with services: says how it ended, and ends the VM.

status=255
[ "$MONITOR_EXIT_CODE" = exited ] && status=$MONITOR_EXIT_STATUS
# A port has sent what was written to it when it is closed.
stty -F /dev/ttyS1 sane
stty -F /dev/ttyS2 sane
echo "$status" > /dev/ttyS3
poweroff -f
