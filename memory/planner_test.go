package memory

import (
	"errors"
	"iter"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xmsched/compute"
)

// client is a task that keeps the contract: it makes device memory only under a
// target that it has read, and takes note of a target when nothing of an older
// one is under way.
type client struct {
	claim   Claim
	target  Target // as the daemon has written it last
	read    Target // as the task has read it last
	making  Bytes  // under way under read
	limited bool
}

// act does one thing that a task may do at any time.
func (c *client) act(d *dice) {
	switch d.IntN(6) {
	case 0:
		if c.making == 0 {
			c.read = c.target
			c.claim.Seen = c.read.Want
		}
	case 1: // begins to make memory: an allocation, or a batch that comes in
		if room := c.read.Bytes - c.claim.Resident - c.making; room > 0 {
			c.making += Bytes(d.Int64N(int64(room)) + 1)
		}
	case 2: // and is done
		c.claim.Resident += c.making
		c.claim.Footprint = max(c.claim.Footprint, c.claim.Resident)
		c.making = 0
	case 3: // goes down
		if over := c.claim.Resident + c.making - c.target.Bytes; over > 0 && c.claim.Stopped {
			c.claim.Resident -= min(over, c.claim.Resident, BatchBytes)
		}
	case 4: // frees something
		c.claim.Resident -= min(c.claim.Resident, d.upTo(GiB))
		c.claim.Footprint = max(c.claim.Resident, c.claim.Footprint-d.upTo(GiB))
	case 5: // has something new, host-backed
		c.claim.Footprint += d.upTo(2 * GiB)
	}
}

// change is what the policy and the daemon do about a task.
func (c *client) change(d *dice) {
	c.claim.Ready, c.claim.Open = d.in(2), d.in(2)
	c.claim.Stopped = !c.claim.Open || d.in(2)
	c.claim.Working = d.upTo(c.claim.Footprint)
	c.claim.Asked = 0
	if d.in(4) {
		c.claim.Asked = d.upTo(GiB)
	}
	c.claim.Rank = d.IntN(3)
}

// physical is what the tasks can have on the device at this moment.
func physical(clients []*client) (sum Bytes) {
	for _, c := range clients {
		sum += c.claim.Resident + c.making
	}
	return sum
}

// drawTimeline makes up what a policy might say.
func drawTimeline(d *dice, now time.Duration, clients []*client) (slots []compute.Slot, expected []compute.Expectation) {
	at := now
	for _, i := range d.Perm(len(clients)) {
		c := clients[i]
		if d.in(2) {
			length := time.Duration(d.IntN(300)) * time.Millisecond
			slots = append(slots, compute.Slot{Task: c.claim.Task, Start: at, Length: length})
			if !d.in(4) {
				at += length
			}
			continue
		}
		e := compute.Expectation{Task: c.claim.Task, Keep: d.IntN(3)}
		switch d.IntN(4) {
		case 0:
			e.NextReady = now
		case 1:
			e.NextReady = now + time.Duration(d.IntN(5000))*time.Millisecond
		case 2:
			e.Keep = math.MinInt
		}
		expected = append(expected, e)
	}
	return slots, expected
}

// TestTheBudgetHolds plays random histories of tasks that keep the contract, with
// tasks that come and go, timelines that change without sense, and targets that
// are read late, and wants the device never to hold more than the budget.
func TestTheBudgetHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDice(t)
		budget := d.upTo(20*GiB).Down() + GiB
		p, err := NewPlanner(Config{Budget: budget, Mode: Mode(d.IntN(4))})
		if err != nil {
			t.Fatal(err)
		}
		var clients []*client
		next, now := compute.TaskID(1), time.Duration(0)
		for range 300 {
			now += time.Duration(d.IntN(20)) * time.Millisecond
			switch {
			case len(clients) < 6 && d.in(8):
				c := &client{claim: Claim{Task: next}}
				if d.in(2) {
					c.claim.Limit, c.limited = d.upTo(8*GiB)+GiB, true
				}
				clients, next = append(clients, c), next+1
			case len(clients) > 0 && d.in(40):
				clients = slices.Delete(clients, 0, 1)
			}
			for _, c := range clients {
				if d.in(3) {
					c.change(d)
				}
			}
			for range 3 * len(clients) {
				clients[d.IntN(len(clients))].act(d)
			}
			if sum := physical(clients); sum > budget {
				t.Fatalf("at %v: %s on the device, the budget is %s", now, sum, budget)
			}
			decideFor(t, p, d, now, budget, clients)
		}
	})
}

