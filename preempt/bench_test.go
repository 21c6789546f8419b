package preempt

import (
	"context"
	"testing"

	"xmsched/compute"
)

// instant is a hardware queue that has done everything already.
type instant struct{}

func (instant) Device() compute.Device { return "instant" }
func (instant) Mark() (Marker, error)  { return passed{}, nil }
func (instant) Synchronize() error     { return nil }

type passed struct{}

func (passed) Wait() error { return nil }

func nothing() error { return nil }

// The way of one command through the buffer, with the handing over to the
// launcher; what the caller pays is less where there are more cores.
func BenchmarkSubmit(b *testing.B) {
	q := benchQueue(b, Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := q.Submit(nothing); err != nil {
			b.Fatal(err)
		}
	}
	if err := q.WaitAll(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// What the caller alone pays: the queue is suspended, so that nothing else
// runs.
func BenchmarkSubmitSuspended(b *testing.B) {
	q := benchQueue(b, Options{})
	if err := q.Suspend(context.Background(), 0); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := q.Submit(nothing); err != nil {
			b.Fatal(err)
		}
	}
	if err := q.Resume(DropCommands); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkDo(b *testing.B) {
	s := NewScheduler(compute.HPF())
	defer s.Close()
	for name, o := range map[string]Options{"alone": {}, "scheduled": {Scheduler: s}} {
		b.Run(name, func(b *testing.B) {
			q := benchQueue(b, o)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := q.Do(context.Background(), nothing); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchQueue(b *testing.B, o Options) *XQueue {
	b.Helper()
	q, err := New(instant{}, o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := q.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return q
}
