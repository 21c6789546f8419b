package agent

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/memory"
	"xmsched/predictor"
	"xmsched/preempt/board"
)

// The program is looked at every busyLook while it submits commands, ever more seldom
// up to calmLook while it does not, and every offLook to see whether anybody wants a
// forecast. One that nobody wants any more is kept for keepFor: memory that was short
// a moment ago is short again soon.
const (
	busyLook = 2 * time.Millisecond
	calmLook = 50 * time.Millisecond
	offLook  = 250 * time.Millisecond
	keepFor  = 2 * time.Second

	// The mover is told of a forecast that changed at once, but at most every
	// tellEvery; of one that did not every tellAgain, as time passes.
	tellEvery = 10 * time.Millisecond
	tellAgain = time.Second
)

// foresee feeds the forecast while the daemon behind the board wants one, until ctx
// ends.
func (a *Agent) foresee(ctx context.Context, view *board.Board) {
	f := &feeder{forecast: a.forecast, view: view, tell: a.engine.Foreseen, away: a.engine.Away, buffer: make([]byte, 64*CommandBytes)}
	defer f.stop()
	for ctx.Err() == nil {
		pause := f.look(monotonic())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// monotonic is CLOCK_MONOTONIC, which records have.
func monotonic() uint64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return uint64(t.Nano())
}

// feeder is the goroutine of foresee.
type feeder struct {
	forecast *Forecast
	view     *board.Board
	tell     func(section int)
	away     func(section int, into []memory.Segment) []memory.Segment // what is not on the device, by address
	absent   [board.Devices]absence
	buffer   []byte

	on      bool
	wanted  uint64 // when it was last
	dropped uint64
	pause   time.Duration
	told    [board.Devices]struct {
		at uint64
		summary
	}
}

// absence is what of a section's memory is not on the device, as of its figures on the
// board: memory moves while the program stands still, and they with it.
type absence struct {
	view board.MemoryView
	list []memory.Segment // by address
}

// of says whether some of a range is.
func (a *absence) of(r predictor.Range) bool {
	i, _ := slices.BinarySearchFunc(a.list, r.Base, func(s memory.Segment, at uint64) int {
		return cmp.Compare(s.Address+uint64(s.Bytes)-1, at)
	})
	return r.Bytes > 0 && i < len(a.list) && a.list[i].Address < r.End()
}

// findAway finds out what is not on the device, where that may have changed. The forecast
// must not be locked: to list memory may take as long as a call of the driver's.
func (f *feeder) findAway() {
	for i := range f.absent {
		if !f.view.Present(i) {
			continue
		}
		a, v := &f.absent[i], f.view.MemoryView(i)
		switch {
		case v.Host == 0:
			a.list = a.list[:0]
		case v != a.view:
			a.list = f.away(i, a.list)
		}
		a.view = v
	}
}

// wants says whether any section is to be foreseen.
func (f *feeder) wants() bool {
	for i := range board.Devices {
		if _, m := f.view.Device(i).Memory(); f.view.Present(i) && m.Flags&board.MemoryPredict != 0 {
			return true
		}
	}
	return false
}

// look does what there is to do and says how long it is until the next look.
func (f *feeder) look(now uint64) time.Duration {
	if f.wants() {
		f.wanted = now
	}
	switch use := f.wanted != 0 && now-f.wanted < uint64(keepFor); {
	case !use && f.on:
		f.stop()
		return offLook
	case !use:
		return offLook
	case !f.on:
		f.start(now)
	}
	if f.feed(now) {
		f.pause = busyLook
	} else {
		f.pause = min(2*f.pause, calmLook)
	}
	f.tellChanges(now)
	return f.pause
}

// start begins with the memory that there is. What is allocated from now on comes as
// records.
func (f *feeder) start(now uint64) {
	c := f.forecast.commands
	f.forecast.knowledge.Prepare() // the mover does not wait for us here
	c.Record(true)
	f.on, f.dropped, f.pause = true, c.Dropped(), busyLook
	f.forecast.begin(now)
	if ranges, err := c.Ranges(f.buffer); err == nil {
		_ = f.forecast.take(ranges) // what cannot be read is missing: a forecast
	}
}

func (f *feeder) stop() {
	if !f.on {
		return
	}
	f.on = false
	f.forecast.commands.Record(false)
	f.forecast.begin(0)
}

// rounds bounds how many buffers are read before anything else is done.
const rounds = 64

// feed takes in what was recorded, and says whether there was something. Where
// records were lost it begins anew: what follows would be put in the wrong place.
func (f *feeder) feed(now uint64) (some bool) {
	c := f.forecast.commands
	for range rounds {
		records, err := c.Take(f.buffer)
		if err != nil || len(records) == 0 {
			break
		}
		some = true
		if f.forecast.take(records) != nil {
			break
		}
	}
	if c.Dropped() != f.dropped {
		f.start(now)
		return true
	}
	f.findAway()
	f.forecast.complete(f.view, now, &f.absent)
	return some
}

// tellChanges has the mover ask again where the forecast is another.
func (f *feeder) tellChanges(now uint64) {
	for i := range f.told {
		t := &f.told[i]
		is := f.forecast.summary(i)
		switch since := time.Duration(now - t.at); {
		case is != t.summary && since >= tellEvery, is.known && since >= tellAgain:
			t.at, t.summary = now, is
			f.tell(i)
		}
	}
}

// summary is whether a section is foreseen, its period in commands, how often what is
// ahead has become another, and how near the next phase is: what is foreseen is another
// when one of these is.
type summary struct {
	known   bool
	period  int
	changes uint64
	next    nearness
}

// nearness is how near the next phase is. The nearer, the more of the coming turn is its.
type nearness uint8

const (
	beyond   nearness = iota // the coming turn, or not foreseen
	within                   // the coming turn
	halfTurn                 // the first half of it
)

func (f *Forecast) summary(section int) summary {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, known := f.state(section)
	if s == nil {
		return summary{}
	}
	if !known {
		return summary{changes: s.plan.Changes()}
	}
	return summary{true, s.plan.Period(), s.plan.Changes(), s.near()}
}

func (s *sectionForecast) near() nearness {
	switch in, ok := s.plan.Coming(); {
	case !ok || in >= s.turn:
		return beyond
	case in >= s.turn/2:
		return within
	}
	return halfTurn
}

// queueTimes follows a queue, to learn how long its commands take.
type queueTimes struct {
	pending []submitted // the oldest first
	mark    uint64      // since when the oldest of them runs, as far as is known; 0: not known
}

// submitted is a command that has not completed.
type submitted struct {
	sequence, id uint64
	first        [4]predictor.Range // what it touches first
	more         bool               // it touches more than that, or nobody knows what
}

// away says whether memory that it touches is not on the device, or may not be.
func (p *submitted) away(a *absence) bool {
	return p.more && len(a.list) > 0 || p.gone(a)
}

// gone says whether memory of which is known that it touches it is not.
func (p *submitted) gone(a *absence) bool { return slices.ContainsFunc(p.first[:], a.of) }

// maxPending bounds what is followed of a queue: in free run 256 are outstanding.
const maxPending = 4096

// submitted notes a command of a queue that counts.
func (s *sectionForecast) submitted(c *Command, id uint64, touches []predictor.Touch) {
	if c.Queue < 0 || c.Sequence == 0 {
		return
	}
	q := s.queues[c.Queue]
	if q == nil {
		q = &queueTimes{}
		s.queues[c.Queue] = q
	}
	if len(q.pending) == 0 {
		q.mark = c.At
	}
	if len(q.pending) >= maxPending {
		q.pending, q.mark = q.pending[:0], 0
	}
	p := submitted{sequence: c.Sequence, id: id}
	p.more = len(touches) == 0 || len(touches) > len(p.first)
	for i := range min(len(touches), len(p.first)) {
		whole := touches[i].Span()
		p.first[i] = predictor.Range{Base: whole.Base, Bytes: whole.Bytes}
	}
	q.pending = append(q.pending, p)
}

// complete takes in which commands have completed, and learns how long they took
// where nothing was stopped meanwhile.
func (f *Forecast) complete(view *board.Board, now uint64, absent *[board.Devices]absence) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, s := range f.sections {
		if s == nil {
			continue
		}
		ran := view.Device(i).Gate().Open() && view.HoldView(i).Held == board.HoldNone
		for index, q := range s.queues {
			v := view.Slot(index).Snapshot()
			done := max(v.Completed, v.Synced)
			s.plan.Complete(uint32(index), done)
			f.finished(s, q, done, now, ran, &absent[i])
		}
	}
}

