package mover

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"xmsched/memory"
)

// gentleness is how much longer than the making of a slot the pause after it is
// while we are to be gentle: making one holds the driver's lock for all processes
// on the machine (7 ms for 32 MiB, h200.md).
const gentleness = 9

// stock makes host memory ahead, so that no move has to wait for it.
type stock struct {
	host func() memory.HostFigures
	now  func() time.Duration
	pool Pool // nil: nobody passes any on

	gave  atomic.Bool  // slots were passed on, which may have to be made again
	stale bool         // the segments may have changed
	total memory.Bytes // of them, when they were last looked at
	want  []sizeClass  // the largest first
}

// sizeClass are the segments of one size.
type sizeClass struct {
	size        memory.Bytes
	count, made int
}

// allowed is how much host memory the process may have for slots in all.
func (k *stock) allowed(all, told memory.Bytes) memory.Bytes {
	f := k.host()
	f.Ours, f.Wanted = all, told
	b, _ := memory.HostBudget(f)
	return b
}

// room says whether slots for so many bytes are to be had: ENOMEM if they would
// be more than the process may have, all clean copies given up. Where somebody must not wait
// they are given up before more is made: to make a slot takes ten times as long as the copy
// that one saves, and holds up whoever maps memory meanwhile.
func (k *stock) room(m Memory, section int, b memory.Bytes, o Orders) error {
	all, idle, err := m.Pool(section)
	if err != nil || b <= idle {
		return err
	}
	limit := k.allowed(all, o.Host)
	most := limit
	if o.Gentle {
		most = min(limit, all)
	}
	if over := all + b - idle - most; over > 0 {
		if err := forgo(m, section, min(over, b-idle)); err != nil {
			return err
		}
		if all, idle, err = m.Pool(section); err != nil {
			return err
		}
	}
	if b > idle && all+b-idle > limit {
		return fmt.Errorf("%s more than the %s of host memory in use, of %s: %w", b-idle, all, limit, syscall.ENOMEM)
	}
	return nil
}

// forgo gives up clean copies of at least so many bytes, as far as there are any.
func forgo(m Memory, section int, b memory.Bytes) error {
	kept, err := m.Forgo(section, memory.MaxBytes)
	if err == nil && kept > 0 {
		_, err = m.Forgo(section, max(0, kept-b))
	}
	return err
}

// step makes one slot that will be needed if what is on the device has to leave
// it, or gives back what is too much, and says when to go on.
func (k *stock) step(m Memory, section int, o Orders, f Figures, p *planner) (time.Duration, error) {
	if k.gave.Swap(false) || k.stale || k.total != f.Resident+f.Host {
		if err := k.count(m, section, p); err != nil {
			return never, err
		}
		k.stale, k.total = false, f.Resident+f.Host
	}
	all, idle, err := m.Pool(section)
	if err != nil {
		return never, err
	}
	limit := k.allowed(all, o.Host)
	passes := k.pool != nil && o.Host > 0 && limit >= o.Host // see section.passOn
	if over := all - limit; over > 0 && !passes {
		if over > idle {
			if err := forgo(m, section, over-idle); err != nil {
				return never, err
			}
			if all, idle, err = m.Pool(section); err != nil {
				return never, err
			}
		}
		if idle > 0 {
			k.stale = true // what goes may have to be made again
			return never, m.Trim(section, max(0, idle-over))
		}
	}
	c := k.next()
	if c == nil || all+c.size > limit {
		return never, nil
	}
	began := k.now()
	lacks := min(limit-all, k.all()-idle) // unlike Slots the pool does not regard what is free
	got := k.borrow(m, section, c.size, min(c.count-c.made, int(lacks/c.size)))
	if got == 0 {
		if err := m.Slots(section, c.made+1, c.size); err != nil {
			k.stale = true // made, and counted, may be another number
			return latest, fmt.Errorf("host memory ahead: %w", err)
		}
		got = 1
	}
	c.made += got
	if spent := k.now() - began; o.Gentle && spent >= soonest {
		return gentleness * spent, nil
	}
	return 0, nil
}

// all is how much has to have slots.
func (k *stock) all() (b memory.Bytes) {
	for _, c := range k.want {
		b += memory.Bytes(c.count) * c.size
	}
	return b
}

// next is the class of which a slot is to be made.
func (k *stock) next() *sizeClass {
	for i := range k.want {
		if c := &k.want[i]; c.made < c.count {
			return c
		}
	}
	return nil
}

// count finds out how many segments of each size may have to leave the device.
func (k *stock) count(m Memory, section int, p *planner) (err error) {
	if p.list, err = m.List(section, p.list); err != nil {
		return err
	}
	k.want = k.want[:0]
	for _, s := range p.list {
		if s.State != memory.Device || s.Pin != memory.Movable || s.Kept {
			continue
		}
		i := slices.IndexFunc(k.want, func(c sizeClass) bool { return c.size == s.Bytes })
		if i < 0 {
			i = len(k.want)
			k.want = append(k.want, sizeClass{size: s.Bytes})
		}
		k.want[i].count++
	}
	slices.SortFunc(k.want, func(a, b sizeClass) int { return -cmp.Compare(a.size, b.size) })
	return nil
}
