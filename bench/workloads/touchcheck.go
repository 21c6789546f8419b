package workloads

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"xmsched/hal/cuda"
	"xmsched/hal/kernels"
)

// fill writes what each piece holds at first, and meanwhile works out its sum.
func (m *massif) fill() error {
	spin, threads := m.gpu.spin, uint64(touchThreads)
	for i, at := range m.at {
		args, err := cuda.NewLaunchArgs(at, content(m.first, i))
		if err != nil {
			return err
		}
		grid := [3]uint32{uint32(m.words / threads), 1, 1}
		if err := m.gpu.driver.Launch(spin, grid, [3]uint32{touchThreads, 1, 1}, 0, m.stream, args); err != nil {
			return fmt.Errorf("fill piece %d: %w", i+1, err)
		}
	}
	m.each(func(i int) { m.base[i] = sumOf(content(m.first, i), m.words) })
	return m.stream.Synchronize()
}

// each calls f for every piece, on all cores.
func (m *massif) each(f func(piece int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.NumCPU(), m.plan.pieces) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < m.plan.pieces; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// sumOf is what xm_checksum makes of so many words of the generator after that many
// steps.
func sumOf(steps, words uint64) (sum uint64) {
	// A word is linear in its index, so the next one is the last one and the slope.
	word := kernels.SpinResult(0, steps)
	slope := kernels.SpinResult(1, steps) - word
	for i := range words {
		sum += (i + 1) * uint64(word)
		word += slope
	}
	return sum
}

// check compares the sums of all that was read, and then every word that is there.
func (m *massif) check() (verified, wrong uint64, err error) {
	if err := m.stream.Synchronize(); err != nil {
		return 0, 0, err
	}
	want := make([]uint64, m.plan.pieces)
	if m.plan.writes() {
		m.each(func(i int) { want[i] = m.sumNow(i) })
	} else {
		read, err := m.readSums()
		if err != nil {
			return 0, 0, err
		}
		for i, sum := range read {
			if sum != m.touched[i]*m.base[i] {
				wrong++ // at least one word of one pass
			}
			verified += m.touched[i] * m.words
		}
		copy(want, m.base)
	}
	found, err := m.sumsNow()
	if err != nil {
		return 0, 0, err
	}
	for i, sum := range found {
		verified += m.words
		if sum == want[i] {
			continue
		}
		n, err := m.differing(i)
		if err != nil {
			return 0, 0, err
		}
		wrong += max(n, 1)
	}
	return verified, wrong, nil
}

// sumNow is the sum of what a piece that was written must hold.
func (m *massif) sumNow(piece int) (sum uint64) {
	if !m.worked(piece) {
		return sumOf(m.steps(piece), m.words)
	}
	word := m.word(piece)
	for i := range m.words {
		sum += (i + 1) * uint64(word(i))
	}
	return sum
}

// worked says whether a piece has been worked out of the one before.
func (m *massif) worked(piece int) bool {
	return m.plan.pattern == PatternStencil && piece%2 == 1 && m.touched[piece] > 0
}

// steps is how many of the generator made what a piece must hold that was not.
func (m *massif) steps(piece int) uint64 {
	n := content(m.first, piece)
	if m.plan.writes() && m.plan.pattern != PatternStencil {
		n += m.touched[piece] * uint64(m.rounds)
	}
	return n
}

// word gives the words that a piece must hold.
func (m *massif) word(piece int) func(uint64) uint32 {
	if m.worked(piece) {
		before := linear(content(m.first, piece-1))
		return func(i uint64) uint32 { return kernels.StencilResult(before, m.words, stencilColumns, i) }
	}
	return linear(m.steps(piece))
}

// linear is what the generator makes of indices after so many steps: it is linear.
func linear(steps uint64) func(uint64) uint32 {
	first := kernels.SpinResult(0, steps)
	slope := kernels.SpinResult(1, steps) - first
	return func(i uint64) uint32 { return first + slope*uint32(i) }
}

func (m *massif) readSums() ([]uint64, error) {
	b := make([]byte, 8*m.plan.pieces)
	if err := m.gpu.driver.MemcpyDtoH(b, m.sums); err != nil {
		return nil, err
	}
	sums := make([]uint64, m.plan.pieces)
	for i := range sums {
		sums[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return sums, nil
}

// sumsNow has the device sum up every piece, wherever it lies.
func (m *massif) sumsNow() ([]uint64, error) {
	if err := m.gpu.driver.MemsetD32Async(m.sums, 0, uint64(2*m.plan.pieces), m.stream); err != nil {
		return nil, err
	}
	for i, at := range m.at {
		args, err := cuda.NewLaunchArgs(m.sumAt(i), at, m.words)
		if err != nil {
			return nil, err
		}
		grid := [3]uint32{touchBlocks * m.gpu.blocks, 1, 1}
		if err := m.gpu.driver.Launch(m.sum, grid, [3]uint32{touchThreads, 1, 1}, 0, m.stream, args); err != nil {
			return nil, err
		}
	}
	if err := m.stream.Synchronize(); err != nil {
		return nil, err
	}
	return m.readSums()
}

// differing counts the words of a piece that are not what they must be.
func (m *massif) differing(piece int) (n uint64, err error) {
	b := make([]byte, 4*m.words)
	if err := m.gpu.driver.MemcpyDtoH(b, m.at[piece]); err != nil {
		return 0, err
	}
	word := m.word(piece)
	for i := range m.words {
		if binary.LittleEndian.Uint32(b[4*i:]) != word(i) {
			n++
		}
	}
	return n, nil
}
