package measure

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
)

const nonBlocking = uint32(abi.CU_STREAM_NON_BLOCKING)

const (
	commandLength = 200 * time.Microsecond
	outstanding   = 16 // the daemon's usual threshold
)

// Words of commands.
const (
	wordBegun = iota // number of the command that began last
	wordEnded        // and ended last
	wordGate         // 1: open
	commandWords
)

// pace is a kernel of about commandLength: iterations of xm_spin, and what they
// take with the GPU to themselves.
type pace struct {
	iterations uint64
	length     time.Duration
}

// commands keeps a stream full of kernels of one length, as a program does that
// is never idle. Each says in memory that it begins and that it ended.
type commands struct {
	*words
	gpu    *gpu
	stream cuda.Stream
	args   *cuda.LaunchArgs
	gated  bool // each waits for the gate, on the device

	admit atomic.Bool   // level 1: launching is allowed
	quit  atomic.Bool   // the launcher ends
	last  atomic.Uint32 // number of the last command launched
	idle  atomic.Bool   // the launcher has seen that it may not launch
	ended <-chan error
}

// newCommands begins to launch. With gated each command waits for the gate word
// on the device.
func newCommands(g *gpu, gated bool) (*commands, error) {
	w, err := newWords(g.driver, commandWords)
	if err != nil {
		return nil, err
	}
	c := &commands{words: w, gpu: g, gated: gated}
	if c.stream, err = g.driver.NewStream(nonBlocking); err != nil {
		w.free()
		return nil, err
	}
	if g.pace.length == 0 { // the first time, when nobody else uses the GPU
		err = c.calibrate()
	}
	if err == nil {
		c.args, err = cuda.NewLaunchArgs(uint64(0), g.pace.iterations)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	c.store(wordGate, 1)
	c.admit.Store(true)
	c.ended = g.thread(c.launch)
	return c, nil
}

// calibrate finds the iterations of xm_spin that take commandLength. A machine
// that is busy otherwise makes kernels look longer than they are, never shorter.
func (c *commands) calibrate() error {
	const first, tries = 20_000, 5
	shortest := func(iterations uint64) (time.Duration, error) {
		least := time.Duration(math.MaxInt64)
		for range tries {
			took, err := c.timed(iterations)
			if err != nil {
				return 0, err
			}
			least = min(least, took)
		}
		return max(least, 1), nil
	}
	took, err := shortest(first)
	if err != nil {
		return err
	}
	p := pace{iterations: max(1, uint64(first*float64(commandLength)/float64(took)))}
	if p.length, err = shortest(p.iterations); err != nil {
		return err
	}
	c.gpu.pace = p
	return nil
}

// timed is what one of several kernels takes.
func (c *commands) timed(iterations uint64) (time.Duration, error) {
	args, err := cuda.NewLaunchArgs(uint64(0), iterations)
	if err != nil {
		return 0, err
	}
	c.args = args
	begin := time.Now()
	for range outstanding {
		if err := c.kernel(); err != nil {
			return 0, err
		}
	}
	err = c.stream.Synchronize()
	return time.Since(begin) / outstanding, err
}

func (c *commands) kernel() error {
	return c.gpu.driver.Launch(c.gpu.spin, [3]uint32{c.gpu.blocks, 1, 1}, [3]uint32{128, 1, 1}, 0, c.stream, c.args)
}

// launch is the program: it owns the stream until quit.
func (c *commands) launch() error {
	for !c.quit.Load() {
		n := c.last.Load()
		if !c.admit.Load() {
			c.idle.Store(true)
			pause()
			continue
		}
		c.idle.Store(false)
		if n-c.load(wordEnded) >= outstanding {
			pause()
			continue
		}
		if err := c.queue(n + 1); err != nil {
			return err
		}
		c.last.Store(n + 1)
	}
	return nil
}

func (c *commands) queue(n uint32) error {
	if c.gated {
		if err := c.stream.WaitValue32(c.at(wordGate), 1, abi.CU_STREAM_WAIT_VALUE_AND); err != nil {
			return err
		}
	}
	if err := c.stream.WriteValue32(c.at(wordBegun), n, abi.CU_STREAM_WRITE_VALUE_DEFAULT); err != nil {
		return err
	}
	if err := c.kernel(); err != nil {
		return err
	}
	return c.stream.WriteValue32(c.at(wordEnded), n, abi.CU_STREAM_WRITE_VALUE_DEFAULT)
}

// running waits until commands end.
func (c *commands) running() error {
	before := c.load(wordEnded)
	if _, ok := until(again, func() bool { return c.load(wordEnded)-before > outstanding }); !ok {
		return fmt.Errorf("commands did not end within %v", again)
	}
	return nil
}

// patience is how long commands may take to run dry: all of them, beside a
// neighbour as busy.
const patience = 20*outstanding*commandLength + time.Second

// stopLaunching is level 1: no command enters, and what is outstanding runs out.
func (c *commands) stopLaunching() (stop, resume time.Duration, err error) {
	begin := time.Now()
	c.admit.Store(false)
	if _, ok := until(patience, func() bool { return c.idle.Load() }); !ok {
		return 0, 0, errors.New("the launching thread does not answer")
	}
	dry, ok := until(patience, func() bool { return c.load(wordEnded) == c.last.Load() })
	if !ok {
		return 0, 0, fmt.Errorf("outstanding commands did not end within %v", patience)
	}
	resume, err = c.resumed(func() { c.admit.Store(true) })
	return dry.Sub(begin), resume, err
}

// closeGate is level 2: no command begins, and the one that runs ends.
func (c *commands) closeGate() (stop, resume time.Duration, err error) {
	begin := time.Now()
	c.store(wordGate, 0)
	last, ok := quiet(begin, func() uint32 { return c.load(wordEnded) }, calm+2*c.gpu.pace.length, patience)
	if !ok {
		return 0, 0, fmt.Errorf("commands went on for %v behind the closed gate", patience)
	}
	resume, err = c.resumed(func() { c.store(wordGate, 1) })
	return last.Sub(begin), resume, err
}

// resumed lets commands go on, and waits until the next one begins.
func (c *commands) resumed(release func()) (time.Duration, error) {
	before := c.load(wordBegun)
	begin := time.Now()
	release()
	seen, ok := until(again, func() bool { return c.load(wordBegun) != before })
	if !ok {
		return 0, fmt.Errorf("no command began within %v of the release", again)
	}
	return seen.Sub(begin), nil
}

// end stops launching, lets everything run out, and frees what there is.
func (c *commands) end() error {
	c.store(wordGate, 1)
	c.quit.Store(true)
	err := errors.Join(<-c.ended, c.stream.Synchronize())
	c.close()
	return err
}

func (c *commands) close() {
	_ = c.stream.Destroy() // the process ends soon
	c.free()
}
