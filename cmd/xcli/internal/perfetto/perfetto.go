// Package perfetto writes what the daemon traced as the JSON that Perfetto and
// Chrome's tracing page open: a process for each device, in it a track for each task,
// on which a request, ready to idle, holds what the task did meanwhile.
//
// It is pure: events go in, text comes out.
package perfetto

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	xserverv1 "xmsched/xserver/api/v1"
)

// Trace is what was traced.
type Trace struct {
	Events []*xserverv1.TraceEvent // as they came
	EndNS  uint64                  // when tracing ended, by the clock of the events; 0: with the last
	Lost   uint64                  // events that are missing
	Tasks  []*xserverv1.Task       // for the names; those that are not there have none
}

// event is one of the format's.
type event struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"` // X: a length of time, i: a point, M: about a track
	TS    float64        `json:"ts"` // us
	Dur   float64        `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   uint64         `json:"tid"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`

	depth int // what holds another of the same length is less deep
}

// daemon is the pid of the track of what holds everywhere.
const daemon = 0

// track is a task on a device.
type track struct {
	device int
	task   uint64
	state  *xserverv1.TraceEvent // since when it does what it does; nil: nothing
	ready  *xserverv1.TraceEvent // since when it has work; nil: it has none
}

type key struct {
	device string
	task   uint64
}

// writer collects what becomes of the events.
type writer struct {
	begin, end uint64
	devices    map[string]int
	tracks     map[key]*track
	out        []event
}

// Write writes a trace. The first event is at 0.
func Write(to io.Writer, t Trace) error {
	w := writer{devices: map[string]int{}, tracks: map[key]*track{}, end: t.EndNS}
	for i, e := range t.Events {
		if i == 0 || e.AtNs < w.begin {
			w.begin = e.AtNs
		}
		w.end = max(w.end, e.AtNs)
	}
	for _, e := range t.Events {
		w.take(e)
	}
	for _, tr := range w.tracks {
		w.closeState(tr, w.end)
		w.closeRequest(tr, w.end)
	}
	// What holds something comes before it.
	slices.SortStableFunc(w.out, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.TS, b.TS), cmp.Compare(b.Dur, a.Dur), cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID),
			cmp.Compare(a.depth, b.depth))
	})
	return write(to, append(w.names(t.Tasks), w.out...), t.Lost)
}

func (w *writer) take(e *xserverv1.TraceEvent) {
	if e.Task == 0 {
		w.out = append(w.out, event{Name: "policy " + e.Policy, Phase: "i", TS: w.us(e.AtNs), PID: daemon, Scope: "g"})
		return
	}
	device, ok := w.devices[e.Device]
	if !ok {
		device = len(w.devices) + 1
		w.devices[e.Device] = device
	}
	tr, ok := w.tracks[key{e.Device, e.Task}]
	if !ok {
		tr = &track{device: device, task: e.Task}
		w.tracks[key{e.Device, e.Task}] = tr
	}
	if tr.state == nil || tr.state.State != e.State || tr.state.Reason != e.Reason {
		w.closeState(tr, e.AtNs)
		if e.State != "idle" && e.State != "gone" {
			tr.state = e
		}
	}
	switch {
	case e.Ready && tr.ready == nil:
		tr.ready = e
	case !e.Ready:
		w.closeRequest(tr, e.AtNs)
	}
}

func (w *writer) closeState(tr *track, at uint64) {
	if s := tr.state; s != nil {
		e := w.span(s.State, tr, s.AtNs, at)
		if e.depth = 1; s.Reason != "" {
			e.Args = map[string]any{"reason": s.Reason}
		}
		w.out = append(w.out, e)
		tr.state = nil
	}
}

func (w *writer) closeRequest(tr *track, at uint64) {
	if s := tr.ready; s != nil {
		w.out = append(w.out, w.span("request", tr, s.AtNs, at))
		tr.ready = nil
	}
}

func (w *writer) span(name string, tr *track, from, to uint64) event {
	return event{Name: name, Phase: "X", TS: w.us(from), Dur: float64(to-from) / 1e3, PID: tr.device, TID: tr.task}
}

func (w *writer) us(ns uint64) float64 { return float64(ns-w.begin) / 1e3 }

// names says what the tracks are.
func (w *writer) names(tasks []*xserverv1.Task) []event {
	name := func(what, text string, pid int, tid uint64) event {
		return event{Name: what, Phase: "M", PID: pid, TID: tid, Args: map[string]any{"name": text}}
	}
	named := map[uint64]string{}
	models := map[string]string{}
	for _, t := range tasks {
		named[t.Id] = t.Name
		for _, d := range t.Devices {
			models[d.Uuid] = " " + d.Name
		}
	}
	out := []event{name("process_name", "xmsched", daemon, 0)}
	for uuid, pid := range w.devices {
		out = append(out, name("process_name", uuid+models[uuid], pid, 0))
	}
	for _, tr := range w.tracks {
		out = append(out, name("thread_name", strings.TrimSpace(fmt.Sprintf("task %d %s", tr.task, named[tr.task])), tr.device, tr.task))
	}
	slices.SortFunc(out, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Name, b.Name), cmp.Compare(a.TID, b.TID))
	})
	return out
}

// write writes one event a line, so that a text tool can look as well.
func write(to io.Writer, events []event, lost uint64) error {
	b := bufio.NewWriter(to)
	fmt.Fprintf(b, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"lost_events\":%d},\"traceEvents\":[\n", lost)
	for i, e := range events {
		text, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("write event %s: %w", e.Name, err)
		}
		if i > 0 {
			_, _ = b.WriteString(",\n") // a bufio.Writer keeps its error for Flush
		}
		_, _ = b.Write(text)
	}
	_, _ = b.WriteString("\n]}\n")
	return b.Flush()
}
