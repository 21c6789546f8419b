// Package gpu is what the examples share: a device, and models that are chains
// of kernels on a stream of their own. It knows nothing of XQueues.
package gpu

import (
	"encoding/binary"
	"fmt"
	"runtime"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
)

// Threads of every kernel here.
const (
	blocks  = 4
	threads = 64
)

// GPU is the first device, its context current on the calling thread.
type GPU struct {
	Driver  *cuda.Driver
	context *cuda.Context
	spin    cuda.Function
}

// Open opens the device and locks the calling goroutine to its thread.
func Open() (*GPU, error) {
	driver, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	if err := driver.Init(); err != nil {
		return nil, err
	}
	device, err := driver.Device(0)
	if err != nil {
		return nil, err
	}
	g := &GPU{Driver: driver}
	if g.context, err = driver.PrimaryContext(device); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	if err := g.context.SetCurrent(); err != nil {
		return nil, err
	}
	module, err := driver.LoadModule(kernels.PTX())
	if err != nil {
		return nil, err
	}
	g.spin, err = module.Function("xm_spin")
	return g, err
}

// Close gives the context back.
func (g *GPU) Close() {
	_ = g.context.Release() // the program ends next
	runtime.UnlockOSThread()
}

// Model is a chain of layers, each one kernel.
type Model struct {
	gpu        *GPU
	Stream     cuda.Stream
	Layers     int
	iterations uint64
	out        abi.DevicePtr
	args       *cuda.LaunchArgs
}

// NewModel makes a model whose layers spin for so many iterations.
func (g *GPU) NewModel(layers int, iterations uint64) (*Model, error) {
	m := &Model{gpu: g, Layers: layers, iterations: iterations}
	var err error
	if m.Stream, err = g.Driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING)); err != nil {
		return nil, err
	}
	if m.out, err = g.Driver.MemAlloc(4 * blocks * threads); err != nil {
		return nil, err
	}
	m.args, err = cuda.NewLaunchArgs(m.out, iterations)
	return m, err
}

// Layer launches one layer on the model's stream.
func (m *Model) Layer() error {
	return m.gpu.Driver.Launch(m.gpu.spin, [3]uint32{blocks, 1, 1}, [3]uint32{threads, 1, 1}, 0, m.Stream, m.args)
}

// Verify compares what the last layer computed with what it must be. The stream
// is idle.
func (m *Model) Verify() error {
	got := make([]byte, 4*blocks*threads)
	if err := m.gpu.Driver.MemcpyDtoH(got, m.out); err != nil {
		return err
	}
	for i := range uint32(blocks * threads) {
		if word, want := binary.LittleEndian.Uint32(got[4*i:]), kernels.SpinResult(i, m.iterations); word != want {
			return fmt.Errorf("word %d is %#x, must be %#x", i, word, want)
		}
	}
	return nil
}

// Close gives the model's memory and stream back.
func (m *Model) Close() {
	_ = m.gpu.Driver.MemFree(m.out) // waits for the stream
	_ = m.Stream.Destroy()
}
