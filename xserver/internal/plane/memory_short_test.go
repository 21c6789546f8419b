package plane

import (
	"fmt"
	"testing"
	"time"

	"xmsched/compute"
	"xmsched/memory"
)

// shortHost are three tasks of 60 GiB that take turns of 2 s on a device of 137, with an
// H200's figures, and a host of which moved memory may take so much. As many as tell do so
// of what they will touch: all of it.
func shortHost(t *testing.T, limit memory.Bytes, tell int) *memoryRig {
	return shortHostOn(t, 137*gib, limit, tell, false)
}

// shortHostOn is that on a device with so much for them; passes: host memory passes from one to
// another, and is not made anew.
func shortHostOn(t *testing.T, budget, limit memory.Bytes, tell int, passes bool) *memoryRig {
	r := newMemoryRig(t, budget, memory.Predict, compute.RR())
	r.hosted(limit, passes)
	for i := range 3 {
		c := r.tenant(compute.TaskID(i+1), 0, 3)
		c.ready(true)
		if i < tell {
			c.touches = 60 * gib
		}
	}
	r.fill(r.tenants, 60*gib, 2*time.Second)
	return r
}

// hosted gives the rig an H200's link and a host of which moved memory may take so much; it
// passes from one process to another, or each makes its own.
func (r *memoryRig) hosted(limit memory.Bytes, passes bool) {
	making := hostPinning
	if passes {
		r.hostOf, making = "one user", hostPassing
	}
	r.hostedAt(limit, making)
}

// hostedAt is that with what there is of the host made at a rate.
func (r *memoryRig) hostedAt(limit memory.Bytes, making memory.Rate) {
	r.link = slowLink{in: 49e9, out: 49e9, pinning: making}
	r.turn(func(p *Plane) {
		p.SetHost(limit, memory.LimitAvailable, nil)
		p.SetLink(compute.Device(testGPU.UUID.String()), 49e9)
	})
}

// fill has tasks, from the first on, allocate so much each, and take turns of a length then.
func (r *memoryRig) fill(tasks []*tenant, size memory.Bytes, turns time.Duration) {
	r.t.Helper()
	for range size / gib {
		for _, c := range tasks {
			c.allocate(gib)
		}
		r.live(200 * time.Millisecond)
	}
	for i, c := range tasks {
		if c.allocated != size {
			r.t.Fatalf("task %d has %v allocated, want %v", i+1, c.allocated, size)
		}
		r.turn(func(p *Plane) { p.SetHints(compute.TaskID(i+1), compute.Hints{Quantum: turns}) })
	}
}

// TestShortHostIsShared has tasks of which 43 GiB have to be on the host at any time share
// one that does not hold what each of them would send there in its turn: each has as much of
// the device as the others, also one that tells nothing of what it touches. With room for
// 65 GiB each can have all its memory in its turn; with less the one whose turn it is gives up
// host memory for what it lacks of that, if what others have to make anew for that is made
// before long. With much less nobody does, as that would be made in vain.
func TestShortHostIsShared(t *testing.T) {
	const exact = 61*gib + 800*memory.MiB
	for _, c := range []struct {
		limit  memory.Bytes
		tell   int
		least  float64 // of what they make in memory, in percent
		made   memory.Bytes
		less   memory.Bytes // of the device, for what the driver takes
		passes bool
	}{
		{44 * gib, 3, 14, 2 * gib, 0, false}, {49 * gib, 3, 18, 2 * gib, 0, false}, {50 * gib, 3, 19, 2 * gib, 0, false},
		{exact, 0, 72, 40 * gib, 0, false}, {exact, 1, 72, 40 * gib, 0, false}, {exact, 2, 72, 40 * gib, 0, false}, {exact, 3, 72, 40 * gib, 0, false},
		{66 * gib, 3, 80, 2 * gib, 0, false}, {90 * gib, 3, 85, 2 * gib, 0, false}, {140 * gib, 3, 97, 10 * gib, 0, false},
		{exact, 3, 35, 2 * gib, 3 * gib, false}, {exact, 3, 78, 100 * gib, 3 * gib, true},
	} {
		t.Run(fmt.Sprintf("%v, %d tell, %v less, %t", c.limit, c.tell, c.less, c.passes), func(t *testing.T) {
			r := shortHostOn(t, 137*gib-c.less, c.limit, c.tell, c.passes)
			r.live(50 * time.Second) // until there is all the host memory that there can be
			var work, made [3]float64
			take := func(sign float64) (sum, host float64) {
				for i, c := range r.tenants {
					work[i] += sign * c.work.Seconds()
					made[i] += sign * float64(c.made)
					sum, host = sum+work[i], host+made[i]
				}
				return sum, host
			}
			take(-1)
			const span = 24 * time.Second
			for end := r.now + span; r.now < end; {
				r.live(100 * time.Millisecond)
				if taken := r.hostTaken(); taken > c.limit {
					t.Fatalf("at %v: %v of the host given and taken, limit %v", r.now, taken, c.limit)
				}
			}
			sum, host := take(1)
			share := 100 * sum / span.Seconds()
			t.Logf("%.1f %% of in memory, %.1f s, %v of the host made", share, work, memory.Bytes(host))
			if share < c.least || memory.Bytes(host) > c.made {
				t.Errorf("%.1f %% of in memory, want %.0f, with at most %v of the host made anew: %v", share, c.least, c.made, memory.Bytes(host))
			}
			if least := min(work[0], work[1], work[2]); least < 0.8*sum/3 {
				t.Errorf("one had %.1f s of %.1f", least, sum)
			}
		})
	}
}

