package workloads

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// words is shared memory into which the kernels of a chain write that they
// ended, one word each, round and round: the program clears words half a round
// ahead, and a kernel's word holds the kernel's result from its end on.
//
// Whoever reads is in a process of its own and finds the memory by the
// descriptor that the chain's ready event names.
type words struct {
	mapping []byte
}

// Layout: a header of one page, then the words.
const (
	wordSlots   = 1 << 14
	wordsHeader = 4096
	wordsSize   = wordsHeader + 4*wordSlots

	offResult   = 0 // what a kernel writes
	offLaunched = 8 // kernels launched, 64 bits
)

// newWords makes the memory; the descriptor stays open as long as the process.
func newWords() (*words, int, error) {
	fd, err := unix.MemfdCreate("xbench-words", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, 0, fmt.Errorf("make shared words: %w", err)
	}
	if err := unix.Ftruncate(fd, wordsSize); err != nil {
		_ = unix.Close(fd)
		return nil, 0, fmt.Errorf("make shared words: %w", err)
	}
	w, err := mapWords(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, 0, err
	}
	return w, fd, nil
}

// openWords maps the words of another process, by its descriptor there.
func openWords(pid, fd int) (*words, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", pid, fd)
	own, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the words of process %d: %w", pid, err)
	}
	defer unix.Close(own)
	var st unix.Stat_t
	if err := unix.Fstat(own, &st); err != nil {
		return nil, fmt.Errorf("open the words of process %d: %w", pid, err)
	}
	if st.Size != wordsSize {
		return nil, fmt.Errorf("open the words of process %d: %s has %d bytes, want %d", pid, path, st.Size, wordsSize)
	}
	return mapWords(own)
}

func mapWords(fd int) (*words, error) {
	b, err := unix.Mmap(fd, 0, wordsSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map shared words: %w", err)
	}
	return &words{b}, nil
}

func (w *words) close() { _ = unix.Munmap(w.mapping) }

func (w *words) word(off int) *uint32 { return (*uint32)(unsafe.Pointer(&w.mapping[off])) }

// offset of the word of kernel k in the mapping.
func (w *words) offset(k uint64) int { return wordsHeader + 4*int(k%wordSlots) }

// load gives the word of kernel k: 0 until it ended.
func (w *words) load(k uint64) uint32 { return atomic.LoadUint32(w.word(w.offset(k))) }

// clear makes room for kernel k.
func (w *words) clear(k uint64) { atomic.StoreUint32(w.word(w.offset(k)), 0) }

func (w *words) result() uint32     { return atomic.LoadUint32(w.word(offResult)) }
func (w *words) setResult(v uint32) { atomic.StoreUint32(w.word(offResult), v) }

func (w *words) launched() uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&w.mapping[offLaunched])))
}

func (w *words) setLaunched(n uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&w.mapping[offLaunched])), n)
}