// decideFor makes a decision and wants it to be sound.
func decideFor(t *rapid.T, p *Planner, d *dice, now time.Duration, budget Bytes, clients []*client) {
	slots, expected := drawTimeline(d, now, clients)
	out := p.Decide(now, slices.Values(slots), expected, claimsOf(clients))
	if out.Committed > budget {
		t.Fatalf("at %v: %s committed, the budget is %s", now, out.Committed, budget)
	}
	if out.Next != 0 && out.Next <= now {
		t.Fatalf("at %v: again at %v", now, out.Next)
	}
	var desired Bytes
	for i, target := range out.Targets {
		c := clients[i]
		if target.Task != c.claim.Task || target.Bytes < 0 {
			t.Fatalf("target %+v for %+v", target, c.claim)
		}
		if (target.Bytes != c.target.Bytes) != (target.Want != c.target.Want) {
			t.Fatalf("target %+v after %+v: its number changes with it", target, c.target)
		}
		if c.limited && target.Bytes > max(c.claim.Limit, c.claim.Footprint) {
			t.Fatalf("target %+v beyond the limit %s", target, c.claim.Limit)
		}
		if target.Wait > 0 && !target.Hold {
			t.Fatalf("%+v waits and is not held", target)
		}
		desired += target.Desired
		c.target = target
	}
	if desired > budget {
		t.Fatalf("at %v: %s wanted, the budget is %s", now, desired, budget)
	}
}

func claimsOf(clients []*client) (list []Claim) {
	for _, c := range clients {
		list = append(list, c.claim)
	}
	return list
}

// TestTargetsAreReached leaves tasks that do what they are told alone with one
// timeline, and wants everybody to have in the end what he should.
func TestTargetsAreReached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { reachTargets(t, newDice(t)) })
}

// TestTargetsAreReachedAfterTheLastChange is a history at whose 1.95th second a
// task is 5 GiB short, as only then it is about to come back: what is wanted is to
// be there some time after it was last changed, not at a time fixed beforehand.
func TestTargetsAreReachedAfterTheLastChange(t *testing.T) { reachTargets(t, seeded(0x360)) }

// reachTargets makes up tasks and a timeline and plays until what each should have has
// not changed for long enough to move everything both ways, and to try again once.
func reachTargets(t rapid.TB, d *dice) {
	const (
		least  = 2000 // decisions, one a millisecond
		most   = 20 * least
		steady = int(2*21*GiB/BatchBytes) + int((retry+2*stalled)/time.Millisecond)
	)
	budget := d.upTo(20*GiB).Down() + GiB
	p, err := NewPlanner(Config{Budget: budget, Mode: Mode(d.IntN(4))})
	if err != nil {
		t.Fatal(err)
	}
	clients := drawObedient(d, budget)
	now := time.Second
	slots, expected := drawTimeline(d, now, clients)
	var out Decision
	wanted := make([]Bytes, len(clients))
	for n, since := 0, 0; n < least || n-since < steady; n++ {
		if n > most {
			t.Fatalf("what is wanted changes after %v still: %+v of %s", now, out, budget)
		}
		out = p.Decide(now, slices.Values(slots), expected, claimsOf(clients))
		now += time.Millisecond
		for i, c := range clients {
			if target := out.Targets[i]; target.Desired != wanted[i] {
				wanted[i], since = target.Desired, n
			}
			c.obey(out.Targets[i])
		}
	}
	for i, c := range clients {
		// Whoever has more keeps it only because nobody needs it.
		if target := out.Targets[i]; c.claim.Resident < target.Desired {
			t.Fatalf("task %d has %s of %s: %+v of %s", c.claim.Task, c.claim.Resident, target.Desired, out, budget)
		}
	}
}

