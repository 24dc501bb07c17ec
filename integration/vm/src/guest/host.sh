#!/bin/busybox sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The first process of a VM that stands for a machine with KVM: has bellhop run a VM in it, and powers off.
#
# Serial ports as in that VM: ttyS0 the kernel's messages, ttyS1 the task's output, ttyS2 its errors, ttyS3
# its exit status.

/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp LD_LIBRARY_PATH=/lib BELLHOP_CACHE=/cache

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
# Shared memory is made there.
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
ln -s /proc/self/fd /dev/fd

for module in /modules/*.ko; do
    insmod "$module"
done

# Bytes leave as they are.
stty -F /dev/ttyS1 raw
stty -F /dev/ttyS2 raw
sh /task < /dev/null > /dev/ttyS1 2> /dev/ttyS2
status=$?

echo "$status" > /dev/ttyS3
poweroff -f
