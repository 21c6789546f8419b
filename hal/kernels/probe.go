package kernels

import (
	"encoding/binary"
	"time"
)

// beat is the length of a beat of xm_heartbeat; on a GPU it is this or longer.
const beat = time.Microsecond

// probeTable is the module of probe.ptx.
var probeTable = []Kernel{
	{
		Name: "xm_heartbeat", Params: params(u64("beats"), u64("stop"), u64("limit")),
		Body: heartbeat, Cost: heartbeatCost, Step: heartbeatStep,
		Touched: func(Launch) uint64 { return 8 },
		Spans:   spans(pointed(0, Write, fixed(1)), pointed(8, Read, fixed(1))),
	},
	{
		Name: "xm_work", Params: params(u64("progress"), u64("stop"), u64("state"), u64("iterations"), u32("every"), u32("interval")),
		Body: work, Cost: workCost, Step: workStep,
		Touched: func(Launch) uint64 { return 8 + workState },
		Spans:   spans(pointed(0, Write, fixed(1)), pointed(8, Read, fixed(1)), pointed(16, Update, fixed(workState/4))),
	},
	{
		Name: "xm_count", Params: params(u64("out"), u64("data"), u64("n"), u32("value")),
		Body: count, Cost: streamCost(1, words64(16)), Touched: touched(1, words64(16)),
	},
}

// heartbeat is the whole run at once.
func heartbeat(m Memory, l Launch) error {
	_, err := heartbeatStep(m, l, heartbeatCost(l))
	return err
}

func heartbeatCost(l Launch) time.Duration {
	return clampedNanos(arg64(l, 16), uint64(beat), 1)
}

func heartbeatStep(m Memory, l Launch, ran time.Duration) (bool, error) {
	beats, err := m.View(arg64(l, 0), 4, Write)
	if err != nil {
		return false, err
	}
	stop, err := m.View(arg64(l, 8), 4, Read)
	if err != nil {
		return false, err
	}
	limit := arg64(l, 16)
	n := min(uint64(max(ran, 0)/beat), limit)
	binary.LittleEndian.PutUint32(beats, uint32(n))
	return n == limit || binary.LittleEndian.Uint32(stop) != 0, nil
}

// work is the whole run at once.
func work(m Memory, l Launch) error {
	_, err := workStep(m, l, workCost(l))
	return err
}

func workCost(l Launch) time.Duration { return stepsCost(l, arg64(l, 24)) }

// workState is the size of the state of xm_work.
const workState = 16

// workStep beats by the time that the kernel has run. The state's last word is not
// the clock's here, but how many of this kernel's beats are counted.
func workStep(m Memory, l Launch, ran time.Duration) (bool, error) {
	progress, err := m.View(arg64(l, 0), 4, Write)
	if err != nil {
		return false, err
	}
	stop, err := m.View(arg64(l, 8), 4, Read)
	if err != nil {
		return false, err
	}
	state, err := m.View(arg64(l, 16), workState, Update)
	if err != nil {
		return false, err
	}
	over, count, counted := state[:4], state[4:8], state[8:]
	if v := binary.LittleEndian.Uint32(stop); v != 0 {
		binary.LittleEndian.PutUint32(over, v)
	}
	cost := workCost(l)
	through := ran >= cost || binary.LittleEndian.Uint32(over) != 0
	beats := uint64(min(max(ran, 0), cost)) / max(uint64(arg32(l, 36)), 1)
	if ran >= cost {
		beats = max(beats, 1) // of short kernels, too, something is seen
	}
	if before := binary.LittleEndian.Uint64(counted); beats > before {
		n := binary.LittleEndian.Uint32(count) + uint32(beats-before)
		binary.LittleEndian.PutUint32(count, n)
		binary.LittleEndian.PutUint32(progress, n)
		binary.LittleEndian.PutUint64(counted, beats)
	}
	if through {
		binary.LittleEndian.PutUint64(counted, 0) // for the next kernel
	}
	return through, nil
}

func count(m Memory, l Launch) error {
	n, value := arg64(l, 16), arg32(l, 24)
	data, err := viewWords(m, arg64(l, 8), n, Read)
	if err != nil {
		return err
	}
	var found uint64
	for i := 0; i < len(data); i += 4 {
		if binary.LittleEndian.Uint32(data[i:]) == value {
			found++
		}
	}
	if found == 0 {
		return nil
	}
	out, err := m.View(arg64(l, 0), 8, Update)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(out, binary.LittleEndian.Uint64(out)+found)
	return nil
}