// drawObedient makes up tasks that are always stopped and have no more than the budget.
func drawObedient(d *dice, budget Bytes) (clients []*client) {
	left := budget
	for i := range d.IntN(6) + 1 {
		c := &client{claim: Claim{Task: compute.TaskID(i + 1), Footprint: d.upTo(12 * GiB).Down()}}
		c.claim.Resident = min(c.claim.Footprint, d.upTo(left)).Down()
		left -= c.claim.Resident
		c.change(d)
		c.claim.Asked, c.claim.Stopped = 0, true
		clients = append(clients, c)
	}
	return clients
}

// obey goes a batch towards a target.
func (c *client) obey(target Target) {
	to := min(target.Bytes, c.claim.Footprint)
	c.claim.Seen = target.Want
	c.claim.Resident = max(to, c.claim.Resident-BatchBytes)
	if c.claim.Resident < to {
		c.claim.Resident = min(to, c.claim.Resident+BatchBytes)
	}
}

// TestTheWayInIsTheFirstOnes has a task whose turn has come load what it was granted
// earlier, and the next one wait for the way in until little of that is left.
func TestTheWayInIsTheFirstOnes(t *testing.T) {
	p, err := NewPlanner(Config{Budget: 16 * GiB})
	if err != nil {
		t.Fatal(err)
	}
	slots := []compute.Slot{{Task: 1, Length: 100 * time.Millisecond}, {Task: 2, Start: 100 * time.Millisecond, Length: 100 * time.Millisecond}}
	claims := []Claim{
		{Task: 1, Footprint: 8 * GiB, Resident: GiB, Ready: true, Open: true, Stopped: true},
		{Task: 2, Footprint: 8 * GiB, Ready: true, Stopped: true},
	}
	for now := time.Second; claims[0].Resident < 8*GiB; now += 3 * time.Millisecond {
		slots[0].Start, slots[1].Start = now, now+100*time.Millisecond
		out := p.Decide(now, slices.Values(slots), nil, claims)
		left := 8*GiB - claims[0].Resident
		if first := out.Targets[0].Bytes; first < 8*GiB {
			t.Fatalf("the first may have %s of 8 GiB", first)
		}
		if second := out.Targets[1].Bytes; second > 0 && left > last || second == 0 && left < last {
			t.Fatalf("%s of the first are to come, and the second may have %s", left, second)
		}
		claims[0].Seen, claims[1].Seen = out.Targets[0].Want, out.Targets[1].Want
		claims[0].Resident += BatchBytes
	}
}

// TestWhoIsStuckKeepsNobodyOut has four tasks take turns, of whom the second brings
// nothing in that it may have, or freed its memory and takes no note of the target that
// was lowered since: the third gets its room before its turn all the same.
func TestWhoIsStuckKeepsNobodyOut(t *testing.T) {
	for _, freed := range []bool{false, true} {
		p, err := NewPlanner(Config{Budget: 16 * GiB})
		if err != nil {
			t.Fatal(err)
		}
		claims := []Claim{
			{Task: 1, Footprint: GiB, Resident: GiB, Ready: true, Open: true},
			{Task: 2, Footprint: 4 * GiB, Ready: true, Stopped: true},
			{Task: 3, Footprint: 4 * GiB, Ready: true, Stopped: true},
			{Task: 4, Footprint: 15 * GiB, Resident: 15 * GiB, Ready: true, Stopped: true},
		}
		want := 4 * GiB
		if freed {
			claims[1].Footprint, claims[1].Resident, claims[3].Resident = 6*GiB, 6*GiB, 9*GiB
			claims[2].Footprint, want = 8*GiB, 3*GiB
		}
		for now := time.Second; now < 4*time.Second; now += time.Millisecond {
			var slots []compute.Slot
			for i, c := range claims {
				slots = append(slots, compute.Slot{Task: c.Task, Start: now + time.Duration(i)*time.Second, Length: time.Second})
			}
			out := p.Decide(now, slices.Values(slots), nil, claims)
			if claims[0].Seen = out.Targets[0].Want; !freed {
				claims[1].Seen = out.Targets[1].Want
			} else if now == time.Second {
				claims[1].Footprint, claims[1].Resident = GiB, GiB
			}
			for i := range claims[2:] {
				c := client{claim: claims[2+i]}
				c.obey(out.Targets[2+i])
				claims[2+i] = c.claim
			}
		}
		if have := claims[2].Resident; have < want {
			t.Errorf("the second has freed its memory: %t; the third has %s of %s", freed, have, want)
		}
	}
}

