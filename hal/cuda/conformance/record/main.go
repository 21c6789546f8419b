// Command record runs the conformance suite on this machine's CUDA driver and
// writes the transcript:
//
//	CGO_ENABLED=0 go build -o bin/conformance ./hal/cuda/conformance/record
//	bin/conformance -out h200.txt        (on the machine with the device)
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/conformance"
)

func main() {
	out := flag.String("out", "", "file for the transcript; empty: standard output")
	only := flag.String("only", "", "comma-separated cases to run; empty: all of "+strings.Join(conformance.Cases(), ", "))
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, only string) error {
	driver, err := cuda.Open()
	if err != nil {
		return err
	}
	var r conformance.Runner
	if only != "" {
		r.Only = strings.Split(only, ",")
	}
	var text strings.Builder
	failure := r.Run(ctx, &text, driver)
	if conformance.Child() {
		return failure
	}
	if out == "" {
		fmt.Print(text.String())
		return failure
	}
	return errors.Join(failure, os.WriteFile(out, []byte(text.String()), 0o644))
}
