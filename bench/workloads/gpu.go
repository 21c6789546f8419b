package workloads

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
)

// blockThreads is the block size of the spin kernels: one block a
// multiprocessor keeps the whole device busy without making the result, which
// is copied back to be verified, large.
const blockThreads = 128

// poison is what a result word holds before its kernel ran. The closed form can
// be this value for one thread in 2^32, which would then not count as written;
// it is still compared.
const poison = 0xdeadbeef

// gpu is the device with the spin kernel loaded; used from the OS thread that
// opened it, and from others that joined.
type gpu struct {
	driver *cuda.Driver
	device cuda.Device
	ctx    *cuda.Context
	spin   cuda.Function
	blocks uint32
	facts  Facts
}

// openGPU makes the device's primary context current on the calling thread,
// which it locks until close.
func openGPU() (*gpu, error) {
	driver, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	if err := driver.Init(); err != nil {
		return nil, err
	}
	g := &gpu{driver: driver}
	if g.device, err = driver.Device(0); err != nil {
		return nil, err
	}
	if g.facts, err = facts(driver, g.device); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	if err := g.load(); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *gpu) load() error {
	var err error
	if g.ctx, err = g.driver.PrimaryContext(g.device); err != nil {
		return err
	}
	if err := g.ctx.SetCurrent(); err != nil {
		return err
	}
	module, err := g.driver.LoadModule(kernels.PTX())
	if err != nil {
		return err
	}
	if g.spin, err = module.Function("xm_spin"); err != nil {
		return err
	}
	n, err := g.device.Attribute(abi.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
	if err != nil {
		return err
	}
	g.blocks = uint32(max(n, 1))
	return nil
}

// close gives the context back; the driver unloads the module with it.
func (g *gpu) close() {
	if g.ctx != nil {
		_ = g.ctx.Release() // the process ends next
	}
	runtime.UnlockOSThread()
}

// join makes the context current on the calling goroutine's thread, too, which
// it locks until the returned function is called.
func (g *gpu) join() (unlock func(), err error) {
	runtime.LockOSThread()
	if err := g.ctx.SetCurrent(); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return runtime.UnlockOSThread, nil
}

// words is how many results one spin kernel writes.
func (g *gpu) words() int { return int(g.blocks) * blockThreads }

// job is a spin kernel of fixed length with its own result buffer.
type job struct {
	gpu      *gpu
	out      abi.DevicePtr
	args     *cuda.LaunchArgs
	expected []byte // shared by all jobs of that length
	got      []byte // for one comparison
}

// expected gives the closed form's words as the device writes them.
func (g *gpu) expected(iterations uint64) []byte {
	b := make([]byte, 0, 4*g.words())
	for i := range g.words() {
		b = binary.LittleEndian.AppendUint32(b, kernels.SpinResult(uint32(i), iterations))
	}
	return b
}

func (g *gpu) newJob(iterations uint64, expected []byte) (*job, error) {
	out, err := g.driver.MemAlloc(uint64(len(expected)))
	if err != nil {
		return nil, err
	}
	args, err := cuda.NewLaunchArgs(out, iterations)
	if err != nil {
		return nil, err
	}
	return &job{gpu: g, out: out, args: args, expected: expected, got: make([]byte, len(expected))}, nil
}

func (j *job) launch(s cuda.Stream) error {
	return j.gpu.driver.Launch(j.gpu.spin, [3]uint32{j.gpu.blocks, 1, 1}, [3]uint32{blockThreads, 1, 1}, 0, s, j.args)
}

// poison queues that the result words are overwritten.
func (j *job) poison(s cuda.Stream) error {
	return j.gpu.driver.MemsetD32Async(j.out, poison, uint64(j.gpu.words()), s)
}

// check copies the results over s, which must be idle or ordered behind the
// kernel, and counts the words that differ from the closed form.
func (j *job) check(s cuda.Stream) (wrong uint64, err error) {
	if err := j.gpu.driver.MemcpyDtoHAsync(j.got, j.out, s); err != nil {
		return 0, err
	}
	if err := s.Synchronize(); err != nil {
		return 0, err
	}
	if bytes.Equal(j.got, j.expected) {
		return 0, nil
	}
	for i := 0; i < len(j.got); i += 4 {
		if !bytes.Equal(j.got[i:i+4], j.expected[i:i+4]) {
			wrong++
		}
	}
	return wrong, nil
}

// facts reads what a row says of the device.
func facts(driver *cuda.Driver, device cuda.Device) (Facts, error) {
	name, err := device.Name()
	if err != nil {
		return Facts{}, err
	}
	uuid, err := device.UUID()
	if err != nil {
		return Facts{}, err
	}
	version, err := driver.Version()
	if err != nil {
		return Facts{}, err
	}
	f := Facts{Device: name, UUID: uuid.String(), Driver: fmt.Sprintf("CUDA %d.%d", version/1000, version%1000/10)}
	if shared, err := device.Attribute(abi.CU_DEVICE_ATTRIBUTE_MPS_ENABLED); err == nil {
		f.MPS = shared == 1
	}
	if n, err := device.TotalMem(); err == nil {
		f.Memory = n
	}
	f.Simulated = os.Getenv("XMSCHED_SIM_SOCKET") != "" || strings.Contains(strings.ToLower(name), "simulated")
	if kernel := kernelDriver(); kernel != "" && !f.Simulated {
		f.Driver = kernel + ", " + f.Driver
	}
	return f, nil
}

// kernelDriver is the version of the kernel's driver, where it says one.
func kernelDriver() string {
	b, err := os.ReadFile("/sys/module/nvidia/version")
	if err == nil {
		return strings.TrimSpace(string(b))
	}
	b, err = os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release …"
	for _, field := range strings.Fields(string(b)) {
		if strings.Count(field, ".") >= 1 && strings.Trim(field, "0123456789.") == "" {
			return field
		}
	}
	return ""
}

// RunFacts tells which device a program would use, without making a context
// unless withContext asks for one.
func RunFacts(say *Speaker, withContext bool) error {
	if withContext {
		g, err := openGPU()
		if err != nil {
			return err
		}
		defer g.close()
		return say.Say(Event{Kind: KindReady, Facts: &g.facts})
	}
	driver, err := cuda.Open()
	if err != nil {
		return err
	}
	if err := driver.Init(); err != nil {
		return err
	}
	device, err := driver.Device(0)
	if err != nil {
		return err
	}
	f, err := facts(driver, device)
	if err != nil {
		return err
	}
	return say.Say(Event{Kind: KindReady, Facts: &f})
}

// zero clears words, and returns when they are: kernels of streams that do not wait for the
// legacy stream would not wait for it.
func (g *gpu) zero(at abi.DevicePtr, words uint64) error {
	return errors.Join(g.driver.MemsetD32(at, 0, words), g.ctx.Synchronize())
}
