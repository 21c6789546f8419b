package workloads

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Kinds of events.
const (
	KindReady    = "ready"    // set up; waits for the line "start"
	KindProgress = "progress" // so much done by then
	KindGate     = "gate"     // a watcher's gate was opened or closed
	KindResult   = "result"   // the last line of a run that went well
	KindError    = "error"    // the last line of one that did not
)

// Facts are what a row says of the device.
type Facts struct {
	Device    string `json:"device"`
	UUID      string `json:"uuid"`
	Driver    string `json:"driver"`
	Simulated bool   `json:"simulated"`
	MPS       bool   `json:"mps,omitempty"`    // contexts are shared by MPS
	Memory    uint64 `json:"memory,omitempty"` // of the device, in bytes; 0: not known
}

// Event is one line of a workload. Which fields are set depends on the kind.
type Event struct {
	Kind string `json:"event"`
	// Facts: with ready.
	*Facts
	// Count of requests or kernels done, AtNS the CLOCK_MONOTONIC time of that
	// count, in ns: with progress and result.
	Count uint64 `json:"count,omitempty"`
	AtNS  int64  `json:"at_ns,omitempty"`
	// BeganNS is when the measured part began: with result.
	BeganNS int64 `json:"began_ns,omitempty"`
	// LatencyUS of each request, in us: with the result of request.
	LatencyUS []float64 `json:"latency_us,omitempty"`
	// StartNS is when each request began, in ns: with the result of request.
	StartNS []int64 `json:"start_ns,omitempty"`
	// EndNS is when each request, pulse or suspension ended, in ns: with StartNS.
	EndNS []int64 `json:"end_ns,omitempty"`
	// HoldUS and ReleaseUS are how long each call took that suspended or resumed: with
	// the result of beats.
	HoldUS    []float64 `json:"hold_us,omitempty"`
	ReleaseUS []float64 `json:"release_us,omitempty"`
	// Watched: with the result of beat-watch.
	Watched *Watched `json:"watched,omitempty"`
	// EndedNS is when each group of kernels was seen to have ended, in ns, at most
	// maxEnded: with the result of background.
	EndedNS []int64 `json:"ended_ns,omitempty"`
	// Verified counts the result words that were compared with the closed form,
	// Wrong those that differed: with result.
	Verified uint64 `json:"verified,omitempty"`
	Wrong    uint64 `json:"wrong,omitempty"`
	// WordsFD is the chain's descriptor of its words: with ready.
	WordsFD int `json:"words_fd,omitempty"`
	// Stops: with the result of observe.
	Stops *Stops `json:"stops,omitempty"`
	// Cycles: with the result of cycles.
	Cycles *CyclesResult `json:"cycles,omitempty"`
	// Models: with the result of models.
	Models *ModelsResult `json:"models,omitempty"`
	// Touched: with the result of touch.
	Touched *Touched `json:"touched,omitempty"`
	// Moves: with the result of memory-watch.
	Moves []Move `json:"moves,omitempty"`
	// InPerS and OutPerS are bytes a second to and from the device: with the results
	// of link, prefetch and checkpoint.
	InPerS  float64 `json:"in_per_s,omitempty"`
	OutPerS float64 `json:"out_per_s,omitempty"`
	// IterationsPerUS is what the spin kernel does in a microsecond, FullPerUS what
	// a thread of a kernel does that fills the device: with the result of calibrate.
	IterationsPerUS float64 `json:"iterations_per_us,omitempty"`
	FullPerUS       float64 `json:"full_per_us,omitempty"`
	// PeriodUS is the time between two ends of queued kernels: with ready of a
	// background that was to measure it.
	PeriodUS float64 `json:"period_us,omitempty"`
	// Open says how the gate is: with gate.
	Open bool `json:"open,omitempty"`
	// Message: with error.
	Message string `json:"message,omitempty"`
}

// Speaker writes events; safe for concurrent use.
type Speaker struct {
	mu  sync.Mutex // protects enc: a line is never cut by another
	enc *json.Encoder
}

// NewSpeaker speaks to w.
func NewSpeaker(w io.Writer) *Speaker { return &Speaker{enc: json.NewEncoder(w)} }

// Say writes one event. A parent that no longer listens is found out by its end
// of our stdin, so the error is only for those who want it.
func (s *Speaker) Say(e Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enc.Encode(e); err != nil {
		return fmt.Errorf("report %s: %w", e.Kind, err)
	}
	return nil
}

// MonotonicNS is CLOCK_MONOTONIC, which all processes of a machine share.
func MonotonicNS() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("CLOCK_MONOTONIC cannot be read: " + err.Error()) // not on any Linux
	}
	return t.Nano()
}

// Steering is a workload's stdin, read to its end by one goroutine that the
// process owns: it ends with the stream.
type Steering struct {
	// Started is closed by the line "start".
	Started <-chan struct{}
	// Gate says how the gate of another program is now: a toggler's parent sends
	// the lines "open" and "closed". Only the newest is kept.
	Gate <-chan bool
	// Evict says how many of its pieces a program of managed memory is to send to the
	// host: the lines "evict N".
	Evict <-chan int
	// Context ends with the stream, or with its parent.
	Context context.Context
}

// Lines that steer a workload.
const (
	lineStart  = "start"
	lineOpen   = "open"
	lineClosed = "closed"
	lineEvict  = "evict "
)

// Steer reads commands from r until it ends, then cancels the context.
func Steer(parent context.Context, r io.Reader) Steering {
	ctx, cancel := context.WithCancel(parent)
	started := make(chan struct{})
	gate, evict := make(chan bool, 1), make(chan int, 1)
	go func() {
		defer cancel()
		begun := false
		for sc := bufio.NewScanner(r); sc.Scan(); {
			switch line := sc.Text(); {
			case line == lineStart && !begun:
				begun = true
				close(started)
			case line == lineOpen, line == lineClosed:
				select { // the older news, if nobody took it
				case <-gate:
				default:
				}
				gate <- line == lineOpen
			case strings.HasPrefix(line, lineEvict):
				n, err := strconv.Atoi(strings.TrimPrefix(line, lineEvict))
				if err != nil {
					continue
				}
				select {
				case evict <- n:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return Steering{Started: started, Gate: gate, Evict: evict, Context: ctx}
}

// wait returns true when the workload may begin, false when it is to end.
func (s Steering) wait() bool {
	select {
	case <-s.Started:
		return true
	case <-s.Context.Done():
		return false
	}
}

// waitGate returns true when the other's gate is as wanted, false when the
// workload is to end.
func (s Steering) waitGate(open bool) bool {
	for {
		select {
		case is := <-s.Gate:
			if is == open {
				return true
			}
		case <-s.Context.Done():
			return false
		}
	}
}
