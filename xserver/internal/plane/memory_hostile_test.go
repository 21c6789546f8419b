package plane

import (
	"math/rand/v2"
	"testing"
	"time"

	"xmsched/compute"
	"xmsched/memory"
	"xmsched/preempt/board"
)

// TestHostileFiguresTakeNothing has clients that claim whatever comes to their mind, at
// random moments, beside one that is honest: nobody is given more than there is, the
// daemon does not spin, and when they are gone nothing of it is left.
func TestHostileFiguresTakeNothing(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		budget := memory.Bytes(1+rnd.IntN(32)) * gib
		r := newMemoryRig(t, budget, memory.Allocation, []compute.Policy{compute.RR(), compute.HPF(), compute.FCFS()}[rnd.IntN(3)])
		honest := r.tenant(1, 0, 3)
		honest.ready(true)
		honest.allocate(budget / 4)
		var liars []*guest
		for i := range 3 {
			g := r.guest(compute.TaskID(2+i), 0)
			g.configure(0, 16, 8)
			g.canDo(uint32(1+rnd.IntN(3)), board.NothingInTheWay)
			liars = append(liars, g)
		}
		for range 400 {
			for _, g := range liars {
				if rnd.IntN(3) == 0 {
					g.device.TellMemory(lie(rnd))
				}
				g.device.SetReady(rnd.IntN(2) == 0)
				g.ring()
			}
			r.pass(time.Duration(rnd.IntN(3000)) * time.Microsecond)
			honest.act(2 * time.Millisecond)
			for _, g := range append([]*guest{honest.guest}, liars...) {
				if _, m := g.device.Memory(); m.Target > uint64(budget) {
					t.Fatalf("seed %d at %v: %v given of %v", seed, r.now, memory.Bytes(m.Target), budget)
				}
			}
		}
		for _, g := range liars {
			r.turn(func(p *Plane) { p.Remove(g.id) })
		}
		ran := honest.onTurn
		r.live(3 * time.Second)
		if honest.onTurn-ran < 2*time.Second || honest.resident != honest.allocated {
			t.Errorf("seed %d: with the others gone it ran %v of 3 s, with %v of %v", seed, honest.onTurn-ran, honest.resident, honest.allocated)
		}
	}
}

func lie(rnd *rand.Rand) board.MemoryView {
	figure := func() uint64 { return rnd.Uint64() >> rnd.IntN(64) }
	return board.MemoryView{
		Did: uint32(rnd.IntN(20)), State: board.MemoryState(rnd.IntN(16)),
		Allocated: figure(), Resident: figure(), Loading: figure(), Host: figure(), Pinned: figure(), Asked: figure(), Waste: figure(),
		In: figure(), Out: figure(), Stall: time.Duration(rnd.Int64()),
	}
}

// TestManyComeAndGo has honest tasks of all kinds come, allocate, idle, die and move at
// random: check holds after every step.
func TestManyComeAndGo(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		policies := []compute.Policy{compute.RR(), compute.HPF(), compute.FCFS(), compute.WRR()}
		r := newMemoryRig(t, 16*gib, memory.Mode(rnd.IntN(4)), policies[rnd.IntN(len(policies))])
		if rnd.IntN(2) == 0 {
			r.turn(func(p *Plane) { p.SetHost(memory.Bytes(8+rnd.IntN(64))*gib, memory.LimitWanted, nil) })
		}
		var ids compute.TaskID
		for range 150 {
			alive := make([]*tenant, 0, 6)
			for _, c := range r.tenants {
				if !c.dead {
					alive = append(alive, c)
				}
			}
			var c *tenant
			if len(alive) > 0 {
				c = alive[rnd.IntN(len(alive))]
			}
			switch n := rnd.IntN(10); {
			case c == nil || n == 0 && len(alive) < 6:
				ids++
				r.tenant(ids, rnd.IntN(3), uint32(2+rnd.IntN(2)))
			case n <= 3:
				c.allocate(memory.Bytes(1+rnd.IntN(96)) * 32 * memory.MiB)
			case n <= 5:
				c.ready(rnd.IntN(3) > 0)
			case n == 6:
				c.dead = true
				r.turn(func(p *Plane) { p.Remove(c.id) })
			case n == 7:
				freed := min(c.allocated, memory.Bytes(rnd.IntN(64))*32*memory.MiB)
				c.allocated -= freed
				c.resident = min(c.resident, c.allocated)
				c.away = min(c.away, c.allocated-c.resident)
			}
			r.live(time.Duration(rnd.IntN(40)) * time.Millisecond)
		}
	}
}
