package experiment

import (
	"context"
	"strconv"

	"xmsched/bench/workloads"
	"xmsched/memory"
)

// What goes on beside suspensions that are measured: others pin host memory, which
// takes a lock of the driver that a suspension needs too.

// pinning starts the program that pins, if any; the returned function ends it.
func (l *Lab) pinning(ctx context.Context, bytes uint64) (func(), error) {
	if bytes == 0 {
		return func() {}, nil
	}
	c, err := l.startWork("pin", nil, "pin", "--bytes", strconv.FormatUint(bytes, 10), "--chunk", strconv.Itoa(pinChunk))
	if err != nil {
		return nil, err
	}
	if _, err := c.Await(ctx, workloads.KindReady); err != nil {
		c.Kill()
		return nil, err
	}
	if err := c.Begin(); err != nil {
		c.Kill()
		return nil, err
	}
	return c.Kill, nil
}

// growBudget is what programs have on the device while the pool of host memory grows.
const growBudget = 64 * memory.MiB

// startGrower starts a program that allocates far more than the budget, so that the
// pool grows while requests are measured. Nobody waits for it.
func (l *Lab) startGrower(bytes uint64) (*Child, error) {
	const piece = uint64(pinChunk)
	t := workloads.Touch{Pattern: workloads.PatternRead, Bytes: max(bytes/piece, 1) * piece, Piece: piece, Phase: 1, Rounds: 1}
	return patterned{settings: t}.start(l, 0, &Under{Name: "grower", Level: 3})
}
