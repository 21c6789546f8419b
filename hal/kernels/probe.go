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
	},
	{
		Name: "xm_work", Params: params(u64("progress"), u64("stop"), u64("over"), u64("iterations"), u32("every"), u32("base")),
		Body: work, Cost: workCost, Step: workStep,
		Touched: func(Launch) uint64 { return 12 },
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

// workStep takes the iterations to be spread evenly over the run.
func workStep(m Memory, l Launch, ran time.Duration) (bool, error) {
	progress, err := m.View(arg64(l, 0), 4, Write)
	if err != nil {
		return false, err
	}
	stop, err := m.View(arg64(l, 8), 4, Read)
	if err != nil {
		return false, err
	}
	over, err := m.View(arg64(l, 16), 4, Update)
	if err != nil {
		return false, err
	}
	iterations, every, cost := arg64(l, 24), max(uint64(arg32(l, 32)), 1), workCost(l)
	parts := (iterations + every - 1) / every
	through := ran >= cost
	if !through {
		parts = uint64(float64(iterations) * (float64(ran) / float64(cost)) / float64(every))
	}
	binary.LittleEndian.PutUint32(progress, arg32(l, 36)+uint32(parts))
	if v := binary.LittleEndian.Uint32(stop); v != 0 {
		binary.LittleEndian.PutUint32(over, v)
	}
	return through || binary.LittleEndian.Uint32(over) != 0, nil
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