// TestWhoWaitsForTheWayIsHeldOn has two tasks of the same rank run, for whom a third makes
// room as it is used: the second is held on while the first one's memory comes in, and not
// let go whenever there is room for the next batches.
func TestWhoWaitsForTheWayIsHeldOn(t *testing.T) {
	p, err := NewPlanner(Config{Budget: 16 * GiB})
	if err != nil {
		t.Fatal(err)
	}
	clients := []*client{
		{claim: Claim{Task: 1, Footprint: 6 * GiB, Ready: true, Stopped: true}},
		{claim: Claim{Task: 2, Footprint: 6 * GiB, Ready: true, Stopped: true}},
		{claim: Claim{Task: 3, Footprint: 14 * GiB, Resident: 14 * GiB, Ready: true, Stopped: true}},
	}
	second := &clients[1].claim
	for now := time.Second; second.Resident < second.Footprint; now += time.Millisecond {
		if now > 2*time.Second {
			t.Fatalf("the second has %s of %s", second.Resident, second.Footprint)
		}
		slots := []compute.Slot{{Task: 1, Start: now}, {Task: 2, Start: now}}
		out := p.Decide(now, slices.Values(slots), []compute.Expectation{{Task: 3}}, claimsOf(clients))
		if !out.Targets[1].Hold {
			t.Fatalf("at %v the second is let go with %s, the first with %s", now, second.Resident, clients[0].claim.Resident)
		}
		for i, c := range clients {
			to, have := out.Targets[i].Bytes, c.claim.Resident
			switch c.claim.Seen = out.Targets[i].Want; {
			case to < have && now%(3*time.Millisecond) == 0:
				c.claim.Resident = max(to, have-BatchBytes)
			case to > have && now%(3*time.Millisecond) == time.Millisecond:
				c.claim.Resident = min(to, have+BatchBytes, c.claim.Footprint)
			}
		}
	}
}

// TestLittleMemoryIsWaitedFor has a task of 8 MiB run for whom another has to make room,
// sooner or later: it is held back for that while it can be counted on, and stopped again
// for a moment once there is room. To run from the host would take longer, and the way.
func TestLittleMemoryIsWaitedFor(t *testing.T) {
	for room, most := range map[time.Duration]time.Duration{5 * time.Millisecond: 0, 25 * time.Millisecond: 0, 300 * time.Millisecond: 320 * time.Millisecond} {
		p, err := NewPlanner(Config{Budget: GiB})
		if err != nil {
			t.Fatal(err)
		}
		claims := []Claim{
			{Task: 1, Footprint: 8 * MiB, Ready: true, Open: true, Stopped: true},
			{Task: 2, Footprint: GiB, Resident: GiB, Ready: true, Stopped: true},
		}
		from := time.Second
		slots := []compute.Slot{{Task: 1, Start: from, Length: from}, {Task: 2, Start: 2 * from, Length: from}}
		var hosted time.Duration
		for now := from; now < from+600*time.Millisecond; now += time.Millisecond {
			out := p.Decide(now, slices.Values(slots), nil, claims)
			small, large := &claims[0], &claims[1]
			small.Seen, large.Seen = out.Targets[0].Want, out.Targets[1].Want
			if large.Resident > out.Targets[1].Bytes && now >= from+room {
				large.Resident = out.Targets[1].Bytes
			}
			switch small.Stopped = out.Targets[0].Hold; {
			case small.Stopped && out.Targets[0].Bytes >= small.Footprint:
				small.Resident = small.Footprint
			case !small.Stopped && small.Resident == 0:
				hosted += time.Millisecond
			}
		}
		if claims[0].Resident == 0 || hosted > most {
			t.Errorf("room after %v: %s there, %v from the host", room, claims[0].Resident, hosted)
		}
	}
}

