#!/bin/busybox sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The first process of a VM that stands for a machine with KVM: has bellhop run a VM in it, and powers off.

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

. /do_task.sh
