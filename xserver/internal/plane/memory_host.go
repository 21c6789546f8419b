package plane

import (
	"cmp"
	"slices"
	"time"

	"xmsched/compute"
	"xmsched/memory"
)

// hostRoom is how much of the host moved memory may take. Each client is told how much
// of that is its own: slots are made by the processes themselves, so the sum of these
// parts is what bounds them together. A part is raised only by what no other part, and
// nothing that another has, takes of the limit; one that is lowered counts until its
// client has taken note of that and has given up what it had free.
//
// What a process gives up for another of the same user passes to that by a descriptor, which
// the daemon keeps meanwhile (see xserver's host pool): 2 to 2.6 ms for 32 MiB on the H200, of
// which mapping is half, under a lock of all processes; to make it anew takes 7 to 20. Free it
// would be only with every slot of a user mapped in all his processes at once. Parts cost
// nothing as long as all footprints fit the host. Where they do not, each task keeps on the
// device what its part does not hold, unless others' parts grow for that in its turn. Three
// tasks of 60 GiB on 134, of which 46 have to be out at any time, that take turns of 2 s and
// read all of it again and again, run for four fifths of the time as in memory with 62 GiB of
// host that is passed on, and for a third with what each would make anew
// (TestShortHostIsShared).
// Contents never pass from one program to another in any case.
type hostRoom struct {
	limit memory.Bytes
	by    memory.HostLimit // what bounds it
	known bool             // false: nothing bounds it

	firm  memory.Bytes // of all sections at the last look: it holds what is nowhere else
	slots memory.Bytes // then: what there is in all
	kept  memory.Bytes // then: clean copies of what is on a device
	gone  memory.Bytes // then: of processes that left and live on

	touched bool          // parts are to be worked out anew
	next    time.Duration // or then; 0: never
	rate    memory.Rate   // at which it comes from one process to another

	list   []*section // reused
	claims []hostClaim
	parts  []memory.Bytes
}

const (
	// idleForeground is for how long after its last work a foreground is expected to come back
	// at any moment: longer than the pauses of those that come in bursts.
	idleForeground = 10 * time.Second
	// hostMakes is for how long after some host memory was made more of it is expected: what
	// waits for that does not wait for ever.
	hostMakes = 5 * time.Second
	// hostGrain keeps clients from being woken by every small change of the host.
	hostGrain = 256 * memory.MiB
	// hostLate is how long after a part was lowered a client may have more by it that
	// it has not told of: the making of a slot under way.
	hostLate = time.Second
)

// hostPart is what one process may take of the host.
type hostPart struct {
	most    memory.Bytes
	bounded bool
}

// noPart is the part of one that may have nothing, as 0 is no word: of no use to anybody.
const noPart = 1

// hostShare is a section's part.
type hostShare struct {
	part    memory.Bytes  // that it may have; 0: no word yet
	planned memory.Bytes  // what that was when it was last decided what it has on the device
	before  memory.Bytes  // that it may have made use of before it hears of a lower one
	at      time.Duration // when that was lowered
	raised  time.Duration // when it was raised
	used    recently
}

// recently is the most of something in the last hostRecent to two times that.
type recently struct {
	now, past memory.Bytes
	since     time.Duration
}

// hostRecent is longer than any turn, so that what tasks use in turn stays theirs.
const hostRecent = compute.MaxQuantum

func (r *recently) see(b memory.Bytes, now time.Duration) memory.Bytes {
	if now-r.since >= hostRecent {
		r.past, r.now, r.since = r.now, 0, now
	}
	r.now = max(r.now, b)
	return max(r.now, r.past)
}

// SetHost tells how much of the host moved memory may take in all, and what bounds
// it; and how much single processes may take, of whose cgroup less is left.
func (p *Plane) SetHost(limit memory.Bytes, by memory.HostLimit, of map[ProcessID]memory.Bytes) {
	if p.mem == nil {
		return
	}
	h := &p.mem.host
	h.limit, h.by, h.known = limit, by, true
	for _, pr := range p.processes {
		most, bounded := of[pr.ID]
		pr.host = hostPart{most, bounded}
	}
	p.considerAll()
}

