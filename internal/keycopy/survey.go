package keycopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"etcdadm.io/cluster"
)

// Survey reads the whole source and lists everything that cannot be carried over
// to an etcd of another release. It changes nothing. Where authentication is on it
// needs root's credential; errors: [ErrAuth], [ErrSourceChanged].
func Survey(ctx context.Context, source Endpoint, target cluster.Version) (Report, error) {
	r, err := surveyed(ctx, source, target)
	if err != nil {
		return Report{}, fmt.Errorf("survey keys: %w", err)
	}
	return r, nil
}

func surveyed(ctx context.Context, source Endpoint, target cluster.Version) (Report, error) {
	from, err := open(ctx, source)
	if err != nil {
		return Report{}, err
	}
	defer from.close()
	s := surveyor{
		Report: Report{From: from.release(), To: target},
		ledger: newLedger(),
		leased: map[int64]int64{},
	}
	c := carrier{to: apiOf(target), carry: s.carry, lose: s.lose, pass: s.pass}
	switch from := from.(type) {
	case *v2:
		err = s.ofV2(ctx, from, &c)
	case *v3:
		err = s.ofV3(ctx, from, &c)
	}
	s.Losses = s.losses()
	return s.Report, err
}

type surveyor struct {
	Report
	*ledger
	leased map[int64]int64 // keys of each lease, of those that are carried
}

func (s *surveyor) carry(p pair) error {
	size := int64(p.size())
	s.Carried++
	s.CarriedBytes += size
	s.Largest = max(s.Largest, size)
	if p.expires != 0 {
		s.Expiring++
	}
	if p.lease != 0 {
		s.Expiring++
		s.leased[p.lease]++
	}
	return nil
}

func (s *surveyor) pass(k Kind, name []byte) error {
	if k == UnreadableName {
		s.Keys++
	}
	return s.lose(Passing, name)
}

// ofV2 surveys a source of version 2.
func (s *surveyor) ofV2(ctx context.Context, from *v2, c *carrier) error {
	was, err := from.stand(ctx)
	if err != nil {
		return err
	}
	lost := c.lose
	c.lose = func(k Kind, name []byte) error {
		if k == UnreadableName {
			s.Keys++ // its value is not counted
		}
		return lost(k, name)
	}
	at, err := c.run(ctx, from, 0)
	if err != nil {
		return err
	}
	if _, err := from.since(ctx, was); err != nil {
		return err
	}
	s.At = at
	s.Keys += s.Carried
	s.Bytes = s.CarriedBytes
	s.count(Indexes, s.Keys)
	s.count(Expiring, s.Expiring)
	if from.hidden == nil {
		s.Notes = append(s.Notes, "etcd does not list hidden keys, whose path has a part that begins with an underscore: if there are any, they are not carried over")
	}
	for _, what := range []struct {
		kind        Kind
		path, field string
	}{{Users, "users", "user"}, {Roles, "roles", "role"}} {
		names, err := from.v2Names(ctx, what.path, what.field)
		if err != nil {
			return err
		}
		for _, name := range names {
			if what.kind == Roles && (name == "guest" || name == "root") {
				continue // every etcd has them
			}
			_ = s.lose(what.kind, []byte(name))
		}
	}
	on, err := from.authOn(ctx)
	if on {
		s.count(AuthOn, 1)
	}
	return err
}

// ofV3 surveys a source of version 3.
func (s *surveyor) ofV3(ctx context.Context, from *v3, c *carrier) error {
	at, err := from.position(ctx)
	if err != nil {
		return err
	}
	s.At = at
	c.every = func(kv *mvccpb.KeyValue) error {
		s.Keys++
		s.Bytes += int64(len(kv.Key) + len(kv.Value))
		return nil
	}
	carry := c.carry
	c.carry = func(p pair) error {
		if err := carry(p); err != nil || p.lease == 0 || c.to != V2 {
			return err
		}
		return s.shares(p)
	}
	if _, err := c.run(ctx, from, at); err != nil {
		return err
	}
	s.count(Revisions, s.Keys)
	if err := s.leasesOf(ctx, from, c.to); err != nil {
		return err
	}
	if err := s.accounts(ctx, from); err != nil {
		return err
	}
	return s.otherKeys(ctx, from)
}

// shares notes keys of one lease: the first of them only when there is a second.
func (s *surveyor) shares(p pair) error {
	switch s.leased[p.lease] {
	case 1:
		return nil
	case 2:
		s.count(SharedLease, 1) // the first, whose name is gone
	}
	return s.lose(SharedLease, p.key)
}

func (s *surveyor) leasesOf(ctx context.Context, from *v3, to API) error {
	ids, err := from.leases(ctx)
	switch {
	case errors.Is(err, errNoLeaseList):
		s.Leases = int64(len(s.leased))
		s.Notes = append(s.Notes, "this release does not list its leases: those without keys are not carried over")
	case err != nil:
		return err
	default:
		s.Leases = int64(len(ids))
	}
	if to != V2 {
		return nil
	}
	s.count(Leases, int64(len(s.leased)))
	for _, id := range ids {
		if s.leased[id] == 0 {
			_ = s.lose(EmptyLease, fmt.Appendf(nil, "%x", id))
		}
	}
	return nil
}

// accounts looks for users, roles and alarms.
func (s *surveyor) accounts(ctx context.Context, from *v3) error {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return errors.Join(
		from.call(ctx, "list users", func(ctx context.Context) error {
			reply, err := from.auth.UserList(ctx, &pb.AuthUserListRequest{})
			for _, name := range reply.GetUsers() {
				_ = s.lose(Users, []byte(name))
			}
			return err
		}),
		from.call(ctx, "list roles", func(ctx context.Context) error {
			reply, err := from.auth.RoleList(ctx, &pb.AuthRoleListRequest{})
			for _, name := range reply.GetRoles() {
				_ = s.lose(Roles, []byte(name))
			}
			return err
		}),
		from.call(ctx, "list alarms", func(ctx context.Context) error {
			reply, err := from.maint.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET})
			for _, a := range reply.GetAlarms() {
				_ = s.lose(Alarms, []byte(a.GetAlarm().String()))
			}
			return err
		}),
		s.authOn(ctx, from),
	)
}

// authOn: a token is given out only where authentication is on; the call that
// says so exists from 3.5 on.
func (s *surveyor) authOn(ctx context.Context, from *v3) error {
	if from.token != "" {
		s.count(AuthOn, 1)
		return nil
	}
	err := from.call(ctx, "ask whether authentication is on", func(ctx context.Context) error {
		reply, err := from.auth.AuthStatus(ctx, &pb.AuthStatusRequest{})
		if reply.GetEnabled() {
			s.count(AuthOn, 1)
		}
		return err
	})
	if unimplemented(err) {
		return nil // with it on, nothing here would have been answered
	}
	return err
}

// otherKeys looks for keys of version 2 beside those of version 3, which releases
// up to 3.5 can have.
func (s *surveyor) otherKeys(ctx context.Context, from *v3) error {
	if v := from.number; v.Major != 3 || v.Minor > 5 {
		return nil
	}
	other := &v2{web: from.web, version: from.number}
	_, err := other.walk(ctx, v2Visitor{
		key: func(key, _ string, _ int64) error { return s.lose(OtherKeys, []byte(key)) },
		dir: func(v2Dir) error { return nil },
	})
	var refused *v2Error
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusNotFound, errors.Is(err, io.EOF):
		return nil // it does not serve that version
	case errors.Is(err, ErrAuth):
		s.Notes = append(s.Notes, "keys of version 2 of the API could not be looked for: they have an authentication of their own")
		return nil
	}
	return err
}
