package mover

import (
	"time"

	"xmsched/memory"
)

// Entry is what one move did and where its time went, for Config.Journal.
type Entry struct {
	Section int           `json:"section"`
	At      time.Duration `json:"at_ns"`   // when it began, on CLOCK_MONOTONIC
	Took    time.Duration `json:"took_ns"` // from then until the library had it back
	Order   uint32        `json:"order"`   // the number of the daemon's answer
	Target  memory.Bytes  `json:"target"`  // when it began
	Before  Figures       `json:"before"`
	Out     memory.Bytes  `json:"out"`
	In      memory.Bytes  `json:"in"`
	Spared  memory.Bytes  `json:"spared"` // of Out, not copied
	Hashed  memory.Bytes  `json:"hashed"`
	// Spent is the time of the goroutine that moves, by what it did: "digest", "wait" (for
	// copies and calls, or a reason to look again), "linger" (for a higher target) and "home"
	// (to map what went to its slots) beside
	// the names of memory.Act. To map is what others do meanwhile, several at once.
	Spent   map[string]time.Duration `json:"spent_ns"`
	Starved bool                     `json:"starved,omitempty"` // what was left had no room yet, or had to make none
	Error   string                   `json:"error,omitempty"`
	Trouble string                   `json:"trouble,omitempty"` // what last kept memory from moving, also before
}

// journal makes entries. The zero value makes none.
type journal struct {
	write  func(Entry)
	entry  Entry
	hashed memory.Bytes // when the move began
}

func (j *journal) begin(s *section, want uint32, o Orders, f Figures) {
	if j.write == nil {
		return
	}
	j.hashed = s.clean.hashed
	j.entry = Entry{
		Section: s.index, At: monotonic(), Order: want, Target: o.Target, Before: f,
		Spent: map[string]time.Duration{},
	}
}

// spend runs f and notes its time.
func (j *journal) spend(what string, f func()) {
	if j.write == nil {
		f()
		return
	}
	began := monotonic()
	f()
	j.spent(what, monotonic()-began)
}

func (j *journal) spent(what string, d time.Duration) {
	if j.write != nil {
		j.entry.Spent[what] += d
	}
}

func (j *journal) end(s *section, o outcome) {
	if j.write == nil {
		return
	}
	e := &j.entry
	e.Took = monotonic() - e.At
	e.Out, e.In, e.Spared, e.Starved = o.Out, o.In, o.Spared, o.starved
	e.Hashed = s.clean.hashed - j.hashed
	if o.err != nil {
		e.Error = o.err.Error()
	}
	if s.trouble != nil {
		e.Trouble = s.trouble.Error()
	}
	j.write(*e)
}
