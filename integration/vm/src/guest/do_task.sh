#!/bin/busybox sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# What a VM that stands for a machine does last, by its first process or by systemd: the task. Then it powers off.
#
# Serial ports as in other VMs: ttyS0 the kernel's messages, ttyS1 the task's output, ttyS2 its errors, ttyS3 its
# exit status.

# Bytes leave as they are.
stty -F /dev/ttyS1 raw
stty -F /dev/ttyS2 raw
sh /task < /dev/null > /dev/ttyS1 2> /dev/ttyS2
status=$?

echo "$status" > /dev/ttyS3
poweroff -f