// TestLateRoomIsUsedAtOnce has a request of a higher class wait for so much memory, for which
// others make room late, that it is let go before: once there is room it is stopped for that
// soon, and until all of it is there.
func TestLateRoomIsUsedAtOnce(t *testing.T) {
	const late, step = 2 * time.Second, time.Millisecond
	p, err := NewPlanner(Config{Budget: 20 * GiB})
	if err != nil {
		t.Fatal(err)
	}
	claims := []Claim{
		{Task: 1, Rank: 10, Footprint: 16 * GiB, Ready: true, Open: true, Stopped: true},
		{Task: 2, Footprint: 20 * GiB, Resident: 20 * GiB, Ready: true, Stopped: true},
	}
	urgent, other := &claims[0], &claims[1]
	there, let := time.Duration(0), false
	for now := step; there == 0 && now < 2*late; now += step {
		d := p.Decide(now, slices.Values([]compute.Slot{{Task: 1}}), []compute.Expectation{{Task: 2}}, claims)
		urgent.Seen, other.Seen = d.Targets[0].Want, d.Targets[1].Want
		if now >= late {
			other.Resident = min(other.Resident, d.Targets[1].Bytes)
		}
		urgent.Stopped = d.Targets[0].Hold
		let = let || now < late && !urgent.Stopped
		if urgent.Stopped && urgent.Resident < d.Targets[0].Bytes && now%(3*step) == 0 {
			urgent.Resident = min(urgent.Resident+BatchBytes, d.Targets[0].Bytes, urgent.Footprint)
		}
		if urgent.Resident == urgent.Footprint {
			there = now
		}
	}
	if load := LinkRate.Time(16 * GiB); !let || there == 0 || there > late+3*load {
		t.Errorf("let go before %t, all is there at %v, where there is room from %v on and a load takes %v", let, there, late, load)
	}
}

// TestNobodyIsStoppedInVain: a task that has the device to itself lacks some memory that its
// client cannot bring in (segments in use, a driver without memory): it is not stopped for
// that again and again.
func TestNobodyIsStoppedInVain(t *testing.T) {
	for _, lack := range []Bytes{2 * MiB, 32 * MiB, BatchBytes, GiB, 8 * GiB} {
		p, err := NewPlanner(Config{Budget: 20 * GiB})
		if err != nil {
			t.Fatal(err)
		}
		claims := []Claim{{Task: 1, Footprint: 16 * GiB, Resident: 16*GiB - lack, Ready: true, Open: true, Stopped: true}}
		const step, span = time.Millisecond, 20 * time.Second
		held := 0
		for now := step; now < span; now += step {
			d := p.Decide(now, slices.Values([]compute.Slot{{Task: 1}}), nil, claims)
			claims[0].Seen = d.Targets[0].Want
			claims[0].Stopped = d.Targets[0].Hold
			if d.Targets[0].Hold {
				held++
			}
		}
		share := float64(held) / float64(span/step)
		if share > 0.05 {
			t.Errorf("lacks %v: stopped for %.1f %% of the time in vain", lack, 100*share)
		}
	}
}

