// Command ownqueue schedules a queue of the program's own making: here an
// "accelerator" that is a goroutine, in place of whatever a vendor's runtime
// gives. Four methods are all that an XQueue needs of it.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"xmsched/compute"
	"xmsched/preempt"
)

// accelerator works jobs off in their order.
type accelerator struct {
	jobs chan func()
}

func newAccelerator() *accelerator {
	a := &accelerator{jobs: make(chan func(), 64)}
	go func() {
		for job := range a.jobs {
			job()
		}
	}()
	return a
}

// Device: queues of one name share a device.
func (a *accelerator) Device() compute.Device { return "accelerator 0" }

// Mark puts a job at the end that tells that it has come.
func (a *accelerator) Mark() (preempt.Marker, error) {
	m := make(marker)
	a.jobs <- func() { close(m) }
	return m, nil
}

type marker chan struct{}

func (m marker) Wait() error {
	<-m
	return nil
}

// Synchronize waits for all that is queued.
func (a *accelerator) Synchronize() error {
	m, err := a.Mark()
	if err != nil {
		return err
	}
	return m.Wait()
}

func main() {
	if err := show(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "ownqueue:", err)
		os.Exit(1)
	}
}

func show(ctx context.Context) error {
	scheduler := preempt.NewScheduler(compute.HPF())
	defer scheduler.Close()
	urgentHardware, batchHardware := newAccelerator(), newAccelerator()
	defer close(urgentHardware.jobs)
	defer close(batchHardware.jobs)
	urgent, err := preempt.New(urgentHardware, preempt.Options{Scheduler: scheduler, Hints: compute.Hints{Priority: 1}})
	if err != nil {
		return err
	}
	batch, err := preempt.New(batchHardware, preempt.Options{
		Scheduler: scheduler, LaunchConfig: preempt.LaunchConfig{Threshold: 2, Batch: 1},
	})
	if err != nil {
		return err
	}
	for range 50 {
		if _, err := batch.Submit(func() error {
			batchHardware.jobs <- func() { time.Sleep(time.Millisecond) }
			return nil
		}); err != nil {
			return err
		}
	}
	c, err := urgent.Submit(func() error {
		urgentHardware.jobs <- func() { time.Sleep(20 * time.Millisecond) }
		return nil
	})
	if err != nil {
		return err
	}
	launched := batch.Info().Launched // no more of these while the urgent one has work
	if err := c.Wait(ctx); err != nil {
		return err
	}
	fmt.Printf("launched beside the urgent command: %d\n", batch.Info().Launched-launched)
	if err := batch.WaitAll(ctx); err != nil {
		return err
	}
	fmt.Printf("batch: %d commands done\n", batch.Info().Completed)
	if err := urgent.Close(ctx); err != nil {
		return err
	}
	return batch.Close(ctx)
}
