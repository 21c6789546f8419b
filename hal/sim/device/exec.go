package device

import (
	"encoding/binary"
	"fmt"
	"time"

	"xmsched/hal/kernels"
	"xmsched/hal/sim/model"
)

// inlineBytes is the largest body that the engine does itself: handing one over
// costs more than this many bytes do.
const inlineBytes = 128 << 10

// command is an entry on its way. err is written by whoever ran the body, before
// bodyDone; the rest is protected by Device.mu.
type command struct {
	ch       *channel
	entry    entry
	engine   model.Engine
	err      error
	bodyDone bool
	inBody   bool    // a worker has it
	touched  []touch // managed memory that the body has touched; as err
	timeUp   bool
	dead     bool // its context is gone
}

// hold is what a channel waits for.
type hold struct {
	view          *view
	word          []byte // nil: foreign memory at addr
	since, looked time.Time
}

func (ch *channel) dropHold() {
	if ch.hold.view != nil {
		_ = ch.hold.view.close(nil)
	}
	ch.hold = hold{}
}

// modelCommand is what a command costs, and where.
func (d *Device) modelCommand(cmd *command) model.Command {
	e, m := &cmd.entry, cmd.ch.machine()
	switch verb(e.Verb) {
	case verbLaunch:
		return m.KernelCommand(0, kernelTable[e.Kernel].Cost(e.launch()))
	case verbCopy:
		return cmd.copyCommand(e.C)
	case verbFill:
		return m.FillCommand(0, e.C*uint64(e.Kind))
	case verbCopyRows:
		return cmd.copyCommand(cmd.size())
	case verbFillRows:
		return m.FillCommand(0, cmd.size())
	case verbPrefetch:
		return m.CopyCommand(0, prefetchEngine(e), e.C)
	case verbWait, verbAfter:
		return m.WaitCommand(0)
	case verbWrite:
		return m.WriteCommand(0)
	}
	return m.EventCommand(0)
}

// copyCommand is what a copy of n bytes costs, by where its ends are at home; an
// unmapped end shows when it runs.
func (cmd *command) copyCommand(n uint64) model.Command {
	m, s := cmd.ch.machine(), cmd.ch.ctx.owner.space
	dst, src := s.home(cmd.entry.A), s.home(cmd.entry.B)
	switch {
	case dst == src:
		return m.CopyCommand(0, model.CopyPeer, n)
	case src == onHost:
		return m.CopyCommand(0, model.CopyIn, n)
	case dst == onHost:
		return m.CopyCommand(0, model.CopyOut, n)
	}
	return m.AcrossCommand(0, n)
}

// start begins a command's effects, which are there when its time is up.
func (d *Device) start(cmd *command) {
	if verb(cmd.entry.Verb) == verbPrefetch && cmd.err == nil {
		cmd.err = d.prefetch(cmd)
	}
	if _, steps := cmd.stepping(); steps && cmd.err == nil {
		d.beginSteps(cmd)
		return
	}
	if cmd.err == nil && cmd.size() > inlineBytes { // a wait may have failed already
		select {
		case d.jobs <- cmd:
			cmd.inBody = true
			return
		default: // more than the queue holds: slow, and in order all the same
		}
	}
	if cmd.err == nil {
		cmd.err = cmd.run()
	}
	d.bodyEnded(cmd)
}

// bodyEnded takes note of a body's end. A failed one ends its context now,
// however much simulated time it had left.
func (d *Device) bodyEnded(cmd *command) {
	cmd.bodyDone, cmd.inBody = true, false
	d.fault(cmd, cmd.touched)
	cmd.touched = nil
	if cmd.err == nil || cmd.dead {
		return
	}
	d.log.Info("command failed", "pid", cmd.ch.ctx.owner.pid, "err", cmd.err)
	d.fail(cmd.ch.ctx, illegalAddress)
}

// runBodies is a worker.
func (d *Device) runBodies() {
	for cmd := range d.jobs {
		cmd.err = cmd.run()
		d.mu.Lock()
		d.finished = append(d.finished, cmd)
		d.mu.Unlock()
		d.poke()
	}
}

// size is about how many bytes the body touches.
func (cmd *command) size() uint64 {
	e := &cmd.entry
	switch verb(e.Verb) {
	case verbLaunch:
		return kernelTable[e.Kernel].Touched(e.launch())
	case verbCopy:
		return e.C
	case verbFill:
		return e.C * uint64(e.Kind)
	case verbCopyRows:
		return e.rows().count() * e.C
	case verbFillRows:
		return e.rows().count() * e.C * uint64(e.Kind)
	}
	return 0
}

// run does a command on real bytes. It touches nothing of the device but the
// client's address space.
func (cmd *command) run() error {
	e := &cmd.entry
	v := &view{space: cmd.ch.ctx.owner.space, by: cmd.ch.ctx}
	switch verb(e.Verb) {
	case verbLaunch:
		k := kernelTable[e.Kernel]
		err := v.close(k.Body(v, e.launch()))
		cmd.touched = v.touched
		if err != nil {
			return fmt.Errorf("kernel %s: %w", k.Name, err)
		}
		return nil
	case verbCopy:
		return copyBytes(v.by, e.A, e.B, e.C, e.Flags&copyLoose != 0)
	case verbFill:
		return v.close(fill(v, e))
	case verbCopyRows:
		return copyRows(v.by, e)
	case verbFillRows:
		return fillRows(v.by, e)
	case verbWrite:
		return v.close(write(v, e))
	}
	return nil
}

