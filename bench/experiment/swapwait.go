package experiment

import (
	"context"
	"fmt"
	"slices"
	"time"

	"xmsched/bench/workloads"
	"xmsched/memory"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

// swapSetting is how the programs of swapByUs take turns.
type swapSetting struct {
	size        memory.Bytes
	times       int
	short, long time.Duration // turns of those with memory, and of those beside
}

// swapTurns has the turns beside be long enough for a swap to be over at a third of the
// speed of the link.
func swapTurns(s Swap, size memory.Bytes, link linkRates) swapSetting {
	rate := min(link.in, link.out)
	if rate <= 0 {
		rate = float64(memory.LinkRate)
	}
	load := time.Duration(float64(size) / rate * float64(time.Second))
	return swapSetting{size: size, times: s.Times, short: 200 * time.Millisecond, long: min(max(600*time.Millisecond, 3*load), 10*time.Second)}
}

// limit is how long it may take until so many swaps were seen. What is pinned of the host
// at first takes some 0.3 s a gibibyte, twice that where others pin or the machine grows.
func (s swapSetting) limit() time.Duration {
	cold := time.Duration(4 * float64(s.size) / 3e9 * float64(time.Second))
	return 15*time.Second + cold + time.Duration(2*(s.times+4))*(s.short+s.long)
}

// hostState is what of the host moved memory has, and may.
type hostState struct {
	pool, limit memory.Bytes
	by          string
	short       bool // evictions stand still for it
}

func (h hostState) String() string {
	text := fmt.Sprintf("%s of the host pinned", h.pool)
	if h.by != "" {
		text += fmt.Sprintf(" of at most %s (%s)", h.limit, h.by)
	}
	if h.short {
		text += ", which is not enough for all that is to go"
	}
	return text
}

// awaitSwaps waits until so many warm swaps were seen, as far as the daemon's figures
// tell: those of the board, of which the observer has every change, are measured. It
// returns without an error when that takes too long, with what there was.
func (l *Lab) awaitSwaps(ctx context.Context, pids []int, s swapSetting, report func(what string, n int)) (host hostState, err error) {
	c, err := client.Dial(ctx, l.RunDir())
	if err != nil {
		return host, fmt.Errorf("ask for the memory: %w", err)
	}
	defer c.Close()
	var moves []workloads.Move
	told, n := time.Time{}, 0
	for end := time.Now().Add(s.limit()); n <= s.times && time.Now().Before(end); {
		m, err := c.Memory(ctx)
		if err != nil {
			return host, fmt.Errorf("ask for the memory: %w", err)
		}
		host = l.readHost(m, pids, &moves)
		n = swapsOf(moves, uint64(s.size)).n()
		if time.Since(told) > 2*time.Second {
			told = time.Now()
			report(host.String(), n)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return host, err
		}
	}
	return host, pause(ctx, stillFor) // the last one may be under way
}

// readHost notes what of these processes moved, and reads what there is of the host.
func (l *Lab) readHost(m *xserverv1.MemoryStatsResponse, pids []int, moves *[]workloads.Move) (h hostState) {
	if m.Host != nil {
		h = hostState{pool: memory.Bytes(m.Host.Pool), limit: memory.Bytes(m.Host.Limit), by: m.Host.LimitedBy}
	}
	now := workloads.MonotonicNS()
	for _, d := range m.Devices {
		if d.Uuid != l.Facts.UUID {
			continue
		}
		h.short = d.HostShort
		for _, p := range d.Processes {
			if who := slices.Index(pids, int(p.Pid)); who >= 0 {
				*moves = append(*moves, workloads.Move{Who: who, AtNS: now, Target: p.Memory.Target, In: p.Memory.MovedIn, Out: p.Memory.MovedOut})
			}
		}
	}
	return h
}