// believed is what a section has of the host in all by its client's word, as far as it
// was allowed that: one that claims more keeps others from nothing.
func (h *hostRoom) believed(s *section) memory.Bytes {
	most := max(s.mem.host.part, s.mem.host.before)
	if s.mem.host.part == 0 {
		most = memory.MaxBytes
		if h.known {
			most = h.limit
		}
	}
	return min(memory.Bytes(max(s.mem.view.Slots, s.mem.view.Host)), most.Down())
}

// holds is how much of that holds what is nowhere else.
func (h *hostRoom) holds(s *section) memory.Bytes {
	return min(memory.Bytes(s.mem.view.Host+s.mem.view.Loading), h.believed(s))
}

// look counts what there is, and returns what may still be sent to the host, less what
// was asked of those on other devices than d and is not done yet.
func (h *hostRoom) look(p *Plane, d *device) (room memory.Bytes) {
	h.firm, h.slots, h.kept, h.gone = 0, 0, 0, 0
	going := memory.Bytes(0)
	for _, other := range p.list {
		for _, st := range other.seats {
			for _, s := range st.sections {
				h.firm += h.holds(s)
				h.slots += h.believed(s)
				h.kept += min(memory.Bytes(s.mem.view.Kept), h.believed(s)-h.holds(s))
				if other != d && s.mem.view.Resident > s.mem.stored.Target {
					going += memory.Bytes(s.mem.view.Resident - s.mem.stored.Target)
				}
			}
		}
	}
	for _, list := range p.mem.ghosts {
		for _, g := range list {
			h.gone += g.host
		}
	}
	if !h.known {
		return memory.MaxBytes
	}
	return h.limit - h.firm - h.gone - going
}

// takes is how much a section may still send to the host, of a room that is left.
func (h *hostRoom) takes(s *section, room memory.Bytes) memory.Bytes {
	if part := s.mem.host.part; part > 0 {
		room = min(room, part-h.holds(s))
	}
	if part := s.process.host; part.bounded {
		room = min(room, part.most-s.others()-min(memory.Bytes(s.mem.view.Host), part.most))
	}
	return max(0, room)
}

// hostFloor is how much of a section's memory stays on the device, as its part of the host
// does not hold it, or is not made yet where nobody has to wait for that.
func (s *section) hostFloor(now time.Duration) memory.Bytes {
	v, part, use := &s.mem.view, s.mem.host.part, s.hostUse()
	floor := memory.Bytes(0)
	if part > 0 && part < use {
		floor = memory.Bytes(v.Allocated) - part
	}
	if made, m := memory.Bytes(v.Slots), s.seat.device.mem; m.careful && made+hostGrain < use && s.mem.making > now {
		floor = max(floor, min(memory.Bytes(v.Allocated)-(made-made%hostGrain)-m.missed, s.mem.aim))
	}
	return max(0, min(floor, memory.Bytes(v.Resident))).Down()
}

// ranked says whether a foreground that has work, or had some of late, has backgrounds of a
// lower priority. One that is there and does nothing waits for nothing.
func (d *device) ranked(now time.Duration) bool {
	lowest := slices.MinFunc(d.seats, func(a, b *seat) int { return cmp.Compare(a.task.hints.Priority, b.task.hints.Priority) })
	return slices.ContainsFunc(d.seats, func(st *seat) bool {
		lately := st.ready > 0 || st.mem.worked > 0 && now-st.mem.worked < idleForeground
		return lately && st.choice.Leads() && st.task.hints.Priority > lowest.task.hints.Priority
	})
}

// presses says whether memory has to go from a device though host memory has to be made for
// it: for an allocation, or for what cannot be moved. For all else somebody who must not wait
// would wait the longer: to make it holds up every process of the machine that maps some or
// is resumed (H200: a request 7.7 s, as 12 GiB were made for what was to go for it).
func (d *device) presses() bool {
	return d.mem.decided.Over > 0 || slices.ContainsFunc(d.seats, func(st *seat) bool {
		return slices.ContainsFunc(st.sections, func(s *section) bool { return s.mem.view.Asked > 0 })
	})
}

