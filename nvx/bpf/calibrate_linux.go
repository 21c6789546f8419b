package bpf

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// Calls in one timing, timings in a row, and how often all three are taken: without
// hook, with one, and with that of the return. The shortest counts, since what else
// the machine does only adds. Before them the kernel gets some hits to
// exchange a probe site's instruction.
const (
	timedCalls = 40
	timings    = 4
	turns      = 2
	warmCalls  = 20
)

const stubSpace = 64 // bytes of a stub's code, at most

// calibrate measures what a hit costs: on functions of our own that begin like
// those that are hooked, in a file of our own, hooked for this process alone. The
// maps hold nothing of it afterwards.
func calibrate(k *kernel) (cost Cost, err error) {
	s, err := newStubs()
	if err != nil {
		return cost, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := k.observe(os.Getpid()); err != nil {
		return cost, err
	}
	defer func() { err = errors.Join(err, k.forget([]int{os.Getpid()})) }()
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
	path := fmt.Sprintf("/proc/self/fd/%d", s.file.Fd())
	best := [3]time.Duration{time.Hour, time.Hour, time.Hour}
	for range turns {
		best[0] = min(best[0], s.time(o))
		for i, returns := range []bool{false, true} {
			links, err := k.attach(path, []attachment{{stubAt(o), only, returns}}, os.Getpid())
			if err != nil {
				return 0, 0, err
			}
			best[1+i] = min(best[1+i], s.time(o))
			closeAll(links)
		}
	}
	return max(0, best[1]-best[0]), max(0, best[2]-best[1]), nil
}

// time is what one call takes.
func (s *stubs) time(o opening) time.Duration {
	at := addressOf(s.code) + uintptr(stubAt(o))
	for range warmCalls {
		purego.SyscallN(at)
	}
	best := time.Hour
	for range timings {
		from := clock()
		for range timedCalls {
			purego.SyscallN(at)
		}
		best = min(best, since(from, clock())/timedCalls)
	}
	return best
}
