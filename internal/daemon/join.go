package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/blob"
	"etcdadm.io/internal/control"
	"etcdadm.io/internal/duration"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/pki"
	"etcdadm.io/internal/token"
)

const (
	// joinLook bounds the look at a token: what is wrong with a join is told within 3 s, the connection included.
	joinLook = 2 * time.Second
	// joinWrite bounds the note of a token's use, as the calls to the store of a person's command are.
	joinWrite = 6 * time.Second
	// joinSkew is how far the clocks of a joiner and of this host may be apart: certificates are issued five
	// minutes into the past, and one that others take for not valid yet lets its host talk with nobody.
	joinSkew = 5 * time.Minute
)

// admitter takes fresh hosts in.
type admitter struct{ d *daemon }

// Join implements peer.Admitter: the token is judged, then what the joiner says of itself, and the token's use is
// noted before anything is given.
func (a admitter) Join(ctx context.Context, remote string, r peer.JoinRequest) (peer.JoinReply, error) {
	d := a.d
	tok, err := token.Parse(r.Token)
	if err != nil {
		return peer.JoinReply{}, &Error{Problem: "it was not let in", Err: err, Advice: newToken}
	}
	now := time.Now()
	use := token.Use{Host: string(r.Host), At: now.UTC().Truncate(time.Second), Try: tryOf(r.Try)}
	looking, cancel := context.WithTimeout(ctx, joinLook)
	defer cancel()
	rec, err := d.folder.Tokens().Check(looking, tok, use.Try, now)
	if err == nil {
		err = a.genuine(rec, r)
	}
	if err != nil {
		return peer.JoinReply{}, tokenRefused(err)
	}
	known := a.provesItself(r)
	if err := a.fits(r, now, known); err != nil {
		return peer.JoinReply{}, err
	}
	if err := a.hasFollowed(looking, rec.LeafOnly); err != nil {
		return peer.JoinReply{}, err
	}
	reply, err := a.reply(rec.LeafOnly)
	if err == nil && rec.LeafOnly {
		reply.Leaf, err = a.leaf(r, known, now)
	}
	if err != nil {
		return peer.JoinReply{}, err
	}
	writing, done := context.WithTimeout(ctx, joinWrite)
	defer done()
	if err := d.folder.Tokens().Use(writing, tok, use); err != nil {
		return peer.JoinReply{}, tokenRefused(err)
	}
	d.log.Info("a host joins: it was given certificates and the settings of the cluster", "authorities' keys", !rec.LeafOnly, "joiner", r.Host, "address", r.Address, "remote", remote, "token", tok.ID, "release", r.Build)
	return reply, nil
}

// tryOf is what is kept of a joiner's number.
func tryOf(try string) string {
	if try == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(try))
	return hex.EncodeToString(sum[:])
}

const newToken = "make a new one on a host of the cluster: etcdadm token create"

// tokenRefused is why a token lets nobody in, for people.
func tokenRefused(err error) error {
	switch {
	case errors.Is(err, token.ErrWrong):
		return &Error{Problem: "it was not let in", Err: err, Advice: "copy the whole line that etcdadm token create printed; or " + newToken}
	case errors.Is(err, token.ErrUnknown), errors.Is(err, token.ErrExpired), errors.Is(err, token.ErrUsedUp), errors.Is(err, token.ErrRevoked), errors.Is(err, token.ErrUnsealed), errors.Is(err, token.ErrOtherHost):
		return &Error{Problem: "it was not let in", Err: err, Advice: newToken}
	case errors.Is(err, control.ErrMalformed):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Problem: "the backup store, where the tokens are kept, does not answer", Err: err, Advice: "look at etcdadm status on a host of the cluster, and run the command again when the store answers"}
	case errors.Is(err, control.ErrConflict):
		return &Error{Problem: "too many hosts join at once", Err: err, Advice: "run the command again"}
	}
	return &Error{Problem: "the backup store, where the tokens are kept, does not answer as it should", Err: err, Advice: adviceOf(err)}
}

func adviceOf(err error) string {
	if told, ok := errors.AsType[*blob.Error](err); ok && told.Advice != "" {
		return told.Advice
	}
	return "look at etcdadm status on a host of the cluster, and run the command again when the store answers"
}