// TestNobodyMakesRoomForLittle has a large task run, beside which there is less than a
// batch of room for the next one, which would not bring that in: of a small one that comes
// later nothing goes for it, and none of its memory is on the way when it might run.
func TestNobodyMakesRoomForLittle(t *testing.T) {
	p, err := NewPlanner(Config{Budget: 17*GiB + 8*MiB})
	if err != nil {
		t.Fatal(err)
	}
	clients := []*client{
		{claim: Claim{Task: 1, Footprint: 16 * GiB, Resident: 16 * GiB, Ready: true, Open: true}},
		{claim: Claim{Task: 2, Footprint: 4 * MiB, Resident: 4 * MiB, Ready: true, Stopped: true}},
		{claim: Claim{Task: 3, Footprint: 16 * GiB, Resident: GiB - 4*MiB, Ready: true, Stopped: true}},
		{claim: Claim{Task: 4, Footprint: 4 * MiB, Resident: 4 * MiB, Ready: true, Stopped: true}},
	}
	before := claimsOf(clients)
	for now := time.Second; now < 2*time.Second; now += time.Millisecond {
		slots := []compute.Slot{
			{Task: 1, Start: now, Length: 200 * time.Millisecond}, {Task: 2, Start: now + 200*time.Millisecond, Length: time.Second},
			{Task: 3, Start: now + 1200*time.Millisecond, Length: 200 * time.Millisecond}, {Task: 4, Start: now + 1400*time.Millisecond, Length: time.Second},
		}
		out := p.Decide(now, slices.Values(slots), nil, claimsOf(clients))
		for i, c := range clients {
			if target := out.Targets[i]; target.Bytes != before[i].Resident {
				t.Fatalf("at %v task %d may have %s, has %s", now, target.Task, target.Bytes, before[i].Resident)
			}
			c.obey(out.Targets[i])
		}
	}
}

// TestABrokenTurnWaitsOnce has requests of a higher class break a turn off again and again,
// before the memory that is waited for in it is there: that comes slowly. It is waited for as
// long as at the beginning of one turn, and not anew after each request.
func TestABrokenTurnWaitsOnce(t *testing.T) {
	const step = 25 * time.Millisecond
	p, err := NewPlanner(Config{Budget: 16 * GiB})
	if err != nil {
		t.Fatal(err)
	}
	claims := []Claim{
		{Task: 1, Rank: 10, Footprint: 2 * GiB, Resident: 2 * GiB},
		{Task: 2, Footprint: 12 * GiB, Resident: 8 * GiB, Ready: true, Stopped: true},
	}
	ran := 0
	for i := range 80 {
		now, request := time.Duration(i)*step, i%2 == 0
		due, expected := compute.TaskID(2), compute.Expectation{Task: 1, NextReady: now + step, Keep: 10}
		if request {
			due, expected = 1, compute.Expectation{Task: 2, NextReady: now}
		}
		claims[0].Ready, claims[0].Open = request, request
		d := p.Decide(now, slices.Values([]compute.Slot{{Task: due, Start: now}}), []compute.Expectation{expected}, claims)
		for i := range claims {
			claims[i].Seen = d.Targets[i].Want
		}
		claims[1].Resident += Granularity
		if !request && !d.Targets[1].Hold {
			ran++
		}
	}
	if ran < 20 {
		t.Errorf("it ran in %d of 40 gaps between requests", ran)
	}
}

// TestTurnsKeepTheirLength has a request of a higher class come in the turns of two that do
// not fit together: the length of these is the same while it runs.
func TestTurnsKeepTheirLength(t *testing.T) {
	p, err := NewPlanner(Config{Budget: 16 * GiB})
	if err != nil {
		t.Fatal(err)
	}
	claims := []Claim{
		{Task: 1, Rank: 10, Footprint: GiB, Resident: GiB},
		{Task: 2, Footprint: 12 * GiB, Resident: 12 * GiB, Ready: true},
		{Task: 3, Footprint: 12 * GiB, Ready: true},
	}
	d := p.Decide(0, slices.Values([]compute.Slot{{Task: 2}, {Task: 3, Start: time.Second}}), []compute.Expectation{{Task: 1, Keep: 10}}, claims)
	length := d.Targets[1].Quantum
	d = p.Decide(time.Millisecond, slices.Values([]compute.Slot{{Task: 1}}), []compute.Expectation{{Task: 2}, {Task: 3}}, claims)
	if got := d.Targets[1].Quantum; got != length || length == 0 {
		t.Errorf("turns of %v, and of %v while somebody else runs", length, got)
	}
	if got := d.Targets[0].Quantum; got != 0 {
		t.Errorf("the request is given turns of %v", got)
	}
}

