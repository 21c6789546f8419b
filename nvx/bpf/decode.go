package bpf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
)

// reading is what the maps held.
type reading struct {
	processes map[observeProcessKey]observeProcess
	counts    map[observeCountKey]observeCount // of all processors together
	waiting   map[observeProcessKey]uint64     // since when the earliest waits that goes on
	lostHits  uint64
	lostNews  uint64
}

// decodeProcess reads a value of the map of processes.
func decodeProcess(b []byte) (observeProcess, error) {
	var p observeProcess
	if len(b) != binary.Size(p) {
		return p, fmt.Errorf("a process of %d bytes, not %d", len(b), binary.Size(p))
	}
	if _, err := binary.Decode(b, binary.NativeEndian, &p); err != nil {
		return p, fmt.Errorf("read process: %w", err)
	}
	return p, nil
}

// span is a number of nanoseconds; what cannot be one, more than two years, is
// none. So the sum of a histogram is a time as well.
func span(ns uint64) time.Duration {
	if ns > 1<<56 {
		return 0
	}
	return time.Duration(ns)
}

// since is from one time of the kernel's clock to another.
func since(from, to uint64) time.Duration {
	if from == 0 || from > to {
		return 0
	}
	return span(to - from)
}

// figures are the processes', by number. One that is seen at the probe sites of the
// preload library is also seen below it, when others have hooks in the same
// driver: that is not counted again.
func (r *reading) figures(rows []row, cost Cost, looking *windows, now uint64) []Figures {
	var all []Figures
	for key, p := range r.processes {
		if _, twice := r.processes[observeProcessKey{Pid: key.Pid, Ours: 1}]; twice && key.Ours == 0 {
			continue
		}
		f := figuresOf(p, r.waiting[key], looking, now)
		f.PID, f.Ours = int(key.Pid), key.Ours != 0
		r.calls(&f, key, rows)
		r.costs(&f, key, rows, cost)
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Figures) int { return cmp.Compare(a.PID, b.PID) })
	return all
}

// figuresOf is one process's part that its own record tells.
func figuresOf(p observeProcess, waiting uint64, looking *windows, now uint64) Figures {
	end := now
	if p.Ended != 0 && p.Ended < now {
		end = p.Ended
	}
	f := Figures{
		Name:     name(p.Comm[:]),
		Before:   since(looking.first(), p.Started),
		Seen:     since(p.Started, end),
		Looked:   looking.within(p.Started, end),
		Left:     p.Ended != 0,
		Commands: p.Commands,
		Work:     workOf(p, waiting, looking.last(p.Window, end)),
		Memory: Memory{
			Now: int64(p.Bytes), High: p.High, Allocations: p.Allocations, Frees: p.Frees, UnknownFrees: p.UnknownFrees,
			Refused: p.Refused, LargestRefused: p.RefusedBytes, Untracked: p.Untracked,
		},
		Gate: Held{Waits: p.GateWaits, Time: span(p.GateNs), Longest: span(p.GateLongestNs)},
	}
	f.Work.Unknown = max(0, f.Looked-f.Work.Busy-f.Work.Idle)
	return f
}

// workOf is its work until end: now, its own end, or the end of the window in
// which it was seen last.
func workOf(p observeProcess, waiting, end uint64) Work {
	w := Work{
		Blocks: spans(p.Busy.Number, p.Busy.Ns), Gaps: spans(p.Idle.Number, p.Idle.Ns),
		Waited: span(p.WaitedNs), Waits: p.Waits,
		Longest: span(p.LongestNs), InLongest: p.LongestCommands,
		Singles: p.Singles, Single: span(p.SingleNs), Command: span(p.CommandNs),
		CutBusy: span(p.CutBusyNs), CutIdle: span(p.CutIdleNs),
		LostStreams: p.LostStreams,
	}
	const streams = 0xffff // of word, that have commands outstanding
	// Without one a block that lasts is what two threads have left that began and
	// ended one at the same moment: nothing is known until the next.
	if p.Since != 0 && p.Word&streams != 0 {
		lasting := since(p.Since, end)
		w.Busying = true
		w.Blocks.add(lasting)
		if lasting > w.Longest {
			w.Longest, w.InLongest = lasting, p.Commands-p.BlockFrom
		}
		w.Waited += since(max(waiting, p.WaitedUntil), end) * time.Duration(min(waiting, 1))
	} else if p.Since == 0 && p.IdleSince != 0 {
		w.Gaps.add(since(p.IdleSince, end))
	}
	w.Busy, w.Idle = w.CutBusy+w.Blocks.Sum(), w.CutIdle+w.Gaps.Sum()
	w.Waited = min(w.Waited, w.Busy)
	return w
}

func spans(number, ns [40]uint64) (s Spans) {
	s.Number = number
	for i, t := range ns {
		s.Total[i] = span(t)
	}
	return s
}

// name is a C string that is not to be trusted.
func name(comm []int8) string {
	b := make([]byte, 0, len(comm))
	for _, c := range comm {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return strings.ToValidUTF8(string(bytes.TrimSpace(b)), "?")
}

// calls adds up what the process called, by function.
func (r *reading) calls(f *Figures, key observeProcessKey, rows []row) {
	at := map[string]int{}
	for i, row := range rows {
		c, ok := r.counts[observeCountKey{Pid: key.Pid, Row: uint32(i)}]
		if !ok || row.hook.ours != f.Ours {
			continue
		}
		n, ok := at[row.hook.symbol]
		if !ok {
			n = len(f.Calls)
			at[row.hook.symbol] = n
			f.Calls = append(f.Calls, Call{Function: row.hook.symbol, Kind: row.hook.kind})
		}
		f.Calls[n].Count += c.Hits
		f.Calls[n].Bytes += c.Bytes
	}
	slices.SortFunc(f.Calls, func(a, b Call) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Function, b.Function))
	})
}

// each is what one call of a place costs.
func (r row) each(cost Cost) time.Duration {
	if r.hook.returns() {
		return cost.Entry[r.first] + cost.Return[r.first]
	}
	return cost.Entry[r.first]
}

// costs adds up what the hooks cost the process, those that its figures leave out
// included.
func (r *reading) costs(f *Figures, key observeProcessKey, rows []row, cost Cost) {
	for i, row := range rows {
		hits := r.counts[observeCountKey{Pid: key.Pid, Row: uint32(i)}].Hits
		f.Hits += hits
		if row.hook.returns() {
			f.Hits += hits
		}
		f.Cost += time.Duration(min(hits, 1<<40)) * row.each(cost)
	}
}

// spent is what the hooks cost all processes.
func (r *reading) spent(rows []row, cost Cost) (d time.Duration) {
	for key, c := range r.counts {
		if int(key.Row) < len(rows) {
			d += time.Duration(min(c.Hits, 1<<40)) * rows[key.Row].each(cost)
		}
	}
	return d
}

// news is something that the program in the kernel tells at once.
type news struct{ what, pid uint32 }

const newsCame = 1 // as in program/observe.h

func decodeNews(b []byte) (news, error) {
	if len(b) < 8 {
		return news{}, fmt.Errorf("news of %d bytes", len(b))
	}
	return news{binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint32(b[4:])}, nil
}
