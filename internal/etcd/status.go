package etcd

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"etcdadm.io/cluster"
)

// healthKey is read to find out whether the member has a quorum, as etcdctl
// does it; it need not exist.
const healthKey = "health"

// Status asks the member for its state and, when it is a voter, makes a quorum
// read through it. A member that answers but has no quorum is not an error: its
// status comes back with Healthy false. Where auth is on and the driver has no
// credential that etcd accepts, the status says so in Auth and nothing else.
func (c *Client) Status(ctx context.Context) (cluster.MemberStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	s, err := c.LocalStatus(ctx)
	if err != nil || s.Auth {
		return s, err
	}
	if s.Learner {
		s.Healthy = s.Leader != 0
		return s, nil
	}
	if s.Leader == 0 {
		return s, nil // a quorum read would only wait
	}
	revision, err := c.quorumRead(ctx)
	switch {
	case err == nil:
		s.Healthy = true
		s.Revision = revision
	case errors.Is(err, ErrPermission):
		// etcd looked the permission up after it had the quorum.
		s.Healthy = true
	case errors.Is(err, ErrAuthRequired):
		s.Auth = true
	default:
		s.Errors = append(s.Errors, err.Error())
	}
	return s, nil
}

// LocalStatus is Status without the quorum read: the member's own word, which a
// member without a quorum gives too. Healthy stays false.
func (c *Client) LocalStatus(ctx context.Context) (cluster.MemberStatus, error) {
	reply, err := rpc(ctx, c, CallTimeout, "get status", reads, c.maintenance.Status, &pb.StatusRequest{})
	if errors.Is(err, ErrAuthRequired) {
		return cluster.MemberStatus{Auth: true}, nil
	}
	if err != nil {
		return cluster.MemberStatus{}, err
	}
	version, err := cluster.ParseVersion(reply.Version)
	if err != nil {
		return cluster.MemberStatus{}, fmt.Errorf("get status: %w", err)
	}
	s := cluster.MemberStatus{
		Member:   cluster.MemberID(reply.Header.GetMemberId()),
		Cluster:  cluster.ClusterID(reply.Header.GetClusterId()),
		Version:  version,
		Leader:   cluster.MemberID(reply.Leader),
		Term:     reply.RaftTerm,
		Index:    reply.RaftIndex,
		Applied:  reply.RaftAppliedIndex,
		Revision: reply.Header.GetRevision(),
		Learner:  reply.IsLearner,
		DBSize:   reply.DbSize,
		DBInUse:  reply.DbSizeInUse,
		Quota:    reply.DbSizeQuota,
	}
	if !version.AtLeast(3, 6) {
		s.Quota = c.quota
	}
	if !version.Has(cluster.AppliedIndex) {
		s.Applied = s.Index // it is the applied one there (EtcdServer.apply)
	}
	s.Alarms, s.Errors = splitErrors(reply.Errors)
	s.StorageVersion = line(reply.StorageVersion)
	if d := reply.DowngradeInfo; d.GetEnabled() {
		s.Downgrading = line(d.GetTargetVersion())
	}
	return s, nil
}

// quorumRead makes a linearizable read and returns the store's revision.
func (c *Client) quorumRead(ctx context.Context) (int64, error) {
	reply, err := rpc(ctx, c, CallTimeout, "read through a quorum", reads, c.kv.Range, &pb.RangeRequest{Key: []byte(healthKey), KeysOnly: true, Limit: 1})
	if err != nil {
		return 0, err
	}
	return reply.Header.GetRevision(), nil
}

// Alarms are read from Status and not by the Alarm call: that one goes through
// raft as a write, even to read (Source: EtcdServer.Alarm), and a learner does
// not serve it. Status has them in errors since 3.4, as a printed protobuf
// message whose white space is not fixed.
var (
	alarmName   = regexp.MustCompile(`\balarm:\s*([A-Z]+)`)
	alarmMember = regexp.MustCompile(`\bmemberID:\s*(\d+)`)
)

func splitErrors(said []string) (alarms, others []string) {
	for _, e := range said {
		name := alarmName.FindStringSubmatch(e)
		if name == nil {
			others = append(others, e)
			continue
		}
		alarm := name[1]
		if id := alarmMember.FindStringSubmatch(e); id != nil {
			if n, err := strconv.ParseUint(id[1], 10, 64); err == nil {
				alarm += " " + cluster.MemberID(n).String()
			}
		}
		alarms = append(alarms, alarm)
	}
	return alarms, others
}