// TestWhatSomebodyMayHaveIsBelieved has a task give up less than its target says, as another
// word lets it: what it may have by that is all that others have to do without.
func TestWhatSomebodyMayHaveIsBelieved(t *testing.T) {
	p, err := NewPlanner(Config{Budget: 16 * GiB})
	if err != nil {
		t.Fatal(err)
	}
	claims := []Claim{
		{Task: 1, Footprint: 14 * GiB, Resident: 2 * GiB, Ready: true, Open: true},
		{Task: 2, Footprint: 14 * GiB, Resident: 14 * GiB, Stopped: true},
	}
	decide := func() Decision {
		d := p.Decide(time.Second, slices.Values([]compute.Slot{{Task: 1}}), nil, claims)
		claims[0].Seen = d.Targets[0].Want
		return d
	}
	decide()
	claims[1].Resident, claims[1].May = 5*GiB-Granularity, 5*GiB
	if d := decide(); d.Targets[0].Bytes != 11*GiB {
		t.Errorf("of 16 GiB, of which another may have 5, it may have %v", d.Targets[0].Bytes)
	}
}

// TestHostileClaims: whatever is claimed, nobody is granted anything while the
// budget is used up, and nothing overflows.
func TestHostileClaims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDice(t)
		p, err := NewPlanner(Config{Budget: 16 * GiB, Mode: Mode(d.IntN(4))})
		if err != nil {
			t.Fatal(err)
		}
		figure := func() Bytes {
			return []Bytes{0, -1, math.MinInt64, math.MaxInt64, 16 * GiB, 8 * GiB, MaxBytes, Bytes(d.Uint64())}[d.IntN(8)]
		}
		last := map[compute.TaskID]Bytes{}
		for now := range time.Duration(30) {
			var claims []Claim
			for _, id := range d.Perm(8)[:d.IntN(6)] {
				claims = append(claims, Claim{
					Task: compute.TaskID(id), Footprint: figure(), Working: figure(), Pinned: figure(), Resident: figure(),
					Loading: figure(), Asked: figure(), Exchange: figure(), Limit: figure(), Seen: d.Uint32(),
					Slice: time.Duration(d.Uint64()), Rank: int(d.Uint64()), Ready: d.in(2), Open: d.in(2), Stopped: d.in(2),
				})
			}
			slots := []compute.Slot{{Task: compute.TaskID(d.IntN(8)), Start: time.Duration(d.Uint64()), Length: time.Duration(d.Uint64())}}
			out := p.Decide(now*time.Millisecond, slices.Values(slots), nil, claims)
			for i, target := range out.Targets {
				if target.Bytes < 0 || target.Desired < 0 || target.Bytes > 16*GiB || target.Wait < 0 || target.Load < 0 || target.Quantum < 0 {
					t.Fatalf("target %+v for %+v", target, claims)
				}
				had := max(last[target.Task], within(max(claims[i].Resident, claims[i].Pinned), 16*GiB))
				if target.Bytes > had && out.Committed > 16*GiB {
					t.Fatalf("task %d had %s and is granted %s: %+v", target.Task, had, target.Bytes, out)
				}
			}
			clear(last)
			for id, s := range p.seats {
				last[id] = s.bound // what it may have already
			}
		}
	})
}

// TestDecisionsRepeat: the same history, the same decisions.
func TestDecisionsRepeat(t *testing.T) {
	play := func(seed uint64) (all []Decision) {
		d := seeded(seed)
		p, err := NewPlanner(Config{Budget: 10 * GiB})
		if err != nil {
			t.Fatal(err)
		}
		var clients []*client
		for i := range 5 {
			clients = append(clients, &client{claim: Claim{Task: compute.TaskID(i + 1)}})
		}
		for now := range time.Duration(200) {
			for _, c := range clients {
				c.change(d)
				c.act(d)
			}
			slots, expected := drawTimeline(d, now*time.Millisecond, clients)
			out := p.Decide(now*time.Millisecond, slices.Values(slots), expected, claimsOf(clients))
			out.Targets = slices.Clone(out.Targets)
			for i := range clients {
				clients[i].target = out.Targets[i]
			}
			all = append(all, out)
		}
		return all
	}
	if first, again := play(7), play(7); !reflect.DeepEqual(first, again) {
		t.Error("two plays of one history differ")
	}
}

