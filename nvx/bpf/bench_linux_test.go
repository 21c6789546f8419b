package bpf

import "testing"

// BenchmarkHit measures what a hook costs the observed program, by how the hooked
// place begins: with everything that the program in the kernel does for a command.
func BenchmarkHit(b *testing.B) {
	var best Cost
	k, err := load(false)
	if err != nil {
		b.Skip(err)
	}
	defer k.Close()
	for b.Loop() {
		c, err := calibrate(k)
		if err != nil {
			b.Fatal(err)
		}
		for o := range c.Entry {
			if best.Entry[o] == 0 || c.Entry[o] < best.Entry[o] {
				best.Entry[o], best.Return[o] = c.Entry[o], c.Return[o]
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for o := range openings {
		b.ReportMetric(float64(best.Entry[o]), [...]string{"stepped", "emulated", "site"}[o]+"-ns")
		b.ReportMetric(float64(best.Return[o]), [...]string{"stepped", "emulated", "site"}[o]+"-return-ns")
	}
}
