package plane

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xmsched/compute"
	"xmsched/memory"
)

// TestDivideHost holds the division to what it promises, whatever is claimed.
func TestDivideHost(t *testing.T) {
	amount := rapid.Map(rapid.IntRange(0, 20_000), func(n int) memory.Bytes { return memory.Bytes(n) * memory.Granularity })
	rapid.Check(t, func(t *rapid.T) {
		limit, spare := amount.Draw(t, "limit"), min(hostGrain, amount.Draw(t, "spare"))
		claims := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) hostClaim {
			c := hostClaim{firm: amount.Draw(t, "firm"), asked: amount.Draw(t, "asked"), going: amount.Draw(t, "going"), used: amount.Draw(t, "used"), most: amount.Draw(t, "most")}
			c.has = c.firm + amount.Draw(t, "kept")
			if rapid.Bool().Draw(t, "turn") {
				c.turn, c.enough, c.gives = true, amount.Draw(t, "enough")-amount.Draw(t, "lacks"), amount.Draw(t, "gives")
			}
			return c
		}), 1, 12).Draw(t, "claims")
		var firm, sum, unmet memory.Bytes
		parts := divideHost(limit, spare, claims, nil)
		for i, c := range claims {
			firm, sum = firm+c.firm, sum+parts[i]
			if parts[i] < c.firm || parts[i] > max(c.firm, c.most) {
				t.Fatalf("part %v of %+v", parts[i], c)
			}
			unmet += max(0, min(c.most, c.firm+c.asked+c.going)-parts[i])
		}
		if sum > max(limit, firm) {
			t.Fatalf("%v divided, limit %v, firm %v", sum, limit, firm)
		}
		if unmet >= memory.Granularity && limit-sum >= memory.Granularity {
			t.Fatalf("%v left, and %v that has to go to the host is kept out", limit-sum, unmet)
		}
	})
}

