package preempt_test

import (
	"context"
	"fmt"

	"xmsched/compute"
	"xmsched/preempt"
)

// printer is an accelerator that has done everything at once; see
// examples/ownqueue for one that takes its time, and [preempt.CUDAStream].
type printer struct{}

func (printer) Device() compute.Device        { return "printer" }
func (printer) Mark() (preempt.Marker, error) { return printer{}, nil }
func (printer) Wait() error                   { return nil }
func (printer) Synchronize() error            { return nil }

// Two queues under a policy of this process.
func ExampleScheduler() {
	ctx := context.Background()
	scheduler := preempt.NewScheduler(compute.HPF())
	defer scheduler.Close()

	urgent, err := preempt.New(printer{}, preempt.Options{Scheduler: scheduler, Hints: compute.Hints{Priority: 10}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer urgent.Close(ctx)
	c, err := urgent.Submit(func() error {
		fmt.Println("launched on a goroutine of the queue")
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ended with", c.Wait(ctx))
	// Output:
	// launched on a goroutine of the queue
	// ended with <nil>
}

// The program itself says when a queue runs.
func ExampleXQueue_Suspend() {
	ctx := context.Background()
	queue, err := preempt.New(printer{}, preempt.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer queue.Close(ctx)
	// When this returns nothing of the queue is in the hardware.
	if err := queue.Suspend(ctx, preempt.SyncHardware); err != nil {
		fmt.Println(err)
		return
	}
	c, err := queue.Submit(func() error {
		fmt.Println("launched")
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("resumed")
	if err := queue.Resume(0); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Wait(ctx))
	// Output:
	// resumed
	// launched
	// <nil>
}

// The caller launches on its own thread, when the queue lets it.
func ExampleXQueue_Begin() {
	ctx := context.Background()
	queue, err := preempt.New(printer{}, preempt.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer queue.Close(ctx)
	c, err := queue.Begin(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("launched here")
	c.End(nil)
	fmt.Println(c.Wait(ctx))
	// Output:
	// launched here
	// <nil>
}
