module etcdadm.io/internal/testetcd/modules/v2.2

go 1.26.0

tool (
	github.com/coreos/etcd
	github.com/coreos/etcd/etcdctl
)

require github.com/coreos/etcd v2.2.5+incompatible
