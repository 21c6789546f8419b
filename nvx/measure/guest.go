package measure

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"xmsched/hal/cuda"
	"xmsched/hal/kernels"
)

// guest is a heart in a further context of this process, on a thread of its own.
type guest struct {
	*heart
	begin chan error    // one value: the kernel is launched, or why not
	over  chan struct{} // closed by leave
	ended chan error    // one value, the last
}

// invite begins to make a context and to run a heart in it; it does not wait.
func (g *gpu) invite() (*guest, error) {
	w, err := newWords(g.driver, heartWords)
	if err != nil {
		return nil, err
	}
	q := &guest{heart: &heart{words: w}, begin: make(chan error, 1), over: make(chan struct{}), ended: make(chan error, 1)}
	go func() { // ends after leave
		runtime.LockOSThread() // never unlocked: the thread goes with the goroutine
		q.ended <- q.live(g)
	}()
	return q, nil
}

func (q *guest) live(g *gpu) error {
	ctx, err := g.driver.NewContext(g.device, 0)
	if err != nil {
		q.begin <- err
		return nil // told
	}
	err = q.run(g)
	q.begin <- err
	<-q.over
	if err == nil {
		err = q.end()
	} else {
		err = nil // told
	}
	return errors.Join(err, ctx.Release())
}

func (q *guest) run(g *gpu) error {
	module, err := g.driver.LoadModule(kernels.ProbePTX())
	if err != nil {
		return err
	}
	beat, err := module.Function("xm_heartbeat")
	if err != nil {
		return err
	}
	if q.stream, err = g.driver.NewStream(nonBlocking); err != nil {
		return err
	}
	if q.args, err = cuda.NewLaunchArgs(q.at(wordBeats), q.at(wordStop), beatLimit); err != nil {
		return err
	}
	q.kernel, q.grid, q.block = beat, g.blocks, 128
	return q.launch(g)
}

// begun waits for the launch.
func (q *guest) begun(limit time.Duration) (inTime bool, err error) {
	select {
	case err := <-q.begin:
		if err != nil {
			return true, fmt.Errorf("make a further context: %w", err)
		}
		return true, nil
	case <-time.After(limit):
		return false, nil
	}
}

// goesOn waits until the guest's kernel runs; launched says whether begun has
// seen its launch.
func (q *guest) goesOn(launched bool) error {
	if !launched {
		inTime, err := q.begun(firstBeat)
		if err != nil {
			return err
		}
		if !inTime {
			return fmt.Errorf("a context that was begun while its process was suspended is not there %v after the resumption", firstBeat)
		}
	}
	if !q.beating(firstBeat) {
		return fmt.Errorf("a kernel in a further context did not run within %v of the resumption", firstBeat)
	}
	return nil
}

// leave ends the kernel and the context. The process must not be held.
func (q *guest) leave() error {
	close(q.over)
	select {
	case err := <-q.ended:
		if err != nil {
			return fmt.Errorf("end a further context: %w", err)
		}
		return nil // its words stay: freeing them would wait for other kernels
	case <-time.After(firstBeat):
		return fmt.Errorf("a further context did not end within %v", firstBeat)
	}
}
