package bpf

import "testing"

func TestOpenings(t *testing.T) {
	for code, want := range map[string]opening{
		"\x0f\x1f\x44\x00\x00": nop5,
		"\x55\x48\x89\xe5\x90": emulated, // push %rbp
		"\x41\x57\x41\x56\x41": emulated, // push %r15
		"\x90":                 emulated,
		"\x48\x83\xec\x08\xe8": stepped, // sub $8,%rsp
		"\xf3\x0f\x1e\xfa\x55": stepped, // endbr64
		"":                     stepped,
	} {
		if got := openingAMD64([]byte(code)); got != want {
			t.Errorf("% x: %v, want %v", code, got, want)
		}
	}
}
