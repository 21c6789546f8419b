package measure

import (
	"math"
	"time"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
)

const (
	// fullBlock is the block size of kernels that fill the device.
	fullBlock = 512
	// workBeat is about the time between two beats of an xm_work: stores so rare are
	// nothing to the link, and a kernel is seen to go on soon enough.
	workBeat = 10 * time.Microsecond
	// workWords is the size of an xm_work's state.
	workWords = 4
	// endless is the length of one that is stopped.
	endless = 30 * time.Minute
)

// newWork makes a heart of ordinary computation that is that long with the GPU to
// itself.
func (g *gpu) newWork(length time.Duration) (*heart, error) {
	if g.perUS == 0 {
		if err := g.fill(); err != nil {
			return nil, err
		}
	}
	return g.workOf(uint64(g.perUS*microseconds(length)), uint32(g.perUS*microseconds(workBeat)/2))
}

func (g *gpu) workOf(iterations uint64, every uint32) (*heart, error) {
	h, err := g.emptyHeart()
	if err != nil {
		return nil, err
	}
	h.kernel, h.grid, h.block = g.work, g.full, fullBlock
	if h.state, err = g.driver.MemAlloc(4 * workWords); err == nil {
		h.args, err = cuda.NewLaunchArgs(h.at(wordBeats), h.at(wordStop), h.state, max(iterations, 1), max(every, 1), uint32(workBeat.Nanoseconds()))
	}
	if err != nil {
		h.free()
		return nil, err
	}
	return h, nil
}

// fill finds out how fast xm_work is. Nobody else should use the GPU meanwhile: who
// does makes lengths shorter than they are meant to be.
func (g *gpu) fill() error {
	resident, err := g.device.Attribute(abi.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)
	if err != nil {
		return err
	}
	g.full = g.blocks * uint32(max(resident/fullBlock, 1))
	const iterations, tries = 20_000, 5
	h, err := g.workOf(iterations, iterations)
	if err != nil {
		return err
	}
	least := time.Duration(math.MaxInt64)
	for range tries {
		begin := time.Now()
		if err := h.launch(g); err != nil {
			return err
		}
		if err := h.stream.Synchronize(); err != nil {
			return err
		}
		least = min(least, time.Since(begin))
	}
	g.perUS = iterations / microseconds(max(least, 1))
	h.close()
	return nil
}
