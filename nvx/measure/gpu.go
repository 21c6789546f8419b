package measure

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
	"xmsched/nvx/sheet"
)

// simMark is exported by the simulated driver alone.
const simMark = "xm_sim_ioctl"

// gpu is the device with its primary context and our kernels; used from the OS
// thread that opened it, and from others that joined.
type gpu struct {
	driver    *cuda.Driver
	device    cuda.Device
	uuid      cuda.UUID
	facts     sheet.Device
	simulated bool
	ctx       *cuda.Context
	blocks    uint32 // a block a multiprocessor
	empty     cuda.Function
	spin      cuda.Function
	beat      cuda.Function
	work      cuda.Function
	count     cuda.Function
	full      uint32  // blocks of fullBlock threads that the device holds at once
	perUS     float64 // iterations of xm_work in a microsecond, so filled
	pace      pace    // of commands; found when it is first needed
}

// find looks for a device without making anything on it.
func find(uuid string) (*gpu, error) {
	all, err := findAll()
	if err != nil {
		return nil, err
	}
	for _, g := range all {
		if g.facts.UUID == uuid {
			return g, nil
		}
	}
	return nil, fmt.Errorf("the driver shows no device %s to this process", uuid)
}

func findAll() ([]*gpu, error) {
	driver, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	if err := driver.Init(); err != nil {
		return nil, err
	}
	n, err := driver.DeviceCount()
	if err != nil {
		return nil, err
	}
	_, unsimulated := driver.Proc(simMark)
	var all []*gpu
	for i := range n {
		g := &gpu{driver: driver, simulated: unsimulated == nil}
		if g.device, err = driver.Device(i); err != nil {
			return nil, err
		}
		if err := g.describe(); err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
}

func (g *gpu) describe() error {
	var err error
	if g.uuid, err = g.device.UUID(); err != nil {
		return err
	}
	g.facts.UUID = g.uuid.String()
	if g.facts.Name, err = g.device.Name(); err != nil {
		return err
	}
	if g.facts.MemoryBytes, err = g.device.TotalMem(); err != nil {
		return err
	}
	var major, minor, preemption int
	for a, v := range map[abi.DeviceAttribute]*int{
		abi.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:     &major,
		abi.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:     &minor,
		abi.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:         &g.facts.Multiprocessors,
		abi.CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:           &g.facts.CopyEngines,
		abi.CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED: &preemption,
	} {
		if *v, err = g.device.Attribute(a); err != nil {
			return err
		}
	}
	g.facts.ComputeCapability = fmt.Sprintf("%d.%d", major, minor)
	g.facts.ComputePreemption = preemption != 0
	g.blocks = uint32(max(g.facts.Multiprocessors, 1))
	return nil
}

// software describes the driver.
func (g *gpu) software() (sheet.Driver, error) {
	v, err := g.driver.Version()
	if err != nil {
		return sheet.Driver{}, err
	}
	d := sheet.Driver{CUDA: fmt.Sprintf("%d.%d", v/1000, v%1000/10)}
	if g.simulated {
		d.Version = sheet.SimulatedDriver
		return d, nil
	}
	d.Version, d.Module, err = sheet.InstalledDriver()
	return d, err
}

// open makes the primary context current on the calling thread, which stays
// locked, and loads the kernels.
func (g *gpu) open() error {
	runtime.LockOSThread()
	var err error
	if g.ctx, err = g.driver.PrimaryContext(g.device); err != nil {
		return err
	}
	if err := g.ctx.SetCurrent(); err != nil {
		return err
	}
	plain, err := g.driver.LoadModule(kernels.PTX())
	if err != nil {
		return err
	}
	probe, err := g.driver.LoadModule(kernels.ProbePTX())
	if err != nil {
		return err
	}
	for _, k := range []struct {
		module *cuda.Module
		name   string
		f      *cuda.Function
	}{
		{plain, "xm_empty", &g.empty}, {plain, "xm_spin", &g.spin},
		{probe, "xm_heartbeat", &g.beat}, {probe, "xm_work", &g.work}, {probe, "xm_count", &g.count},
	} {
		if *k.f, err = k.module.Function(k.name); err != nil {
			return err
		}
	}
	return nil
}

// thread runs f on a thread of its own with the context current, and gives its
// result.
func (g *gpu) thread(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { // ends with f
		runtime.LockOSThread() // never unlocked: the thread goes with the goroutine
		err := g.ctx.SetCurrent()
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return done
}

// Words of a heart.
const (
	wordBeats = iota
	wordStop
	heartWords
)

// beatLimit ends a heartbeat that nobody stops; beats are a microsecond long.
const beatLimit = uint64(30 * time.Minute / time.Microsecond)

// firstBeat is how long a kernel may take to begin, loading included.
const firstBeat = 5 * time.Second

// heart is a kernel without end that shows whether it runs. The probe's is an
// xm_heartbeat, which beats by the clock and listens all the while. Figures are
// taken of an xm_work (newWork): what other programs run, computation with all the
// threads that the device holds; a context that talks to the host all the time is
// dearer to stop.
type heart struct {
	*words
	kernel      cuda.Function
	grid, block uint32
	stream      cuda.Stream
	args        *cuda.LaunchArgs
	state       abi.DevicePtr // of an xm_work
}

func (g *gpu) newHeart() (*heart, error) {
	h, err := g.emptyHeart()
	if err != nil {
		return nil, err
	}
	h.kernel, h.grid, h.block = g.beat, g.blocks, 128
	if h.args, err = cuda.NewLaunchArgs(h.at(wordBeats), h.at(wordStop), beatLimit); err != nil {
		h.free()
		return nil, err
	}
	return h, nil
}

func (g *gpu) emptyHeart() (*heart, error) {
	w, err := newWords(g.driver, heartWords)
	if err != nil {
		return nil, err
	}
	h := &heart{words: w}
	if h.stream, err = g.driver.NewStream(nonBlocking); err != nil {
		w.free()
		return nil, err
	}
	return h, nil
}

func (h *heart) beats() uint32 { return h.load(wordBeats) }

// launch queues the kernel.
func (h *heart) launch(g *gpu) error {
	h.store(wordBeats, 0)
	h.store(wordStop, 0)
	if h.state != 0 {
		if err := g.driver.MemsetD32Async(h.state, 0, workWords, h.stream); err != nil {
			return err
		}
	}
	return g.driver.Launch(h.kernel, [3]uint32{h.grid, 1, 1}, [3]uint32{h.block, 1, 1}, 0, h.stream, h.args)
}

// start launches it and waits until it beats.
func (h *heart) start(g *gpu) error {
	if err := h.launch(g); err != nil {
		return err
	}
	if !h.beating(firstBeat) {
		return fmt.Errorf("a kernel did not begin within %v", firstBeat)
	}
	return nil
}

// beating waits for the next beat.
func (h *heart) beating(limit time.Duration) bool {
	before := h.beats()
	_, ok := until(limit, func() bool { return h.beats() != before })
	return ok
}

// settle passes the time in which a store made before may still arrive.
const settle = 50 * time.Microsecond

// still says whether there is no beat for a while.
func (h *heart) still(d time.Duration) bool {
	time.Sleep(settle)
	return !h.beating(d)
}

// end stops the kernel and waits for it. It must not be held.
func (h *heart) end() error {
	h.store(wordStop, 1)
	return h.stream.Synchronize()
}

// close frees what an ended heart has.
func (h *heart) close() {
	_ = h.stream.Destroy() // the process ends soon
	h.free()
}

var errNotStill = errors.New("a kernel ran on while its channels were suspended")
