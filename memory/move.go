package memory

import (
	"errors"
	"fmt"
)

// Act is what the caller of a move has to do.
type Act uint8

const (
	// Reserve: every segment of the batch needs a host slot.
	Reserve Act = iota
	// CopyOut: from the device into the slots.
	CopyOut
	// Unmap: the slots have the bytes; the device handles are unmapped and
	// released. Device becomes Away.
	Unmap
	// Drop: as Unmap, of a clean batch: its slots had the bytes all the time.
	Drop
	// Map: device memory is made and mapped. Away or Host becomes Loading; a
	// failure leaves the old state.
	Map
	// CopyIn: from the slots to the device.
	CopyIn
	// Commit: the device has the bytes. Loading becomes Device.
	Commit
	// Restore: the device memory of a batch that did not come in is unmapped and
	// released. Loading becomes Away.
	Restore
)

var actNames = [...]string{"reserve", "copy out", "unmap", "drop", "map", "copy in", "commit", "restore"}

func (a Act) String() string {
	if int(a) < len(actNames) {
		return actNames[a]
	}
	return fmt.Sprintf("act %d", uint8(a))
}

// Failures of steps, for [Move.Failed]. Others end the move as ErrCopy does.
var (
	// ErrHostMemory: there is no slot to be had. Nothing more goes out; what comes
	// in and has room goes on.
	ErrHostMemory = errors.New("host memory is short")
	// ErrDeviceMemory: the device has no memory though the budget does. Nothing
	// more comes in; what goes out goes on only as far as the target asks for it.
	ErrDeviceMemory = errors.New("device memory is short")
	// ErrCopy and ErrMap: the driver refuses. No other batch begins, those under
	// way end.
	ErrCopy = errors.New("copy failed")
	ErrMap  = errors.New("mapping failed")
	// ErrStale: a clean batch cannot be dropped, as the host's copies are no longer
	// there. It stays on the device, and all else goes on.
	ErrStale = errors.New("a clean copy was given up")
)

// Step is one thing to do for one batch. Steps of different batches may be done
// at once; copies of one direction in the order in which they were given out.
type Step struct {
	Act   Act
	Batch int // among those of its direction
	IDs   []ID
	Bytes Bytes
}

func (s Step) String() string { return fmt.Sprintf("%s %d (%s)", s.Act, s.Batch, s.Bytes) }

// depth is how many batches of one direction are under way at once: while one
// is copied, the calls for the one before it and those after it are made. While another
// process's copies are under way the driver takes 2.5 to 5 ms to map 128 MiB, as long
// as they take to copy, but several of these calls at once take no longer than one.
const depth = 4

// Moved is what a move did.
type Moved struct {
	Out, In Bytes
	// Spared is the part of Out that was not copied.
	Spared Bytes
	// Restored is what was mapped in vain.
	Restored Bytes
}

// Move carries out a plan. It gives out steps, takes their results, and keeps
// the table true at every moment; it does nothing itself.
//
// Invariants: a segment changes its state only by a step that succeeded; what is
// on the device, and what is being made there, never exceeds what the task may
// have; when nothing is under way no segment is Loading, unless undoing failed,
// and then its host slot still has the bytes.
//
// The zero value is a move that is over.
type Move struct {
	table  *Table
	order  Order
	target Bytes
	making Bytes // device memory of Map steps under way
	going  Bytes // on the device, of batches out under way
	coming Bytes // of batches in that have not begun
	out    lane
	in     lane
	moved  Moved
	ended  bool  // no further batch begins
	dead   bool  // whatever carried it out is gone
	err    error // the first failure
}

// lane is one direction.
type lane struct {
	batches []Batch
	// Batches from first to next have begun; those before first are over.
	first, next int
	progress    [depth]progress // of the batches that have begun, by number modulo depth
	closed      bool            // no further batch begins in this direction
}

// progress is how far a batch is.
type progress struct {
	act  Act
	busy bool // the step is given out
	over bool
}

// Start begins a plan, which must stay as it is until the move is over, under a target
// that may be another than the plan's goal: what there is no room for, and what has to
// make none, waits for [Move.SetTarget]. The order, if there is one, is told what goes
// and what comes. Precondition: the task is Stopped, and the move is over.
func (m *Move) Start(t *Table, p *Plan, order Order, target Bytes) {
	*m = Move{table: t, order: order, target: target, out: lane{batches: p.Out}, in: lane{batches: p.In}}
	_, m.coming = p.Bytes()
}

