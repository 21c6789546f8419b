package workloads

import (
	"errors"
	"fmt"
	"time"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
)

// warmUp is how long the device computes before it is calibrated: an idle card
// runs at a fraction of its clock (345 of 1,980 MHz seen on an H200) and takes
// some 100 ms to come up.
const warmUp = 300 * time.Millisecond

// calibrationSpan is the length of the shorter of the two kernels compared.
const calibrationSpan = 4 * time.Millisecond

// RunCalibrate tells how many iterations the spin kernel does in a microsecond, and
// how many a kernel that fills the device.
func RunCalibrate(say *Speaker) error {
	e := Event{Kind: KindResult}
	err := withStream(func(g *gpu, s cuda.Stream) (err error) {
		if e.IterationsPerUS, err = calibrate(func(n uint64) (time.Duration, error) { return g.spinOnce(n, s) }); err != nil {
			return err
		}
		e.FullPerUS, err = g.calibrateWork(s)
		return err
	})
	if err != nil {
		return err
	}
	return say.Say(e)
}

// Iterations gives the iterations that make a kernel of us microseconds, unless
// they are given already.
func Iterations(given uint64, us float64) (n uint64, err error) {
	if given > 0 {
		return given, nil
	}
	if !(us > 0) {
		return 0, fmt.Errorf("a kernel of %v us cannot be made", us)
	}
	err = withStream(func(g *gpu, s cuda.Stream) error {
		perUS, err := calibrate(func(n uint64) (time.Duration, error) { return g.spinOnce(n, s) })
		n = max(uint64(us*perUS), 1)
		return err
	})
	return n, err
}

func withStream(f func(*gpu, cuda.Stream) error) error {
	g, err := openGPU()
	if err != nil {
		return err
	}
	defer g.close()
	stream, err := g.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING))
	if err != nil {
		return err
	}
	return f(g, stream)
}

// calibrateWork is calibrate for xm_work, with hardly a beat.
func (g *gpu) calibrateWork(s cuda.Stream) (perUS float64, err error) {
	w, err := g.newWork()
	if err != nil {
		return 0, err
	}
	words, err := g.driver.MemAlloc(8) // of the beats, and of the end
	if err != nil {
		return 0, err
	}
	if err := g.zero(words, 2); err != nil {
		return 0, err
	}
	return calibrate(func(n uint64) (time.Duration, error) {
		args, err := w.args(words, words+4, n, 1<<30, time.Second)
		if err != nil {
			return 0, err
		}
		return once(func() error { return w.launch(s, args) }, s)
	})
}

// calibrate compares two lengths, so that what a launch and a synchronisation
// cost drops out; of several tries the shortest of each length counts, since
// whatever disturbs a try makes it longer. once runs a kernel of so many iterations.
func calibrate(once func(iterations uint64) (time.Duration, error)) (perUS float64, err error) {
	iterations := uint64(1000)
	for begun := time.Now(); ; {
		took, err := once(iterations)
		if err != nil {
			return 0, err
		}
		if took < calibrationSpan {
			iterations *= 2
			continue
		}
		if time.Since(begun) >= warmUp {
			break
		}
	}
	// The least of each: more often where others kept even those from being so.
	const tries, most = 8, 64
	short, long := time.Duration(1<<62), time.Duration(1<<62)
	for i := 0; i < tries || i < most && long <= short; i++ {
		a, err := once(iterations)
		if err != nil {
			return 0, err
		}
		b, err := once(2 * iterations)
		if err != nil {
			return 0, err
		}
		short, long = min(short, a), min(long, b)
	}
	if long <= short {
		return 0, errors.New("calibrate: twice the iterations did not take longer; is something else using the device?")
	}
	return float64(iterations) / (float64((long - short).Nanoseconds()) / 1e3), nil
}

func (g *gpu) spinOnce(iterations uint64, s cuda.Stream) (time.Duration, error) {
	args, err := cuda.NewLaunchArgs(abi.DevicePtr(0), iterations)
	if err != nil {
		return 0, err
	}
	return once(func() error {
		return g.driver.Launch(g.spin, [3]uint32{g.blocks, 1, 1}, [3]uint32{blockThreads, 1, 1}, 0, s, args)
	}, s)
}

// once times a launch up to its end.
func once(launch func() error, s cuda.Stream) (time.Duration, error) {
	begun := time.Now()
	if err := launch(); err != nil {
		return 0, err
	}
	if err := s.Synchronize(); err != nil {
		return 0, err
	}
	return time.Since(begun), nil
}
