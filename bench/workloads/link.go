package workloads

import (
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
)

// Link measures what the link between host and device carries: pinned copies both
// ways at once, and each way by itself, which is the floor under every move of memory.
type Link struct {
	Bytes uint64        // of a copy
	Span  time.Duration // of each measurement
}

// linkDepth is how many copies lie queued each way.
const linkDepth = 4

// Validate says what is wrong with the settings.
func (l Link) Validate() error {
	return limit.First(
		limit.Check("bytes", l.Bytes, minPiece, maxPiece),
		limit.Check("span", l.Span, 10*time.Millisecond, maxPause),
	)
}

// RunLink tells the rates of both ways at once.
func RunLink(say *Speaker, l Link) error {
	if err := l.Validate(); err != nil {
		return err
	}
	g, err := openGPU()
	if err != nil {
		return err
	}
	defer g.close()
	in, err := newLane(g, l.Bytes, true)
	if err != nil {
		return err
	}
	out, err := newLane(g, l.Bytes, false)
	if err != nil {
		return err
	}
	for _, span := range []time.Duration{l.Span / 4, l.Span} { // the first is to warm up
		if err := both(in, out, span); err != nil {
			return err
		}
	}
	return say.Say(Event{Kind: KindResult, InPerS: in.perS(), OutPerS: out.perS()})
}

// lane is one way of the link.
type lane struct {
	gpu    *gpu
	toward bool // the device
	host   []byte
	device abi.DevicePtr
	stream cuda.Stream
	ends   [linkDepth]cuda.Event

	began, ended time.Time
	copies       int
}

func newLane(g *gpu, n uint64, toDevice bool) (*lane, error) {
	l := &lane{gpu: g, toward: toDevice}
	var err error
	if l.host, err = g.driver.HostAlloc(n, 0); err != nil {
		return nil, err
	}
	if l.device, err = g.driver.MemAlloc(n); err != nil {
		return nil, err
	}
	if err = g.driver.MemsetD8(l.device, 1, n); err != nil {
		return nil, err
	}
	if l.stream, err = g.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING)); err != nil {
		return nil, err
	}
	for i := range l.ends {
		if l.ends[i], err = g.driver.NewEvent(uint32(abi.CU_EVENT_DISABLE_TIMING)); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *lane) copy(i int) error {
	var err error
	if l.toward {
		err = l.gpu.driver.MemcpyHtoDAsync(l.device, l.host, l.stream)
	} else {
		err = l.gpu.driver.MemcpyDtoHAsync(l.host, l.device, l.stream)
	}
	if err != nil {
		return err
	}
	return l.ends[i%linkDepth].Record(l.stream)
}

// both keeps both lanes busy for a span. Only whole copies that ended within it count.
func both(in, out *lane, span time.Duration) error {
	lanes := []*lane{in, out}
	for _, l := range lanes {
		l.copies = 0
		for i := range linkDepth {
			if err := l.copy(i); err != nil {
				return err
			}
		}
	}
	begun := time.Now()
	for i := 0; time.Since(begun) < span; i++ {
		for _, l := range lanes {
			if err := l.ends[i%linkDepth].Synchronize(); err != nil {
				return err
			}
			if l.ended = time.Now(); i == 0 {
				l.began = l.ended
			} else {
				l.copies++
			}
			if err := l.copy(i + linkDepth); err != nil {
				return err
			}
		}
	}
	for _, l := range lanes {
		if err := l.stream.Synchronize(); err != nil {
			return err
		}
	}
	return nil
}

func (l *lane) perS() float64 {
	if l.copies == 0 {
		return 0
	}
	return float64(l.copies) * float64(len(l.host)) / l.ended.Sub(l.began).Seconds()
}
