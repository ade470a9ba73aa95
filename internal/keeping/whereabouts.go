package keeping

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/keeper"
	"etcdadm.io/internal/peer"
	"etcdadm.io/internal/register"
)

// Which record there is, and who keeps it: what this host knows of it, finds out, and goes over to.

// seats are whom to ask for the record: by this host's documents, and by what others said while no majority of these answered.
func (k *Part) seats(state register.Keeper) []register.Seat {
	out := state.Keepers()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.heard {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// knownKeepers names the record and whom to ask for it.
func (k *Part) knownKeepers() (string, []register.Seat) {
	ctx, cancel := context.WithTimeout(context.Background(), keeperTimeout)
	defer cancel()
	state, err := k.opt.Keeper.State(ctx)
	if err != nil {
		return "", nil
	}
	return state.Record, k.seats(state)
}

// whereIs is what this host tells another one of the record. That it is being made again is looked at first, and the rest in one
// look: of two hosts that make it at once and ask each other, one hears of the other.
func (k *Part) whereIs(ctx context.Context) (peer.KeepReply, error) {
	out := peer.KeepReply{Making: k.making.Load(), Runs: k.opt.Runs()}
	state, err := k.opt.Keeper.State(ctx)
	switch {
	case errors.Is(err, keeper.ErrNone):
		return out, nil
	case err != nil:
		return out, err
	}
	out.Record, out.Keepers = state.Record, k.seats(state)
	if !k.opt.WentBack() {
		out.Seat, out.Unconfirmed = &state.Seat, errors.Is(k.mayAnswer(ctx), errUnconfirmed)
	}
	if e := state.Newest(); e.Doc != nil {
		out.Newest = &e
	}
	if state.Chosen.Doc != nil {
		out.Chosen = &state.Chosen
	}
	return out, nil
}

// told is what one host says of the record, or why it says nothing.
type told struct {
	peer.KeepReply
	host cluster.HostID
	err  error
}

// madeFrom tells whether the record of this host was made again from another one.
func (t told) madeFrom(record string) bool {
	for _, e := range []*register.Entry{t.Chosen, t.Newest} {
		if e != nil && e.Doc != nil {
			_, ok := e.Doc.From(record)
			return ok
		}
	}
	return false
}

// askWhere asks these hosts at once.
func (k *Part) askWhere(ctx context.Context, of []cluster.HostID) []told {
	ctx, cancel := context.WithTimeout(ctx, keeperTimeout)
	defer cancel()
	out := make([]told, len(of))
	var all sync.WaitGroup
	for i, h := range of {
		all.Go(func() {
			out[i].host = h
			c, err := k.clientOf(h)
			if err == nil {
				out[i].KeepReply, err = c.Keep(ctx, peer.KeepRequest{Where: true})
			}
			out[i].err = err
		})
	}
	all.Wait()
	return out
}

// others are all hosts that this one ever heard of: by their daemons, and as keepers.
func (k *Part) others() (out []cluster.HostID) {
	for _, c := range k.opt.Contacts() {
		out = append(out, c.Host)
	}
	_, seats := k.knownKeepers()
	for _, s := range seats {
		out = append(out, s.Host)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(h cluster.HostID) bool { return h == k.opt.Self() })
}

// findRecord asks the other daemons where the record is, on a host that knows none, or whose keepers have no majority: they may
// have changed while this host was away, or the record was made again without it. Now and then it asks anyway: somebody may have
// made another record in the back of this one.
func (k *Part) findRecord(ctx context.Context) error {
	ours, seats := k.knownKeepers()
	if ours != "" && len(seats) > 0 && !k.record.Silent() && time.Since(k.around) < aroundEvery {
		return nil
	}
	k.around = time.Now()
	found, err := k.weigh(ctx, k.askWhere(ctx, k.others()))
	if err != nil {
		return err
	}
	stays := found.stays
	if found.other != nil {
		if stays, err = k.staysRunning(ctx, found); err == nil && stays == "" {
			found.keepers, err = found.other.Keepers, k.goOver(ctx, *found.other)
			if err == nil {
				k.obey(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
	k.remember(found.keepers, stays)
	if found.record == "" {
		return errors.New("no other daemon tells this host where the record of the cluster is")
	}
	return nil
}

// found is what the other hosts' answers come to.
type found struct {
	record  string          // the one that this host keeps; empty: none
	keepers []register.Seat // who keeps it, as others say
	newest  register.Entry  // the newest document of it that another host has
	runs    bool            // the member of another host of this record has a quorum, or had one since it was started
	other   *told           // another record, which this host may go over to
	made    bool            // another record was made again from this host's
	stays   string          // why it is not known which record is the one
}

// weigh has a host that keeps no record yet be ready to keep the one that the others keep. A record that this host's was made
// from is theirs to leave, and among several it is the one that was made from all others. Of each record the host counts that
// knows most of it.
func (k *Part) weigh(ctx context.Context, answers []told) (found, error) {
	state, err := k.opt.Keeper.State(ctx)
	if err != nil && !errors.Is(err, keeper.ErrNone) {
		return found{}, err
	}
	out := found{record: state.Record}
	var foreign []told
	for _, t := range answers {
		switch {
		case t.err != nil || t.Record == "":
		case t.Record == state.Record:
			k.seal(t.Chosen) // one host that knows is enough: nothing comes after it
			out.keepers, out.runs = append(out.keepers, t.Keepers...), out.runs || t.Runs
			if t.Newest != nil && t.Newest.Compare(out.newest) > 0 {
				out.newest = *t.Newest
			}
		case state.Newest().Doc != nil && made(state, t.Record):
		default:
			out.made = out.made || state.Record != "" && t.madeFrom(state.Record)
			foreign = best(foreign, t)
		}
	}
	if len(foreign) == 0 {
		return out, nil
	}
	last := slices.IndexFunc(foreign, func(t told) bool {
		return !slices.ContainsFunc(foreign, func(o told) bool { return o.Record != t.Record && !t.madeFrom(o.Record) })
	})
	switch {
	case last < 0:
		out.stays = fmt.Sprintf("hosts %s and %s keep two records of the cluster, %s and %s, and neither was made from the other", foreign[0].host, foreign[1].host, foreign[0].Record, foreign[1].Record)
	case out.record != "":
		out.other = &foreign[last]
	case len(foreign[last].Keepers) > 0:
		t := foreign[last]
		if _, err := k.opt.Keeper.Enrol(ctx, k.opt.Self(), t.Record, k.opt.Mint); err != nil {
			return out, fmt.Errorf("host %s keeps record %s: %w", t.host, t.Record, err)
		}
		out.record, out.keepers = t.Record, t.Keepers
	}
	return out, nil
}

// best has one answer of each record: of the host that knows most of it.
func best(all []told, t told) []told {
	i := slices.IndexFunc(all, func(o told) bool { return o.Record == t.Record })
	switch {
	case i < 0:
		return append(all, t)
	case t.Chosen != nil && (all[i].Chosen == nil || t.Chosen.Compare(*all[i].Chosen) > 0):
		all[i] = t
	}
	return all
}

// made tells whether what this host keeps was made again from another record.
func made(state register.Keeper, record string) bool {
	_, ok := state.Newest().Doc.From(record)
	return ok
}

func (k *Part) remember(heard []register.Seat, stays string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if stays != "" && stays != k.stays {
		k.opt.Log.Warn(stays, "see", "docs/operations/other-record.md")
	}
	k.heard, k.stays = heard, stays
}

// Problems are what this host has to say of the record that it keeps.
func (k *Part) Problems() []cluster.Problem {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []cluster.Problem
	if k.stays != "" {
		out = append(out, cluster.Problem{Code: "other-record", Sentence: k.stays})
	}
	if !k.unsure.IsZero() && time.Since(k.unsure) >= unsureFor {
		out = append(out, k.unconfirmed())
	}
	return out
}

// watchUnsure notes since when this host keeps the record and does not answer for it.
func (k *Part) watchUnsure(ctx context.Context) {
	state, err := k.opt.Keeper.State(ctx)
	unsure := err == nil && state.Kept() && errors.Is(k.mayAnswer(ctx), errUnconfirmed)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !unsure:
		k.unsure = time.Time{}
	case k.unsure.IsZero():
		k.unsure = time.Now()
	}
}

// unconfirmed says that this host does not answer as a keeper, and what a person can do.
func (k *Part) unconfirmed() cluster.Problem {
	self, waits := k.opt.Self(), "the other hosts"
	if unheard := k.opt.Unheard(); len(unheard) > 0 {
		var names []string
		for _, h := range unheard {
			names = append(names, string(h))
		}
		waits = strings.Join(names, ", ")
	}
	return cluster.Problem{
		Code: "disk-unconfirmed",
		Sentence: fmt.Sprintf("host %s does not answer for the cluster's record: its disk is not confirmed, "+
			"because no host that remembers its last minutes has answered since its agent began (not heard: %s)", self, waits),
		Hint: fmt.Sprintf("start the agents of %s; if no older copy of this disk was put back: etcdadm host confirm-disk %s",
			waits, cluster.ShellWord(string(self))),
	}
}

// staysWith is why this host does not go over to another record by itself, as far as the two records say; "" if it does.
func (k *Part) staysWith(ctx context.Context, f found) (why string, err error) {
	t := *f.other
	if t.Chosen == nil || t.Chosen.Doc == nil {
		return fmt.Sprintf("host %s does not know yet what that record says", t.host), nil
	}
	state, err := k.opt.Keeper.State(ctx)
	if err != nil {
		return "", err
	}
	why = state.Follows(t.Chosen.Doc)
	if o, ok := t.Chosen.Doc.From(f.record); why == "" && ok && o.Lacks(f.newest) {
		why = "another host of this record knows more than was known when that one was made from it"
	}
	return why, nil
}

// staysRunning is the same while the member may run. That it has no quorum has to be seen: what is not known keeps the host.
func (k *Part) staysRunning(ctx context.Context, f found) (string, error) {
	why, err := k.staysWith(ctx, f)
	switch {
	case err != nil:
		return "", err
	case why == "" && !k.record.Silent():
		why = "a majority of the hosts that keep it answers"
	}
	if why == "" {
		switch serves, err := k.servesBut(ctx, f); {
		case err != nil:
			why = fmt.Sprintf("whether its member has a quorum is not known (%v)", err)
		case serves:
			why = "its member reads through a quorum"
		}
	}
	if why == "" {
		return "", nil
	}
	return stayed(*f.other, why), nil
}

// servesBut tells whether the cluster of this host's record goes on beside another record, by its member. One that it was given for a
// generation which only the other record has tells nothing of that: the host was taken in there before it went over.
func (k *Part) servesBut(ctx context.Context, f found) (bool, error) {
	ours, other := k.intent(ctx), k.intentOf(ctx, f.other.Chosen.Doc)
	if ours == nil || other != nil && ours.Token == other.Token {
		other = nil
	}
	return k.opt.Serves(ctx, other)
}

func stayed(t told, why string) string {
	return fmt.Sprintf("host %s keeps another record of the cluster, %s, and this host stays with its own: %s", t.host, t.Record, why)
}

// goOver has this host keep the record of another one.
func (k *Part) goOver(ctx context.Context, t told) error {
	if err := k.opt.Keeper.Follow(ctx, k.opt.Mint, *t.Chosen); err != nil {
		return err
	}
	k.opt.Log.Warn("this host went over to the record that was made again after it was lost", "host", t.host, "record", t.Record)
	return nil
}