// finished learns from the commands of a queue up to one that completed: each took an
// equal part of the time.
func (f *Forecast) finished(s *sectionForecast, q *queueTimes, done, now uint64, ran bool, absent *absence) {
	n := 0
	for n < len(q.pending) && q.pending[n].sequence <= done {
		n++
	}
	if !ran {
		q.mark = 0 // the one that runs on was stopped in between
	}
	if n == 0 {
		return
	}
	if q.mark != 0 && now > q.mark {
		each := time.Duration(now-q.mark) / time.Duration(n)
		away := slices.ContainsFunc(q.pending[:n], func(p submitted) bool { return p.away(absent) })
		took := s.plan.Took
		if away {
			took = s.plan.TookAway
		}
		for i := range q.pending[:n] {
			p := &q.pending[i]
			// Of several at once nobody knows which was slow; and one whose memory was not
			// there, as was known, says nothing against what is known of it.
			if took(p.id, each) && n == 1 && !p.gone(absent) {
				s.plan.Mark(touchesAt(p.first[:]), &f.ranges)
			}
		}
	}
	q.pending = q.pending[:copy(q.pending, q.pending[n:])]
	q.mark = now
}

func touchesAt(list []predictor.Range) []predictor.Touch {
	var out []predictor.Touch
	for _, r := range list {
		if r.Base != 0 {
			out = append(out, predictor.Touch{Base: r.Base, Bytes: 1, Count: 1, Access: predictor.Read})
		}
	}
	return out
}
