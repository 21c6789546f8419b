package compute

import "time"

// LAX lets a task wait as long as it can afford: with a laxity hint its priority
// is low when it turns ready and high when the laxity has passed, so that it
// leaves the device to others as long as it will still be done in time. Without a
// length of time, but with priorities, it has the high one whenever it has work.
// Tasks without either have their priority. Otherwise it is HPF.
//
// The name and the hint are XSched's (OSDI 2025, section 6.3); least laxity
// first is Dertouzos and Mok's (1989).
func LAX() Policy {
	return &policy{
		name: "LAX",
		traits: Traits{
			Summary: "as HPF, with a priority that rises when a task has used up its laxity",
			Hints:   []string{"laxity", "priority", "min-share"}, Strict: true,
		},
		fresh: func() Decider { return newClasses(byLaxity) },
	}
}

func byLaxity(s *TaskState, now time.Duration) rank {
	l := s.Hints.Laxity
	if l == (Laxity{}) {
		return byPriority(s, now)
	}
	if l.Low == 0 && l.High == 0 {
		l.High = max(s.Hints.Priority, 1)
	}
	r := rank{low: l.Low, now: l.Low, peak: l.High}
	switch until := s.ReadySince + l.After; {
	case !s.Ready:
	case now < until:
		r.until = until
	default:
		r.now = l.High
	}
	return r
}
