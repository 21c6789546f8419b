package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows what is being done: a bar on a terminal, elsewhere one line at
// the start of each step and at most one every few seconds within it. Safe for
// concurrent use.
type progress struct {
	w    io.Writer
	bars bool

	mu   sync.Mutex // protects the fields below
	what string
	bar  *progressbar.ProgressBar
	told time.Time
}

const linesEvery = 5 * time.Second

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, bars: ok && term.IsTerminal(int(f.Fd()))}
}

// report says that done of total of a step are done.
func (p *progress) report(what string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bars {
		p.reportBar(what, done, total)
		return
	}
	if what != p.what {
		p.what, p.told = what, time.Now()
		fmt.Fprintf(p.w, "%s ...\n", what)
		return
	}
	if total > 1 && time.Since(p.told) >= linesEvery {
		p.told = time.Now()
		fmt.Fprintf(p.w, "%s: %d of %d\n", what, done, total)
	}
}

func (p *progress) reportBar(what string, done, total int) {
	if what != p.what {
		p.finish()
		p.what = what
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(p.w),
			progressbar.OptionSetDescription(fmt.Sprintf("%-32s", what)),
			progressbar.OptionSetWidth(30),
			progressbar.OptionThrottle(50*time.Millisecond),
			progressbar.OptionSetPredictTime(false),
			progressbar.OptionShowCount(),
		)
	}
	_ = p.bar.Set(done) // a bar that cannot be drawn is no reason to stop
}

// finish ends the running bar, if there is one.
func (p *progress) finish() {
	if p.bar == nil {
		return
	}
	_ = p.bar.Finish()
	fmt.Fprintln(p.w)
	p.bar = nil
}

// done is the end of all steps.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
	p.what = ""
}
