package host

import (
	"context"
	"log/slog"
	"time"

	"etcdadm.io/cluster"
	"etcdadm.io/internal/host/bulk"
	"etcdadm.io/internal/host/evidence"
	"etcdadm.io/internal/host/inventory"
	"etcdadm.io/internal/host/member"
	"etcdadm.io/internal/host/record"
	"etcdadm.io/internal/host/settings"
	"etcdadm.io/internal/host/takeover"
	"etcdadm.io/internal/host/work"
)

// New makes a host that does nothing yet.
func New(o Options) *Host {
	if o.Mint == nil {
		o.Mint = Mint
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	keeper, notes := record.NewKeeper(o.ID, func(s record.State) error { return o.Disk.Save(s) }, o.Log), record.NewNotes(o.Log)
	h := &Host{
		o: o, keeper: keeper, notes: notes, sinceStart: &sinceStart{process: o.Process, began: time.Now()}, Memory: record.NewMemory(keeper, notes),
		looking: make(chan struct{}, 1), changes: make(chan struct{}, 1),
		member: member.NewClient(o.ID, keeper, func() cluster.Process { return o.Process.Status() }, o.Member, o.Trusts),
	}
	h.work = work.NewSupervisor(o.ID, keeper, h.changed, o.Log)
	h.inventory = inventory.New(inventory.Options{
		Host: o.ID, Disk: o.Disk, Keeper: keeper, Notes: notes, Member: h.member, Work: h.work, PruneAfter: o.PruneAfter,
		Staging: func() bool { return h.staging.Running() }, Changed: h.changed, Log: o.Log,
	})
	with := bulk.Options{
		Host: o.ID, Sources: o.Sources, Keeper: keeper, Memory: h.Memory, Member: h.member, Work: h.work, Changed: h.changed, Log: o.Log,
		Disk: o.Disk, Inventory: h.inventory, URLs: o.URLs, Releases: o.Releases, Obstacle: h.obstacle, Mint: o.Mint,
		Stopped: func() bool { return o.Process.Status().State == cluster.ProcessStopped },
	}
	h.fences, h.pauses = &Fences{keeper: keeper}, record.NewPauses(o.ID, o.Files, o.Log)
	h.evidence = evidence.New(o.Disk, keeper, notes, o.Log)
	h.settings = settings.New(o.ID, o.URLs, o.Options, o.Variables, h.Memory, keeper)
	h.takeover = takeover.New(takeover.Options{
		Disk: o.Disk, Keeper: keeper, Memory: h.Memory, Settings: h.settings, Inventory: h.inventory, URLs: o.URLs, Releases: o.Releases,
		Marker: func(ctx context.Context) (*cluster.Intent, error) { return o.Intents.ReadIntent(ctx) }, Promoted: o.Promoted,
		Obstacle: h.obstacle, Mint: o.Mint, Changed: h.changed, Log: o.Log,
		Start: func(ctx context.Context, s record.State, l record.Launch, m cluster.LocalMember) cluster.ApplyReply {
			return h.firstStart(ctx, s, l, m, false)
		},
	})
	h.staging, h.backups, h.logs = bulk.NewStaging(with), bulk.NewBackups(with), bulk.NewLogs(with)
	h.upkeep = member.NewUpkeep(h.member, keeper, h.work, h.backups.Running, h.changed, o.Log)
	return h
}
