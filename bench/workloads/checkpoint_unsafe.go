package workloads

import (
	"fmt"
	"time"
	"unsafe"

	"xmsched/bench/internal/limit"
	"xmsched/hal/cuda"
)

// Checkpoint has the driver send all memory of another process to the host, and back:
// its own way to make room. That process must do nothing with the device meanwhile.
type Checkpoint struct {
	Pid   int
	Bytes uint64 // that the process has
}

// Validate says what is wrong with the settings.
func (c Checkpoint) Validate() error {
	return limit.First(
		limit.Check("pid", c.Pid, 2, 1<<30),
		limit.Check("bytes", c.Bytes, minPiece, maxMemory),
	)
}

// checkpointArguments is what each of the four calls takes besides the process: 64
// bytes, of which only the locking has one that is used, a time limit in ms in the
// first word.
type checkpointArguments [64 / 4]uint32

// RunCheckpoint does it once and says how fast.
func RunCheckpoint(say *Speaker, c Checkpoint) error {
	if err := c.Validate(); err != nil {
		return err
	}
	driver, err := cuda.Open()
	if err != nil {
		return err
	}
	if err := driver.Init(); err != nil {
		return err
	}
	call := func(step string, first uint32) (time.Duration, error) {
		name := "cuCheckpointProcess" + step
		p, err := driver.Proc(name)
		if err != nil {
			return 0, err
		}
		args := &checkpointArguments{first}
		began := time.Now()
		if r := p.Call(uintptr(c.Pid), uintptr(unsafe.Pointer(args))); r != 0 {
			return 0, fmt.Errorf("%s: %w", name, r)
		}
		return time.Since(began), nil
	}
	const lockMS = 5000
	if _, err := call("Lock", lockMS); err != nil {
		return err
	}
	out, err := call("Checkpoint", 0)
	if err != nil {
		return err
	}
	in, err := call("Restore", 0)
	if err != nil {
		return err
	}
	if _, err := call("Unlock", 0); err != nil {
		return err
	}
	return say.Say(Event{Kind: KindResult, OutPerS: float64(c.Bytes) / out.Seconds(), InPerS: float64(c.Bytes) / in.Seconds()})
}
