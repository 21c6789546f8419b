package mover

import (
	"cmp"
	"iter"
	"slices"

	"xmsched/memory"
)

// need is what is to be done about a section's memory.
type need uint8

const (
	nothing need = iota
	goOut
	comeIn
)

// needs compares what there is with what may be. A little room is no reason to
// bring something in: a target that is raised back to what was resident a moment
// ago is not meant so.
func needs(f Figures, target memory.Bytes) need {
	switch room := target - f.Resident; {
	case room < 0:
		return goOut
	case f.Host > 0 && room >= min(f.Host, memory.BatchBytes):
		return comeIn
	}
	return nothing
}

// byUse lets go first what was used longest ago, as far as copies tell, and of
// what was not, what was allocated last: what a program makes first, it mostly
// touches first. It is made anew for every plan.
type byUse struct{ segments []memory.Segment }

func (o *byUse) reset(segments []memory.Segment) {
	o.segments = append(o.segments[:0], segments...)
	slices.SortFunc(o.segments, func(a, b memory.Segment) int {
		return cmp.Or(cmp.Compare(a.Used, b.Used), -cmp.Compare(a.Allocation, b.Allocation), -cmp.Compare(a.Address, b.Address))
	})
}

func (o *byUse) Name() string   { return "use" }
func (*byUse) Use(memory.ID)    {}
func (*byUse) Evict(memory.ID)  {}
func (*byUse) Forget(memory.ID) {}

func (o *byUse) Victims(memory.ID) iter.Seq[memory.ID] {
	return func(yield func(memory.ID) bool) {
		for i := range o.segments {
			if !yield(o.segments[i].ID) {
				return
			}
		}
	}
}

// planner makes a section's plans. Nothing is allocated once it has grown.
type planner struct {
	list  []memory.Segment
	table memory.Table
	plan  memory.Plan
	order byUse
}

func newPlanner() *planner { return &planner{table: *memory.NewTable()} }

// make makes the plan that brings the segments in p.list to the target, and
// returns the goal that it was made for. What comes in is planned in full: the
// target may rise while it is under way.
func (p *planner) make(target memory.Bytes) (goal memory.Bytes, err error) {
	if err := p.table.Reset(p.list); err != nil {
		return 0, err
	}
	p.order.reset(p.list)
	f := p.table.Figures()
	goal = target
	if f.Resident <= target {
		goal = f.Allocated
	}
	p.build(goal)
	if len(p.plan.Out) == 0 && len(p.plan.In) > 0 && f.Resident+p.plan.In[0].Bytes > target {
		goal = target // less than a batch is left: what of it fits
		p.build(goal)
	}
	return goal, nil
}

func (p *planner) build(goal memory.Bytes) {
	p.plan.Build(&p.table, memory.Goal{Target: goal, Order: &p.order})
}
