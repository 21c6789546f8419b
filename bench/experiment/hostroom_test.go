package experiment

import (
	"testing"
	"time"

	"xmsched/memory"
)

// TestGrowHost has machines that show a part of their memory, and more as it is used.
func TestGrowHost(t *testing.T) {
	for _, c := range []struct {
		name                    string
		shows, all, limit, need memory.Bytes // GiB
		least, most             memory.Bytes // that are taken
		enough                  bool
	}{
		{"there is enough", 40, 40, 0, 32, 0, 0, true},
		{"grows", 31, 128, 0, 64, 33, 64, true},
		{"has no more", 31, 31, 0, 64, 0, 27, false},
		{"a cgroup's limit", 31, 128, 30, 64, 0, 26, false},
		{"unknown", 0, 0, 0, 64, 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			taken := memory.Bytes(0)
			g := grower{patience: 30 * time.Millisecond, figures: func() memory.HostFigures {
				total := min(c.all*memory.GiB, c.shows*memory.GiB+taken)
				f := memory.HostFigures{Available: total - taken}
				if c.limit > 0 {
					f.Limit, f.Used = c.limit*memory.GiB, taken
				}
				return f
			}, take: func(n memory.Bytes) error { taken += n; return nil }}
			have, err := g.grow(t.Context(), c.need*memory.GiB, func(memory.Bytes) {})
			if err != nil || (have >= c.need*memory.GiB) != c.enough || taken < c.least*memory.GiB || taken > c.most*memory.GiB {
				t.Errorf("%s would be available after %s were used: %v", have, taken, err)
			}
		})
	}
}