// endless is a timeline of a policy that does not keep its word and never ends.
func endless(yield func(compute.Slot) bool) {
	for yield(compute.Slot{Task: 99}) {
	}
}

func TestEndlessTimeline(t *testing.T) {
	p, err := NewPlanner(Config{Budget: GiB})
	if err != nil {
		t.Fatal(err)
	}
	var timeline iter.Seq[compute.Slot] = endless
	if out := p.Decide(0, timeline, nil, []Claim{{Task: 1, Footprint: GiB}}); len(out.Targets) != 1 {
		t.Errorf("%+v", out)
	}
	if out := p.Decide(0, nil, nil, nil); len(out.Targets) != 0 || out.Committed != 0 {
		t.Errorf("without tasks: %+v", out)
	}
}

func TestConfigureRefuses(t *testing.T) {
	for _, bad := range []struct {
		config Config
		says   string
	}{
		{Config{Budget: -1}, "memory budget -1 bytes: 0 to"},
		{Config{Budget: MaxBytes + 1}, "memory budget"},
		{Config{Mode: 9}, "mode 9 does not exist"},
		{Config{Link: -3}, "-3 bytes a second"},
		{Config{Link: Rate(math.NaN())}, "NaN"},
		{Config{WaitCap: time.Nanosecond}, "wait cap 1ns"},
	} {
		if _, err := NewPlanner(bad.config); err == nil || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%+v: %v, want %q", bad.config, err, bad.says)
		}
	}
	p, err := NewPlanner(Config{Budget: 4 * GiB})
	if err != nil {
		t.Fatal(err)
	}
	p.Decide(0, nil, nil, []Claim{{Task: 1, Pinned: 2 * GiB, Resident: 2 * GiB}})
	var short *BudgetError
	if err := p.Configure(Config{Budget: GiB}); !errors.As(err, &short) || *short != (BudgetError{GiB, 2 * GiB}) {
		t.Errorf("a budget below what is pinned: %v", err)
	}
	if got := p.Config().Budget; got != 4*GiB {
		t.Errorf("after a refusal the budget is %s", got)
	}
}

// TestWhoDoesNotComeIsLookedAtAgain: an idle foreground that keeps its memory, as it is expected
// soon, is decided on anew when that is over, though nothing else happens. It kept 11 of 16 GiB
// for good beside a task that needed them.
func TestWhoDoesNotComeIsLookedAtAgain(t *testing.T) {
	for _, left := range []time.Duration{50 * time.Millisecond, 400 * time.Millisecond} {
		p, err := NewPlanner(Config{Budget: 16 * GiB})
		if err != nil {
			t.Fatal(err)
		}
		claims := []Claim{
			{Task: 1, Rank: 10, Footprint: 11 * GiB, Resident: 11 * GiB},
			{Task: 2, Footprint: 8 * GiB, Resident: 5 * GiB, Ready: true, Open: true},
		}
		expected := []compute.Expectation{{Task: 1, NextReady: time.Second + left, Keep: 10}}
		var d Decision
		for now := time.Second; now < 4*time.Second; now = d.Next { // as it is woken
			d = p.Decide(now, slices.Values([]compute.Slot{{Task: 2}}), expected, claims)
			if d.Next == 0 {
				break
			}
			for i := range claims {
				claims[i].Seen = d.Targets[i].Want
			}
		}
		if got := d.Targets[0].Bytes; got > 8*GiB {
			t.Errorf("expected in %v and not come: may have %v", left, got)
		}
	}
}
