// Command hints shows hints: three queues of one process under a scheduler of
// its own. Their priorities say in which order they run, whatever the order in
// which they were filled.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"xmsched/compute"
	"xmsched/preempt"
	"xmsched/preempt/examples/internal/gpu"
)

func main() {
	if err := show(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "hints:", err)
		os.Exit(1)
	}
}

// served is a model behind an XQueue.
type served struct {
	name   string
	model  *gpu.Model
	stream *preempt.Stream
	queue  *preempt.XQueue
}

func show(ctx context.Context) (err error) {
	device, err := gpu.Open()
	if err != nil {
		return err
	}
	defer device.Close()
	scheduler := preempt.NewScheduler(compute.HPF())
	defer scheduler.Close()

	order := make(chan string, 6)
	var all []*served
	for _, name := range []string{"low", "high", "middle"} {
		s, err := serve(device, scheduler, name)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.close(ctx)) }()
		all = append(all, s)
		// Nobody runs before all are filled, so that the order is the policy's.
		if err := s.queue.Suspend(ctx, 0); err != nil {
			return err
		}
		for layer := range s.model.Layers {
			if _, err := s.queue.Submit(func() error {
				order <- fmt.Sprint(name, " ", layer)
				return s.model.Layer()
			}); err != nil {
				return err
			}
		}
	}
	// Hints can be changed at any time, and take effect at once.
	for i, priority := range []int{-10, 10, 0} {
		if err := all[i].queue.SetHints(compute.Hints{Priority: priority}); err != nil {
			return err
		}
	}
	// The program's own suspension is lifted; the scheduler's word stands.
	for _, s := range all {
		if err := s.queue.Resume(0); err != nil {
			return err
		}
	}
	for _, s := range all {
		if err := s.queue.WaitAll(ctx); err != nil {
			return err
		}
	}
	close(order)
	for entry := range order {
		fmt.Println(entry)
	}
	return nil
}

func serve(device *gpu.GPU, scheduler *preempt.Scheduler, name string) (*served, error) {
	s := &served{name: name}
	var err error
	if s.model, err = device.NewModel(2, 100_000); err != nil {
		return nil, err
	}
	if s.stream, err = preempt.CUDAStream(device.Driver, s.model.Stream); err != nil {
		return nil, err
	}
	// One command at a time: a queue stops behind the present one.
	s.queue, err = preempt.New(s.stream, preempt.Options{
		Scheduler: scheduler, LaunchConfig: preempt.LaunchConfig{Threshold: 1},
	})
	return s, err
}

func (s *served) close(ctx context.Context) error {
	defer s.model.Close()
	if err := s.queue.Close(ctx); err != nil {
		return err
	}
	return errors.Join(s.model.Verify(), s.stream.Close())
}
