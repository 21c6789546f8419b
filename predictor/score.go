package predictor

// Score counts predictions against what was touched, on launches that no
// template had been fitted to. Sums of scores are scores.
type Score struct {
	// Launches were compared; Missed of them touched something that was not
	// predicted, Vain of them did not touch something that was.
	Launches uint64 `json:"launches"`
	Missed   uint64 `json:"missed"`
	Vain     uint64 `json:"vain"`
	// Blocks are in 2 MiB, Bytes are as they are; both in sums over launches. What
	// was observed in blocks alone counts as blocks alone.
	Blocks Tally `json:"blocks"`
	Bytes  Tally `json:"bytes"`
}

// Tally sums amounts of one kind.
type Tally struct {
	Touched   uint64 `json:"touched"`
	Predicted uint64 `json:"predicted"`
	Both      uint64 `json:"both"`
}

// Missed is what was touched and not predicted, Vain what was predicted and not
// touched.
func (t Tally) Missed() uint64 { return t.Touched - t.Both }
func (t Tally) Vain() uint64   { return t.Predicted - t.Both }

// FalseNegative is the share of what was touched that was not predicted, in
// percent; FalsePositive that of what was predicted that was not touched.
func (t Tally) FalseNegative() float64 { return percent(t.Missed(), t.Touched) }
func (t Tally) FalsePositive() float64 { return percent(t.Vain(), t.Predicted) }

func percent(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

func (t *Tally) add(o Tally) {
	t.Touched += o.Touched
	t.Predicted += o.Predicted
	t.Both += o.Both
}

// Add takes in another score.
func (s *Score) Add(o Score) {
	s.Launches += o.Launches
	s.Missed += o.Missed
	s.Vain += o.Vain
	s.Blocks.add(o.Blocks)
	s.Bytes.add(o.Bytes)
}

// FalseNegative is the share of launches that touched something that was not
// predicted, in percent; FalsePositive that of launches that were predicted to
// touch a block that they did not.
func (s *Score) FalseNegative() float64 { return percent(s.Missed, s.Launches) }
func (s *Score) FalsePositive() float64 { return percent(s.Vain, s.Launches) }

func (t *Tally) valid() bool { return t.Both <= t.Touched && t.Both <= t.Predicted }

func (s *Score) valid() bool {
	return s.Missed <= s.Launches && s.Vain <= s.Launches && s.Blocks.valid() && s.Bytes.valid()
}

// Compare returns the score of one launch: what was predicted against what was
// touched, both exact. ok is false if either is too ragged to tell (16,384
// stretches).
func Compare(predicted, touched []Touch) (_ Score, ok bool) {
	s, ok := compareBlocks(predicted, touched, nil)
	if !ok {
		return Score{}, false
	}
	s.Bytes, ok = tally(predicted, touched, 1, nil)
	return s, ok
}

// CompareBlocks is Compare where touched is known in blocks of 2 MiB alone; only
// what was watched counts, nil for everything.
func CompareBlocks(predicted, touched []Touch, watched []Range) (Score, bool) {
	return compareBlocks(predicted, touched, watched)
}

func compareBlocks(predicted, touched []Touch, watched []Range) (Score, bool) {
	t, ok := tally(predicted, touched, Block, watched)
	if !ok {
		return Score{}, false
	}
	s := Score{Launches: 1}
	if t.Missed() > 0 {
		s.Missed = 1
	}
	if t.Vain() > 0 {
		s.Vain = 1
	}
	s.Blocks = Tally{t.Touched / Block, t.Predicted / Block, t.Both / Block}
	return s, true
}

func tally(predicted, touched []Touch, grain uint64, watched []Range) (Tally, bool) {
	p, ok := appendSpans(nil, predicted, grain)
	if !ok {
		return Tally{}, false
	}
	t, ok := appendSpans(nil, touched, grain)
	if !ok {
		return Tally{}, false
	}
	p, t = merge(p), merge(t)
	if watched != nil {
		p, t = inside(p, watched, grain), inside(t, watched, grain)
	}
	return Tally{total(t), total(p), common(p, t)}, true
}

// inside leaves of merged stretches what lies in ranges.
func inside(list []span, ranges []Range, grain uint64) []span {
	var seen []span
	for _, r := range ranges {
		seen = append(seen, widen(r.Base, r.End(), Either, grain))
	}
	seen = merge(seen)
	var out []span
	for i, j := 0, 0; i < len(list) && j < len(seen); {
		s := span{max(list[i].base, seen[j].base), min(list[i].end, seen[j].end), list[i].access}
		if s.base < s.end {
			out = append(out, s)
		}
		if list[i].end < seen[j].end {
			i++
		} else {
			j++
		}
	}
	return out
}
