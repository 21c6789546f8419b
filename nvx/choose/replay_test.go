package choose

import (
	"bufio"
	"fmt"
	"os"
	"testing"
	"time"

	"xmsched/compute"
)

// A run of a foreground as its client told of it.
type told struct{ start, run, launching time.Duration }

// eager is what PyTorch told on an H200 while it generated with a Llama, 27 ms and
// 1000 launches a token: 2 s in which it was found idle between launches now and
// then, so that no two runs are alike. Launches were not recorded; all of a token's
// time is launching.
func eager(t *testing.T) []told {
	t.Helper()
	f, err := os.Open("testdata/eager.runs")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []told
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var start, run, launching int64
		if lines.Text()[0] == '#' {
			continue
		}
		if _, err := fmt.Sscan(lines.Text(), &start, &run, &launching); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		list = append(list, told{time.Duration(start) * time.Microsecond, time.Duration(run) * time.Microsecond, time.Duration(launching) * time.Microsecond})
	}
	return list
}

// replay plays to a chooser what a foreground told, and notes when the regime became
// Beside and when that ended.
type replay struct {
	chooser    *Chooser
	fore, back *Task
	now        time.Duration
	launches   float64
	processor  float64 // how much longer it takes for a launch
	entered    []time.Duration
	left       []time.Duration
	out        time.Duration // that the background was kept out while the foreground had work
	beside     time.Duration // that it ran meanwhile
}

func newReplay() *replay {
	r := &replay{chooser: New(Costs{}), processor: 1}
	r.back, r.fore = r.chooser.Add(1), r.chooser.Add(2)
	r.chooser.SetAble(r.back, true, true)
	r.chooser.Verdict(r.back, true, compute.Bounded)
	r.chooser.Verdict(r.fore, true, compute.Top)
	r.chooser.Ready(r.back, 0)
	r.until(2 * time.Second)
	return r
}

// together says whether the background runs at the same time as the foreground.
func (r *replay) together() bool {
	o := r.back.Order()
	return r.fore.ready && o.Open && !o.Hold
}

// until lets time go by; the background does what it is told.
func (r *replay) until(end time.Duration) {
	for {
		before := r.chooser.Regime()
		r.chooser.Decide(r.now)
		r.chooser.Did(r.back, r.back.Order().Hold, r.back.Order().Slice)
		if after := r.chooser.Regime(); before == Beside && after != Beside {
			r.left = append(r.left, r.now)
		} else if before != Beside && after == Beside {
			r.entered = append(r.entered, r.now)
		}
		next := r.chooser.Next()
		if next == 0 || next > end {
			break
		}
		r.pass(max(next, r.now+time.Microsecond))
	}
	r.pass(end)
}

// pass lets time go by in which nothing is decided.
func (r *replay) pass(end time.Duration) {
	switch {
	case r.together():
		r.beside += end - r.now
	case r.fore.ready:
		r.out += end - r.now
	}
	r.now = end
}

// play plays a list. Beside the background all of it takes slower times as long.
func (r *replay) play(list []told, slower float64) {
	const perSecond = 1000 / 0.027
	r.chooser.Verdict(r.back, false, compute.Bounded)
	offset := r.now - list[0].start
	for i, q := range list {
		start := max(q.start+offset, r.now)
		r.until(start)
		r.chooser.Ready(r.fore, start)
		run, launching := q.run, q.launching
		if r.chooser.Decide(r.now); r.together() {
			run, launching = time.Duration(float64(run)*slower), time.Duration(float64(launching)*slower)
		}
		offset += run - q.run
		r.until(start + run)
		r.launches += q.launching.Seconds() * perSecond / r.processor
		r.chooser.Ran(r.fore, r.now, run, launching)
		r.chooser.Launched(r.fore, r.now, uint64(r.launches))
		if i+1 == len(list) || list[i+1].start-q.start-q.run > idleAfter {
			r.chooser.Idle(r.fore, r.now)
		}
		r.until(r.now)
	}
}

// TestEagerForegroundIsBoundByTheCPU has it known within 0.2 s, and known on, though
// it becomes slower by a fifth.
func TestEagerForegroundIsBoundByTheCPU(t *testing.T) {
	list := eager(t)
	for _, slower := range []float64{1, 1.2} {
		for first := range list[:len(list)/2] { // wherever it begins
			r := newReplay()
			begin := r.now
			r.play(list[first:], slower)
			for range 9 {
				r.play(list, slower)
			}
			if len(r.entered) != 1 || len(r.left) != 0 || r.entered[0]-begin > 200*time.Millisecond {
				t.Fatalf("from run %d on, %.1f times as slow beside: beside from %v, after %v, left %v", first, slower, r.entered, begin, r.left)
			}
		}
	}
}

// TestForegroundThatSuffersIsLetAlone has it become slower by half and more: that is
// seen after 0.6 s beside the background, and not tried again for half a minute.
func TestForegroundThatSuffersIsLetAlone(t *testing.T) {
	list := eager(t)
	for _, slower := range []float64{1.6, 2} {
		r := newReplay()
		for r.now < 33*time.Second {
			r.play(list, slower)
		}
		if len(r.entered) != 2 || len(r.left) != 2 {
			t.Fatalf("%.1f times as slow beside: entered %v, left %v", slower, r.entered, r.left)
		}
		for i := range r.left {
			if d := r.left[i] - r.entered[i]; d > time.Second {
				t.Errorf("%.1f times as slow beside: left after %v", slower, d)
			}
		}
		if r.beside > 1200*time.Millisecond {
			t.Errorf("%.1f times as slow beside: %v beside, all in all", slower, r.beside)
		}
		if d := r.entered[1] - r.left[0]; d < besideBan {
			t.Errorf("tried again after %v", d)
		}
	}
}

// TestSlowProcessorIsNotTheBackgroundsFault has the processor become half as fast, with a
// background beside the foreground or without: within 3 s that is beside it again, and
// stays.
func TestSlowProcessorIsNotTheBackgroundsFault(t *testing.T) {
	fast := eager(t)
	slow := make([]told, len(fast))
	for i, q := range fast {
		slow[i] = told{2 * q.start, 2 * q.run, 2 * q.launching}
	}
	r := newReplay()
	r.play(fast, 1)
	for range 3 {
		r.processor = 2
		begin := r.now
		for r.now < begin+30*time.Second {
			r.play(slow, 1)
		}
		if n := len(r.entered); r.chooser.Regime() != Beside || r.entered[n-1] > begin+3*time.Second {
			t.Fatalf("slow since %v: entered %v, left %v", begin, r.entered, r.left)
		}
		r.processor = 1
		r.play(fast, 1)
	}
}

// TestBesideDoesNotFlap has a foreground's runs turn from long into short and back as
// fast as that can be seen: the regime is left at once, and not entered again within
// a second.
func TestBesideDoesNotFlap(t *testing.T) {
	long, short := make([]told, 20), make([]told, 400)
	for i := range long {
		const run = 10 * time.Millisecond
		long[i] = told{time.Duration(i) * (run + time.Millisecond), run, run}
	}
	for i := range short {
		const run = 500 * time.Microsecond
		short[i] = told{time.Duration(i) * 2 * run, run, run}
	}
	r := newReplay()
	for r.now < 20*time.Second {
		r.play(long, 1)
		r.play(short, 1)
	}
	if len(r.entered) < 3 {
		t.Fatalf("entered %v: it was not tried", r.entered)
	}
	for i := 1; i < len(r.entered); i++ {
		if d := r.entered[i] - r.entered[i-1]; d < settled {
			t.Fatalf("entered %v and again %v later", r.entered[i-1], d)
		}
	}
}
