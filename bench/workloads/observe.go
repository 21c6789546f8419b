package workloads

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/bench/internal/limit"
	"xmsched/preempt/board"
)

// Observe is the program that times a chain from outside: it reads, without
// pause and with one clock, the gate word on the chain's board and the words
// that its kernels write. It takes no part: neither the chain nor the daemon nor
// the device waits for it.
type Observe struct {
	Pid     int    // of the chain
	WordsFD int    // the chain's descriptor of its words
	UUID    string // the device
}

// Validate says what is wrong with the settings.
func (o Observe) Validate() error {
	if _, err := parseUUID(o.UUID); err != nil {
		return err
	}
	return limit.First(
		limit.Check("pid", o.Pid, 2, 1<<30),
		limit.Check("words-fd", o.WordsFD, 3, 1<<20),
	)
}

// RunObserve observes until it is told to end.
func RunObserve(st Steering, say *Speaker, o Observe) error {
	if err := o.Validate(); err != nil {
		return err
	}
	words, err := openWords(o.Pid, o.WordsFD)
	if err != nil {
		return err
	}
	defer words.close()
	b, err := boardOf(o.Pid)
	if err != nil {
		return err
	}
	defer b.Close()
	device, _, err := sectionOf(b, o.UUID)
	if err != nil {
		return err
	}
	if err := say.Say(Event{Kind: KindReady}); err != nil {
		return err
	}
	if !st.wait() {
		return nil
	}
	stops, err := observe(st, device, words)
	if err != nil {
		return err
	}
	return say.Say(Event{Kind: KindResult, Stops: stops})
}

// boardOf adopts the board of another process of the same user, which has it
// open.
func boardOf(pid int) (*board.Board, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("find the board of process %d: %w", pid, err)
	}
	for _, e := range entries {
		path := dir + "/" + e.Name()
		if target, err := os.Readlink(path); err != nil || !strings.HasPrefix(target, "/memfd:") {
			continue
		}
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if b, err := board.Open(fd); err == nil {
			return b, nil
		}
	}
	return nil, fmt.Errorf("process %d has no board: does it run under xrun?", pid)
}

func sectionOf(b *board.Board, uuid string) (d board.Device, section int, err error) {
	want, err := parseUUID(uuid)
	if err != nil {
		return board.Device{}, 0, err
	}
	for i := range board.Devices {
		if b.Present(i) && b.Identity(i).UUID == want {
			return b.Device(i), i, nil
		}
	}
	return board.Device{}, 0, fmt.Errorf("the board has no section for %s", uuid)
}

// observe looks until the end of the run. A look takes some 100 ns, unless the
// kernel takes the core away; the longest pause is in the result.
//
// When a kernel is seen to have ended, the gate is read again: it is taken to
// have opened, or closed, before. Between two looks a kernel ends after an
// opening because of it, and a stop is never made shorter.
func observe(st Steering, device board.Device, words *words) (*Stops, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	next, want := words.launched(), words.result()
	for back := 0; back < maxInFlight && next > 0 && words.load(next-1) == 0; back++ {
		next-- // it is still on its way
	}
	log := newStopLog(device.Gate().Open())
	began, last, gap := time.Now(), int64(0), int64(0)
	running := int64(0) // the last look that found a kernel not ended
	for n := 0; n&0xfff != 0 || st.Context.Err() == nil; n++ {
		at := time.Since(began).Nanoseconds() + 1
		gap, last = max(gap, at-last), at
		open := device.Gate().Open()
		v := words.load(next)
		if v != 0 {
			open = device.Gate().Open()
		}
		if open != log.open {
			log.gate(open, at)
		}
		if n&0xfff == 0 && words.launched() > next+wordSlots/2 {
			return nil, errors.New("kernels end faster than they are looked at: is the machine short of cores?")
		}
		if v == 0 {
			running = at
			continue
		}
		if v != want {
			return nil, fmt.Errorf("kernel %d wrote %#x, want %#x", next, v, want)
		}
		log.ended(at, running)
		next++
	}
	stops := log.result()
	stops.GapUS = float64(gap) / 1e3
	return stops, nil
}
