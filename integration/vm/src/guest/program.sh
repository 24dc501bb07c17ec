#!/bin/busybox sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes /program, the root of a program of others': /usr is a folder of the host's to which /driver adds, and the lines at the
# end name others, which are at the same paths.

set -e
number=0
share() {
    mkdir -p "$1"
    mount -t 9p -o "$options" "folder$number" "$1"
    number=$((number + 1))
}

share /usr-of-host
mkdir -p /program/usr /program/tmp /driver/work
mount -t overlay -o lowerdir=/usr-of-host,upperdir=/driver/usr,workdir=/driver/work overlay /program/usr
mount -t tmpfs -o mode=1777 tmpfs /program/tmp
