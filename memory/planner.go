package memory

import (
	"fmt"
	"iter"
	"strings"
	"time"

	"xmsched/compute"
)

// Mode is how memory is planned.
type Mode uint8

const (
	// Predict plans by the working sets that the tasks tell. A task that tells
	// none is planned by what it has allocated.
	Predict Mode = iota
	// Allocation plans by what the tasks have allocated.
	Allocation
	// Swap is for comparison: the task whose turn it is gets all it has
	// allocated, others go as a whole, who ran longest ago first, both ways at
	// once; nothing moves ahead of a turn.
	Swap
	// Serial is Swap one way at a time: all of the one out, then all of the
	// other in.
	Serial
)

var modeNames = [...]string{"predict", "allocation", "swap", "serial"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// Whole says whether tasks are swapped as a whole.
func (m Mode) Whole() bool { return m == Swap || m == Serial }

// Modes lists the names that ModeByName knows.
func Modes() []string { return modeNames[:] }

// ModeByName finds a mode; case does not matter. The error lists those there are.
func ModeByName(name string) (Mode, error) {
	for i, n := range modeNames {
		if strings.EqualFold(n, name) {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("no memory policy %q: %s", name, strings.Join(modeNames[:], ", "))
}

// DefaultWaitCap is how long a task may have to wait for its turn because turns
// were made longer to hide the moving of memory. Three tasks of 60 GiB, which
// take 1.3 s to load, stay within it.
const DefaultWaitCap = 4 * time.Second

// Config of a planner.
type Config struct {
	// Budget is what all tasks together may have on the device.
	Budget Bytes
	Mode   Mode
	// Link is what one way carries while the other is busy too; 0 is LinkRate. It
	// is what load times are worked out from: too high a rate makes turns too
	// short to hide a load, and has tasks run before their memory is there; too low a
	// one makes the others wait for nothing. A [Meter] knows it; see SetLink.
	Link Rate
	// WaitCap bounds what longer turns may cost a waiting task; 0 is
	// DefaultWaitCap.
	WaitCap time.Duration
}

// Claim is what is known of a task when its target is decided. The amounts are
// the task's own word and are believed only as far as they can be true.
type Claim struct {
	Task compute.TaskID
	// Footprint is what it has allocated, Working what it will touch in its next
	// turn (0: not known), Pinned what cannot leave the device.
	Footprint, Working, Pinned Bytes
	// Resident is what it has on the device, pinned memory included.
	Resident Bytes
	// Loading is the part of Resident whose bytes are still on their way in: the
	// device memory is made, the host's copy is the one that counts.
	Loading Bytes
	// Asked is what it wants beyond its footprint, for an allocation that waits.
	Asked Bytes
	// Exchange is how much an exchange within the task would bring in of what it
	// uses, at the cost of what it does not: a reason for a short stop.
	Exchange Bytes
	// Limit is the most it may ever have; 0: the budget alone.
	Limit Bytes
	// Seen is the number of the last target that it has taken note of: Resident was
	// told after that, and nothing that an older target allowed is under way.
	Seen uint32
	// May is what it may have by a word that it has taken note of, where somebody else made
	// that more than its target, as what is to go has no room elsewhere; 0: Seen says it.
	May Bytes
	// Slice is the length of its turn if its owner fixed one.
	Slice time.Duration
	// Rank is the policy's word on who goes first, the larger before the smaller;
	// equal for all where the policy has turns.
	Rank int
	// Ready: it has work. Open: it may run at this moment. Stopped: its memory may
	// be moved at this moment.
	Ready, Open, Stopped bool
}

// Direction is which way a task's memory has to go.
type Direction uint8

const (
	Stay Direction = iota
	In
	Out
)

var directionNames = [...]string{"stay", "in", "out"}

func (d Direction) String() string {
	if int(d) < len(directionNames) {
		return directionNames[d]
	}
	return fmt.Sprintf("direction %d", uint8(d))
}

// Target is what a task may have on the device from now on, and what to do
// about it.
type Target struct {
	Task compute.TaskID
	// Bytes may be resident. Want is the target's number: it changes with Bytes,
	// and comes back as Claim.Seen.
	Bytes Bytes
	Want  uint32
	// Desired is what it should have in the end: Bytes grows towards it as others
	// give up theirs.
	Desired Bytes
	// Move is which way its memory should go while it is Stopped.
	Move Direction
	// Hold: the task should be Stopped now, whoever's turn it is. Without it the
	// policy alone says who runs, whatever is resident.
	Hold bool
	// Yield: it is held for an exchange that began in its turn, which somebody else should
	// have until that is done.
	Yield bool
	// Wait is for how much longer a task whose turn has come is held at most for what comes
	// in; 0 if it is not. Less than that, as by arithmetic, would have its turn be over
	// before its memory is there, where that comes late.
	Wait time.Duration
	// Missed is what a task whose turn it is runs without of what it touches, as that was waited
	// for long enough.
	Missed Bytes
	// Quantum is the length of its turns; 0 leaves it to the policy.
	Quantum time.Duration
	// Overtime is by how much the turn that it has should end later than by the timeline,
	// or earlier: when the memory of the next one is there. Nobody else could use the
	// device until then.
	Overtime time.Duration
	// Load is how long all that it wants takes to come in.
	Load time.Duration
}

// Decision is a device's targets.
type Decision struct {
	// Targets are in the order of the claims. The slice belongs to the planner
	// and holds until the next Decide.
	Targets []Target
	// Next is when to decide again though nothing was told; 0 for never.
	Next time.Duration
	// Over is by how much what is pinned exceeds the budget; 0 as a rule.
	Over Bytes
	// Committed is the sum of what the tasks may have and have.
	Committed Bytes
	// Oversubscribed: what the tasks want exceeds the budget.
	Oversubscribed bool
}

// BudgetError reports a budget that does not hold what cannot move.
type BudgetError struct{ Budget, Pinned Bytes }

func (e *BudgetError) Error() string {
	return fmt.Sprintf("a budget of %s does not hold the %s that cannot leave the device", e.Budget, e.Pinned)
}

// Planner gives the tasks of one device their targets. It remembers what it has
// granted, so that no claim can make it grant the same bytes twice.
type Planner struct {
	config Config
	seats  map[compute.TaskID]*seat
	// round counts decisions; a seat that was not claimed in one is gone.
	round uint64
	order []*seat // all seats, who is served first
	goers []*seat // all seats, who gives up first

	hasty   bool // see SetHasty
	pinned  Bytes
	flows   bool // something is on its way out
	reading reading
	slot    func(compute.Slot) bool // readSlot
	targets []Target
	next    time.Duration
}

// NewPlanner returns a planner of a device without tasks. The error is a
// sentence on the setting that is out of range.
func NewPlanner(c Config) (*Planner, error) {
	p := &Planner{seats: make(map[compute.TaskID]*seat)}
	p.slot = p.readSlot
	if err := p.Configure(c); err != nil {
		return nil, err
	}
	return p, nil
}

// Configure changes the settings; they hold from the next Decide on. A budget
// below what is pinned is refused with a *BudgetError; one below what is
// resident is reached as the tasks give up theirs.
func (p *Planner) Configure(c Config) error {
	if c.Link == 0 {
		c.Link = LinkRate
	}
	if c.WaitCap == 0 {
		c.WaitCap = DefaultWaitCap
	}
	switch {
	case c.Budget < 0 || c.Budget > MaxBytes:
		return fmt.Errorf("memory budget %d bytes: 0 to %s", int64(c.Budget), MaxBytes)
	case int(c.Mode) >= len(modeNames):
		return fmt.Errorf("memory policy %s does not exist", c.Mode)
	case !c.Link.possible():
		return linkError(c.Link)
	case c.WaitCap < compute.MinQuantum || c.WaitCap > time.Hour:
		return fmt.Errorf("wait cap %v: %v to %v", c.WaitCap, compute.MinQuantum, time.Hour)
	case c.Budget < p.pinned:
		return &BudgetError{c.Budget, p.pinned}
	}
	p.config = c
	return nil
}

// SetLink changes Config.Link alone, from the next Decide on. What is waited for by
// then is so by the old one.
func (p *Planner) SetLink(r Rate) error {
	if !r.possible() {
		return linkError(r)
	}
	p.config.Link = r
	return nil
}

// SetHasty has tasks give up all that others wait for at once, and not only as much as
// these can use soon: for where something else bounds what each can give up, and has to
// know all of it. From the next Decide on.
func (p *Planner) SetHasty(hasty bool) { p.hasty = hasty }

func (r Rate) possible() bool { return r >= 1e6 && r <= 1e13 }

func linkError(r Rate) error {
	return fmt.Errorf("link of %g bytes a second: 1e6 to 1e13", float64(r))
}

// Config returns the settings.
func (p *Planner) Config() Config { return p.config }

// Decide takes the time, the policy's timeline and what it expects of the tasks
// that are not on it, and a claim of every task on the device; it says what each
// may have from now on. A task without a claim is gone, and its memory with it:
// a claim has to be made as long as any of it may be left.
//
// Nothing is granted while the sum of what the tasks may have and have is not
// below the budget, whatever the claims say.
func (p *Planner) Decide(now time.Duration, timeline iter.Seq[compute.Slot], expected []compute.Expectation, claims []Claim) Decision {
	p.next = 0
	p.take(now, claims)
	p.rank(now, timeline, expected)
	d := Decision{Over: max(0, p.pinned-p.config.Budget)}
	d.Oversubscribed = p.desire()
	p.fill(now, d.Oversubscribed)
	for _, s := range p.order {
		p.hold(s, now)
		d.Committed += s.bound
	}
	p.setQuanta(d.Oversubscribed)
	p.targets = p.targets[:0]
	for i := range claims {
		p.targets = append(p.targets, p.target(p.seats[claims[i].Task], now))
	}
	d.Targets, d.Next = p.targets, p.next
	return d
}

// wake asks for a decision at t, which is in the future.
func (p *Planner) wake(now, t time.Duration) {
	if t > now && (p.next == 0 || t < p.next) {
		p.next = t
	}
}

// target reports what was decided for a task.
func (p *Planner) target(s *seat, now time.Duration) Target {
	t := Target{
		Task: s.Task, Bytes: s.target, Want: s.want, Desired: s.desired,
		Hold: s.held, Yield: s.yields, Quantum: s.quantum, Overtime: p.overtime(s, now), Load: p.load(s),
	}
	switch {
	case s.target < s.Resident:
		t.Move = Out
	case s.missing() > 0 && s.progresses(now):
		t.Move = In
	}
	if s.class == due && now >= s.patience {
		t.Missed = p.misses(s)
	}
	if s.class <= due && s.held && !s.yields {
		if p.lacks(s) > 0 && now < s.patience {
			t.Wait = s.patience - now
		}
		t.Wait = max(t.Wait, s.exchange-now)
	}
	if s.Slice > 0 {
		t.Quantum = max(compute.MinQuantum, min(s.Slice, compute.MaxQuantum))
	}
	return t
}
