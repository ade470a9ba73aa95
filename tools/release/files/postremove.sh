#!/bin/sh
# The files are gone. Settings and data are the cluster's, and no package manager's to delete.
set -e

case "$1" in
remove | purge | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
for kept in /etc/etcdadm /etc/systemd/system/etcdadm.service /var/lib/etcdadm; do
	if [ -e "$kept" ]; then
		echo "etcdadm: kept $kept"
	fi
done