// SetTarget changes what the task may have. What has begun is not affected.
func (m *Move) SetTarget(b Bytes) { m.target = b }

// Stop lets no further batch begin: somebody wants the task to run, or the plan
// is out of date. What is being copied ends; what was only mapped is undone. The
// task may run as soon as the move is over.
func (m *Move) Stop() {
	m.ended = true
	m.reconsider()
}

// Kill says that nothing can be carried out any more. The move is over at once;
// the table stays as it was: what was going out is still on the device, and what
// was coming in has its bytes in the host slots.
func (m *Move) Kill() { m.ended, m.dead = true, true }

// Busy says whether a step is under way.
func (m *Move) Busy() bool { return !m.dead && (m.out.busy() || m.in.busy()) }

// Over says whether the move has nothing more to do, now or after any result or
// change of the target.
func (m *Move) Over() bool {
	return m.dead || m.out.over(m.ended) && m.in.over(m.ended)
}

// Starved says whether nothing is under way and what is left waits for another target.
func (m *Move) Starved() bool {
	return !m.Over() && !m.out.active() && !m.in.active() && !m.leaves() && !m.fits()
}

// Moved returns what was done so far.
func (m *Move) Moved() Moved { return m.moved }

// Err returns the first failure.
func (m *Move) Err() error { return m.err }

func (l *lane) active() bool { return l.first < l.next }
func (l *lane) left() int    { return len(l.batches) - l.next }

func (l *lane) over(ended bool) bool {
	return !l.active() && (ended || l.closed || l.left() == 0)
}

func (l *lane) busy() bool {
	for b := l.first; b < l.next; b++ {
		if p := l.at(b); p.busy {
			return true
		}
	}
	return false
}

func (l *lane) at(batch int) *progress { return &l.progress[batch%depth] }

// fits says whether the next batch in is within the target.
func (m *Move) fits() bool {
	if m.in.left() == 0 || m.in.closed {
		return false
	}
	return m.table.figures.Resident+m.making+m.in.batches[m.in.next].Bytes <= m.target
}

// leaves says whether the next batch out has to go: without it what is there, and what is
// still to come in, would be more than the task may have.
func (m *Move) leaves() bool {
	if m.out.left() == 0 || m.out.closed {
		return false
	}
	stays := m.table.figures.Resident - m.going + m.making
	if !m.in.closed {
		stays += m.coming
	}
	return stays > m.target
}

// Next gives out a step that can begin now; false if there is none before some
// result comes in, or the target is raised. Segments that were freed meanwhile
// must not be in the plan: who frees one stops the move first.
func (m *Move) Next() (Step, bool) {
	if m.dead {
		return Step{}, false
	}
	// In before out: what comes in is copied while room is made for the next batch, and has
	// to fit in any case.
	if s, ok := m.in.step(m); ok {
		return s, true
	}
	return m.out.step(m)
}

// step gives out a step of one direction: the oldest batch's first, then a new
// batch's.
func (l *lane) step(m *Move) (Step, bool) {
	for b := l.first; b < l.next; b++ {
		if p := l.at(b); !p.busy && !p.over && l.turn(b, p.act) {
			p.busy = true
			return Step{p.act, b, l.batches[b].IDs, l.batches[b].Bytes}, true
		}
	}
	if m.ended || l.closed || l.left() == 0 || l.next-l.first == depth {
		return Step{}, false
	}
	batch := &l.batches[l.next]
	act := Reserve
	if l == &m.in {
		if !m.fits() {
			return Step{}, false
		}
		act = Map
		m.making += batch.Bytes
		m.coming -= batch.Bytes
	} else {
		if !m.leaves() {
			return Step{}, false
		}
		if batch.Clean {
			act = Drop
		}
		m.going += batch.Bytes
	}
	*l.at(l.next) = progress{act: act, busy: true}
	l.next++
	return Step{act, l.next - 1, batch.IDs, batch.Bytes}, true
}

// turn keeps copies of one direction in order: a batch is copied after those
// before it have begun to be.
func (l *lane) turn(batch int, act Act) bool {
	if act != CopyOut && act != CopyIn {
		return true
	}
	for b := l.first; b < batch; b++ {
		if p := l.at(b); !p.over && p.act < act {
			return false
		}
	}
	return true
}