// TestHostPartsDoNotSwing: while tasks whose memory does not fit come by it, of two whose
// memory goes now one's and now the other's is to go next. Their parts do not follow every
// such decision, as each word of a part wakes a client, and may have it make host memory that
// it is to give up at once.
func TestHostPartsDoNotSwing(t *testing.T) {
	for _, limit := range []memory.Bytes{44 * gib, 50 * gib, 54 * gib} {
		r := shortHost(t, limit, 3)
		r.live(4 * time.Second)
		words := uint32(0)
		for _, c := range r.tenants {
			word, _ := c.device.Memory()
			words += word
		}
		if most := uint32(300 * r.now.Seconds()); words > most {
			t.Errorf("limit %v: %d words in %v, want %d at most", limit, words, r.now, most)
		}
	}
}

// TestHostIsMadeForWhatMayHaveToGo: however large the host is, nobody makes more of it than
// all have beyond what the device has, as no more than that ever has to leave one; unless
// tasks go as a whole. What was made before they had so much is not given back for that.
func TestHostIsMadeForWhatMayHaveToGo(t *testing.T) {
	const excess, before = 3*60*gib - 137*gib, 4 * gib
	r := shortHost(t, 500*gib, 3)
	r.live(60 * time.Second)
	for i, c := range r.tenants {
		if c.slots > excess+before {
			t.Errorf("task %d has %v of the host, and %v can have to go", i+1, c.slots, excess)
		}
	}
	r.turn(func(p *Plane) { _ = p.SetMemory(Memory{Budget: 137 * gib, Mode: memory.Swap}) })
	r.live(60 * time.Second)
	for i, c := range r.tenants {
		if c.slots < c.allocated {
			t.Errorf("task %d, which goes as a whole, has %v of the host", i+1, c.slots)
		}
	}
}

// TestTwoLargeTasksPassHostMemoryOn has two tasks of 88 GiB take turns of 4 s on a device of
// 135 with 60 GiB of host: 41 have to be there for one and then for the other. They make four
// fifths of what they would in memory with a host that holds that for each, two thirds where it
// passes from one to the other, and not a third where each would have to make its own.
func TestTwoLargeTasksPassHostMemoryOn(t *testing.T) {
	for _, c := range []struct {
		limit  memory.Bytes
		passes bool
		least  float64 // of what they make in memory, in percent
	}{{60 * gib, false, 28}, {60 * gib, true, 64}, {90 * gib, false, 78}} {
		r := newMemoryRig(t, 135*gib, memory.Predict, compute.RR())
		r.hosted(c.limit, c.passes)
		for i := range 2 {
			one := r.tenant(compute.TaskID(i+1), 0, 3)
			one.ready(true)
			one.writes = true
		}
		r.fill(r.tenants, 88*gib, 4*time.Second)
		r.live(50 * time.Second)
		a, b := r.tenants[0].work, r.tenants[1].work
		const span = 48 * time.Second
		r.live(span)
		a, b = r.tenants[0].work-a, r.tenants[1].work-b
		made := 100 * (a + b).Seconds() / span.Seconds()
		t.Logf("limit %v, passes %t: %.1f %%, %v and %v", c.limit, c.passes, made, a, b)
		if made < c.least || min(a, b) < max(a, b)*8/10 {
			t.Errorf("limit %v, passes %t: %.1f %% of in memory, %v and %v; want %.0f", c.limit, c.passes, made, a, b, c.least)
		}
	}
}

// TestAnIdleForegroundCostsNothing: three tasks on a short host that is passed on, with and
// without a foreground that is there and never does anything.
func TestAnIdleForegroundCostsNothing(t *testing.T) {
	const limit = 61*gib + 800*memory.MiB
	shares := map[string]float64{}
	for _, kind := range []string{"nobody", "idle foreground", "one without memory"} {
		r := newMemoryRig(t, 134*gib, memory.Predict, compute.HPF())
		r.hosted(limit, true)
		for i := range 3 {
			c := r.tenant(compute.TaskID(i+1), 0, 3)
			c.ready(true)
			c.touches = 60 * gib
		}
		if kind == "idle foreground" {
			c := r.tenant(4, 10, 3)
			c.allocate(64 * memory.MiB)
		}
		if kind == "one without memory" {
			r.tenant(4, 10, 3)
		}
		r.fill(r.tenants[:3], 60*gib, 2*time.Second)
		r.live(50 * time.Second)
		const span = 24 * time.Second
		sum := time.Duration(0)
		for _, c := range r.tenants[:3] {
			sum -= c.work
		}
		r.live(span)
		for _, c := range r.tenants[:3] {
			sum += c.work
		}
		shares[kind] = 100 * sum.Seconds() / span.Seconds()
		t.Logf("%s: %.1f %% of in memory", kind, shares[kind])
	}
	for kind, share := range shares {
		if share < 0.8*shares["nobody"] {
			t.Errorf("%s: %.1f %% of in memory, %.1f beside nobody", kind, share, shares["nobody"])
		}
	}
}
