package experiment

import "testing"

func TestPlainStarts(t *testing.T) {
	// The third round was slow for all three.
	m, err := plainStarts([]float64{500, 510, 900, 505, 520}, []float64{550, 560, 950, 555, 570}, []float64{553, 563, 953, 558, 573})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"native_us": 510, "extra_us": 53, "empty_preload_extra_us": 50, "over_empty_us": 3, "noise_us": 15, "over_empty_noise_ratio": 0.2,
	} {
		if m[name] != want {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
	same := []float64{500, 500}
	if _, err := plainStarts(same, same, same); err == nil {
		t.Error("starts that do not vary have a noise")
	}
	if _, err := plainStarts(nil, nil, nil); err == nil {
		t.Error("nothing was compared")
	}
}

func TestStartupValidate(t *testing.T) {
	for s, good := range map[Startup]bool{
		{InitPairs: 1, PlainPairs: 4}: true, {PlainPairs: 4}: false, {InitPairs: 1, PlainPairs: 3}: false, {InitPairs: 1, PlainPairs: 1e6}: false,
	} {
		if err := s.Validate(); (err == nil) != good {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