// missed is what those who come before others run without, as nothing may go for which host
// memory is not made: it is to be made for that much, or they would wait for as long as it is
// made gently.
func (d *device) missed() (n memory.Bytes) {
	for _, st := range d.seats {
		for _, s := range st.sections {
			if st.choice.Leads() {
				n += s.mem.target.Missed
			}
		}
	}
	return n
}

// hostUse is for how much of the host a section has any use: no more ever leaves one than all
// have together beyond what there is, where nobody goes as a whole.
func (s *section) hostUse() memory.Bytes {
	all := memory.Bytes(s.mem.view.Allocated + s.mem.view.Asked)
	if m := s.seat.device.mem; m.excess > 0 && m.planner != nil && !m.planner.Config().Mode.Whole() {
		return min(all, m.excess)
	}
	return all
}

// others is what the process's other sections have of what its cgroup leaves it.
func (s *section) others() (n memory.Bytes) {
	for _, other := range s.process.sections {
		if other != nil && other != s {
			n += min(memory.Bytes(other.mem.view.Host), s.process.host.most)
		}
	}
	return n
}

// shareHost works the parts out, and has those answered whose part changed.
func (p *Plane) shareHost() {
	h := &p.mem.host
	if !h.touched && (h.next == 0 || h.next > p.now) {
		return
	}
	h.touched, h.next = false, 0
	h.look(p, nil)
	h.list, h.claims = h.list[:0], h.claims[:0]
	for _, d := range p.list {
		for _, st := range d.seats {
			for _, s := range st.sections {
				if m := &s.mem.host; m.before > 0 || m.part > 0 && h.believed(s) > m.part {
					p.lookAtMemory(s) // it may have given up what it was to
				}
				if d.mem.planner != nil && (h.known || s.process.host.bounded) {
					h.list = append(h.list, s)
					h.claims = append(h.claims, h.claim(s, p.now))
				}
			}
		}
	}
	limit := memory.MaxBytes
	if h.known {
		limit = h.limit - h.gone
	}
	h.parts = divideHost(limit, min(hostGrain, limit/16).Down(), h.claims, h.parts)
	p.grantHost(limit)
}

// claim is what a section has of the host and wants of it.
func (h *hostRoom) claim(s *section, now time.Duration) hostClaim {
	c := hostClaim{firm: h.holds(s), has: h.believed(s), asked: memory.Bytes(s.mem.view.Asked), going: s.mem.wantsOut}
	c.used = s.mem.host.used.see(c.firm, now)
	c.most = s.hostUse() + hostGrain // and what it allocates next
	if part := s.process.host; part.bounded {
		c.most = min(c.most, max(0, part.most-s.others()))
	}
	if m := &s.mem.host; s.seat.mayGo() && m.part > 0 && !s.seat.device.mem.careful {
		// More room of its own would be of no use to it now, but for what has to go at once.
		c.turn = true
		if lacks, most := s.lacks(), h.rate.Over(s.expectedTurn()/2); lacks <= most {
			c.enough, c.gives = m.planned-lacks, most
		}
		c.has = max(c.firm, min(c.has, m.part)) // what it gave up is not its own any more
		c.going = min(c.going, max(0, memory.Bytes(s.mem.view.Resident)+s.mem.fixed-s.mem.target.Bytes))
	}
	return c
}

// What is taken from one whose turn it is has to come to another, which pays where that is done
// long before the turn is over. hostPinning is how fast host memory is made, where nothing else
// makes any (H200: 1.5 to 5.9 GB/s), hostPassing how fast it passes from one process to another
// (2 to 2.6 ms for 32 MiB, by its parts).
const (
	hostPinning = memory.Rate(3e9)
	hostPassing = memory.Rate(12e9)
)

// ratePassing works out how fast one process comes by what another gives up, as one came or left.
func (p *Plane) ratePassing() {
	if p.mem == nil {
		return
	}
	p.mem.host.rate = hostPassing
	of := ""
	for _, pr := range p.processes {
		if pr.HostOf == "" || of != "" && pr.HostOf != of {
			p.mem.host.rate = hostPinning
			return
		}
		of = pr.HostOf
	}
}

