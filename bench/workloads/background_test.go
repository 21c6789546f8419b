package workloads

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// placesOf are places whose words the test writes as kernels would.
func placesOf(n int) []*place {
	var all []*place
	for range n {
		all = append(all, newPlaceOn(make([]uint32, 3), []uint32{7, poison, 9}))
	}
	return all
}

func (p *place) write(words ...uint32) {
	for i, w := range words {
		atomic.StoreUint32(&p.out[i], w)
	}
}

// A launcher that stands behind a closed gate launches no more and hands nothing
// over; the ends of what it had launched are noted when they come all the same.
func TestEndsAreNotedWhileTheLauncherWaits(t *testing.T) {
	all := placesOf(3)
	l := &load{places: all, group: 4}
	launched, free := make(chan *place, len(all)), make(chan *place, len(all))
	observed := make(chan struct{})
	go func() {
		defer close(observed)
		l.observe(launched, free)
	}()
	for _, p := range all { // and then the gate closes
		launched <- p
	}
	const apart = 20 * time.Millisecond
	var wrote []int64
	for i, p := range all {
		time.Sleep(apart)
		p.write(7, poison) // but for one word
		if i == 0 {
			time.Sleep(apart)
			if n := l.done.Load(); n != 0 {
				t.Errorf("%d kernels ended before the first one did", n)
			}
		}
		wrote = append(wrote, MonotonicNS())
		p.write(7, poison, 9)
		select {
		case <-free:
		case <-time.After(time.Minute):
			t.Fatal("an end was not noted while the launcher waits")
		}
	}
	close(launched)
	<-observed
	if len(l.ended) != 3 || l.verified != 9 || l.wrong != 0 || l.done.Load() != 12 {
		t.Fatalf("%d ends, %d words verified, %d wrong", len(l.ended), l.verified, l.wrong)
	}
	for i, at := range l.ended {
		if at < wrote[i] || i < 2 && at > wrote[i+1] {
			t.Errorf("end %d was noted at %d; the kernels ended at %v", i, at, wrote)
		}
	}
}

// What an ended stream has not written is wrong, and nobody waits for it.
func TestUnwrittenWordsAreWrong(t *testing.T) {
	p := newPlaceOn(make([]uint32, 3), []uint32{7, poison, 9})
	l := &load{places: []*place{p}, group: 1}
	l.over.Store(true)
	launched, free := make(chan *place, 1), make(chan *place, 1)
	p.write(7, poison+1)
	launched <- p
	close(launched)
	l.observe(launched, free)
	if l.verified != 3 || l.wrong != 2 {
		t.Errorf("%d of %d words are wrong, want 2 of 3", l.wrong, l.verified)
	}
	if p.written() || slices.Contains(p.expected, p.out[0]) {
		t.Error("a place that is free again holds results")
	}
}
