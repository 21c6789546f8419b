package predictor

import (
	"cmp"
	"slices"
)

// maxClaims bounds the stretches whose owners are worked out; a sample with more
// shows nothing of access.
const maxClaims = 1 << 12

// claim is a stretch that a pointer's template explains.
type claim struct {
	span
	slot int
}

// access works out how each pointer's memory is used: what its template alone
// explains shows it. Where nothing does it may be either.
func (f *fitter) access(out *fitted) []Access {
	list := make([]Access, len(out.slots))
	for i, s := range f.samples {
		claims := f.claims(out, i)
		from := 0
		for _, t := range s.touched {
			for from < len(claims) && claims[from].end <= t.base {
				from++
			}
			reach := claims[from:]
			for j := range reach {
				if reach[j].base >= t.end {
					break
				}
				if reach[j].end > t.base && alone(reach, j, t) {
					list[reach[j].slot] |= t.access
				}
			}
		}
	}
	for i := range list {
		if list[i] == 0 {
			list[i] = Either
		}
	}
	return list
}

// claims are the stretches that the chosen templates explain of a sample, by
// address.
func (f *fitter) claims(out *fitted, i int) []claim {
	s := f.samples[i]
	var all []claim
	at := 0
	for k := range f.pointers[i] {
		p := &f.pointers[i][k]
		for out.slots[at].slot != p.slot {
			at++
		}
		touch, ok := out.slots[at].template().touch(&s.launch, p)
		if !ok {
			continue
		}
		spans, ok := appendSpans(nil, []Touch{touch}, s.grain)
		if !ok || len(all)+len(spans) > maxClaims {
			return nil
		}
		for _, sp := range spans {
			all = append(all, claim{sp, at})
		}
	}
	slices.SortFunc(all, func(a, b claim) int { return cmp.Compare(a.base, b.base) })
	return all
}

// alone says whether nobody else claims what claim j explains of a stretch. Two
// pointers to the same are one.
func alone(claims []claim, j int, t span) bool {
	own := claims[j]
	base, end := max(own.base, t.base), min(own.end, t.end)
	for k := range claims {
		o := &claims[k]
		if o.base >= end {
			break
		}
		if k != j && o.slot != own.slot && o.span != own.span && o.end > base {
			return false
		}
	}
	return true
}
