package bpf

import "bytes"

var here = machine{
	names: map[string]uint16{
		"r15": 0, "r14": 8, "r13": 16, "r12": 24, "rbp": 32, "rbx": 40, "r11": 48, "r10": 56, "r9": 64, "r8": 72,
		"rax": 80, "rcx": 88, "rdx": 96, "rsi": 104, "rdi": 112, "rsp": 152,
	},
	parameters: []string{"rdi", "rsi", "rdx", "rcx", "r8", "r9"},
	stack:      8, // above the return address
	openings:   openingAMD64,
	stubs: map[opening][]byte{
		nop5:     {0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3},                   // nop; ret
		emulated: {0x55, 0x5d, 0xc3},                                     // push %rbp; pop %rbp; ret
		stepped:  {0x48, 0x83, 0xec, 0x08, 0x48, 0x83, 0xc4, 0x08, 0xc3}, // sub $8,%rsp; add $8,%rsp; ret
	},
}

var nop5Code = []byte{0x0f, 0x1f, 0x44, 0x00, 0x00}

// openingAMD64 knows what Linux emulates (arch/x86/kernel/uprobes.c: pushes of a
// register, one-byte nops, jumps and calls): all else is stepped.
func openingAMD64(code []byte) opening {
	switch {
	case bytes.HasPrefix(code, nop5Code):
		return nop5
	case len(code) > 0 && (code[0]&0xf8 == 0x50 || code[0] == 0x90 || code[0] == 0xe9 || code[0] == 0xeb || code[0] == 0xe8):
		return emulated
	case len(code) > 1 && code[0] == 0x41 && code[1]&0xf8 == 0x50:
		return emulated
	}
	return stepped
}
