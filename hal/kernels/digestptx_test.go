package kernels

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// block carries out the text of a kernel of our own: the instructions that digest.ptx
// has and no others, one thread up to a barrier, then the next.
type block struct {
	t       *testing.T
	code    []instruction
	labels  map[string]int
	params  map[string]uint64
	memory  flat
	shared  []byte
	symbols map[string]uint64 // of shared memory
	threads []*thread
}

type instruction struct {
	guard string // a predicate's name; empty: none
	name  string
	ops   []string
}

type thread struct {
	regs  map[string]uint64
	carry uint64
	at    int
	done  bool
}

func assemble(t *testing.T, text string) *block {
	b := &block{t: t, labels: map[string]int{}, params: map[string]uint64{}, symbols: map[string]uint64{}}
	body := text[strings.Index(text, "\n{")+2:]
	for _, line := range strings.Split(body, "\n") {
		line = strings.TrimSuffix(strings.TrimSpace(line), ";")
		if m := regexp.MustCompile(`^\.shared \.align 16 \.b8 (\w+)\[(\d+)\]$`).FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[2])
			b.symbols[m[1]] = uint64(len(b.shared))
			b.shared = append(b.shared, make([]byte, n)...)
			continue
		}
		if label, ok := strings.CutSuffix(line, ":"); ok {
			b.labels[label] = len(b.code)
			continue
		}
		if line == "" || line == "}" || strings.HasPrefix(line, ".reg") {
			continue
		}
		var in instruction
		if strings.HasPrefix(line, "@%") {
			in.guard, line, _ = strings.Cut(line[1:], " ")
		}
		var rest string
		in.name, rest, _ = strings.Cut(line, " ")
		in.ops = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|[^,\s]+`).FindAllString(rest, -1)
		b.code = append(b.code, in)
	}
	return b
}

// launch runs the block of that number.
func (b *block) launch(number, blocks, threads int) {
	b.threads = b.threads[:0]
	for i := range threads {
		b.threads = append(b.threads, &thread{regs: map[string]uint64{
			"%tid.x": uint64(i), "%ctaid.x": uint64(number), "%nctaid.x": uint64(blocks), "%ntid.x": uint64(threads),
		}})
	}
	for running := true; running; {
		running = false
		for _, th := range b.threads {
			if !th.done {
				b.run(th)
				running = true
			}
		}
	}
}

// run carries a thread on to its next barrier, or its end.
func (b *block) run(th *thread) {
	for {
		in := b.code[th.at]
		th.at++
		if in.guard != "" && th.regs[in.guard] == 0 {
			continue
		}
		switch in.name {
		case "ret":
			th.done = true
			return
		case "bar.sync":
			return
		case "bra":
			th.at = b.labels[in.ops[0]]
		default:
			b.step(th, in)
		}
	}
}

func (b *block) value(th *thread, op string) uint64 {
	if n, err := strconv.ParseUint(op, 10, 64); err == nil {
		return n
	}
	if at, ok := b.symbols[op]; ok {
		return at
	}
	v, ok := th.regs[op]
	if !ok {
		b.t.Fatalf("%s is read before it is written", op)
	}
	return v
}

// bytes are those that an operand in brackets names.
func (b *block) bytes(th *thread, op string, shared bool) []byte {
	base, offset, _ := strings.Cut(strings.Trim(op, "[]"), "+")
	at := b.value(th, base)
	if offset != "" {
		n, _ := strconv.ParseUint(offset, 10, 64)
		at += n
	}
	if shared {
		return b.shared[at:]
	}
	if at < b.memory.base || at-b.memory.base >= uint64(len(b.memory.data)) {
		b.t.Fatalf("%s is address %#x", op, at)
	}
	return b.memory.data[at-b.memory.base:]
}

func (b *block) step(th *thread, in instruction) {
	parts := strings.Split(in.name, ".")
	v := func(i int) uint64 { return b.value(th, in.ops[i]) }
	set := func(n uint64) {
		if strings.HasSuffix(in.name, "u32") && !strings.HasPrefix(in.name, "mul.wide") {
			n = uint64(uint32(n))
		}
		th.regs[in.ops[0]] = n
	}
	flag := func(yes bool) { th.regs[in.ops[0]] = map[bool]uint64{true: 1}[yes] }
	shared := len(parts) > 1 && parts[1] == "shared"
	pair := func(op string) []string {
		return strings.Split(strings.ReplaceAll(strings.Trim(op, "{}"), " ", ""), ",")
	}
	switch in.name {
	case "ld.param.u64", "ld.param.u32":
		set(b.params[strings.Trim(in.ops[1], "[]")])
	case "cvta.to.global.u64", "mov.u32", "mov.u64":
		set(v(1))
	case "add.u64", "add.u32":
		set(v(1) + v(2))
	case "shr.u32":
		set(v(1) >> v(2))
	case "mul.wide.u32":
		set(v(1) * v(2))
	case "setp.ge.u32":
		flag(v(1) >= v(2))
	case "setp.lt.u32":
		flag(v(1) < v(2))
	case "setp.ne.u32":
		flag(v(1) != v(2))
	case "mad.lo.u64":
		set(v(1)*v(2) + v(3))
	case "mad.lo.cc.u64":
		sum, carry := bits.Add64(v(1)*v(2), v(3), 0)
		th.carry = carry
		set(sum)
	case "madc.hi.u64":
		hi, _ := bits.Mul64(v(1), v(2))
		set(hi + v(3) + th.carry)
	case "add.cc.u64":
		sum, carry := bits.Add64(v(1), v(2), 0)
		th.carry = carry
		set(sum)
	case "addc.u64":
		set(v(1) + v(2) + th.carry)
	case "ld.global.u64":
		set(binary.LittleEndian.Uint64(b.bytes(th, in.ops[1], false)))
	case "ld.global.v2.u64", "ld.shared.v2.u64":
		from := b.bytes(th, in.ops[1], shared)
		for i, r := range pair(in.ops[0]) {
			th.regs[r] = binary.LittleEndian.Uint64(from[8*i:])
		}
	case "st.global.v2.u64", "st.shared.v2.u64":
		to := b.bytes(th, in.ops[0], shared)
		for i, r := range pair(in.ops[1]) {
			binary.LittleEndian.PutUint64(to[8*i:], b.value(th, r))
		}
	default:
		b.t.Fatalf("no instruction %s", in.name)
	}
}

// TestDigestPTXIsTheBody carries out the text and compares with the body.
func TestDigestPTXIsTheBody(t *testing.T) {
	const base, units = 0x7f0000000000, 2
	b := assemble(t, string(DigestPTX()))
	b.memory = flat{base, make([]byte, 64<<10+units*DigestUnit)}
	key := randomBytes(9, DigestKeyBytes)
	copy(b.memory.data[1024:], key)
	data := b.memory.data[64<<10:]
	copy(data, randomBytes(10, units*DigestUnit))
	for u := range units {
		binary.LittleEndian.PutUint64(b.memory.data[8*u:], base+64<<10+uint64(u)*DigestUnit)
	}
	for name, v := range map[string]uint64{"out": base + 512, "units": base, "keys": base + 1024, "n": units} {
		b.params[name] = v
	}
	b.launch(0, 1, DigestThreads) // both units, one after the other
	for u := range units {
		want := Digest(key, data[u*DigestUnit:][:DigestUnit])
		if have := fmt.Sprintf("%x", b.memory.data[512+16*u:][:16]); have != fmt.Sprintf("%x", want) {
			t.Errorf("unit %d: %s, want %x", u, have, want)
		}
	}
}
