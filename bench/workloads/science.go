package workloads

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"xmsched/bench/internal/limit"
	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
)

// Science is a program of scientific kernels (package kernels, Science), each
// launched again and again with sizes that are drawn anew.
type Science struct {
	MiB    int    // of each of its buffers
	Rounds int    // launches of each kernel
	Seed   uint64 // of the sizes: another gives others
	Dense  int    // largest side of a matrix that is multiplied
}

// Validate says what is wrong with the settings.
func (s Science) Validate() error {
	return limit.First(
		limit.Check("mib", s.MiB, 4, 1024),
		limit.Check("rounds", s.Rounds, 1, 1000),
		limit.Check("dense", s.Dense, 1, 8192),
	)
}

// scattered bounds the words that a launch reaches one by one.
const scattered = 1 << 18

// scienceBuffers is how many a kernel needs at most.
const scienceBuffers = 5

// scientist runs them. mirror is what each buffer must hold.
type scientist struct {
	gpu     *gpu
	module  *cuda.Module
	stream  cuda.Stream
	rng     *rand.Rand
	indices *rand.Rand // of what is gathered
	words   uint32     // of a buffer
	dense   uint32
	at      [scienceBuffers]uint64
	mirror  [scienceBuffers][]byte
}

// RunScience launches each kernel so many times, and compares what it wrote with what
// the kernel's CPU body makes of the same; in the end every buffer.
func RunScience(_ Steering, say *Speaker, c Science) error {
	if err := c.Validate(); err != nil {
		return err
	}
	g, err := openGPU()
	if err != nil {
		return err
	}
	defer g.close()
	if err := say.Say(Event{Kind: KindReady, Facts: &g.facts}); err != nil {
		return err
	}
	s := &scientist{gpu: g, rng: rand.New(rand.NewPCG(c.Seed, 3)), indices: rand.New(rand.NewPCG(c.Seed, 4)), words: uint32(c.MiB) << 18, dense: uint32(c.Dense)}
	if err := s.prepare(); err != nil {
		return err
	}
	end := Event{Kind: KindResult}
	for range c.Rounds {
		for _, k := range kernels.Science() {
			verified, wrong, err := s.run(k)
			if err != nil {
				return fmt.Errorf("%s: %w", k.Name, err)
			}
			end.Count++
			end.Verified += verified
			end.Wrong += wrong
		}
	}
	for i := range s.at {
		verified, wrong, err := s.check(i)
		if err != nil {
			return err
		}
		end.Verified += verified
		end.Wrong += wrong
	}
	end.AtNS = MonotonicNS()
	return say.Say(end)
}

func (s *scientist) prepare() error {
	d := s.gpu.driver
	var err error
	if s.module, err = d.LoadModule(kernels.SciencePTX()); err != nil {
		return err
	}
	if s.stream, err = d.NewStream(1); err != nil {
		return err
	}
	for i := range s.at {
		p, err := d.MemAlloc(4 * uint64(s.words))
		if err != nil {
			return err
		}
		s.at[i], s.mirror[i] = uint64(p), make([]byte, 4*s.words)
		for w := 0; w < len(s.mirror[i]); w += 4 {
			binary.LittleEndian.PutUint32(s.mirror[i][w:], s.rng.Uint32())
		}
		if err := s.upload(p, s.mirror[i]); err != nil {
			return err
		}
	}
	return nil
}

// upload has bytes be on the device for the stream's next kernel, which would not wait for
// a copy without a stream.
func (s *scientist) upload(to abi.DevicePtr, b []byte) error {
	if err := s.gpu.driver.MemcpyHtoDAsync(to, b, s.stream); err != nil {
		return err
	}
	return s.stream.Synchronize()
}

// View implements kernels.Memory over the mirrors.
func (s *scientist) View(addr, n uint64, _ kernels.Access) ([]byte, error) {
	for i, at := range s.at {
		if off := addr - at; addr >= at && off <= uint64(len(s.mirror[i])) && n <= uint64(len(s.mirror[i]))-off {
			return s.mirror[i][off : off+n], nil
		}
	}
	return nil, fmt.Errorf("%d bytes at %#x are in no buffer", n, addr)
}

func (s *scientist) upTo(n uint32) uint32 { return 1 + s.rng.Uint32N(max(n, 1)) }

// put writes words into a buffer, on the device as well.
func (s *scientist) put(buffer int, words []uint32) error {
	b := s.mirror[buffer][:4*len(words)]
	for i, w := range words {
		binary.LittleEndian.PutUint32(b[4*i:], w)
	}
	return s.upload(abi.DevicePtr(s.at[buffer]), b)
}

