package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"xmsched/bench/internal/limit"
	"xmsched/bench/rows"
	"xmsched/bench/workloads"
	"xmsched/memory"
)

// PolicyPaging is the driver's own way, without us: managed memory whose pages come
// by faults. It is listed with the ways in which we plan memory.
const PolicyPaging = "paging"

// MemoryPolicies lists what the row oversub compares.
func MemoryPolicies() []string { return append(memory.Modes(), PolicyPaging) }

// Oversub is the experiment behind the row of that name: programs that take turns and
// whose memory together exceeds what there is on the device.
type Oversub struct {
	Workloads  []string
	Footprints []int        // of all tasks together, in percent of the budget
	Budget     memory.Bytes // that they may have together; 0: what the device has
	Task       memory.Bytes // of each; PyTorch's have what they have
	Piece      memory.Bytes // that a kernel goes over; 0: as suits the device and the workload
	// Tasks is how many there are, in place of Footprints. 0: as many as have those
	// footprints.
	Tasks    int
	Policies []string
	Slices   []time.Duration
	Span     time.Duration // of each measured part, at least
	Cycles   int           // rounds of turns in each measured part, at least
	Native   bool          // measures sharing without us as well, where all fit the card
	Level    Level
	Rounds   int // of a kernel of the workload long

	Python        string // interpreter; empty: python3
	Layers, Batch int    // of PyTorch's models
}

// Validate says what is wrong with the experiment.
func (o Oversub) Validate() error {
	for _, list := range []struct {
		what         string
		given, known []string
	}{{"workload", o.Workloads, MemoryWorkloads()}, {"policy", o.Policies, MemoryPolicies()}} {
		for _, name := range list.given {
			if !slices.Contains(list.known, name) {
				return fmt.Errorf("%s %q is none of %s", list.what, name, strings.Join(list.known, ", "))
			}
		}
	}
	if len(o.Workloads) == 0 || len(o.Slices) == 0 {
		return errors.New("no workload, or no length of turns")
	}
	if o.Tasks == 0 && len(o.Footprints) == 0 {
		return errors.New("neither footprints nor a number of tasks")
	}
	if o.Tasks == 0 && o.Budget == 0 {
		return errors.New("footprints are percent of a budget: give --budget, or --tasks")
	}
	for _, pct := range o.Footprints {
		if err := limit.Check("footprint", pct, 10, 1000); err != nil {
			return err
		}
	}
	for _, s := range o.Slices {
		if err := limit.Check("slice", s, time.Millisecond, 10*time.Second); err != nil {
			return err
		}
	}
	return limit.First(
		limit.Check("tasks", o.Tasks, 0, maxPrograms),
		limit.Check("budget", int64(o.Budget), 0, int64(memory.MaxBytes)),
		limit.Check("task", int64(o.Task), int64(memory.Granularity), int64(memory.TiB)),
		limit.Check("piece", int64(o.Piece), 0, int64(8*memory.GiB)),
		limit.Check("span", o.Span, 100*time.Millisecond, 10*time.Minute),
		limit.Check("cycles", o.Cycles, 1, 1000),
		limit.Check("rounds", o.Rounds, 1, 1<<20),
		limit.Check("layers", o.Layers, 1, 200),
		limit.Check("batch", o.Batch, 1, 8192),
	)
}

// group is a set of programs that are started together: a workload, and how many.
type group struct {
	workload string
	tasks    int
	pct      int           // footprint asked for; 0: the number was
	slice    time.Duration // that its phases are made for; 0: has none
	slices   []time.Duration
}

// groups lists them. Those of a pattern that goes from part to part are started anew
// for each length of turns, for a part is to be touched for about a turn.
func (o Oversub) groups() (all []group) {
	for _, w := range o.Workloads {
		for _, g := range o.counts() {
			g.workload, g.slices = w, o.Slices
			if !phased(w) {
				all = append(all, g)
				continue
			}
			for _, s := range o.Slices {
				g.slice, g.slices = s, []time.Duration{s}
				all = append(all, g)
			}
		}
	}
	return all
}

func phased(workload string) bool {
	return slices.Contains([]string{workloads.PatternSparse, workloads.PatternExperts, workloads.PatternModels}, workload)
}

func (o Oversub) counts() []group {
	if o.Tasks > 0 {
		return []group{{tasks: o.Tasks}}
	}
	var out []group
	for _, pct := range o.Footprints {
		n := int(math.Round(float64(pct) / 100 * float64(o.Budget) / float64(o.Task)))
		out = append(out, group{tasks: max(n, 1), pct: pct})
	}
	return out
}

