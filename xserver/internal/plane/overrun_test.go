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
		k.left = k.length
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

// TestSharesOfLongCommands: tasks of commands that are longer than their turns
// get what was asked for all the same.
func TestSharesOfLongCommands(t *testing.T) {
	const total, step = 20 * time.Second, 20 * time.Microsecond
	short, long := 50*time.Microsecond, 5*time.Millisecond
	for _, lengths := range [][2]time.Duration{{short, long}, {long, short}, {long, 20 * time.Millisecond}} {
		t.Run(fmt.Sprint(lengths), func(t *testing.T) {
			r := newRig(t)
			r.turn(func(p *Plane) { p.SetPolicy(compute.UP()) })
			r.switches(0)
			a, b := r.kernels(1, 75, lengths[0]), r.kernels(2, 25, lengths[1])
			for _, k := range []*kernels{a, b} {
				k.launch()
				k.ready(true)
			}
			var first time.Duration
			for r.now < total {
				if r.now == total/10 { // until then it learns how long they are
					first, a.took, b.took = r.now, 0, 0
				}
				workers := 0
				for _, k := range []*kernels{a, b} {
					k.launch()
					if k.atWork() {
						workers++
					}
				}
				for _, k := range []*kernels{a, b} {
					k.work(step / time.Duration(max(workers, 1)))
				}
				r.pass(step)
			}
			ratio := float64(a.took) / float64(b.took)
			if math.Abs(ratio/3-1) > 0.01 || a.took+b.took < (total-first)*99/100 {
				t.Errorf("ratio %.3f, want 3; %v of the device used in %v", ratio, a.took+b.took, total-first)
			}
		})
	}
}
