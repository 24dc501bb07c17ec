#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Stands for bellhop-guest in a VM: its services are the real one. Its task, of which the arguments are seconds and frames a second,
# is a desktop: root's settings, and a compositor, two clients and an attacker, each of another user.

install() {
    cp "/files/$1" "/tmp/$2.$$"
    chmod 755 "/tmp/$2.$$"
    mv "/tmp/$2.$$" "/tmp/$2"
}

install bellhop-guest bellhop-guest
case "$1" in
    broker | agent) exec /tmp/bellhop-guest "$@" ;;
esac
seconds=$1
rate=$2

chmod 755 /tmp
for user in 1002 1003; do
    echo "user$user:x:$user:$user::/:/bin/sh" >> /etc/passwd
    echo "user$user:x:$user:" >> /etc/group
done
# Runs a program of a user's, which may connect to the broker, with its own copy of the executable.
as() {
    user=$1 program=$2
    shift 2
    start-stop-daemon -S -c "$user:bellhop" -x "$program" -- "$@"
}

mkdir -m 777 /tmp/desktop
install compositor compositor
as user /tmp/compositor $((seconds * rate)) /tmp/desktop/socket > /tmp/compositor.said 2>&1 &
compositor=$!
until [ -S /tmp/desktop/socket ]; do
    kill -0 $compositor || { cat /tmp/compositor.said; exit 1; }
    sleep 0.1
done
install compositor red
install compositor green
as other /tmp/red client ff0000 /tmp/desktop/socket > /tmp/red.said 2>&1 &
red=$!
as user1002 /tmp/green client 00ff00 /tmp/desktop/socket > /tmp/green.said 2>&1 &
green=$!
install bellhop-guest attacker
# It ends after the compositor does, so that the VM is there as long as a viewer looks.
as user1003 /tmp/attacker attack --seconds "$seconds" > /tmp/attacker.said 2>&1 &
attacker=$!
echo the desktop is there

# The agent asks the compositor, which refuses; the rest needs no consent.
for setting in 'topology clone' 'power-policy saving' programs; do
    /tmp/bellhop-guest settings $setting > /tmp/setting.said 2>&1
    status=$?
    sed "s/^/settings, $status: /" /tmp/setting.said
done
for program in compositor red green attacker; do
    eval "wait \$$program"
    status=$?
    sed "s/^/$program, $status: /" /tmp/$program.said
done
