package kernels

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// touchedBytes is the accesses of every byte: 1 read, 2 written, 3 both.
func touchedBytes(all []Span) map[uint64]uint8 {
	bytes := map[uint64]uint8{}
	for _, s := range all {
		for i := range s.Count {
			for b := range s.Bytes {
				bytes[s.Base+i*s.Stride+b] |= [...]uint8{Read: 1, Write: 2, Update: 3}[s.Access]
			}
		}
	}
	return bytes
}

// TestSpansAreWhatTheBodyAsksFor holds every closed form against the body.
func TestSpansAreWhatTheBodyAsksFor(t *testing.T) {
	const base, size = 0x10000, 1 << 13
	science := map[string]bool{}
	for _, k := range Science() {
		science[k.Name] = true
	}
	stated := 0
	for _, k := range Every() {
		if k.Spans == nil {
			continue
		}
		stated++
		t.Run(k.Name, rapid.MakeCheck(func(t *rapid.T) {
			var values []any
			for i, p := range k.Params {
				switch {
				case p.Size == 32:
					values = append(values, uint64(base), uint64(base+1024*4), rapid.Uint32Range(0, 12).Draw(t, "n"),
						rapid.Uint32Range(0, 12).Draw(t, "batches"), rapid.Uint64Range(0, 70).Draw(t, "stride"))
				case p.Size == 4 && science[k.Name]: // a product of two fits what lies between two pointers
					values = append(values, rapid.Uint32Range(0, 15).Draw(t, p.Name))
				case p.Size == 4:
					values = append(values, rapid.Uint32Range(0, 60).Draw(t, p.Name))
				case p.Name == "n" || p.Name == "pitch" || p.Name == "iterations" || p.Name == "limit":
					values = append(values, rapid.Uint64Range(0, 60).Draw(t, p.Name))
				default:
					values = append(values, uint64(base+1024*i))
				}
			}
			l := Launch{
				Grid:  [3]uint32{rapid.Uint32Range(1, 3).Draw(t, "blocks"), 1, 1},
				Block: [3]uint32{rapid.Uint32Range(1, 16).Draw(t, "threads"), 1, 1},
				Args:  args(values...),
			}
			r := &Recorder{Memory: flat{base, make([]byte, size)}}
			if err := k.Body(r, l); err != nil {
				t.Fatal(err)
			}
			if have, want := touchedBytes(r.Spans), touchedBytes(k.Spans(l)); !maps.Equal(have, want) {
				t.Fatalf("%s touches %v, and states %v", k.Name, r.Spans, k.Spans(l))
			}
		}))
	}
	if stated < 18 {
		t.Errorf("only %d kernels state what they touch", stated)
	}
}

func TestRecorderKeepsWhatWasGiven(t *testing.T) {
	r := &Recorder{Memory: flat{0x1000, make([]byte, 16)}}
	if _, err := r.View(0x1004, 8, Write); err != nil {
		t.Fatal(err)
	}
	if _, err := r.View(0x100c, 8, Read); err == nil {
		t.Fatal("a view beyond the memory was given")
	}
	if len(r.Spans) != 1 || r.Spans[0] != (Span{Base: 0x1004, Bytes: 8, Count: 1, Access: Write}) {
		t.Errorf("recorded %v", r.Spans)
	}
}
