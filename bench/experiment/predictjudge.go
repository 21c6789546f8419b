package experiment

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"xmsched/hal/kernels"
	"xmsched/predictor"
)

// observed is a line of what xrun --learn logs (XMSCHED_LEARN_LOG).
type observed struct {
	Kernel  string      `json:"kernel"`
	Code    string      `json:"code"`
	Layout  [][2]uint32 `json:"layout"`
	Grid    [3]uint32   `json:"grid"`
	Block   [3]uint32   `json:"block"`
	Shared  uint32      `json:"shared"`
	Params  string      `json:"params"`
	Maps    [][2]uint64 `json:"maps"`
	Watched [][2]uint64 `json:"watched"`
	Touched [][3]uint64 `json:"touched"`
	Lossy   bool        `json:"lossy"`
}

// sighting is an observation as the predictor knows it.
type sighting struct {
	kernel  predictor.Kernel
	launch  predictor.Launch
	ranges  predictor.Ranges
	watched []predictor.Range
	touched []predictor.Touch
	stated  []predictor.Touch // what the kernel says that it touches; nil: it says nothing
}

// judgement compares predictions with what was seen.
type judgement struct {
	kernels int // of which something was learnt
	by      map[string]*verdict
}

// verdict is one way of predicting.
type verdict struct {
	score, known predictor.Score // of all launches; of those whose kernel was known
	stated       predictor.Score // of those whose kernel states what it touches, to the byte
	evalNS       float64         // of one prediction
}

// known is the share of the launches whose kernel had been seen, in percent.
func (j judgement) known() float64 {
	v := j.by[ModeTemplate]
	if v.score.Launches == 0 {
		return 0
	}
	return 100 * float64(v.known.Launches) / float64(v.score.Launches)
}

// judge predicts every launch of the judged log by the templates in a directory, by whole
// allocations, and by templates that were taught what the kernels of the learnt log state.
func judge(templates, learntLog, judgedLog string) (judgement, error) {
	data, err := os.ReadFile(filepath.Join(templates, "store"))
	if err != nil {
		return judgement{}, fmt.Errorf("nothing was learnt: %w", err)
	}
	learnt, err := predictor.Decode(data, predictor.Config{})
	if err != nil {
		return judgement{}, err
	}
	launches, err := readObserved(judgedLog)
	if err != nil {
		return judgement{}, err
	}
	lessons, err := readObserved(learntLog)
	if err != nil {
		return judgement{}, err
	}
	if len(launches) == 0 {
		return judgement{}, errors.New("no launch was seen to judge by")
	}
	known := map[predictor.Key]bool{}
	for _, m := range learnt.Models() {
		if key := m.Kernel().Key; !key.IsFamily() {
			known[key] = m.Stats().Observations > 0
		}
	}
	j := judgement{kernels: len(known), by: map[string]*verdict{}}
	j.by[ModeTemplate] = compare(launches, learnt, known)
	j.by[ModeAllocation] = compare(launches, predictor.NewLibrary(predictor.Config{}), nil)
	j.by[ModeStated] = compare(launches, taught(lessons), nil)
	return j, nil
}

// taught learns from the launches what their kernels state: every byte of it.
func taught(launches []sighting) *predictor.Library {
	library := predictor.NewLibrary(predictor.Config{})
	for i := range launches {
		l := &launches[i]
		if l.stated != nil {
			library.Kernel(l.kernel, 0).Observe(&l.launch, &l.ranges, &predictor.Observation{Touched: l.stated, Grain: 1})
		}
	}
	return library
}

// compare predicts the launches by a library.
func compare(launches []sighting, library *predictor.Library, known map[predictor.Key]bool) *verdict {
	v := &verdict{}
	var touches []predictor.Touch
	for i := range launches {
		l := &launches[i]
		touches, _ = library.Kernel(l.kernel, 0).AppendTouches(touches[:0], &l.launch, &l.ranges)
		score, ok := predictor.CompareBlocks(touches, l.touched, l.watched)
		if !ok {
			continue
		}
		v.score.Add(score)
		if known[l.kernel.Key] {
			v.known.Add(score)
		}
		if stated, ok := predictor.Compare(touches, l.stated); ok && l.stated != nil {
			v.stated.Add(stated)
		}
	}
	v.evalNS = evaluation(launches, library)
	return v
}

// evaluation is how long a prediction takes on average, in ns.
func evaluation(launches []sighting, library *predictor.Library) float64 {
	const least = 100_000
	models := make([]*predictor.Model, len(launches))
	for i := range launches {
		models[i] = library.Kernel(launches[i].kernel, 0)
	}
	touches := make([]predictor.Touch, 0, 256)
	n, began := 0, time.Now()
	for ; n < least; n += len(launches) {
		for i := range launches {
			touches, _ = models[i].AppendTouches(touches[:0], &launches[i].launch, &launches[i].ranges)
		}
	}
	return float64(time.Since(began).Nanoseconds()) / float64(n)
}

// maxObservedLine bounds a line: the parameters of a launch, and what it touched.
const maxObservedLine = 16 << 20

func readObserved(path string) ([]sighting, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []sighting
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxObservedLine)
	for lines.Scan() {
		var o observed
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if o.Lossy { // not all that it touched was seen
			continue
		}
		l, err := o.sighting()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, l)
	}
	return out, lines.Err()
}

func (o *observed) sighting() (sighting, error) {
	params, err := hex.DecodeString(o.Params)
	if err != nil {
		return sighting{}, err
	}
	l := sighting{launch: predictor.Launch{Grid: o.Grid, Block: o.Block, Shared: o.Shared, Params: params}}
	l.kernel.Name = o.Kernel
	if _, err := hex.Decode(l.kernel.Code[:], []byte(o.Code)); err != nil || len(o.Code) != 2*len(l.kernel.Code) {
		return sighting{}, fmt.Errorf("kernel %s has code %q", o.Kernel, o.Code)
	}
	for _, p := range o.Layout {
		l.kernel.Params = append(l.kernel.Params, predictor.Param{Offset: p[0], Bytes: p[1]})
	}
	for _, m := range o.Maps {
		l.launch.Maps = append(l.launch.Maps, predictor.Range{Base: m[0], Bytes: m[1]})
	}
	for _, r := range o.Watched {
		l.watched = append(l.watched, predictor.Range{Base: r[0], Bytes: r[1]})
		l.ranges.Add(predictor.Range{Base: r[0], Bytes: r[1]})
	}
	for _, t := range o.Touched {
		l.touched = append(l.touched, predictor.Touch{Base: t[0], Bytes: t[1], Count: 1, Access: predictor.Access(t[2])})
	}
	l.stated = stated(o, params)
	return l, nil
}

// stated is what a kernel of ours says that a launch touches; nil: it says nothing.
func stated(o *observed, params []byte) []predictor.Touch {
	k, ok := kernels.ByName(o.Kernel)
	if !ok || k.Spans == nil || len(params) < k.ArgBytes() {
		return nil
	}
	out := []predictor.Touch{}
	for _, s := range k.Spans(kernels.Launch{Grid: o.Grid, Block: o.Block, Args: params[:k.ArgBytes()]}) {
		access := predictor.Either
		if s.Access == kernels.Read {
			access = predictor.Read
		}
		out = append(out, predictor.Touch{Base: s.Base, Bytes: s.Bytes, Stride: s.Stride, Count: uint32(s.Count), Access: access})
	}
	return out
}