// fits refuses a joiner that could not become a host as it is. A host that is known to come back is not held against itself.
func (a admitter) fits(r peer.JoinRequest, now time.Time, known bool) error {
	d := a.d
	if skew := now.Sub(r.Clock); skew.Abs() > joinSkew {
		how := "behind"
		if skew < 0 {
			how = "ahead of"
		}
		return mistake("set both clocks by NTP, and run the command again", "the clock of the joiner is %s %s that of host %s (%s and %s), and 5m are allowed",
			duration.Format(skew.Abs().Round(time.Second)), how, d.id, r.Clock.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	if err := (pki.Identity{Cluster: d.cfg.ClusterName, Role: pki.RoleHost, ID: string(r.Host)}).Validate(); err != nil {
		return &Error{Problem: "the joiner's ID", Err: err, Advice: "give it another one: --host-id"}
	}
	if r.Address == "" || strings.ContainsAny(r.Address, " /") {
		return mistake("give its own IP address or name: --address", "%q, which the joiner gave, is no address", r.Address)
	}
	at := net.JoinHostPort(r.Address, strconv.Itoa(d.cfg.GRPCPort))
	for _, c := range d.contacts() {
		switch {
		case c.Host == r.Host && c.Endpoint != at && !known:
			return mistake("give the joiner another ID, such as --host-id="+string(r.Host)+"-2; if it is to take the place of a host that is gone for good: etcdadm host forget "+cluster.ShellWord(string(r.Host)),
				"the cluster has a host %s already, at %s", c.Host, c.Endpoint)
		case c.Host != r.Host && c.Endpoint == at:
			return mistake("give the joiner's own address: --address; if host "+string(c.Host)+" is gone for good: etcdadm host forget "+cluster.ShellWord(string(c.Host)),
				"the address %s is that of host %s of the cluster", at, c.Host)
		}
	}
	return nil
}

// reply is what a joiner is given; a leaf-only one gets the authorities' certificates without the keys.
func (a admitter) reply(leafOnly bool) (peer.JoinReply, error) {
	d := a.d
	cas := d.certs.authorities()
	if cas == nil {
		return peer.JoinReply{}, errors.New("this host has no authorities")
	}
	reply := peer.JoinReply{
		Cluster: d.cfg.ClusterName, Host: d.id, Authorities: map[string][]byte{}, Settings: d.cfg.Shared(), Environment: shared(),
	}
	for _, one := range cas.All() {
		files, err := one.Files()
		if err != nil { // also for a leaf-only one, for which nothing could be signed here
			return peer.JoinReply{}, &Error{Problem: fmt.Sprintf("host %s does not hold the authorities' keys", d.id), Err: err, Advice: "join by the address of a host that holds them: etcdadm status names them"}
		}
		for name, data := range files {
			if !leafOnly || !strings.HasSuffix(name, ".key") {
				reply.Authorities[name] = data
			}
		}
	}
	for _, c := range d.contacts() {
		reply.Daemons = append(reply.Daemons, c.Endpoint)
	}
	slices.Sort(reply.Daemons)
	reply.Daemons = slices.Compact(reply.Daemons)
	return reply, nil
}

// Shared are the flags that are to be the same on every host, by their names, where they are not the default;
// __address__ stands for each host's own address.
func (c *Config) Shared() map[string]string {
	def := Default()
	out := map[string]string{"cluster-name": c.ClusterName, "backup-store": c.BackupStore}
	text := func(name, value, usual string) {
		if value != usual {
			out[name] = value
		}
	}
	list := func(name string, values, usual []string) {
		here := strings.Join(values, ",")
		// Where somebody wrote the address out, the joiner has its own there.
		here = strings.ReplaceAll(here, "//"+bracket(c.Address)+":", "//__address__:")
		text(name, here, strings.Join(usual, ","))
	}
	span := func(name string, d, usual time.Duration) { text(name, duration.Format(d), duration.Format(usual)) }
	number := func(name string, n, usual int) { text(name, strconv.Itoa(n), strconv.Itoa(usual)) }
	flag := func(name string, on, usual bool) { text(name, strconv.FormatBool(on), strconv.FormatBool(usual)) }

	text("control-store", c.ControlStore, def.ControlStore)
	number("grpc-port", c.GRPCPort, def.GRPCPort)
	list("peer-urls", c.PeerURLs, def.PeerURLs)
	list("client-urls", c.ClientURLs, def.ClientURLs)
	list("quarantine-client-urls", c.QuarantineURLs, def.QuarantineURLs)
	if c.EtcdAddress == c.Address {
		out["etcd-address"] = "__address__"
	} else {
		text("etcd-address", c.EtcdAddress, def.EtcdAddress)
	}
	number("etcd-manager-metrics-port", c.MetricsPort, def.MetricsPort)
	text("metrics-address", c.MetricsAddress, def.MetricsAddress)
	text("log-format", c.LogFormat, def.LogFormat)
	text("etcd-log", c.EtcdLog, def.EtcdLog)
	flag("etcd-insecure", c.EtcdInsecure, def.EtcdInsecure)
	text("key-algorithm", c.KeyAlgorithm, def.KeyAlgorithm)
	text("dns-suffix", c.DNSSuffix, def.DNSSuffix)
	span("discovery-poll-interval", c.DiscoveryPollInterval, def.DiscoveryPollInterval)
	span("backup-interval", c.BackupInterval, def.BackupInterval)
	span("backup-drill-interval", c.DrillInterval, def.DrillInterval)
	text("backup-compression", c.Backups.Compression, def.Backups.Compression)
	list("backup-recipient", c.Backups.Recipients, def.Backups.Recipients)
	number("backup-keep-last", c.Backups.KeepLast, def.Backups.KeepLast)
	span("dead-after", c.DeadAfter, def.DeadAfter)
	span("prune-after", c.PruneAfter, def.PruneAfter)
	span("auto-recover-after", c.AutoRecoverAfter, def.AutoRecoverAfter)
	number("defrag-threshold", c.Upkeep.DefragThreshold, def.Upkeep.DefragThreshold)
	span("hashkv-interval", c.Upkeep.HashInterval, def.Upkeep.HashInterval)
	flag("auto-compact-on-nospace", !c.Upkeep.KeepHistory, !def.Upkeep.KeepHistory)
	return out
}
