package plane

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"xmsched/compute"
	"xmsched/memory"
)

// TestHostPartsAreReached has parts be told to clients that have whatever they have of the
// host, claim whatever they claim, and take note of their parts when they like: what is given
// and taken is never more than the limit, but for what was so before; and once all have taken
// note and given up what they can, an allocation has what it waits for and everybody else his
// part, or nearly.
func TestHostPartsAreReached(t *testing.T) {
	amount := rapid.Map(rapid.IntRange(0, 10_000), func(n int) memory.Bytes { return memory.Bytes(n) * memory.Granularity })
	r := newMemoryRig(t, 16*gib, memory.Allocation, compute.RR())
	var all []*section
	for i := range 6 {
		c := r.tenant(compute.TaskID(i+1), 0, 3)
		all = append(all, r.plane.processes[c.id].sections[0])
	}
	p := r.plane
	h := &p.mem.host
	rapid.Check(t, func(t *rapid.T) {
		h.list = all[:rapid.IntRange(2, len(all)).Draw(t, "sections")]
		limit := amount.Draw(t, "limit") + memory.GiB
		left := limit
		h.claims = make([]hostClaim, len(h.list))
		for i, s := range h.list {
			part := min(left, amount.Draw(t, "part"))
			left -= part
			s.mem.host = hostShare{part: max(part, noPart)}
			c := &h.claims[i]
			c.has = min(part, amount.Draw(t, "has"))
			c.firm = min(c.has, amount.Draw(t, "firm"))
		}
		taken := func() (sum memory.Bytes) {
			for i, s := range h.list {
				sum += p.committedHost(s, h.claims[i])
			}
			return sum
		}
		draw := func() {
			for i := range h.claims {
				c := &h.claims[i]
				c.asked, c.going, c.used = 0, amount.Draw(t, "going"), amount.Draw(t, "used")
				if rapid.IntRange(0, 3).Draw(t, "asks") == 0 {
					c.asked = amount.Draw(t, "asked")
				}
				c.most = c.firm + c.asked + amount.Draw(t, "most")
				c.turn, c.enough, c.gives = rapid.Bool().Draw(t, "turn"), amount.Draw(t, "enough"), amount.Draw(t, "gives")
			}
		}
		give := func(i int) { // the client takes note
			m, c := &h.list[i].mem.host, &h.claims[i]
			m.before = 0
			c.has = max(c.firm, min(c.has, m.part.Down()))
		}
		step := func() {
			p.now += time.Duration(rapid.IntRange(0, 6).Draw(t, "ms")) * time.Millisecond
			h.parts = divideHost(limit, min(hostGrain, limit/16).Down(), h.claims, h.parts)
			p.grantHost(limit)
			if sum := taken(); sum > limit {
				t.Fatalf("%v given and taken, limit %v", sum, limit)
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			draw()
			for range rapid.IntRange(1, 3).Draw(t, "looks") {
				step()
				if i := rapid.IntRange(0, 2*len(h.list)).Draw(t, "notes"); i < len(h.list) {
					give(i)
				}
				if i := rapid.IntRange(0, len(h.list)-1).Draw(t, "makes"); rapid.Bool().Draw(t, "some") {
					c, m := &h.claims[i], &h.list[i].mem.host
					c.has = max(c.has, m.part.Down(), m.before.Down())
					c.firm = max(c.firm, min(c.has, c.firm+amount.Draw(t, "more")))
				}
			}
		}
		for range 4 * len(h.list) {
			step()
			for i := range h.list {
				give(i)
			}
			p.now += hostLook
		}
		for i, s := range h.list {
			c, part := h.claims[i], s.mem.host.part
			if want := min(h.parts[i], c.firm+c.asked); c.asked > 0 && part < want {
				t.Fatalf("section %d has %v and waits for %v more: %+v of %+v, parts %v", i, part, want-part, c, h.claims, h.parts)
			}
			if part < h.parts[i] && h.wants(i, part) {
				t.Fatalf("section %d has %v of %v: %+v", i, part, h.parts[i], c)
			}
		}
	})
}
