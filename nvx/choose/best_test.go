package choose

import (
	"fmt"
	"testing"
	"time"
)

// Not among the cases: backgrounds whose kernels are all shorter than the hardware's
// switch. For those the gate alone would do; but only their mean is known, and one
// long kernel among many short ones is what the foreground would wait for. So they
// are armed as well, which costs it 0.1 ms a request.

// A millisecond that a foreground waits is worth so many that backgrounds lose.
const worth = 4

// cost weighs what a way of doing it took from everybody, a request: of the
// foreground beyond what its requests take alone, and of the backgrounds beyond
// what the foreground used.
func (o outcome) cost(alone outcome) time.Duration {
	n := time.Duration(max(1, o.requests))
	late := max(0, o.mean-alone.mean)
	lost := max(0, o.span-o.used-o.progress) / n
	return worth*late + lost
}

// The rule may cost more than the best fixed choice for a trace by this much: it
// has to find out first, and the best choice is known only afterwards.
const (
	marginPercent = 10
	marginFixed   = 200 * time.Microsecond // a request
)

// TestRuleAgainstTheBestFixedChoice plays every trace beside different backgrounds,
// by the rule and by each thing that could be done all the time. No fixed choice is
// best for all of them, and the rule is near the best one of each.
func TestRuleAgainstTheBestFixedChoice(t *testing.T) {
	choices := []struct {
		name string
		d    fixed
	}{
		{"always armed", fixed{slice: Armed, gate: true}},
		{"always the gate", fixed{gate: true}},
		{"always suspended", fixed{gate: true, hold: true}},
		{"always armed and suspended", fixed{slice: Armed, gate: true, hold: true}},
		{"always beside", fixed{slice: Besides}},
		{"native", fixed{}},
	}
	best := map[string]bool{}
	for _, c := range []struct {
		trace  string
		n      int
		kernel time.Duration
	}{
		{"short", 1, 4700 * time.Microsecond},
		{"short", 1, 5 * time.Second},
		{"short", 2, 4700 * time.Microsecond},
		{"short", 8, 4700 * time.Microsecond},
		{"long", 1, 4700 * time.Microsecond},
		{"long", 1, 5 * time.Second},
		{"long", 2, 4700 * time.Microsecond},
		{"long", 8, 4700 * time.Microsecond},
		{"frequent", 1, 4700 * time.Microsecond},
		{"mixed", 1, 4700 * time.Microsecond},
		{"decode", 1, 4700 * time.Microsecond},
		{"decode", 2, 500 * time.Microsecond},
		{"training", 1, 4700 * time.Microsecond},
		{"rare", 1, 5 * time.Second},
		{"rare", 8, 4700 * time.Microsecond},
	} {
		t.Run(fmt.Sprintf("%s,%d,%v", c.trace, c.n, c.kernel), func(t *testing.T) {
			trace := readTrace(t, c.trace)
			alone := play(trace, 0, 0, &fixed{})
			least, name := time.Duration(1<<62), ""
			for _, f := range choices {
				f.d.n = c.n
				o := play(trace, c.n, c.kernel, &f.d)
				t.Logf("%-27s cost %8v  %v", f.name, o.cost(alone), o)
				if cost := o.cost(alone); cost < least {
					least, name = cost, f.name
				}
			}
			best[name] = true
			o := play(trace, c.n, c.kernel, newRule(c.n, Costs{}))
			t.Logf("%-27s cost %8v  %v", "the rule", o.cost(alone), o)
			if limit := least + least*marginPercent/100 + marginFixed; o.cost(alone) > limit {
				t.Errorf("the rule costs %v a request; %s costs %v, so %v were allowed", o.cost(alone), name, least, limit)
			}
		})
	}
	if len(best) < 2 {
		t.Errorf("one choice is the best for every trace: %v; nothing was to be chosen", best)
	}
}

// TestLimits holds the rule, in the trial, to what is promised of it.
func TestLimits(t *testing.T) {
	const kernel = 4700 * time.Microsecond
	for _, c := range []struct {
		trace  string
		n      int
		kernel time.Duration
		late   time.Duration // P99, beyond that of the foreground alone
		lost   time.Duration // by all backgrounds a request, beyond what the foreground used
	}{
		{"short", 1, kernel, 250 * time.Microsecond, 400 * time.Microsecond},
		{"short", 1, 5 * time.Second, 250 * time.Microsecond, 400 * time.Microsecond},
		{"short", 2, kernel, time.Millisecond, 400 * time.Microsecond},
		{"short", 8, kernel, time.Millisecond, 400 * time.Microsecond},
		{"long", 1, kernel, 500 * time.Microsecond, Loss},
		{"long", 1, 5 * time.Second, 500 * time.Microsecond, Loss},
		{"long", 2, kernel, time.Millisecond, Loss},
		{"long", 8, kernel, time.Millisecond, Loss},
		{"frequent", 1, kernel, 500 * time.Microsecond, Loss},
		{"rare", 1, 5 * time.Second, 500 * time.Microsecond, Loss},
	} {
		trace := readTrace(t, c.trace)
		alone := play(trace, 0, 0, &fixed{})
		native := play(trace, c.n, c.kernel, &fixed{n: c.n})
		o := play(trace, c.n, c.kernel, newRule(c.n, Costs{}))
		name := fmt.Sprintf("%s beside %d of %v", c.trace, c.n, c.kernel)
		lost := (o.span - o.used - o.progress) / time.Duration(o.requests)
		t.Logf("%s: p99 %v, alone %v; lost %v a request", name, o.p99, alone.p99, lost)
		if o.p99 > alone.p99+c.late {
			t.Errorf("%s: p99 %v, alone %v, more than %v later", name, o.p99, alone.p99, c.late)
		}
		if lost > c.lost {
			t.Errorf("%s: %v lost a request, at most %v are allowed", name, lost, c.lost)
		}
		// Natively the foreground gets less done, so that more is left.
		if c.trace != "frequent" && o.share() < 0.9*native.share() {
			t.Errorf("%s: backgrounds made %.3f of what was left, natively %.3f", name, o.share(), native.share())
		}
	}
}

// TestIdleForegroundCostsNothing has one that is there and does nothing.
func TestIdleForegroundCostsNothing(t *testing.T) {
	trace := []request{{start: 10 * time.Second, kernels: 1, kernel: time.Millisecond}}
	for n, least := range map[int]float64{1: 0.99, 4: 0.95} {
		if o := play(trace, n, 4700*time.Microsecond, newRule(n, Costs{})); o.share() < least {
			t.Errorf("%d backgrounds made %.1f %% of alone, want %.0f", n, 100*o.share(), 100*least)
		} else {
			t.Logf("%d backgrounds made %.1f %% of alone", n, 100*o.share())
		}
	}
}
