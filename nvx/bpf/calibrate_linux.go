package bpf

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// Calls in one timing, and how many of them; the median counts. Before them the
// kernel gets some hits to exchange a probe site's instruction.
const (
	timedCalls = 40
	timings    = 9
	warmCalls  = 20
)

const stubSpace = 64 // bytes of a stub's code, at most

// calibrate measures what a hit costs: on functions of our own that begin like
// those that are hooked, in a file of our own, hooked for this process alone.
func calibrate(oneByOne bool) (cost Cost, err error) {
	s, err := newStubs()
	if err != nil {
		return cost, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	k, err := load(uint32(os.Getpid()), oneByOne)
	if err != nil {
		return cost, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for o, code := range here.stubs {
		if code == nil {
			continue
		}
		if cost.Entry[o], cost.Return[o], err = s.measure(k, o); err != nil {
			return cost, fmt.Errorf("%v: %w", o, err)
		}
	}
	return cost, nil
}

// stubAt is where the function is in the file. Not at its beginning: the library
// takes place 0 for none.
func stubAt(o opening) uint64 { return (uint64(o) + 1) * stubSpace }

// stubs is a file with the functions, and the same in memory.
type stubs struct {
	file *os.File
	code []byte
}

func newStubs() (*stubs, error) {
	fd, err := unix.MemfdCreate("xmsched-observe", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make file of functions: %w", err)
	}
	s := &stubs{file: os.NewFile(uintptr(fd), "xmsched-observe")}
	all := make([]byte, os.Getpagesize())
	for o, code := range here.stubs {
		copy(all[stubAt(o):], code)
	}
	if _, err := s.file.Write(all); err != nil {
		return nil, errors.Join(fmt.Errorf("make file of functions: %w", err), s.file.Close())
	}
	if s.code, err = unix.Mmap(fd, 0, len(all), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE); err != nil {
		return nil, errors.Join(fmt.Errorf("map functions: %w", err), s.file.Close())
	}
	return s, nil
}

func (s *stubs) Close() error { return errors.Join(unix.Munmap(s.code), s.file.Close()) }

// measure is what an entry and a return cost more than the call itself.
func (s *stubs) measure(k *kernel, o opening) (entry, back time.Duration, err error) {
	const only = 0 // row: a command and a wait in one, so that both programs do all they can
	h := hook{function: function{kind: KindCopy, scope: scopeContext}}
	if err := k.maps.Hooks.Update(uint32(only), row{hook: h}.encode(), ebpf.UpdateAny); err != nil {
		return 0, 0, fmt.Errorf("describe hook: %w", err)
	}
	plain := s.time(o)
	var each [2]time.Duration
	for i, returns := range []bool{false, true} {
		links, err := k.attach(fmt.Sprintf("/proc/self/fd/%d", s.file.Fd()), []attachment{{stubAt(o), only, returns}}, os.Getpid())
		if err != nil {
			return 0, 0, err
		}
		each[i] = s.time(o)
		closeAll(links)
	}
	return max(0, each[0]-plain), max(0, each[1]-each[0]), nil
}

// time is what one call takes.
func (s *stubs) time(o opening) time.Duration {
	at := addressOf(s.code) + uintptr(stubAt(o))
	for range warmCalls {
		purego.SyscallN(at)
	}
	var took []time.Duration
	for range timings {
		from := threadTime()
		for range timedCalls {
			purego.SyscallN(at)
		}
		took = append(took, (threadTime()-from)/timedCalls)
	}
	slices.Sort(took)
	return took[0]
}

// threadTime is the processor time that this thread has used.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
