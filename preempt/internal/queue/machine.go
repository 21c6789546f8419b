package queue

import "time"

// Config bounds what is outstanding.
type Config struct {
	Threshold int           // commands outstanding at most; at least 1
	Batch     int           // commands between two markers; 1 to Threshold
	IdleAfter time.Duration // how long without commands until the queue is idle
}

// Event is something that happened or was asked for.
type Event interface{ event() }

// Submitted appends a command to the buffer; its number is [Machine.Submitted]
// afterwards. Blockers is how many Unblocked it has to wait for.
type Submitted struct{ Blockers int }

// Unblocked takes one blocker off a command.
type Unblocked struct{ Command uint64 }

// Begun says that the command that the last outcome allowed is being launched.
type Begun struct{}

// Launched ends what Begun began, whether or not the launch succeeded.
type Launched struct{}

// Marking says that the marker that the last outcome asked for is being put.
type Marking struct{}

// Marked ends what Marking began.
type Marked struct{}

// Completed says that everything up to a marked command is done.
type Completed struct{ Command uint64 }

// Awaited says that somebody waits for a command: its completion is worth a
// marker of its own.
type Awaited struct{ Command uint64 }

// Held stops the queue, or lets it go on, by the program's own wish.
type Held struct{ Held bool }

// Gated is the same by the scheduler's. Behind a closed gate the commands up to
// Until may still go: a running queue waits for them.
type Gated struct {
	Open  bool
	Until uint64
}

// Dropped forgets the commands that have not been launched.
type Dropped struct{}

// Closed lets nothing more in, and everything that is in out.
type Closed struct{}

// Broken says that the hardware queue has failed: nothing more will complete.
type Broken struct{}

// Configured changes the bounds, at once.
type Configured struct{ Config Config }

// Tick is nothing but the time.
type Tick struct{}

func (Submitted) event()  {}
func (Unblocked) event()  {}
func (Begun) event()      {}
func (Launched) event()   {}
func (Marking) event()    {}
func (Marked) event()     {}
func (Completed) event()  {}
func (Awaited) event()    {}
func (Held) event()       {}
func (Gated) event()      {}
func (Dropped) event()    {}
func (Closed) event()     {}
func (Broken) event()     {}
func (Configured) event() {}
func (Tick) event()       {}

// Edge is a change between ready and idle.
type Edge uint8

// Edges.
const (
	NoEdge Edge = iota
	Ready
	Idle
)

// Outcome is what the owner has to do. Mark and Launch hold until the next
// outcome says otherwise; each is begun by its event, so that a stop that comes
// in between wins.
type Outcome struct {
	Mark   bool          // put a marker behind what has been launched
	Launch uint64        // the command to launch; 0: none now
	Edge   Edge          // happened with this event
	Next   time.Duration // time of the next Tick; 0: none needed
}

type work uint8

const (
	resting work = iota
	launching
	marking
)

// Machine is the state of one queue. See [New].
type Machine struct {
	config Config

	submitted, launched, marked, completed uint64

	work    work
	awaited uint64         // the largest number somebody waits for
	blocked map[uint64]int // blockers of buffered commands

	held, shut     bool
	until          uint64 // goes although shut
	closed, broken bool

	ready bool
	rest  bool          // nothing in the queue, since
	since time.Duration // when
}

// New returns an empty machine: idle, open, not held.
func New(c Config) *Machine { return &Machine{config: c, blocked: make(map[uint64]int)} }

// Counters, as the package comment says.
func (m *Machine) Submitted() uint64 { return m.submitted }

// Launched is the number of the last command handed to the hardware.
func (m *Machine) Launched() uint64 { return m.launched }

// Marked is the number of the last command with a marker at or behind it.
func (m *Machine) Marked() uint64 { return m.marked }

// Completed is the number of the last command known to be done.
func (m *Machine) Completed() uint64 { return m.completed }

// Config is the bounds in force.
func (m *Machine) Config() Config { return m.config }

// Ready says whether the queue has work, or had within IdleAfter.
func (m *Machine) Ready() bool { return m.ready }