// TestDivideHostInTurn: of three that use the host in turn the one whose turn it is gives up
// what it lacks, for the one that goes; who comes next and has little has its even part, and
// one that does not use the host none of it.
func TestDivideHostInTurn(t *testing.T) {
	waits := hostClaim{firm: 20 * gib, has: 20 * gib, used: 20 * gib, most: 60 * gib}
	goes := waits
	goes.going = 40 * gib
	for _, c := range []struct {
		what   string
		claims []hostClaim
		want   []memory.Bytes
	}{
		{"it lacks 2 GiB", []hostClaim{
			{has: 20 * gib, used: 20 * gib, most: 60 * gib, turn: true, enough: 18 * gib, gives: 3 * gib},
			goes,
			waits,
		}, []memory.Bytes{18 * gib, 22 * gib, 20 * gib}},
		{"more than can be made in time", []hostClaim{
			{has: 20 * gib, used: 20 * gib, most: 60 * gib, turn: true},
			goes,
			waits,
		}, []memory.Bytes{20 * gib, 20 * gib, 20 * gib}},
		{"it has less than an even part", []hostClaim{
			{has: 12 * gib, used: 12 * gib, most: 60 * gib, turn: true, enough: 10 * gib, gives: 3 * gib},
			goes,
			{firm: 16 * gib, has: 16 * gib, used: 16 * gib, most: 60 * gib},
		}, []memory.Bytes{12 * gib, 28 * gib, 20 * gib}},
		{"one does not use it", []hostClaim{
			goes,
			goes,
			{most: 60 * gib},
		}, []memory.Bytes{30 * gib, 30 * gib, 0}},
	} {
		if got := divideHost(60*gib, hostGrain, c.claims, nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// hostTaken is what the clients may have of the host and have, at most.
func (r *memoryRig) hostTaken() (sum memory.Bytes) {
	for _, c := range r.tenants {
		if !c.dead {
			sum += max(c.hostBound(), c.slots)
		}
	}
	return sum
}

// crowded are four tasks of 8 GiB on a device of 16, one after the other.
func crowded(t *testing.T, limit memory.Bytes) *memoryRig {
	r := newMemoryRig(t, 16*gib, memory.Allocation, compute.RR())
	r.turn(func(p *Plane) { p.SetHost(limit, memory.LimitWanted, nil) })
	for i := range 4 {
		r.tenant(compute.TaskID(i+1), 0, 3)
	}
	for _, c := range r.tenants {
		c.ready(true)
		for range 16 {
			c.allocate(gib / 2)
		}
	}
	return r
}

// TestHostPartsStayWithinTheLimit has what all may take of the host, and have made of
// it, never exceed what there is, though each of them is away in turn and would have
// slots for all it has. Each keeps on the device what its part does not hold, so that
// none has to make anew at every turn what another gave up.
func TestHostPartsStayWithinTheLimit(t *testing.T) {
	// What does not fit is 16 GiB, all slots that they would have 32.
	for limit, turn := range map[memory.Bytes]time.Duration{18 * gib: 300 * time.Millisecond, 20 * gib: 300 * time.Millisecond, 24 * gib: 350 * time.Millisecond} {
		r := crowded(t, limit)
		for _, c := range r.tenants {
			if c.allocated != 8*gib {
				t.Fatalf("%v allocated, limit %v", c.allocated, limit)
			}
		}
		for range 750 {
			r.live(4 * time.Millisecond)
			if sum := r.hostTaken(); sum > limit {
				t.Fatalf("at %v: %v given and taken, limit %v", r.now, sum, limit)
			}
		}
		for _, c := range r.tenants {
			if c.onTurn < turn || c.in == 0 || c.allocated > 8*gib {
				t.Errorf("limit %v: on its turn for %v of 3 s, in %v, out %v", limit, c.onTurn, memory.Bytes(c.in), memory.Bytes(c.out))
			}
		}
		r.live(5 * time.Second) // by then they have found their parts
		var made memory.Bytes
		for _, c := range r.tenants {
			made -= c.made
		}
		r.live(2 * time.Second)
		for _, c := range r.tenants {
			made += c.made
		}
		if made > 2*gib { // of some 100 that move
			t.Errorf("limit %v: %v of the host made anew in 2 s", limit, made)
		}
		if state, _ := r.plane.DescribeMemory(); state.Host.Pool > limit || state.Host.Used > state.Host.Pool || state.Host.Used < 15*gib {
			t.Errorf("described as %+v", state.Host)
		}
	}
}

// TestHostLimitIsFollowed has the parts follow a limit that falls, as far as there is
// anything that can be given up, and one that rises.
func TestHostLimitIsFollowed(t *testing.T) {
	r := crowded(t, 40*gib)
	r.live(500 * time.Millisecond)
	const low = 18 * gib
	r.turn(func(p *Plane) { p.SetHost(low, memory.LimitAvailable, nil) })
	r.live(time.Second + 100*time.Millisecond)
	for range 200 {
		r.live(4 * time.Millisecond)
		if sum := r.hostTaken(); sum > low {
			t.Fatalf("at %v: %v given and taken, limit %v", r.now, sum, low)
		}
	}
	r.turn(func(p *Plane) { p.SetHost(40*gib, memory.LimitAvailable, nil) })
	r.live(time.Second)
	for _, c := range r.tenants {
		if c.hostBound() < c.allocated {
			t.Errorf("may take %v of the host with 40 GiB there", c.hostBound())
		}
	}
}

// TestHostOfOneThatDied is the others'.
func TestHostOfOneThatDied(t *testing.T) {
	r := crowded(t, 18*gib)
	r.live(200 * time.Millisecond)
	dead := r.tenants[0]
	dead.dead = true
	r.turn(func(p *Plane) { p.Remove(dead.id) })
	r.live(2 * time.Second)
	var sum memory.Bytes
	for _, c := range r.tenants[1:] {
		sum += c.hostBound()
	}
	if sum < 13*gib || sum > 18*gib { // of 18, less the part that is left free
		t.Errorf("the others may take %v", sum)
	}
}

// TestHostRoomIsForWhoAsksFirst: of what somebody gave up the one whose allocation waits has
// what it lacks before another has any, and while it lacks something nobody is given again
// what was taken from him for it, as he has not given that up yet.
func TestHostRoomIsForWhoAsksFirst(t *testing.T) {
	r := newMemoryRig(t, 16*gib, memory.Allocation, compute.RR())
	for i := range 3 {
		r.tenant(compute.TaskID(i+1), 0, 3)
	}
	p := r.plane
	h := &p.mem.host
	h.list = h.list[:0]
	for _, c := range r.tenants {
		h.list = append(h.list, p.processes[c.id].sections[0])
	}
	goes, asks, gives := h.list[0], h.list[1], h.list[2]
	goes.mem.host.part, asks.mem.host.part, gives.mem.host.part = 8*gib, 6*gib, 6*gib
	h.claims = []hostClaim{
		{firm: 4 * gib, has: 4 * gib, going: 40 * gib, most: 60 * gib},
		{firm: 6 * gib, has: 6 * gib, asked: 2 * gib, most: 60 * gib},
		{firm: gib, has: 6 * gib, most: 60 * gib},
	}
	grant := func(what string, parts []memory.Bytes, want ...memory.Bytes) {
		t.Helper()
		h.parts = parts
		p.grantHost(20 * gib)
		var got []memory.Bytes
		for _, s := range h.list {
			got = append(got, s.mem.host.part)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: parts %v, want %v", what, got, want)
		}
	}
	told := func(s *section) { s.mem.host.before = 0 } // it took note of its part
	grant("nothing is there yet", []memory.Bytes{10 * gib, 8 * gib, 2 * gib}, 8*gib, 6*gib, 2*gib)
	told(gives)
	h.claims[2].has = 5 * gib
	grant("a half of what is asked for", []memory.Bytes{10 * gib, 8 * gib, 2 * gib}, 8*gib, 7*gib, 2*gib)
	grant("the other is to give up some", []memory.Bytes{7 * gib, 8 * gib, 2 * gib}, 7*gib, 7*gib, 2*gib)
	grant("it is not any more", []memory.Bytes{10 * gib, 8 * gib, 2 * gib}, 7*gib, 7*gib, 2*gib)
	told(goes)
	grant("it did", []memory.Bytes{10 * gib, 8 * gib, 2 * gib}, 7*gib, 8*gib, 2*gib)
	h.claims[2].has = 2 * gib
	grant("there is room for both", []memory.Bytes{10 * gib, 8 * gib, 2 * gib}, 10*gib, 8*gib, 2*gib)
}
