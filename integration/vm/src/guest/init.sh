#!/bin/busybox sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The guest's first process: gives the GPU to user space, then does the task and powers off, or becomes systemd.
#
# Serial ports, each with one use: ttyS0 the kernel's messages, ttyS1 the task's input and output,
# ttyS2 its errors, ttyS3 its exit status. Where the VMM has one port and a console (ports=one on the
# kernel's command line), the console has the output, and the port everything else, marked. Whoever started
# the VM knows that it failed if no status arrives.

/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev

for module in /modules/*.ko; do
    insmod "$module"
done

# Interrupts need an IOMMU for VFIO; without one there is UIO.
attach() {
    driver=uio_pci_generic
    [ -e "$1/iommu_group" ] && driver=vfio-pci
    # The kernel's own virtio driver takes it first, without a use for it.
    [ -e "$1/driver" ] && echo "${1##*/}" > "$1/driver/unbind"
    echo "$driver" > "$1/driver_override"
    echo "${1##*/}" > /sys/bus/pci/drivers_probe
    [ -e "$1/driver" ] || echo "init: $driver did not take ${1##*/}"
}

for device in /sys/bus/pci/devices/*; do
    if [ "$(cat "$device/vendor")" = 0x1af4 ] && [ "$(cat "$device/device")" = 0x1067 ]; then
        attach "$device"
    fi
done

# The root of a program of others'.
if [ -e /mounts.sh ]; then
    sh /mounts.sh || poweroff -f
fi

if [ -e /usr/lib/systemd/systemd ]; then
    # A service has the GPU. What it says leaves as it is.
    stty -F /dev/ttyS1 raw
    stty -F /dev/ttyS2 raw
    exec /usr/lib/systemd/systemd --log-target=kmsg --show-status=no
fi

if [ -e /task ]; then
    # Bytes leave as they are. The task sees pipes: its output's reader may be a program.
    mkfifo /tmp/output /tmp/errors
    if [ "$ports" = one ]; then
        stty -F /dev/hvc0 raw
        # A sign of life, for whoever started the VM. No child of this shell, which waits for its children.
        (while sleep 5; do printf ' '; done > /dev/ttyS0 &)
        cat /tmp/output > /dev/hvc0 &
        while IFS= read -r line || [ -n "$line" ]; do
            echo "bellhop-guest-error: $line"
        done < /tmp/errors > /dev/ttyS0 &
    else
        stty -F /dev/ttyS1 raw
        stty -F /dev/ttyS2 raw
        cat /tmp/output > /dev/ttyS1 &
        cat /tmp/errors > /dev/ttyS2 &
    fi
    sh /task < /dev/null > /tmp/output 2> /tmp/errors
    status=$?
    # A port has sent what was written to it when it is closed.
    wait
else
    # Open from the first word on, so that none of the answer is lost.
    exec 3<> /dev/ttyS1
    echo "bellhop-guest is in /bin; exit ends the VM." >&3
    # What a session has not sent yet is lost with its leader; setting the port waits for it.
    setsid -c sh -c 'sh -l; status=$?; stty sane; exit $status' <&3 >&3 2>&3
    status=$?
fi

if [ "$ports" = one ]; then
    echo "bellhop-guest-status: $status" > /dev/ttyS0
else
    echo "$status" > /dev/ttyS3
fi
poweroff -f