// Held says whether the program stopped the queue.
func (m *Machine) Held() bool { return m.held }

// Open says whether the scheduler lets the queue run.
func (m *Machine) Open() bool { return !m.shut }

// Drained says whether nothing is left and nothing is being done.
func (m *Machine) Drained() bool { return m.completed == m.submitted && m.work == resting }

// Settled says whether nothing is outstanding; commands may be buffered.
func (m *Machine) Settled() bool { return m.completed == m.launched && m.work == resting }

// Blocked says whether the next command waits for one of another queue.
func (m *Machine) Blocked() bool {
	return m.launched < m.submitted && m.work != launching && m.blocked[m.launched+1] > 0
}

// Apply takes one event as of now.
func (m *Machine) Apply(now time.Duration, e Event) Outcome {
	m.take(e)
	out := Outcome{Edge: m.edge(now)}
	if m.rest && m.ready {
		out.Next = m.since + m.config.IdleAfter
	}
	if out.Mark = m.markDue(); !out.Mark && m.mayLaunch() {
		out.Launch = m.launched + 1
	}
	return out
}

func (m *Machine) take(e Event) {
	switch e := e.(type) {
	case Submitted:
		m.submitted++
		if e.Blockers > 0 {
			m.blocked[m.submitted] = e.Blockers
		}
	case Unblocked:
		m.unblock(e.Command)
	case Begun:
		m.work = launching
	case Launched:
		m.work = resting
		m.launched++
	case Marking:
		m.work = marking
	case Marked:
		m.work = resting
		m.marked = m.launched
	case Completed:
		// A report from before the queue broke is about what is over already.
		m.completed = max(m.completed, min(e.Command, m.marked))
	case Awaited:
		m.awaited = max(m.awaited, e.Command)
	case Held:
		m.held = e.Held
	case Gated:
		m.shut, m.until = !e.Open, e.Until
	case Dropped:
		m.drop()
	case Closed:
		m.closed = true
	case Broken:
		m.breakDown()
	case Configured:
		m.config = e.Config
	}
}

func (m *Machine) unblock(command uint64) {
	n, ok := m.blocked[command]
	switch {
	case !ok: // dropped meanwhile
	case n == 1:
		delete(m.blocked, command)
	default:
		m.blocked[command] = n - 1
	}
}

// drop gives the numbers of the buffered commands back. The one that is being
// launched is not in the buffer any more.
func (m *Machine) drop() {
	keep := m.launched
	if m.work == launching {
		keep++
	}
	m.submitted = min(m.submitted, keep)
	for command := range m.blocked {
		if command > keep {
			delete(m.blocked, command)
		}
	}
	m.awaited = min(m.awaited, keep)
}

// breakDown ends everything that is in the queue, but what is being done.
func (m *Machine) breakDown() {
	m.broken = true
	m.drop()
	m.marked, m.completed = m.launched, m.launched
}

func (m *Machine) stopped() bool {
	return !m.closed && (m.held || m.shut && m.launched >= m.until)
}

func (m *Machine) mayLaunch() bool {
	return m.work == resting && !m.broken && !m.stopped() &&
		m.launched < m.submitted && m.blocked[m.launched+1] == 0 &&
		m.launched-m.completed < uint64(m.config.Threshold)
}

func (m *Machine) markDue() bool {
	if m.work != resting || m.broken || m.launched == m.marked {
		return false
	}
	unseen := m.marked == m.completed // no marker is in the hardware
	return unseen || m.launched-m.marked >= uint64(m.config.Batch) ||
		m.awaited > m.marked && m.awaited <= m.launched
}

func (m *Machine) edge(now time.Duration) Edge {
	if m.broken && m.work == resting {
		// What was being launched when the queue broke is over as well.
		m.marked, m.completed = m.launched, m.launched
	}
	if !m.Drained() {
		m.rest = false
		if m.ready {
			return NoEdge
		}
		m.ready = true
		return Ready
	}
	if !m.rest {
		m.rest, m.since = true, now
	}
	if m.ready && now >= m.since+m.config.IdleAfter {
		m.ready = false
		return Idle
	}
	return NoEdge
}
