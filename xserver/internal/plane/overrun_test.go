package plane

import (
	"fmt"
	"math"
	"testing"
	"time"

	"xmsched/compute"
	"xmsched/preempt/board"
)

// kernels is a guest that has commands of one length all the time, on a device
// that cannot stop one that has begun and that those at work share evenly.
type kernels struct {
	*guest
	length time.Duration
	marked time.Duration // that a marked one takes longer
	most   uint64        // that it keeps queued
	left   time.Duration // of the command in progress; 0: none
	took   time.Duration // of the device

	submitted, finished, mark uint64
	marks                     map[uint64]bool
}

func (r *rig) kernels(task compute.TaskID, share int, length time.Duration) *kernels {
	k := &kernels{guest: r.guest(task, 0), length: length, most: math.MaxUint64, marks: map[uint64]bool{}}
	k.device.SetLevelMax(2, board.NothingInTheWay)
	k.board.Slot(1).Take(1, 0, 0)
	r.turn(func(p *Plane) {
		p.Configure(k.id, Settings{Level: 2, Threshold: 16, Batch: 8})
		p.SetHints(task, compute.Hints{Utilization: share})
	})
	return k
}

// launch keeps the queue as full as the bounds allow.
func (k *kernels) launch() {
	_, grant := k.device.Grant()
	for s := k.board.Slot(1); k.submitted-k.finished < min(uint64(grant.Threshold), k.most); {
		k.submitted++
		s.Submit(1)
		if k.submitted-k.mark >= uint64(grant.Batch) {
			k.mark = k.submitted
			k.marks[k.mark] = true
			s.Mark(k.mark)
		}
	}
}

// atWork says whether a command is in progress, which one begins only with the
// gate open.
func (k *kernels) atWork() bool {
	if k.left == 0 && k.device.Gate().Open() {
		if k.left = k.length; k.marks[k.finished+1] {
			k.left += k.marked
		}
	}
	return k.left > 0
}

// work goes on for a while; when a command ends the next one begins at once, if it may.
func (k *kernels) work(d time.Duration) {
	for d > 0 && k.left > 0 {
		part := min(d, k.left)
		d -= part
		k.took += part
		if k.left -= part; k.left > 0 {
			return
		}
		k.finished++
		if k.marks[k.finished] {
			delete(k.marks, k.finished)
			k.board.Slot(1).Complete(k.finished)
		}
		k.atWork()
	}
}

func (k *kernels) begin() {
	k.launch()
	k.ready(true)
}

// share has guests work for a while on the device that they share.
func (r *rig) share(d time.Duration, all ...*kernels) {
	const step = 20 * time.Microsecond
	for end := r.now + d; r.now < end; r.pass(step) {
		workers := 0
		for _, k := range all {
			k.launch()
			if k.atWork() {
				workers++
			}
		}
		for _, k := range all {
			k.work(step / time.Duration(max(workers, 1)))
		}
	}
}

// TestSharesOfLongCommands: tasks of commands that are longer than their turns
// get what was asked for all the same.
func TestSharesOfLongCommands(t *testing.T) {
	const total = 20 * time.Second
	short, long := 50*time.Microsecond, 5*time.Millisecond
	for _, lengths := range [][2]time.Duration{{short, long}, {long, short}, {long, 20 * time.Millisecond}} {
		t.Run(fmt.Sprint(lengths), func(t *testing.T) {
			r := newRig(t)
			r.turn(func(p *Plane) { p.SetPolicy(compute.UP()) })
			r.switches(0)
			a, b := r.kernels(1, 75, lengths[0]), r.kernels(2, 25, lengths[1])
			a.begin()
			b.begin()
			r.share(total/10, a, b) // until then it learns how long they are
			first := r.now
			a.took, b.took = 0, 0
			r.share(total-first, a, b)
			ratio := float64(a.took) / float64(b.took)
			if math.Abs(ratio/3-1) > 0.01 || a.took+b.took < (total-first)*99/100 {
				t.Errorf("ratio %.3f, want 3; %v of the device used in %v", ratio, a.took+b.took, total-first)
			}
		})
	}
}

// TestShortCommandsAlone: who has the device for itself, as its competitors have no work,
// makes what it makes in its turns. If each of its commands were marked until it is
// stopped for the first time, a mark each would make it slower alone than in a turn.
func TestShortCommandsAlone(t *testing.T) {
	const learns, span = 2 * time.Second, 2 * time.Second
	r := newRig(t)
	r.turn(func(p *Plane) { p.SetPolicy(compute.PUP()) })
	r.switches(0)
	a, b := r.kernels(1, 75, 50*time.Microsecond), r.kernels(2, 25, 5*time.Millisecond)
	a.marked, b.marked = 2*time.Microsecond, 2*time.Microsecond
	rate := func(all ...*kernels) float64 { // of the first, in the time that it has the device
		r.share(learns, all...)
		n, took := a.finished, a.took
		r.share(span, all...)
		return float64(a.finished-n) / (a.took - took).Seconds()
	}
	a.begin()
	alone := rate(a)
	b.begin()
	if inTurns := rate(a, b); math.Abs(alone/inTurns-1) > 0.002 {
		t.Errorf("%.0f commands a second alone, %.0f in its turns", alone, inTurns)
	}
	if _, grant := b.device.Grant(); grant.Batch != 1 {
		t.Errorf("long commands have a mark every %d", grant.Batch)
	}
}

// TestLongCommandsAlone: those of one that is alone are all marked, and in its first
// turns beside another it is charged for what it takes.
func TestLongCommandsAlone(t *testing.T) {
	r := newRig(t)
	r.turn(func(p *Plane) { p.SetPolicy(compute.PUP()) })
	r.switches(0)
	a, b := r.kernels(1, 25, 5*time.Millisecond), r.kernels(2, 75, 50*time.Microsecond)
	a.begin()
	r.share(3*time.Second, a)
	if length := r.plane.tasks[1].seats[0].overrun.length; math.Abs(float64(length)/5e6-1) > 0.02 {
		t.Errorf("commands of 5 ms are taken for ones of %v", length)
	}
	if _, grant := a.device.Grant(); grant.Batch != 1 {
		t.Errorf("a mark every %d commands, want every one", grant.Batch)
	}
	b.begin()
	r.share(500*time.Millisecond, a, b) // the second learns
	a.took, b.took = 0, 0
	r.share(5*time.Second, a, b)
	if ratio := float64(b.took) / float64(a.took); math.Abs(ratio/3-1) > 0.01 {
		t.Errorf("ratio %.3f, want 3", ratio)
	}
}
