package agent

import (
	"errors"
	"slices"
	"testing"
	"time"

	"xmsched/memory"
)

// fakeLine gives out the descriptors that it was given, until it breaks.
type fakeLine struct {
	kept           []int
	broken, closed bool
}

func (l *fakeLine) Give(_ string, _ uint64, fds []int) (int, error) {
	if l.broken || l.closed {
		return 0, errors.New("broken")
	}
	l.kept = append(l.kept, fds...)
	return len(fds), nil
}

func (l *fakeLine) Take(_ string, _ uint64, most int) ([]int, error) {
	if l.broken || l.closed {
		return nil, errors.New("broken")
	}
	n := min(most, len(l.kept))
	taken := l.kept[:n:n]
	l.kept = l.kept[n:]
	return taken, nil
}

func (l *fakeLine) Close() error {
	l.closed = true
	return nil
}

// TestThePoolIsOpenedAgain: a connection is opened when it is needed first; one that breaks
// is closed, and another opened after a while and not before, also where that is refused.
func TestThePoolIsOpenedAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	var lines []*fakeLine
	refuses, tries := false, 0
	p := &slotPool{now: func() time.Time { return now }, open: func() (slotLine, error) {
		if tries++; refuses {
			return nil, errors.New("refused")
		}
		l := &fakeLine{}
		lines = append(lines, l)
		return l, nil
	}}
	s := slotsOf{p, "GPU-1"}
	give := func() error { return s.Give(32*memory.MiB, []int{7, 8}) }
	if tries != 0 || give() != nil || tries != 1 {
		t.Fatalf("%d connections for the first use", tries)
	}
	if fds, err := s.Take(32*memory.MiB, 1); err != nil || !slices.Equal(fds, []int{7}) {
		t.Errorf("%v, %v", fds, err)
	}
	lines[0].broken = true
	if give() == nil || !lines[0].closed || give() == nil || tries != 1 {
		t.Errorf("a broken connection: closed %t, %d opened", lines[0].closed, tries)
	}
	now, refuses = now.Add(reopenAfter), true
	for range 2 {
		if give() == nil || tries != 2 {
			t.Errorf("%d tries, of which the second is refused", tries)
		}
	}
	now, refuses = now.Add(reopenAfter), false
	if give() != nil || len(lines) != 2 || len(lines[1].kept) != 2 {
		t.Errorf("after a while: %d connections", len(lines))
	}
	p.close()
	if !lines[1].closed {
		t.Error("the last one is still open")
	}
}
