package predictor

// join chooses each pointer's template so that together they touch what the
// samples show, no more and no less. What cannot be explained is laid at the
// door of the pointer before it, which then has no template.
func (f *fitter) join(out *fitted) {
	for {
		miss, at := f.missing(out)
		if miss == 0 {
			break
		}
		if f.effort.left > 0 && f.improve(out, miss) {
			continue
		}
		if !f.widen(out, at) {
			break
		}
	}
	for i := range f.samples {
		if extra, missing := f.check(out, i); extra > 0 || missing > 0 {
			out.open++
		}
	}
}

// gap is where a sample shows a touch that no template explains.
type gap struct {
	sample  int
	address uint64
}

// missing sums what is not explained, and what is predicted and was not touched.
func (f *fitter) missing(out *fitted) (sum uint64, at gap) {
	for i := range f.samples {
		extra, missing := f.check(out, i)
		if sum == 0 && extra+missing > 0 {
			at.sample = i
		}
		sum += extra + missing
	}
	if sum > 0 {
		at.address = f.firstGap(out, at.sample)
	}
	return sum, at
}

// check compares a sample with what the templates say.
func (f *fitter) check(out *fitted, i int) (extra, missing uint64) {
	s := f.samples[i]
	f.effort.spend(len(f.pointers[i]) + len(s.touched))
	predicted, ok := f.predicted(out, i)
	if !ok {
		return Block, Block
	}
	runs := merge(s.runs(nil))
	both := common(predicted, runs)
	if !s.lossy {
		extra = f.beyond(out, i, predicted, both)
	}
	return extra, total(runs) - both
}

// beyond is what is predicted and was not touched, pointers apart that have no
// template, or one of what is touched at most: they stand for "somewhere in there".
func (f *fitter) beyond(out *fitted, i int, predicted []span, both uint64) uint64 {
	if !f.anyLoose(out) {
		return total(predicted) - both
	}
	narrow, ok := f.spans(out, i, false)
	if !ok {
		return Block
	}
	return total(narrow) - common(narrow, merge(f.samples[i].runs(nil)))
}

func (f *fitter) anyLoose(out *fitted) bool {
	for i := range out.slots {
		if out.slots[i].template().loose() {
			return true
		}
	}
	return false
}

func (f *fitter) predicted(out *fitted, i int) ([]span, bool) { return f.spans(out, i, true) }

// spans are the stretches that the chosen templates give for a sample.
func (f *fitter) spans(out *fitted, i int, loose bool) ([]span, bool) {
	s := f.samples[i]
	var touches []Touch
	at := 0
	for k := range f.pointers[i] {
		p := &f.pointers[i][k]
		for at < len(out.slots) && out.slots[at].slot < p.slot {
			at++
		}
		if at == len(out.slots) || out.slots[at].slot != p.slot {
			continue // a twin
		}
		t := out.slots[at].template()
		if t.loose() && !loose {
			continue
		}
		if touch, ok := t.touch(&s.launch, p); ok {
			touches = append(touches, touch)
		}
	}
	list, ok := appendSpans(nil, touches, s.grain)
	return merge(list), ok
}

// firstGap returns the first address that is touched and not explained, or that
// is predicted and not touched.
func (f *fitter) firstGap(out *fitted, i int) uint64 {
	predicted, _ := f.predicted(out, i)
	runs := merge(f.samples[i].runs(nil))
	for len(runs) > 0 || len(predicted) > 0 {
		switch {
		case len(predicted) == 0:
			return runs[0].base
		case len(runs) == 0:
			return predicted[0].base
		case predicted[0].base < runs[0].base:
			return predicted[0].base
		case runs[0].base < predicted[0].base:
			return runs[0].base
		case predicted[0].end < runs[0].end:
			runs[0].base = predicted[0].end
			predicted = predicted[1:]
		case runs[0].end < predicted[0].end:
			predicted[0].base = runs[0].end
			runs = runs[1:]
		default:
			runs, predicted = runs[1:], predicted[1:]
		}
	}
	return 0
}

// improve tries for each pointer the other candidates, and takes the one that
// leaves the least unexplained. It returns false if none is better.
func (f *fitter) improve(out *fitted, miss uint64) bool {
	best, at, choice := miss, -1, 0
	for i := range out.slots {
		s := &out.slots[i]
		was := s.chosen
		for c := range s.candidates {
			if c == was {
				continue
			}
			if f.effort.left < 0 {
				break
			}
			s.chosen = c
			if m, _ := f.missing(out); m < best {
				best, at, choice = m, i, c
			}
		}
		s.chosen = was
	}
	if at < 0 {
		return false
	}
	out.slots[at].chosen = choice
	return true
}

// widen takes the template from the nearest pointer before a gap that has one; where
// no effort is left, from all that point into its allocation.
func (f *fitter) widen(out *fitted, g gap) bool {
	grain := f.samples[g.sample].grain
	var nearest, following *pointer
	for k := range f.pointers[g.sample] {
		p := &f.pointers[g.sample][k]
		if s := out.slot(p.slot); s == nil || s.template().wide || p.in.Base >= g.address+grain || p.in.End() <= g.address {
			continue
		}
		if p.address < g.address+grain {
			if nearest == nil || p.address > nearest.address {
				nearest = p
			}
		} else if following == nil || p.address < following.address {
			following = p
		}
	}
	if nearest == nil {
		nearest = following
	}
	if nearest == nil {
		return false
	}
	for _, p := range f.pointers[g.sample] {
		if p.slot == nearest.slot || f.effort.left < 0 && p.in == nearest.in {
			if s := out.slot(p.slot); s != nil {
				s.candidates, s.chosen = nil, 0
			}
		}
	}
	return true
}

func (f *fitted) slot(slot uint16) *slotFit {
	for i := range f.slots {
		if f.slots[i].slot == slot {
			return &f.slots[i]
		}
	}
	return nil
}
