package workloads

import (
	"os"
	"strings"
	"testing"
)

func TestWordsAreSharedByDescriptor(t *testing.T) {
	mine, fd, err := newWords()
	if err != nil {
		t.Fatal(err)
	}
	defer mine.close()
	theirs, err := openWords(os.Getpid(), fd)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.close()
	mine.setResult(0xdeadbeef)
	mine.setLaunched(1 << 40)
	const k = 5*wordSlots + 7
	*mine.word(mine.offset(k)) = 0xdeadbeef
	if theirs.result() != 0xdeadbeef || theirs.launched() != 1<<40 || theirs.load(k) != 0xdeadbeef || theirs.load(k-1) != 0 {
		t.Error("the other mapping does not show what was written")
	}
	mine.clear(k + wordSlots)
	if theirs.load(k) != 0 {
		t.Error("a word of the next round is another one")
	}
}

func TestWordsOfSomethingElse(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := openWords(os.Getpid(), int(f.Fd())); err == nil || !strings.Contains(err.Error(), "0 bytes") {
		t.Errorf("error %v", err)
	}
	if _, err := openWords(os.Getpid(), 1<<20); err == nil {
		t.Error("a descriptor that is not open was taken")
	}
}

func TestBoardOfAProcessWithoutOne(t *testing.T) {
	if _, err := boardOf(os.Getpid()); err == nil || !strings.Contains(err.Error(), "xrun") {
		t.Errorf("error %v, want the likely reason", err)
	}
}

// The chain sees its kernels end in order, and a wrong word as what it is.
func TestLinksLook(t *testing.T) {
	w, _, err := newWords()
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	w.setResult(9)
	w.setLaunched(3)
	l := &links{words: w}
	*w.word(w.offset(1)) = 9 // out of order: not counted yet
	if l.look(); l.seen != 0 {
		t.Errorf("%d kernels ended", l.seen)
	}
	*w.word(w.offset(0)) = 8
	if l.look(); l.seen != 2 || l.wrong != 1 {
		t.Errorf("%d ended, %d wrong, want 2 and 1", l.seen, l.wrong)
	}
	*w.word(w.offset(2)), *w.word(w.offset(3)) = 9, 9
	if l.look(); l.seen != 3 {
		t.Errorf("%d ended of 3 launched", l.seen)
	}
}
