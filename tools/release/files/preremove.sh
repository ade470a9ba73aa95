#!/bin/sh
# Before the files go. An upgrade leaves the agent alone, and a removal stops it, as systemctl stop does.
set -e

case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
[ -d /run/systemd/system ] || exit 0
case "$(systemctl show -p ExecStart --value etcdadm.service 2>/dev/null)" in
*path=/usr/bin/etcdadm\ *) systemctl disable --now etcdadm.service ;;
esac
