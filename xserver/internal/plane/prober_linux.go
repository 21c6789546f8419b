package plane

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A process counts as stopped when it was found so in stoppedLooks looks, one
// each probeEvery: stopped for 5 ms, and found out 8 ms after at the latest. It
// is reported again every repeatLooks, as a late ring may have made the plane
// believe the contrary.
const (
	probeEvery   = 2500 * time.Microsecond
	stoppedLooks = 3
	repeatLooks  = 8
)

// prober finds out which suspects are stopped. It reads /proc, on a goroutine of
// its own, and only while there are suspects.
type prober struct {
	mu       sync.Mutex
	suspects []suspect // protected by mu
	ended    bool      // protected by mu
	news     chan struct{}
	stopped  chan struct{}
}

type suspect struct {
	id  ProcessID
	pid int
}

// probe is what the prober remembers of a suspect between looks.
type probe struct {
	fd    int // /proc/PID/task/PID/stat; -1: cannot be read
	looks int // in a row that found it stopped
	told  bool
}

// set tells who is suspect now.
func (p *prober) set(ids []ProcessID, pid func(ProcessID) int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	same := len(ids) == len(p.suspects)
	for i := 0; same && i < len(ids); i++ {
		same = p.suspects[i].id == ids[i]
	}
	if same {
		return
	}
	before := len(p.suspects)
	p.suspects = p.suspects[:0]
	for _, id := range ids {
		p.suspects = append(p.suspects, suspect{id, pid(id)})
	}
	if before == 0 {
		p.poke()
	}
}

func (p *prober) poke() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

func (p *prober) current(into []suspect) ([]suspect, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append(into[:0], p.suspects...), p.ended
}

// run starts the prober; report is told of every change.
func (p *prober) run(report func(ProcessID, bool)) {
	p.news, p.stopped = make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(p.stopped)
		p.probe(report)
	}()
}

func (p *prober) stop() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.poke()
	<-p.stopped
}

func (p *prober) probe(report func(ProcessID, bool)) {
	probes := map[ProcessID]*probe{}
	defer func() {
		for _, pr := range probes {
			pr.close()
		}
	}()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var list []suspect
	for {
		var ended bool
		if list, ended = p.current(list); ended {
			return
		}
		for id, pr := range probes {
			if !slices.ContainsFunc(list, func(s suspect) bool { return s.id == id }) {
				pr.close()
				delete(probes, id)
			}
		}
		for _, s := range list {
			pr, ok := probes[s.id]
			if !ok {
				pr = openProbe(s.pid)
				probes[s.id] = pr
			}
			if change, stopped := pr.look(); change {
				report(s.id, stopped)
			}
		}
		if len(list) == 0 {
			<-p.news
			continue
		}
		timer.Reset(probeEvery)
		select {
		case <-timer.C:
		case <-p.news:
		}
	}
}

// openProbe opens the state of a process's main thread; the descriptor follows
// the process, not the number.
func openProbe(pid int) *probe {
	if pid <= 0 {
		return &probe{fd: -1}
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/task/%d/stat", pid, pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &probe{fd: -1}
	}
	return &probe{fd: fd}
}

func (p *probe) close() {
	if p.fd >= 0 {
		_ = unix.Close(p.fd)
	}
}

// look reads the state once and says whether there is something to report.
func (p *probe) look() (change, stopped bool) {
	if p.fd < 0 {
		return false, false
	}
	var buf [512]byte
	n, err := unix.Pread(p.fd, buf[:], 0)
	if err != nil {
		return false, false // it died; its pidfd tells
	}
	if isStopped(buf[:n]) {
		p.looks++
	} else {
		p.looks = 0
	}
	stopped = p.looks >= stoppedLooks
	if stopped == p.told && (!stopped || p.looks%repeatLooks != 0) {
		return false, stopped
	}
	p.told = stopped
	return true, stopped
}

// isStopped reads the state out of a stat line: the letter after the last
// parenthesis, as a name may hold any other. T is stopped by a signal, t by a
// debugger.
func isStopped(stat []byte) bool {
	i := bytes.LastIndexByte(stat, ')')
	return i >= 0 && len(stat) > i+2 && (stat[i+2] == 'T' || stat[i+2] == 't')
}
