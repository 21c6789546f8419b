package memory

import (
	"errors"
	"fmt"

	"pgregory.net/rapid"
)

// machine is the memory that a move works on: which copies there are of every
// segment, and what is in them. It is what the preload library and the driver
// are together, and refuses what they would refuse.
type machine struct {
	copies  map[ID]*copies
	running bool
}

// copies are a segment's: contents are numbers, 0 is rubbish.
type copies struct {
	bytes          Bytes
	truth          int // what its task wrote last
	device, slot   int
	hasDevice      bool // a device handle is made and mapped
	hasSlot        bool
	slotMapped     bool // at the segment's address
	kept           bool // it is on the device, and the slot has what came in
	copied, loaded bool // a copy out or in is complete
	moving         bool // a step is under way
	stuck          bool // could not be restored
}

func newMachine(list []Segment) *machine {
	m := &machine{copies: map[ID]*copies{}}
	for i, s := range list {
		c := &copies{bytes: s.Bytes, truth: i + 1}
		switch s.State {
		case Device:
			c.device, c.hasDevice = c.truth, true
		case Host:
			c.slot, c.hasSlot, c.slotMapped = c.truth, true, true
		case Away:
			c.slot, c.hasSlot = c.truth, true
		}
		m.copies[s.ID] = c
	}
	return m
}

// do carries a step out, all of it.
func (m *machine) do(s Step) error {
	for _, id := range s.IDs {
		if err := m.allowed(s.Act, m.copies[id]); err != nil {
			return fmt.Errorf("%s of segment %d: %w", s.Act, id, err)
		}
	}
	for _, id := range s.IDs {
		m.change(s.Act, m.copies[id])
	}
	return nil
}

var errRefused = errors.New("refused")

func (m *machine) allowed(a Act, c *copies) error {
	ok := !m.running
	switch a {
	case Reserve:
		ok = ok && c.hasDevice
	case CopyOut:
		ok = ok && c.hasDevice && c.hasSlot && !c.slotMapped
	case Unmap:
		ok = ok && c.hasDevice && c.hasSlot && c.copied
	case Drop:
		ok = ok && c.hasDevice && c.hasSlot && c.kept
	case Map:
		ok = ok && !c.hasDevice && c.hasSlot
	case CopyIn:
		ok = ok && c.hasDevice && c.hasSlot
	case Commit:
		ok = ok && c.hasDevice && c.loaded
	case Restore:
		ok = ok && c.hasDevice && c.hasSlot
	}
	if !ok {
		return fmt.Errorf("%w: running %v, %+v", errRefused, m.running, *c)
	}
	return nil
}

func (m *machine) change(a Act, c *copies) {
	switch a {
	case Reserve:
		c.hasSlot, c.kept = true, false
	case CopyOut:
		c.slot, c.copied = c.device, true
	case Unmap:
		c.device, c.hasDevice, c.copied = 0, false, false
	case Drop:
		c.device, c.hasDevice, c.kept = 0, false, false
	case Map:
		c.hasDevice, c.slotMapped, c.loaded = true, false, false
	case CopyIn:
		c.device, c.loaded = c.slot, true
	case Commit:
		c.kept, c.loaded = true, false
	case Restore:
		c.hasDevice, c.device, c.loaded = false, 0, false
	}
}

// resident is what the card really holds.
func (m *machine) resident() (sum Bytes) {
	for _, c := range m.copies {
		if c.hasDevice {
			sum += c.bytes
		}
	}
	return sum
}

// resume lets the task run, as the preload library does: what is mapped to
// nothing, or half way in, gets its slot mapped; the rest keeps what it has.
// What the task then reads has to be what it wrote last; it writes half of it anew.
func (m *machine) resume(t *Table, round int) error {
	t.Resumed()
	for s := range t.All() {
		c := m.copies[s.ID]
		if s.State == Host && !c.slotMapped {
			c.slotMapped, c.hasDevice, c.device = true, false, 0
		}
		seen := c.device
		if s.State == Host {
			seen = c.slot
		}
		if seen != c.truth {
			return fmt.Errorf("segment %d on the %s: the task reads %d and wrote %d", s.ID, s.State, seen, c.truth)
		}
		if (round+int(s.ID))%2 == 0 {
			c.truth = round*1000 + int(s.ID)
		}
		if s.State == Host {
			c.slot = c.truth
			continue
		}
		c.device, c.copied = c.truth, false
		if !c.kept {
			c.slot, c.hasSlot = 0, false
		}
	}
	return nil
}

// clean says whether a segment's slot has what is on the device.
func (m *machine) clean(id ID) bool {
	c := m.copies[id]
	return c.kept && c.slot == c.device
}

// check compares the table with the machine.
func (m *machine) check(t *Table, target, before Bytes) error {
	for s := range t.All() {
		c := m.copies[s.ID]
		have := c.slot
		if s.State == Device {
			have = c.device
		}
		switch {
		case have != c.truth:
			return fmt.Errorf("segment %d, %s: the authoritative copy is %d, the task wrote %d", s.ID, s.State, have, c.truth)
		case s.State == Host != c.slotMapped:
			return fmt.Errorf("segment %d is %s and its slot mapped: %v", s.ID, s.State, c.slotMapped)
		case s.State == Device && !c.hasDevice, s.State == Away && c.hasDevice && !c.moving:
			return fmt.Errorf("segment %d is %s, on the device: %v", s.ID, s.State, c.hasDevice)
		}
	}
	if r := m.resident(); r > max(target, before) {
		return fmt.Errorf("%s on the device, with %s allowed and %s there before", r, target, before)
	}
	return nil
}

// mark notes which segments a step is working on.
func (m *machine) mark(s Step, moving bool) {
	for _, id := range s.IDs {
		m.copies[id].moving = moving
	}
}

// die ends the steps under way, done or not, and nobody is told: the table is
// read anew.
func (m *machine) die(t *rapid.T, d *dice, table *Table, open []Step) {
	for _, s := range open {
		m.mark(s, false)
		if d.in(2) {
			if err := m.do(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	var list []Segment
	for s := range table.All() {
		switch c := m.copies[s.ID]; {
		case c.slotMapped:
			s.State = Host
		case !c.hasDevice:
			s.State = Away
		case c.device == c.truth:
			s.State = Device
		default:
			s.State = Loading
		}
		list = append(list, s)
	}
	if err := table.Reset(list); err != nil {
		t.Fatal(err)
	}
}
