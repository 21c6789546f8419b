package compute

import (
	"cmp"
	"time"
)

// DefaultQuantum is the turn of a task that asked for no other. It is XSched's
// default. A turn is handed on by two gate words, well under 100 us, so 5 ms
// keep that under 2 % of the turn; and with three tasks a waiting one is
// served again within 10 ms, which a person does not notice.
const DefaultQuantum = 5 * time.Millisecond

// RR is round robin: the ready tasks of a device take turns in the order in
// which they began to wait, each for its quantum, and all other gates are
// closed meanwhile. Who turns idle ends its turn at once and queues at the
// tail when it is ready again, however long it slept. A turn lasts on while
// nobody waits, and then ends as soon as somebody does, if its quantum is
// used up. Priorities do not count.
func RR() Policy {
	return &policy{
		name: "RR",
		traits: Traits{
			Summary: "ready tasks take turns of one quantum each",
			Hints:   []string{"quantum"},
		},
		fresh: newFIFO(func(h turnHints) time.Duration { return cmp.Or(h.quantum, DefaultQuantum) }),
	}
}
