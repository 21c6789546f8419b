package workloads

import (
	"time"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
)

// fullBlock is the block size of kernels that fill the device.
const fullBlock = 512

// fullWork is xm_work with all the threads that the device holds at once.
type fullWork struct {
	gpu    *gpu
	kernel cuda.Function
	grid   uint32
	state  abi.DevicePtr // of all the kernels: see xm_work
}

func (g *gpu) newWork() (fullWork, error) {
	w := fullWork{gpu: g}
	module, err := g.driver.LoadModule(kernels.ProbePTX())
	if err != nil {
		return w, err
	}
	if w.kernel, err = module.Function("xm_work"); err != nil {
		return w, err
	}
	resident, err := g.device.Attribute(abi.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)
	if err != nil {
		return w, err
	}
	w.grid = g.blocks * uint32(max(resident/fullBlock, 1))
	const stateWords = 4
	if w.state, err = g.driver.MemAlloc(4 * stateWords); err != nil {
		return w, err
	}
	return w, g.zero(w.state, stateWords)
}

// args of a launch: where it beats, where it is told to end, its iterations, those
// between two looks at the clock, and the time between two beats.
func (w fullWork) args(beats, end abi.DevicePtr, iterations uint64, every uint32, beat time.Duration) (*cuda.LaunchArgs, error) {
	return cuda.NewLaunchArgs(beats, end, w.state, iterations, every, uint32(beat.Nanoseconds()))
}

func (w fullWork) launch(s cuda.Stream, args *cuda.LaunchArgs) error {
	return w.gpu.driver.Launch(w.kernel, [3]uint32{w.grid, 1, 1}, [3]uint32{fullBlock, 1, 1}, 0, s, args)
}
