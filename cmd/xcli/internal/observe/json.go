package observe

import (
	"io"

	"xmsched/cmd/internal/cli"
	"xmsched/nvx/bpf"
)

// line is the JSON of one process. Times are seconds, sizes bytes, shares
// percent of the time that is known about.
type line struct {
	PID      int      `json:"pid"`
	Name     string   `json:"name"`
	Command  []string `json:"command,omitempty"`
	Ours     bool     `json:"under_xmsched"`
	Ended    bool     `json:"ended"`
	Observed float64  `json:"observed_s"`
	Seen     float64  `json:"seen_s"`   // from its first call on
	Looked   float64  `json:"looked_s"` // of that, at launches, copies and other commands

	Launches    uint64 `json:"launches"`
	Copies      uint64 `json:"copies"`
	CopiedBytes uint64 `json:"copied_bytes"`
	Fills       uint64 `json:"memsets"`
	FilledBytes uint64 `json:"memset_bytes"`
	Others      uint64 `json:"other_commands"`
	Queries     uint64 `json:"queries"`
	Waits       uint64 `json:"waits"`
	Calls       []call `json:"calls"`

	Work   work   `json:"estimated_work"`
	Memory memory `json:"memory"`
	Gate   *gate  `json:"gate,omitempty"`

	Pattern Pattern  `json:"pattern"`
	Line    []string `json:"xrun"`

	Hits uint64  `json:"hits"`
	Cost float64 `json:"cost_s"`
}

type call struct {
	Function string `json:"function"`
	Count    uint64 `json:"count"`
	Bytes    uint64 `json:"bytes,omitempty"`
}

type work struct {
	BusyLowest      float64 `json:"busy_at_least_pct"`
	BusyHighest     float64 `json:"busy_at_most_pct"`
	Idle            float64 `json:"idle_pct"`
	LongGaps        float64 `json:"idle_in_gaps_of_1ms_pct"`
	Gaps            uint64  `json:"gaps"`
	Blocks          uint64  `json:"blocks"`
	Unknown         float64 `json:"unknown_s"`
	LongestBlock    float64 `json:"longest_block_s"`
	InLongest       uint64  `json:"longest_block_commands"`
	CommandLowest   float64 `json:"longest_command_at_least_s"`
	CommandHighest  float64 `json:"longest_command_at_most_s"`
	SingleCommands  uint64  `json:"commands_waited_for_alone"`
	LongestOfSingle float64 `json:"longest_of_these_s"`
}

type memory struct {
	Now          int64  `json:"change_bytes"`
	High         uint64 `json:"high_water_bytes"` // of what was allocated since
	Allocations  uint64 `json:"allocations"`
	Frees        uint64 `json:"frees"`
	UnknownFrees uint64 `json:"frees_of_earlier"`
	Refused      uint64 `json:"refused"`
	Device       uint64 `json:"device_bytes,omitempty"`
}

type gate struct {
	Waits   uint64  `json:"waits"`
	Total   float64 `json:"waited_s"`
	Longest float64 `json:"longest_s"`
}

// JSON writes one process as a line.
func JSON(w io.Writer, s *Subject) error {
	known := s.Work.Busy + s.Work.Idle
	_, long := s.Work.Gaps.Long()
	l := line{
		PID: s.PID, Name: s.Name, Command: s.Command, Ours: s.Ours, Ended: s.Left,
		Observed: s.Took.Seconds(), Seen: s.Seen.Seconds(), Looked: s.Looked.Seconds(), Waits: s.Work.Waits,
		Work: work{
			BusyLowest: percent(s.Work.Waited, known), BusyHighest: percent(s.Work.Busy, known), Idle: percent(s.Work.Idle, known),
			LongGaps: percent(long, known), Gaps: s.Work.Gaps.Count(), Blocks: s.Work.Blocks.Count(), Unknown: s.Work.Unknown.Seconds(),
			LongestBlock: s.Work.Longest.Seconds(), InLongest: s.Work.InLongest,
			CommandLowest: s.Work.Command.Seconds(), CommandHighest: s.Work.Longest.Seconds(),
			SingleCommands: s.Work.Singles, LongestOfSingle: s.Work.Single.Seconds(),
		},
		Memory: memory{
			Now: s.Memory.Now, High: s.Memory.High, Allocations: s.Memory.Allocations, Frees: s.Memory.Frees, UnknownFrees: s.Memory.UnknownFrees,
			Refused: s.Memory.Refused, Device: s.DeviceBytes,
		},
		Pattern: PatternOf(&s.Figures), Line: s.Line(), Hits: s.Hits, Cost: s.Cost.Seconds(),
		Calls: []call{},
	}
	l.Launches, _ = totals(s.Calls, bpf.KindLaunch)
	l.Copies, l.CopiedBytes = totals(s.Calls, bpf.KindCopy)
	l.Fills, l.FilledBytes = totals(s.Calls, bpf.KindFill)
	l.Others, _ = totals(s.Calls, bpf.KindOther)
	l.Queries, _ = totals(s.Calls, bpf.KindQuery)
	for _, c := range s.Calls {
		l.Calls = append(l.Calls, call{c.Function, c.Count, c.Bytes})
	}
	if s.Ours {
		l.Gate = &gate{s.Gate.Waits, s.Gate.Time.Seconds(), s.Gate.Longest.Seconds()}
	}
	return cli.JSON(w, l)
}

// Rest is what a snapshot tells of no process: hooks that this kernel lacks, and
// what could not be seen. A line each; nothing when all is well.
func Rest(s *bpf.Snapshot) []string {
	var lines []string
	for _, m := range s.Missing {
		lines = append(lines, "this kernel lacks "+m.Hook+" ("+m.Why+"): "+m.Without)
	}
	for _, f := range s.Failed {
		lines = append(lines, "not hooked: "+f)
	}
	if s.LostHits > 0 {
		lines = append(lines, "calls of processes for which there was no room: "+trimmed(float64(s.LostHits), 0))
	}
	return lines
}
