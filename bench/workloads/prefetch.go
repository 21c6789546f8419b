package workloads

import (
	"fmt"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/hal/cuda/abi"
)

// Prefetch is a program of managed memory that the driver is told to send to the
// host, or to the device, each time that it is told so: what the driver itself makes
// of a swap.
type Prefetch struct {
	Bytes uint64
	Out   bool // to the host; else to the device
	Piece uint64
	// Together is what all such programs of the run have.
	Together uint64
}

// Validate says what is wrong with the settings.
func (p Prefetch) Validate() error {
	return limit.First(
		limit.Check("piece", p.Piece, minPiece, maxPiece),
		limit.Check("bytes", p.Bytes, p.Piece, maxMemory),
	)
}

// RunPrefetch obeys until it is told to end: on "open" it moves the memory and says
// how fast, on "closed" it moves it back.
func RunPrefetch(st Steering, say *Speaker, p Prefetch) error {
	if err := p.Validate(); err != nil {
		return err
	}
	g, err := openGPU()
	if err != nil {
		return err
	}
	defer g.close()
	m, err := newManagedMemory(g, p.Bytes, p.Together)
	if err != nil {
		return err
	}
	at, err := m.allocate(p.Bytes)
	if err != nil {
		return fmt.Errorf("allocate %d bytes: %w", p.Bytes, err)
	}
	stream, err := g.driver.NewStream(uint32(abi.CU_STREAM_NON_BLOCKING))
	if err != nil {
		return err
	}
	move := func(toDevice bool) (time.Duration, error) {
		began := time.Now()
		for offset := uint64(0); offset < p.Bytes; offset += p.Piece {
			if err := m.send(at+abi.DevicePtr(offset), min(p.Piece, p.Bytes-offset), toDevice, stream); err != nil {
				return 0, err
			}
		}
		err := stream.Synchronize()
		return time.Since(began), err
	}
	if err := g.driver.MemsetD8(at, 1, p.Bytes); err != nil {
		return err
	}
	if _, err := move(p.Out); err != nil { // to where its moves begin
		return err
	}
	if err := say.Say(Event{Kind: KindReady, Facts: &g.facts}); err != nil {
		return err
	}
	for {
		select {
		case open := <-st.Gate:
			took, err := move(open != p.Out)
			if err != nil {
				return err
			}
			e := Event{Kind: KindGate, Open: open, AtNS: MonotonicNS()}
			if perS := float64(p.Bytes) / took.Seconds(); p.Out {
				e.OutPerS = perS
			} else {
				e.InPerS = perS
			}
			if err := say.Say(e); err != nil {
				return err
			}
		case <-st.Context.Done():
			return nil
		}
	}
}
