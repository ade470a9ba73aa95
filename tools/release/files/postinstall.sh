#!/bin/sh
# The files are in place. Nothing is started: etcdadm init and etcdadm join do that. An agent that runs the
# program of this package is replaced, and its etcd runs on.
set -e

[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || echo "etcdadm: systemd did not read its units again: systemctl daemon-reload" >&2

case "$(systemctl show -p ExecStart --value etcdadm.service 2>/dev/null)" in
*path=/usr/bin/etcdadm\ *) ;;
*) exit 0 ;; # no agent, or one of another program
esac
case "$(systemctl is-active etcdadm.service 2>/dev/null)" in
active)
	if systemctl reload etcdadm.service; then
		echo "etcdadm: the agent is replaced, etcd runs on"
	else
		echo "etcdadm: the agent was not replaced, the former program runs on: systemctl reload etcdadm" >&2
	fi
	;;
activating | reloading)
	echo "etcdadm: the agent is being started by the former program; replace it when it is up: systemctl reload etcdadm" >&2
	;;
*)
	if [ -e /etc/etcdadm/agent.env ]; then
		echo "etcdadm: this host is set up, and its agent does not run: systemctl enable --now etcdadm"
	fi
	;;
esac
