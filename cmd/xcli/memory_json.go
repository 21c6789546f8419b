package main

import (
	"time"

	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

// memoryStats is the JSON of xcli memory stats. Amounts are in bytes.
type memoryStats struct {
	Managed   bool            `json:"managed"`
	Policy    string          `json:"policy,omitempty"`
	Awaiting  bool            `json:"awaiting,omitempty"` // programs of before a restart are waited for
	Host      *hostMemoryRow  `json:"host,omitempty"`
	Devices   []deviceMemory  `json:"devices,omitempty"`
	Processes []processMemory `json:"processes,omitempty"`
}

type hostMemoryRow struct {
	Used      uint64 `json:"used"`            // holds what is nowhere else
	Pool      uint64 `json:"pool"`            // that, clean copies and what is free
	Kept      uint64 `json:"kept"`            // clean copies
	Limit     uint64 `json:"limit,omitempty"` // absent: not bounded
	LimitedBy string `json:"limited_by,omitempty"`

	LeftBehind uint64 `json:"left_behind"` // of programs that left; not part of the pool
	Passing    uint64 `json:"passing"`     // on its way from one program to another; not part of the pool
	Passed     uint64 `json:"passed"`      // that came from one to another so far
}

type deviceMemory struct {
	Device         string `json:"device"`
	Name           string `json:"name"`
	Why            string `json:"why,omitempty"` // it is not managed
	Budget         uint64 `json:"budget"`
	Card           uint64 `json:"card,omitempty"`
	DriverOwned    uint64 `json:"driver_owned"`
	Committed      uint64 `json:"committed"`
	Allocated      uint64 `json:"allocated"`
	Resident       uint64 `json:"resident"`
	Host           uint64 `json:"host"`
	Pinned         uint64 `json:"pinned"`
	Over           uint64 `json:"over"`
	LeftBehind     uint64 `json:"left_behind"`
	Oversubscribed bool   `json:"oversubscribed"`
	HostShort      bool   `json:"host_short"`
	Free           uint64 `json:"free"`
	Slots          uint64 `json:"slots"`
	Kept           uint64 `json:"kept"`

	LinkGBs float64 `json:"link_gb_per_s"` // each way with both busy, by what was moved
}

type processMemory struct {
	Task       uint64  `json:"task"`
	PID        int32   `json:"pid"`
	Name       string  `json:"name"`
	UID        uint32  `json:"uid"`
	Device     string  `json:"device"`
	Limit      uint64  `json:"limit"` // 0: what the card has
	Allocated  uint64  `json:"allocated"`
	Resident   uint64  `json:"resident"`
	Host       uint64  `json:"host"`
	Pinned     uint64  `json:"pinned"`
	Asked      uint64  `json:"asked"`
	Waste      uint64  `json:"waste"`
	Target     uint64  `json:"target"`
	Desired    uint64  `json:"desired"`
	WorkingSet uint64  `json:"working_set"`
	MovedIn    uint64  `json:"moved_in"`
	MovedOut   uint64  `json:"moved_out"`
	InGBs      float64 `json:"in_gb_per_s"` // while it moved
	OutGBs     float64 `json:"out_gb_per_s"`
	StallMS    float64 `json:"stall_ms"`
	Hidden     float64 `json:"hidden"` // part of what came in that came while another ran
	Held       bool    `json:"held"`
	Waits      bool    `json:"waits"`
	Move       string  `json:"move"`
	QuantumMS  float64 `json:"quantum_ms"` // 0: the policy's own
	LoadMS     float64 `json:"load_ms"`
	Why        string  `json:"why,omitempty"`

	PinnedBy   map[string]uint64 `json:"pinned_by,omitempty"` // by kinds
	Foretold   bool              `json:"foretold"`            // working_set is; else it is all that is allocated
	Slots      uint64            `json:"slots"`               // host memory that there is for it
	Kept       uint64            `json:"kept"`                // of that, clean copies
	SlotsBound uint64            `json:"slots_bound"`         // most that it may be; 0: no bound
	Exchange   uint64            `json:"exchange"`
	Hashed     uint64            `json:"hashed"` // compared with clean copies
	Spared     uint64            `json:"spared"` // of that: not copied
	Wrong      uint64            `json:"wrong"`  // of that: had changed
}

func memoryJSON(r *xserverv1.MemoryStatsResponse) memoryStats {
	s := memoryStats{Managed: r.Managed, Policy: r.Policy, Awaiting: r.Awaiting}
	if h := r.Host; h != nil {
		s.Host = &hostMemoryRow{Used: h.Used, Pool: h.Pool, Kept: h.Kept, Limit: h.Limit, LimitedBy: h.LimitedBy, LeftBehind: h.LeftBehind, Passing: h.Passing, Passed: h.Passed}
	}
	for _, d := range r.Devices {
		s.Devices = append(s.Devices, deviceMemory{
			Device: d.Uuid, Name: d.Name, Why: d.Why, Budget: d.Budget, Card: d.Card, DriverOwned: d.DriverOwned,
			Committed: d.Committed, Allocated: d.Allocated, Resident: d.Resident, Host: d.Host, Pinned: d.Pinned,
			Over: d.Over, LeftBehind: d.LeftBehind, Oversubscribed: d.Oversubscribed, HostShort: d.HostShort,
			Free: d.Free, Slots: d.Slots, Kept: d.Kept, LinkGBs: float64(d.Link) / 1e9,
		})
		for _, p := range d.Processes {
			m := p.Memory
			s.Processes = append(s.Processes, processMemory{
				Task: p.Task, PID: p.Pid, Name: p.Name, UID: p.Uid, Device: d.Uuid, Limit: m.Limit,
				Allocated: m.Allocated, Resident: m.Resident, Host: m.Host, Pinned: m.Pinned, Asked: m.Asked, Waste: m.Waste,
				Target: m.Target, Desired: m.Desired, WorkingSet: m.WorkingSet, MovedIn: m.MovedIn, MovedOut: m.MovedOut,
				InGBs: m.InPerS / 1e9, OutGBs: m.OutPerS / 1e9, StallMS: msOf(m.StallNs), Hidden: m.Hidden,
				Held: m.Held, Waits: m.Waits, Move: m.Move, QuantumMS: msOf(m.QuantumNs), LoadMS: msOf(m.LoadNs), Why: m.Why,
				PinnedBy: kindsOf(m), Foretold: m.Foretold, Slots: m.Slots, Kept: m.Kept, SlotsBound: m.SlotsBound,
				Exchange: m.Exchange, Hashed: m.Hashed, Spared: m.Spared, Wrong: m.Wrong,
			})
		}
	}
	return s
}

func kindsOf(m *xserverv1.Memory) map[string]uint64 {
	if len(m.PinnedBy) == 0 {
		return nil
	}
	kinds := map[string]uint64{}
	for _, k := range m.PinnedBy {
		kinds[k.Name] = k.Bytes
	}
	return kinds
}

func msOf(ns uint64) float64 { return float64(client.Duration(ns)) / float64(time.Millisecond) }
