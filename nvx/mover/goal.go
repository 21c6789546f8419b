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
	swap // some of what is there for some of what is not
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
	list     []memory.Segment
	table    memory.Table
	plan     memory.Plan
	order    byUse
	forecast forecast
}

func newPlanner() *planner { return &planner{table: *memory.NewTable()} }

// aim is what a plan was made for.
type aim struct {
	goal memory.Bytes // that is on the device in the end
	// further: more is planned to go than has to now, as the target may fall while it is
	// under way.
	further bool
}

// further is how much more is planned to go. What is compared with its clean copies is so
// at once then, just after the process was stopped, when nobody may be using the device:
// for 8 GiB that takes 3 ms. Whoever runs later would be interrupted by each look of its
// own (H200: 0.4 ms).
const further = 8 * memory.GiB

// make makes the plan that brings the segments in p.list to the target, and
// returns what it was made for. What comes in is planned in full: the
// target may rise while it is under way. Where the forecast is known it is that of
// p.list. open: the process would run if it were not for us.
func (p *planner) make(target memory.Bytes, open bool) (aim, error) {
	if err := p.table.Reset(p.list); err != nil {
		return aim{}, err
	}
	f := p.table.Figures()
	g := memory.Goal{Target: target, Order: &p.order}
	switch {
	case f.Resident <= target:
		g.Target = f.Allocated
	case !open:
		g.Further = further
	}
	if p.forecast.known {
		p.forecast.order()
		g.Order = &p.forecast
		switch x := p.forecast.pick(target); {
		case x.pays(open):
			g.Target, g.Wanted = target, p.forecast.arrivals(true)
		case f.Resident <= target:
			g.Wanted = p.forecast.arrivals(false)
		}
	} else {
		p.order.reset(p.list)
	}
	p.plan.Build(&p.table, g)
	if len(p.plan.Out) == 0 && len(p.plan.In) > 0 && f.Resident+p.plan.In[0].Bytes > target {
		g.Target = target // less than a batch is left: what of it fits
		p.plan.Build(&p.table, g)
	}
	return aim{goal: g.Target, further: g.Further > 0 && len(p.plan.In) == 0}, nil
}
