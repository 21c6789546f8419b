package mover

import "time"

// maxBreaks contexts in a row that break, or cannot be made after one that did, are the
// last: where it is not the context but the process that is broken (on an H200 an access
// to what is not mapped ends all contexts of a process, and none can be made any more)
// further ones are no use.
const maxBreaks = 6

// breaks has the next context be made some time after one broke, each time four times as
// long: with a first pause of 0.1 s all of them are over after 34 s.
type breaks struct {
	first time.Duration
	n     int           // in a row
	until time.Duration // when the next may be made
}

func (b *breaks) broke(now time.Duration) {
	b.until = now + b.first<<(2*b.n)
	b.n++
}

// worked says that memory was moved by the copies of a context.
func (b *breaks) worked() { b.n, b.until = 0, 0 }

// rest is for how long no context is to be made: 0, or never.
func (b *breaks) rest(now time.Duration) time.Duration {
	switch {
	case b.n >= maxBreaks:
		return never
	case b.n == 0:
		return 0
	}
	return max(0, b.until-now)
}

// mend ends a context that is broken. The next one is made when memory is to move again, and
// it is time for that. Precondition: nothing of a move is under way that has not failed.
func (s *section) mend() {
	c := s.copier
	if !c.broken() {
		return
	}
	s.copier, s.summer = nil, nil
	if err := c.drop(); err != nil {
		s.trouble = err
	}
	s.breaks.broke(s.now())
}
