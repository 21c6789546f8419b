package workloads

import (
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
	over   abi.DevicePtr // what ends them all, once it is told
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
	if w.over, err = g.driver.MemAlloc(4); err != nil {
		return w, err
	}
	return w, g.driver.MemsetD32(w.over, 0, 1)
}

// args of a launch: where it shows how far it is, where it is told to end, its
// iterations, those between two beats, and the count before the first beat.
func (w fullWork) args(beats, end abi.DevicePtr, iterations uint64, every, base uint32) (*cuda.LaunchArgs, error) {
	return cuda.NewLaunchArgs(beats, end, w.over, iterations, every, base)
}

func (w fullWork) launch(s cuda.Stream, args *cuda.LaunchArgs) error {
	return w.gpu.driver.Launch(w.kernel, [3]uint32{w.grid, 1, 1}, [3]uint32{fullBlock, 1, 1}, 0, s, args)
}