// lacks is what a section touches in its turn, and does not get by the last decision.
func (s *section) lacks() memory.Bytes {
	return max(0, s.touches()+s.mem.fixed-s.mem.target.Desired)
}

// grantHost brings the parts that clients were told to those that they are to have:
// lower ones at once, higher ones as far as what is given and taken leaves room. What
// allocations wait for comes first. While there is less than that nobody else's part
// rises, not even to what its client may still have by it: what was taken back for them
// would never be given up, as the parts of those whose memory goes change with every
// decision on what is to go. Where nobody asks a part that was raised stays so for
// hostLook: with two of whose memory one's or the other's can go there was, for each, a
// decision and a part after every decision, 3,500 in a second (simulated).
func (p *Plane) grantHost(limit memory.Bytes) {
	h := &p.mem.host
	left, short, asks := limit, false, false
	for i, s := range h.list {
		m := &s.mem.host
		if m.part > 0 && h.parts[i] > m.part && h.wants(i, m.part) {
			short, asks = true, asks || h.claims[i].asked > 0
		}
		left -= p.committedHost(s, h.claims[i])
	}
	for i, s := range h.list { // what others miss, or the limit, is taken back
		m := &s.mem.host
		if m.part == 0 || h.parts[i] >= m.part || !short && left >= 0 {
			continue
		}
		if kept := m.raised + hostLook; !asks && left >= 0 && kept > p.now {
			h.lookBy(kept)
			continue
		}
		m.before, m.at = max(m.before, m.part), p.now
		m.part = max(h.parts[i], noPart)
		p.mem.changed = append(p.mem.changed, s.seat)
	}
	unmet := false
	for i, s := range h.list {
		c := &h.claims[i]
		if to := min(h.parts[i], c.firm+c.asked); c.asked > 0 && to > s.mem.host.part {
			left = p.raiseHost(s, *c, to, left)
			unmet = unmet || to > s.mem.host.part
		}
	}
	for i, s := range h.list {
		m := &s.mem.host
		if m.part == 0 || !unmet && h.parts[i] > m.part && h.wants(i, m.part) {
			left = p.raiseHost(s, h.claims[i], h.parts[i], left)
		}
		if m.part < h.parts[i] && h.wants(i, m.part) {
			h.lookBy(p.now + hostLook)
		}
	}
}

// raiseHost brings a section's part as far up as what is left of the limit allows, and
// returns what is left then.
func (p *Plane) raiseHost(s *section, c hostClaim, to, left memory.Bytes) memory.Bytes {
	m := &s.mem.host
	have := p.committedHost(s, c)
	give := min(to, have+max(0, left))
	if give <= m.part && m.part > 0 {
		return left
	}
	m.part, m.raised = max(give, noPart), p.now
	p.mem.changed = append(p.mem.changed, s.seat)
	p.consider(s.seat.device) // more may leave it now
	return left - max(0, give-have)
}

// hostLook is how often is looked whether what others are to give up is there for one
// that misses it; their bells say so as a rule.
const hostLook = 5 * time.Millisecond

// lookBy has the parts worked out anew then, at the latest.
func (h *hostRoom) lookBy(at time.Duration) {
	if h.next == 0 || h.next > at {
		h.next = at
	}
}

// wants says whether a part is so far from what it is to be that its client is told.
func (h *hostRoom) wants(i int, part memory.Bytes) bool {
	c := &h.claims[i]
	return h.parts[i]-part >= hostGrain || part < min(c.firm+c.asked+c.going+hostGrain/4, h.parts[i])
}

// committedHost is how much of the limit a section keeps from others: its part, or what
// it has, or what it may be about to make by a part that it does not know to be lowered.
func (p *Plane) committedHost(s *section, c hostClaim) memory.Bytes {
	m := &s.mem.host
	if m.before > 0 && (s.mem.view.Did == s.mem.word && s.mem.stored.Host == uint64(m.part) || p.now-m.at >= hostLate) {
		m.before = 0
	}
	part := max(m.part, m.before)
	if part == noPart {
		part = 0
	}
	return max(part, c.has)
}