// RunOversub measures: each workload alone, without us and with the device for
// itself, then each group under every policy and length of turns. A mode that is not
// to be had here is left out, and the lab's note says why.
func (l *Lab) RunOversub(ctx context.Context, o Oversub, report func(what string, done, total int)) ([]rows.Row, error) {
	report, err := l.prepare(o, report)
	if err != nil {
		return nil, err
	}
	defer l.StopDaemon()
	report("oversub: the link", 0, 1)
	r := &oversubscribed{lab: l, o: o, report: report, alone: map[string][]inMemory{}, learnt: map[string]bool{}}
	if r.link, err = l.link(ctx); err != nil {
		return nil, err
	}
	defer func() { compareOversub(r.rows) }()
	for _, g := range o.groups() {
		if err := r.group(ctx, g); err != nil {
			return r.rows, fmt.Errorf("oversub %s: %w", g.workload, err)
		}
	}
	return r.rows, nil
}

// inMemory is what a program makes alone.
type inMemory struct {
	perS float64 // steps
	said string
}

// oversubscribed is a run of the experiment.
type oversubscribed struct {
	lab    *Lab
	o      Oversub
	report func(string, int, int)
	link   linkRates
	alone  map[string][]inMemory // of each kind of program of a workload
	learnt map[string]bool       // workloads whose kernels are known
	rows   []rows.Row
}

// kinds are the programs of a workload.
func (r *oversubscribed) kinds(g group) ([]hungry, error) {
	if torchWorkload(g.workload) {
		if r.lab.Facts.Simulated {
			return nil, errors.New("the simulated GPU cannot run PyTorch's kernels: this workload needs a real one")
		}
		return r.lab.torchPrograms(r.o, g.workload)
	}
	t := r.touch(g, r.piece(g))
	if err := t.Validate(); err != nil {
		return nil, err
	}
	return []hungry{patterned{settings: t}}, nil
}

func (r *oversubscribed) piece(g group) memory.Bytes {
	return r.lab.pieceOf(r.o.Piece, r.o.Task, workloads.LeastPieces(g.workload))
}

// touch are the settings of a program of ours. A phase is as long as a turn, by what
// the program makes alone.
func (r *oversubscribed) touch(g group, piece memory.Bytes) workloads.Touch {
	t := workloads.Touch{Pattern: g.workload, Bytes: uint64(r.o.Task / piece * piece), Piece: uint64(piece), Phase: 1, Rounds: r.o.Rounds}
	if phased(g.workload) {
		t.Phase = 64
		if alone := r.alone[g.workload]; len(alone) > 0 && g.slice > 0 {
			t.Phase = max(1, int(alone[0].perS*g.slice.Seconds()))
		}
	}
	return t
}

func (r *oversubscribed) group(ctx context.Context, g group) error {
	if err := r.measureAlone(ctx, g); err != nil {
		return fmt.Errorf("alone: %w", err)
	}
	if r.o.Native && (len(g.slices) == 0 || g.slice == 0 || g.slice == r.o.Slices[0]) {
		if err := r.native(ctx, g); err != nil {
			r.lab.note((&SkippedError{Mode: fmt.Sprintf("native, %d tasks", g.tasks), Why: err}).Error())
		}
	}
	ours := slices.DeleteFunc(slices.Clone(r.o.Policies), func(p string) bool { return p == PolicyPaging })
	if slices.Contains(ours, memory.Predict.String()) {
		if err := r.learn(ctx, g); err != nil {
			return fmt.Errorf("learning: %w", err)
		}
	}
	if len(ours) > 0 {
		if err := r.managed(ctx, g, ours); err != nil {
			return err
		}
	}
	if !slices.Contains(r.o.Policies, PolicyPaging) || torchWorkload(g.workload) {
		return nil
	}
	var skip *SkippedError
	err := r.paging(ctx, g)
	if errors.As(err, &skip) {
		r.lab.note(skip.Error())
		return nil
	}
	return err
}

func (r *oversubscribed) what(g group, of string) string {
	return fmt.Sprintf("oversub %s, %d tasks, %s", g.workload, g.tasks, of)
}

// params of a row of a group.
func (r *oversubscribed) params(g group, slice time.Duration, policy string, budget float64, task float64) rows.Params {
	pct := g.pct
	if pct == 0 && budget > 0 {
		pct = int(math.Round(100 * float64(g.tasks) * task / budget))
	}
	p := rows.Params{"workload": g.workload, "footprint_pct": pct, "tasks": g.tasks, "task_gib": inGiB(task), "budget_gib": inGiB(budget)}
	if slice > 0 {
		p["slice_ms"] = float64(slice) / float64(time.Millisecond)
	}
	if policy != "" {
		p["policy"] = policy
	}
	if torchWorkload(g.workload) {
		p["layers"], p["batch"] = r.o.Layers, r.o.Batch
	}
	return p
}

// inGiB is an amount in GiB, to the thousandth.
func inGiB(bytes float64) float64 { return math.Round(bytes/float64(memory.GiB)*1000) / 1000 }
