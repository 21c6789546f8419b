package memory

import (
	"slices"
	"testing"
	"time"

	"xmsched/compute"
)

// fullTable is a task of 4,096 segments of 32 MiB, every second on the device.
func fullTable(tb testing.TB) *Table {
	list := make([]Segment, 4096)
	for i := range list {
		list[i] = Segment{ID: ID(i + 1), Address: 1<<40 + uint64(i)*uint64(PieceBytes), Bytes: PieceBytes, Used: uint64(i)}
		if i%2 == 1 {
			list[i].State = Away
		}
	}
	t := NewTable()
	if err := t.Reset(list); err != nil {
		tb.Fatal(err)
	}
	return t
}

// exchange is a goal that moves half of a table out and half of it in.
func exchange(t *Table) Goal {
	order := NewLRU()
	var wanted []ID
	for s := range t.All() {
		if s.State == Device {
			order.Use(s.ID)
		} else {
			wanted = append(wanted, s.ID)
		}
	}
	return Goal{Target: t.Figures().Resident, Order: order, Wanted: wanted}
}

func BenchmarkPlan(b *testing.B) {
	table, plan := fullTable(b), Plan{}
	goal := exchange(table)
	b.ReportAllocs()
	for b.Loop() {
		plan.Build(table, goal)
	}
	b.ReportMetric(float64(len(plan.Out)+len(plan.In)), "batches")
}

func BenchmarkBelady(b *testing.B) {
	order := NewBelady()
	ids := make([]ID, 4096)
	for i := range ids {
		ids[i] = ID(i*2654435761%4096 + 1)
		order.Use(ids[i])
	}
	uses := slices.Values(ids)
	b.ReportAllocs()
	for b.Loop() {
		order.Plan(uses)
		for range order.Victims(0) {
			break
		}
	}
}

func BenchmarkMove(b *testing.B) {
	table := fullTable(b)
	goal := exchange(table)
	var plan Plan
	plan.Build(table, goal)
	list := slices.Collect(table.All())
	var move Move
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		if err := table.Reset(list); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		carryOut(&move, table, &plan, goal.Target)
	}
}

// carryOut does a move, every step at once.
func carryOut(m *Move, t *Table, p *Plan, target Bytes) {
	m.Start(t, p, nil, target)
	for s, ok := m.Next(); ok; s, ok = m.Next() {
		m.Done(s)
	}
}

// crowd is 64 tasks of 8 GiB on a device of 128 GiB.
func crowd(tb testing.TB) (*Planner, []compute.Slot, []Claim) {
	p, err := NewPlanner(Config{Budget: 128 * GiB})
	if err != nil {
		tb.Fatal(err)
	}
	var slots []compute.Slot
	var claims []Claim
	for i := range 64 {
		id := compute.TaskID(i + 1)
		slots = append(slots, compute.Slot{Task: id, Start: time.Duration(i) * 200 * time.Millisecond, Length: 200 * time.Millisecond})
		claims = append(claims, Claim{Task: id, Footprint: 8 * GiB, Ready: true, Open: i == 0, Stopped: i > 0})
	}
	return p, slots, claims
}

// decider returns a decision with somebody else's turn each time.
func decider(p *Planner, slots []compute.Slot, claims []Claim) func() {
	now := time.Second
	// The slots change in place, so that this is all the timelines there are.
	timeline := slices.Values(slots)
	return func() {
		now += 10 * time.Millisecond
		first := slots[0].Task
		for i := range slots[1:] {
			slots[i].Task = slots[i+1].Task
		}
		slots[len(slots)-1].Task = first
		for i := range slots {
			slots[i].Start = now + time.Duration(i)*200*time.Millisecond
		}
		for i, t := range p.Decide(now, timeline, nil, claims).Targets {
			claims[i].Resident, claims[i].Seen = t.Bytes, t.Want
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	decide := decider(crowd(b))
	b.ReportAllocs()
	for b.Loop() {
		decide()
	}
}

// TestSteadyStateAllocatesNothing: what runs at every switch, and between two
// batches, costs no garbage once it has grown. An order's sequence is one closure.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	decide := decider(crowd(t))
	for range 200 {
		decide()
	}
	if n := testing.AllocsPerRun(200, decide); n != 0 {
		t.Errorf("a decision: %v allocations", n)
	}
	table := fullTable(t)
	goal, list := exchange(table), slices.Collect(table.All())
	var plan Plan
	var move Move
	plan.Build(table, goal)
	if n := testing.AllocsPerRun(20, func() { plan.Build(table, goal) }); n > 1 {
		t.Errorf("a plan: %v allocations", n)
	}
	if n := testing.AllocsPerRun(20, func() {
		if err := table.Reset(list); err != nil {
			t.Fatal(err)
		}
		carryOut(&move, table, &plan, goal.Target)
	}); n != 0 {
		t.Errorf("a table and a move: %v allocations", n)
	}
	if f := table.Figures(); f.Resident != goal.Target || !move.Over() || move.Err() != nil {
		t.Errorf("%+v on the device, want %s; over %v, %v", f, goal.Target, move.Over(), move.Err())
	}
}
