package workloads

import (
	"runtime"
	"sync/atomic"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/preempt/board"
)

// BeatWatch is the program that sees from outside when a heart stands still, and
// what the daemon wants of its channels meanwhile.
type BeatWatch struct {
	Pid     int           // of the heart
	WordsFD int           // its descriptor of its words
	UUID    string        // the device, where the heart has a board; empty: it has none
	Still   time.Duration // what is longer without a beat is told
}

// Validate says what is wrong with the settings.
func (w BeatWatch) Validate() error {
	if w.UUID != "" {
		if _, err := parseUUID(w.UUID); err != nil {
			return err
		}
	}
	return limit.First(
		limit.Check("pid", w.Pid, 2, 1<<30),
		limit.Check("words-fd", w.WordsFD, 3, 1<<20),
		limit.Check("still", w.Still, time.Microsecond, maxPause),
	)
}

// Span is a time from a last beat to the next, CLOCK_MONOTONIC in ns.
type Span struct {
	FromNS int64 `json:"from_ns"`
	ToNS   int64 `json:"to_ns"`
}

// Asked is a wish of the daemon, or what was done about one, at the time it was
// seen (CLOCK_MONOTONIC in ns).
type Asked struct {
	AtNS int64 `json:"at_ns"`
	Hold bool  `json:"hold"`
	Done bool  `json:"done"`
	// TookUS is how long the calls took; with Done.
	TookUS float64 `json:"took_us,omitempty"`
}

// Watched is a watcher's result.
type Watched struct {
	Still []Span  `json:"still"`
	Asked []Asked `json:"asked"`
	GapUS float64 `json:"gap_us"` // longest time between two looks
}

// maxStill bounds what a watcher keeps.
const maxStill = 200_000

// RunBeatWatch looks until it is told to end.
func RunBeatWatch(st Steering, say *Speaker, w BeatWatch) error {
	if err := w.Validate(); err != nil {
		return err
	}
	words, err := openWords(w.Pid, w.WordsFD)
	if err != nil {
		return err
	}
	defer words.close()
	look := &beatLook{beats: words.word(offBeats), still: w.Still.Nanoseconds()}
	if w.UUID != "" {
		if look.board, err = boardOf(w.Pid); err != nil {
			return err
		}
		defer look.board.Close()
		if look.device, look.section, err = sectionOf(look.board, w.UUID); err != nil {
			return err
		}
	}
	if err := say.Say(Event{Kind: KindReady}); err != nil {
		return err
	}
	if !st.wait() {
		return nil
	}
	if !look.run(st) {
		return &BeatsGone{w.Pid}
	}
	return say.Say(Event{Kind: KindResult, Watched: &look.seen})
}

type beatLook struct {
	beats   *uint32
	still   int64
	board   *board.Board
	device  board.Device
	section int
	want    uint32
	did     uint32
	seen    Watched
}

// run looks without pause; false when nothing ever beat.
func (l *beatLook) run(st Steering) bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	base, begun := MonotonicNS(), time.Now()
	beat := atomic.LoadUint32(l.beats)
	last, looked := int64(0), base
	gap := int64(0)
	if l.board != nil {
		l.want, _ = l.device.Wish()
		l.did = l.board.HoldView(l.section).Did
	}
	for n := 0; n&0xfff != 0 || st.Context.Err() == nil; n++ {
		at := base + time.Since(begun).Nanoseconds()
		gap, looked = max(gap, at-looked), at
		if b := atomic.LoadUint32(l.beats); b != beat {
			beat = b
			if last > 0 && at-last > l.still && len(l.seen.Still) < maxStill {
				l.seen.Still = append(l.seen.Still, Span{last, at})
			}
			last = at
		}
		if l.board != nil {
			l.wishes(at)
		}
	}
	l.seen.GapUS = float64(gap) / 1e3
	return last > 0
}

func (l *beatLook) wishes(at int64) {
	if want, wish := l.device.Wish(); want != l.want {
		l.want = want
		l.seen.Asked = append(l.seen.Asked, Asked{AtNS: at, Hold: wish.Hold != board.HoldNone})
	}
	v := l.board.HoldView(l.section)
	if v.Did == l.did {
		return
	}
	l.did = v.Did
	a := Asked{AtNS: at, Hold: v.Held != board.HoldNone, Done: true, TookUS: micros(v.ReleaseTime)}
	if a.Hold {
		a.TookUS = micros(v.HoldTime)
	}
	l.seen.Asked = append(l.seen.Asked, a)
}
