// Command transparent is a plain CUDA program: nothing in it knows of a
// scheduler. Run it under one:
//
//	xserver &
//	xrun --priority 10 -- transparent   # goes first
//	xrun -- transparent                 # runs while the other has nothing to do
//
// and steer it while it runs with `xcli hint --task N --priority P`.
package main

import (
	"fmt"
	"os"

	"xmsched/preempt/examples/internal/gpu"
)

func main() {
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "transparent:", err)
		os.Exit(1)
	}
}

func work() error {
	device, err := gpu.Open()
	if err != nil {
		return err
	}
	defer device.Close()
	model, err := device.NewModel(100, 30_000)
	if err != nil {
		return err
	}
	defer model.Close()
	for range model.Layers {
		if err := model.Layer(); err != nil {
			return err
		}
	}
	if err := model.Stream.Synchronize(); err != nil {
		return err
	}
	if err := model.Verify(); err != nil {
		return err
	}
	fmt.Println("all layers done, and right")
	return nil
}
