// Command manual schedules by itself: a batch model runs, and is suspended for
// as long as an urgent one has work. There is no scheduler; the program says
// when, and knows that the hardware is free when Suspend returns.
package main

import (
	"context"
	"fmt"
	"os"

	"xmsched/preempt"
	"xmsched/preempt/examples/internal/gpu"
)

func main() {
	if err := show(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

func show(ctx context.Context) error {
	device, err := gpu.Open()
	if err != nil {
		return err
	}
	defer device.Close()
	batch, err := device.NewModel(100, 30_000)
	if err != nil {
		return err
	}
	defer batch.Close()
	urgent, err := device.NewModel(4, 30_000)
	if err != nil {
		return err
	}
	defer urgent.Close()

	stream, err := preempt.CUDAStream(device.Driver, batch.Stream)
	if err != nil {
		return err
	}
	defer stream.Close()
	queue, err := preempt.New(stream, preempt.Options{LaunchConfig: preempt.LaunchConfig{Threshold: 4, Batch: 2}})
	if err != nil {
		return err
	}
	for range batch.Layers {
		if _, err := queue.Submit(batch.Layer); err != nil {
			return err
		}
	}
	for request := range 3 {
		// What is outstanding, at most four layers, is done when this returns.
		if err := queue.Suspend(ctx, preempt.SyncHardware); err != nil {
			return err
		}
		before := queue.Info().Completed
		for range urgent.Layers {
			if err := urgent.Layer(); err != nil {
				return err
			}
		}
		if err := urgent.Stream.Synchronize(); err != nil {
			return err
		}
		if err := urgent.Verify(); err != nil {
			return err
		}
		fmt.Printf("request %d: the batch stood still: %v\n", request, queue.Info().Completed == before)
		if err := queue.Resume(0); err != nil {
			return err
		}
	}
	if err := queue.WaitAll(ctx); err != nil {
		return err
	}
	fmt.Printf("batch: %d layers done\n", queue.Info().Completed)
	if err := queue.Close(ctx); err != nil {
		return err
	}
	return batch.Verify()
}