// copyBytes copies in pieces, so that foreign memory needs little room here.
func copyBytes(by *gpuContext, dst, src, n uint64, loose bool) error {
	const piece = 1 << 20
	for done := uint64(0); done < n; {
		now := min(piece, n-done)
		v := &view{space: by.owner.space, by: by, moves: true, loose: loose}
		from, err := v.View(src+done, now, kernels.Read)
		if err == nil {
			var to []byte
			if to, err = v.View(dst+done, now, kernels.Write); err == nil {
				copy(to, from)
			}
		}
		if err := v.close(err); err != nil {
			return fmt.Errorf("copy: %w", err)
		}
		done += now
	}
	return nil
}

func fill(v *view, e *entry) error {
	n := e.C * uint64(e.Kind)
	if n == 0 {
		return nil
	}
	b, err := v.View(e.A, n, kernels.Write)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	var pattern [8]byte
	binary.LittleEndian.PutUint64(pattern[:], e.B)
	filled := copy(b, pattern[:e.Kind])
	for filled < len(b) { // doubles what is there
		filled += copy(b[filled:], b[:filled])
	}
	return nil
}

// write is a stream write. The store is one word: another process may be waiting
// for it.
func write(v *view, e *entry) error {
	b, err := v.View(e.A, uint64(e.Kind), kernels.Write)
	if err != nil {
		return fmt.Errorf("stream write: %w", err)
	}
	if e.Kind == 4 {
		word32(b, 0).Store(uint32(e.B))
	} else {
		word64(b, 0).Store(e.B)
	}
	return nil
}

// hold begins a wait, or ends it at once.
func (d *Device) hold(cmd *command) {
	ch := cmd.ch
	if verb(cmd.entry.Verb) == verbAfter {
		if d.reached(cmd) {
			ch.machine().Release(ch.id)
			return
		}
		d.afters = append(d.afters, ch)
		return
	}
	v := &view{space: ch.ctx.owner.space, by: ch.ctx}
	sp, err := v.space.acquire(cmd.entry.A, uint64(cmd.entry.Kind))
	if err != nil {
		cmd.err = fmt.Errorf("stream wait: %w", err)
		ch.machine().Release(ch.id)
		return
	}
	v.spans = append(v.spans, sp)
	if err := v.may(sp, kernels.Read); err != nil {
		cmd.err = fmt.Errorf("stream wait: %w", err)
		_ = v.close(nil)
		ch.machine().Release(ch.id)
		return
	}
	now := time.Now()
	ch.hold = hold{view: v, since: now, looked: now}
	if sp.data != nil {
		ch.hold.word = sp.data[cmd.entry.A-sp.base:]
	}
	if d.open(cmd) {
		ch.dropHold()
		ch.machine().Release(ch.id)
		return
	}
	d.gates = append(d.gates, ch)
}

// checkGates reads the words that streams wait for.
func (d *Device) checkGates() bool {
	if len(d.gates) == 0 {
		return false
	}
	now, opened := time.Now(), false
	kept := d.gates[:0]
	for _, ch := range d.gates {
		ch.hold.looked = now
		if !d.open(ch.flight[0]) {
			kept = append(kept, ch)
			continue
		}
		opened = true
		ch.dropHold()
		ch.machine().Release(ch.id)
	}
	clear(d.gates[len(kept):])
	d.gates = kept
	return opened
}

// open reads a wait's word and compares.
func (d *Device) open(cmd *command) bool {
	ch, e := cmd.ch, &cmd.entry
	b := ch.hold.word
	if b == nil {
		b = make([]byte, e.Kind)
		if err := processVM(ch.ctx.owner.pid, b, e.A, false); err != nil {
			cmd.err = fmt.Errorf("stream wait: %w", err)
			return true
		}
	}
	if e.Kind == 4 {
		return satisfied(e.Flags, uint64(word32(b, 0).Load()), e.B&0xffffffff, 32)
	}
	return satisfied(e.Flags, word64(b, 0).Load(), e.B, 64)
}

// satisfied compares as CUstreamWaitValue_flags say: GEQ cyclically.
func satisfied(how uint32, word, value uint64, bits uint) bool {
	switch how {
	case waitGeq:
		return int64((word-value)<<(64-bits)) >= 0
	case waitEq:
		return word == value
	case waitAnd:
		return word&value != 0
	default:
		return ^(word|value)<<(64-bits) != 0
	}
}

// reached tells whether an After is satisfied. What will never come (of a context
// that is gone or has failed, of another process) is not waited for.
func (d *Device) reached(cmd *command) bool {
	e := &cmd.entry
	g := d.contexts[e.A]
	if g == nil || g.err != success || g.owner != cmd.ch.ctx.owner || e.B >= ringChannels {
		return true
	}
	return int64(g.channels[e.B].completed-e.C) >= 0
}

// checkAfters lets channels of one device go on, or those of all, that wait for
// others. A machine's clock may be behind another's: the engine lets the others' go
// on when all have come as far as now.
func (d *Device) checkAfters(g *gpu) {
	if len(d.afters) == 0 {
		return
	}
	kept := d.afters[:0]
	for _, ch := range d.afters {
		if (g == nil || ch.ctx.gpu == g) && d.reached(ch.flight[0]) {
			ch.machine().Release(ch.id)
		} else {
			kept = append(kept, ch)
		}
	}
	clear(d.afters[len(kept):])
	d.afters = kept
}
