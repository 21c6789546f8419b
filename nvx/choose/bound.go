package choose

import "time"

// A foreground is bound by the CPU that spends most of its time launching, in runs
// that are long enough for it to matter. Where one run ends and the next begins is
// partly chance: one that launches slowly is now and then found idle on the way, so
// a program whose turns take 27 ms has runs of 1 to 29 ms. All measures are
// therefore weighted with time: a run counts for as long as it lasted.
const (
	boundSpan  = 200 * time.Millisecond // how much of the last runs is looked at
	boundKnown = 60 * time.Millisecond  // from how much on it is judged by
	boundDoubt = 50 * time.Millisecond  // and by how much that is taken back
	boundAbove = 0.8                    // share of it spent launching, from which on
	boundBelow = 0.6                    // and below which no more
	boundRun   = 2 * time.Millisecond   // mean run from which on; half of it: no more

	besideBan  = 30 * time.Second // the first time, and twice as long each time after
	besideBans = 6                // times that it grows
)

// bound is what is known of how a foreground works: of its runs, from the first
// command after nothing to the synchronisation's end, however short the pause before
// the next, and of how fast it launches.
type bound struct {
	cpu bool // it is bound by the CPU

	runs runs
	pace pace

	on         bool          // a background runs beside it, but for comparisons
	base       float64       // commands a second without it; 0: not known
	comparison comparison    // whether it is to blame for a foreground that became slow
	banned     time.Duration // not again before
	bans       int
}

// verdict is what orders depend on: whether it is bound by the CPU, and whether
// backgrounds are kept out for a comparison.
func (b *bound) verdict() (v struct{ cpu, compared bool }) {
	v.cpu, v.compared = b.cpu, b.comparison.keepsOut()
	return v
}

// ran takes in one run.
func (b *bound) ran(now, run, launching time.Duration) {
	b.runs.add(run, min(max(0, launching), run))
	enough, least := boundKnown, runsLeast
	if b.cpu {
		enough, least = boundDoubt, runsDoubt
	}
	if !b.runs.known(enough, least) {
		return
	}
	share, mean := b.runs.launching(), b.runs.mean()
	switch {
	case b.cpu && share < boundBelow:
		b.mistaken(now)
	case b.cpu:
		b.cpu = mean >= boundRun/2
	default:
		b.cpu = share > boundAbove && mean > boundRun && now >= b.banned
	}
}

// launched takes in how many commands were launched in all, and for how long there
// was work meanwhile.
func (b *bound) launched(now, worked time.Duration, total uint64) {
	b.pace.add(worked, total)
	if b.cpu && b.on {
		b.compare(now)
	}
}

// mistaken says that the foreground is not bound by the CPU after all: where a
// background ran beside it, the device it is that it waits for since.
func (b *bound) mistaken(now time.Duration) {
	b.cpu = false
	b.comparison.stage = untried
	if b.on {
		b.banned = now + besideBan<<b.bans
		b.bans = min(b.bans+1, besideBans)
	}
}

// beside says that a background runs beside the task from now on, or no more. What
// was seen of the other kind is no measure.
func (b *bound) beside(on bool) {
	if on == b.on {
		return
	}
	b.on, b.comparison.stage = on, untried
	if rate, over := b.pace.rate(); on && (over >= aloneSeen || b.base == 0) {
		b.base = rate
	}
	b.runs = runs{}
	b.pace.restart()
}

// runs are the last of a task, those of boundSpan of its time and runsDoubt at least.
type runs struct {
	list    [64]struct{ run, launching time.Duration }
	next, n int
	total   time.Duration // sum of the runs
}

func (r *runs) add(run, launching time.Duration) {
	for r.n == len(r.list) || r.n >= runsDoubt && r.total-r.back(r.n).run+run >= boundSpan {
		r.total -= r.back(r.n).run
		r.n--
	}
	r.list[r.next] = struct{ run, launching time.Duration }{run, launching}
	r.next = (r.next + 1) % len(r.list)
	r.n++
	r.total += run
}

// How many runs it takes to judge by: one may be a program's start. What is known is
// taken back by more, as one token that waited says little, and the way back is long.
const (
	runsLeast = 2
	runsDoubt = 3
)

// back is the i-th last run.
func (r *runs) back(i int) struct{ run, launching time.Duration } {
	return r.list[(r.next-i+len(r.list))%len(r.list)]
}

// known says whether there is as much to judge by.
func (r *runs) known(enough time.Duration, least int) bool {
	return r.n >= least && r.total >= enough || r.n == len(r.list) && r.total > 0
}

// launching is the share of the time that was spent launching.
func (r *runs) launching() float64 {
	var sum time.Duration
	for i := 1; i <= r.n; i++ {
		sum += r.back(i).launching
	}
	return float64(sum) / float64(r.total)
}

// mean is the length of the run that a moment falls into, on average.
func (r *runs) mean() time.Duration {
	var squares float64
	for i := 1; i <= r.n; i++ {
		squares += float64(r.back(i).run) * float64(r.back(i).run)
	}
	return time.Duration(squares / float64(r.total))
}

// pace is how fast a task launched in the last second that it had work.
type pace struct {
	marks [12]mark // the oldest first, paceMark of work between two
	n     int
	now   mark
}

// mark is a point of a task's history.
type mark struct {
	worked   time.Duration
	launches uint64
}

const (
	paceSpan = time.Second
	paceMark = 100 * time.Millisecond
)

func (p *pace) add(worked time.Duration, launches uint64) {
	if worked < p.now.worked || launches < p.now.launches {
		p.n = 0 // a process left, or lies
	}
	p.now = mark{worked, launches}
	if p.n > 0 && worked-p.marks[p.n-1].worked < paceMark {
		return
	}
	drop := 0
	for drop+1 < p.n && worked-p.marks[drop+1].worked >= paceSpan {
		drop++
	}
	if p.n == len(p.marks) {
		drop = max(drop, 1)
	}
	p.n = copy(p.marks[:], p.marks[drop:p.n])
	p.marks[p.n] = p.now
	p.n++
}

// rate is in commands a second, and over how much work it was seen; 0: not known.
func (p *pace) rate() (rate float64, over time.Duration) {
	if p.n == 0 || p.now.worked <= p.marks[0].worked {
		return 0, 0
	}
	over = p.now.worked - p.marks[0].worked
	return float64(p.now.launches-p.marks[0].launches) / over.Seconds(), over
}

// restart forgets what was before now.
func (p *pace) restart() {
	if p.n > 0 {
		p.marks[0], p.n = p.now, 1
	}
}