// arguments draws a launch's sizes, and writes what a kernel follows in memory. The
// values are those of the kernel's parameters, a structure's one by one.
func (s *scientist) arguments(name string) (values []any, err error) {
	n, a := s.words, s.at
	switch name {
	case "xm_stencil":
		columns := s.upTo(4096)
		return []any{a[0], a[1], s.upTo(n / columns), columns}, nil
	case "xm_matmul":
		return []any{a[0], a[1], a[2], s.upTo(s.dense), s.upTo(s.dense), s.upTo(s.dense)}, nil
	case "xm_sparse":
		return s.sparse()
	case "xm_gather":
		return s.gather()
	case "xm_wavelet":
		rows := s.upTo(64)
		pitch := s.upTo(n/rows) + 1
		return []any{a[0], uint64(pitch), rows, s.upTo(pitch / 2)}, nil
	case "xm_histogram":
		return []any{a[0], a[1], uint64(s.upTo(n))}, nil
	case "xm_batched":
		batches := s.upTo(16)
		stride := s.upTo(n / batches)
		return []any{a[0], a[1], s.upTo(stride), batches, uint64(stride)}, nil
	case "xm_either":
		return []any{a[0], uint32(s.rng.IntN(3)), s.upTo(n)}, nil
	}
	return nil, fmt.Errorf("nobody knows what to launch %s with", name)
}

// gather draws indices over all of the part of the table that the launch names: what an
// earlier kernel left there would lead to the table's beginning alone.
func (s *scientist) gather() ([]any, error) {
	n, size := s.upTo(min(s.words, scattered)), s.upTo(s.words)
	index := make([]uint32, n)
	for i := range index {
		index[i] = s.indices.Uint32()
	}
	if err := s.put(1, index); err != nil {
		return nil, err
	}
	return []any{s.at[0], s.at[1], s.at[2], n, size}, nil
}

// sparse makes a matrix whose rows have a few entries about its diagonal.
func (s *scientist) sparse() ([]any, error) {
	const each = 4
	rows := s.upTo(min(s.words, scattered) / each)
	columns := s.upTo(s.words)
	start, column := make([]uint32, rows+1), make([]uint32, 0, each*rows)
	for r := range rows {
		start[r] = uint32(len(column))
		for i := range s.rng.Uint32N(each + 1) {
			column = append(column, uint32((uint64(r)*uint64(columns)/uint64(rows)+uint64(i))%uint64(columns)))
		}
	}
	start[rows] = uint32(len(column))
	for buffer, words := range map[int][]uint32{1: start, 2: column} {
		if err := s.put(buffer, words); err != nil {
			return nil, err
		}
	}
	return []any{s.at[0], s.at[1], s.at[2], s.at[3], s.at[4], rows, uint32(len(column)), columns}, nil
}

const (
	scienceBlocks  = 528
	scienceThreads = 128
)

// run launches a kernel once and compares every buffer.
func (s *scientist) run(k kernels.Kernel) (verified, wrong uint64, err error) {
	values, err := s.arguments(k.Name)
	if err != nil {
		return 0, 0, err
	}
	block := layOut(values)
	f, err := s.module.Function(k.Name)
	if err != nil {
		return 0, 0, err
	}
	grid, threads := [3]uint32{scienceBlocks, 1, 1}, [3]uint32{scienceThreads, 1, 1}
	args, err := cuda.NewLaunchArgs(slots(k, values, block)...)
	if err != nil {
		return 0, 0, err
	}
	if err := s.gpu.driver.Launch(f, grid, threads, 0, s.stream, args); err != nil {
		return 0, 0, err
	}
	if err := s.stream.Synchronize(); err != nil {
		return 0, 0, err
	}
	if err := k.Body(s, kernels.Launch{Grid: grid, Block: threads, Args: block}); err != nil {
		return 0, 0, err
	}
	return s.check(0) // the first argument of each is what it writes
}

// check compares a buffer with its mirror.
func (s *scientist) check(buffer int) (verified, wrong uint64, err error) {
	got, want := make([]byte, 4*s.words), s.mirror[buffer]
	if err := s.gpu.driver.MemcpyDtoH(got, abi.DevicePtr(s.at[buffer])); err != nil {
		return 0, 0, err
	}
	if bytes.Equal(got, want) {
		return uint64(s.words), 0, nil
	}
	for w := 0; w < len(got); w += 4 {
		if [4]byte(got[w:]) != [4]byte(want[w:]) {
			wrong++
		}
	}
	return uint64(s.words), wrong, nil
}

// slots are a launch's arguments: a structure is one argument, read from the first of
// the words that hold it.
func slots(k kernels.Kernel, values []any, block []byte) []any {
	if len(k.Params) == len(values) {
		return values
	}
	var words []any
	for i := 0; i < len(block); i += 8 {
		words = append(words, binary.LittleEndian.Uint64(block[i:]))
	}
	return words
}

// layOut puts values where the driver has parameters: each aligned to its size.
func layOut(values []any) (b []byte) {
	for _, v := range values {
		switch v := v.(type) {
		case uint32:
			b = binary.LittleEndian.AppendUint32(b, v)
		case uint64:
			for len(b)%8 != 0 {
				b = append(b, 0)
			}
			b = binary.LittleEndian.AppendUint64(b, v)
		}
	}
	return b
}
