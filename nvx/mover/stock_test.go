package mover

import (
	"syscall"
	"testing"
	"time"

	"xmsched/memory"
)

// freeSlots is a slotMaker of which what was given back is not there any more.
type freeSlots struct {
	*slotMaker
	fails int
}

func (m *freeSlots) Slots(_, count int, size memory.Bytes) error {
	if m.fails > 0 {
		m.fails--
		return syscall.ENOMEM
	}
	m.all = max(m.all, memory.Bytes(count)*size)
	return nil
}

// TestSlotsGivenBackAreMadeAgain: once the process may have more again, or after a failure: the
// daemon lets no memory go for which nothing is made, where somebody must not wait.
func TestSlotsGivenBackAreMadeAgain(t *testing.T) {
	const mib = memory.MiB
	for _, fails := range []int{0, 1} {
		var now time.Duration
		m := &freeSlots{&slotMaker{list: []memory.Segment{{ID: 1, Bytes: 32 * mib}, {ID: 2, Bytes: 32 * mib}}, made: map[memory.Bytes]int{}, clock: &now}, fails}
		k := stock{
			host: func() memory.HostFigures { return memory.HostFigures{Available: 8 * memory.GiB} },
			now:  func() time.Duration { return now },
		}
		p, f := newPlanner(), Figures{Resident: 64 * mib}
		run := func(host memory.Bytes) {
			for range 10 {
				if d, _ := k.step(m, 0, Orders{Host: host, Prepare: true}, f, p); d < 0 {
					return
				}
			}
		}
		run(64 * mib)
		if fails == 0 {
			run(1) // it may have no more
		}
		run(64 * mib)
		if m.all != 64*mib {
			t.Errorf("%d failures: %s of 64 MiB made again", fails, m.all)
		}
	}
}
