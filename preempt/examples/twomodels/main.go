// Command twomodels runs two models in one process: one answers requests, the
// other works without pause. It prints what the requests took under no
// scheduler and under each policy: HPF, where the requests go first, and WRR,
// where both get their share.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"xmsched/compute"
	"xmsched/preempt"
	"xmsched/preempt/examples/internal/gpu"
)

const (
	requests   = 30
	layers     = 8
	iterations = 100_000 // 0.3 ms on a device at 2 GHz
	pause      = 5 * time.Millisecond
)

func main() {
	ctx := context.Background()
	for _, policy := range []compute.Policy{nil, compute.HPF(), compute.WRR()} {
		if err := show(ctx, policy); err != nil {
			fmt.Fprintln(os.Stderr, "twomodels:", err)
			os.Exit(1)
		}
	}
}

func show(ctx context.Context, policy compute.Policy) error {
	device, err := gpu.Open()
	if err != nil {
		return err
	}
	defer device.Close()
	name := "none"
	var scheduler *preempt.Scheduler
	if policy != nil {
		name = policy.Name()
		scheduler = preempt.NewScheduler(policy)
		defer scheduler.Close()
	}
	serve, err := newServer(device, scheduler, compute.Hints{Priority: 10, Weight: 3, Quantum: 2 * time.Millisecond})
	if err != nil {
		return err
	}
	defer serve.close(ctx)
	work, err := newServer(device, scheduler, compute.Hints{Weight: 1, Quantum: 2 * time.Millisecond})
	if err != nil {
		return err
	}
	defer work.close(ctx)

	var worked atomic.Int64
	stop := make(chan struct{})
	var worker sync.WaitGroup
	var failed error
	worker.Go(func() {
		for failed == nil {
			select {
			case <-stop:
				return
			default:
			}
			if failed = work.run(ctx); failed == nil {
				worked.Add(1)
			}
		}
	})
	took := make([]time.Duration, 0, requests)
	begun := time.Now()
	for range requests {
		time.Sleep(pause)
		start := time.Now()
		if err := serve.run(ctx); err != nil {
			close(stop)
			return err
		}
		took = append(took, time.Since(start))
	}
	all := time.Since(begun)
	close(stop)
	worker.Wait()
	if failed != nil {
		return failed
	}
	slices.Sort(took)
	fmt.Printf("policy %-4s  requests: median %5.1f ms, worst %5.1f ms; the other model: %4.0f runs/s\n", name,
		took[len(took)/2].Seconds()*1e3, took[len(took)-1].Seconds()*1e3, float64(worked.Load())/all.Seconds())
	return nil
}

// server is a model behind an XQueue. A command is a layer: that is how long
// others may have to wait for each of the commands that are outstanding.
type server struct {
	model  *gpu.Model
	stream *preempt.Stream
	queue  *preempt.XQueue
}

func newServer(device *gpu.GPU, scheduler *preempt.Scheduler, hints compute.Hints) (*server, error) {
	s := &server{}
	var err error
	if s.model, err = device.NewModel(layers, iterations); err != nil {
		return nil, err
	}
	if s.stream, err = preempt.CUDAStream(device.Driver, s.model.Stream); err != nil {
		return nil, err
	}
	s.queue, err = preempt.New(s.stream, preempt.Options{
		Scheduler: scheduler, Hints: hints,
		LaunchConfig: preempt.LaunchConfig{Threshold: 2, Batch: 1},
	})
	return s, err
}

// run runs the model once.
func (s *server) run(ctx context.Context) error {
	var last *preempt.Command
	for range s.model.Layers {
		var err error
		if last, err = s.queue.Submit(s.model.Layer); err != nil {
			return err
		}
	}
	if err := last.Wait(ctx); err != nil {
		return err
	}
	return nil
}

func (s *server) close(ctx context.Context) {
	if err := s.queue.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "twomodels:", err)
	}
	if err := s.model.Verify(); err != nil {
		fmt.Fprintln(os.Stderr, "twomodels:", err)
		os.Exit(1)
	}
	_ = s.stream.Close()
	s.model.Close()
}
