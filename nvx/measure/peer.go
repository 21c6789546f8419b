package measure

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"xmsched/nvx/sheet"
)

// What a peer does when it is told so.
const (
	doBeat     = "beat"     // run a kernel without end
	doRest     = "rest"     // end it
	doRate     = "rate"     // count its beats for a window
	doRequests = "requests" // run empty commands, one at a time
	doRequest  = "request"  // run one long request: answered when it is launched, and when it is done
	doWrite    = "write"    // fill memory with a pattern
)

// order is one line to a peer, answer one from it.
type order struct {
	Do        string `json:"do"`
	N         int    `json:"n,omitempty"`
	Allocator string `json:"allocator,omitempty"`
	Pattern   uint32 `json:"pattern,omitempty"`
	Keep      bool   `json:"keep,omitempty"`
}

type answer struct {
	Error string       `json:"error,omitempty"`
	Rate  float64      `json:"rate,omitempty"` // beats a second
	Times *sheet.Times `json:"times,omitempty"`
	Bytes uint64       `json:"bytes,omitempty"`
}

// peer is the second process, as the worker has it. It belongs to one goroutine.
type peer struct {
	cmd     *exec.Cmd
	orders  io.WriteCloser
	answers *json.Decoder
	read    *os.File
}

// newPeer starts this program again in the role of a peer. The caller is locked
// to its thread: when the thread ends, the peer is killed.
func newPeer(uuid string, start func(role, uuid string) *exec.Cmd) (*peer, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start a second process: %w", err)
	}
	p := &peer{cmd: start(rolePeer, uuid), read: r, answers: json.NewDecoder(r)}
	p.cmd.ExtraFiles = []*os.File{w}
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.orders, err = p.cmd.StdinPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	_ = w.Close() // the child has its own
	if err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("start a second process: %w", err)
	}
	if _, err := p.next(); err != nil { // it has its context
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

func (p *peer) next() (answer, error) {
	var a answer
	if err := p.answers.Decode(&a); err != nil {
		return a, fmt.Errorf("the second process: %w", err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("the second process: %s", a.Error)
	}
	return a, nil
}

func (p *peer) ask(o order) (answer, error) {
	if err := json.NewEncoder(p.orders).Encode(o); err != nil {
		return answer{}, fmt.Errorf("the second process: %w", err)
	}
	return p.next()
}

func (p *peer) beat() error { _, err := p.ask(order{Do: doBeat}); return err }
func (p *peer) rest() error { _, err := p.ask(order{Do: doRest}); return err }

func (p *peer) rate() (float64, error) {
	a, err := p.ask(order{Do: doRate})
	return a.Rate, err
}

func (p *peer) requests(n int) (*sheet.Times, error) {
	a, err := p.ask(order{Do: doRequests, N: n})
	return a.Times, err
}

// beginRequest has the peer launch a request; endRequest, which has to follow, waits
// for its end.
func (p *peer) beginRequest() error { _, err := p.ask(order{Do: doRequest}); return err }
func (p *peer) endRequest() error   { _, err := p.next(); return err }

func (p *peer) write(allocator string, pattern uint32, keep bool) (uint64, error) {
	a, err := p.ask(order{Do: doWrite, Allocator: allocator, Pattern: pattern, Keep: keep})
	return a.Bytes, err
}

// end lets the peer end, and waits for it.
func (p *peer) end() error {
	_ = p.orders.Close() // it may be gone already
	err := p.cmd.Wait()
	_ = p.read.Close()
	if err != nil {
		return fmt.Errorf("the second process: %w", err)
	}
	return nil
}

// serve is the peer itself: it does what its input says, until that ends.
func serve(g *gpu, in io.Reader, out io.Writer) error {
	if err := g.open(); err != nil {
		return err
	}
	h, err := g.newWork(endless)
	if err != nil {
		return err
	}
	r, err := g.newWork(requestLength)
	if err != nil {
		return err
	}
	s := &server{gpu: g, heart: h, request: r}
	tell := json.NewEncoder(out)
	if err := tell.Encode(answer{}); err != nil {
		return err
	}
	for lines := json.NewDecoder(bufio.NewReader(in)); ; {
		var o order
		if err := lines.Decode(&o); errors.Is(err, io.EOF) {
			return s.rest()
		} else if err != nil {
			return err
		}
		a, err := s.obey(o)
		if err != nil {
			a.Error = oneLine(err)
		}
		if err := tell.Encode(a); err != nil {
			return err
		}
		if o.Do == doRequest && err == nil {
			if err := s.request.stream.Synchronize(); err != nil {
				return err
			}
			if err := tell.Encode(answer{}); err != nil {
				return err
			}
		}
	}
}

// requestLength is that of a long request: one that a background is suspended for.
const requestLength = 6 * time.Millisecond

type server struct {
	gpu     *gpu
	heart   *heart
	request *heart // ends by itself
	running bool
}

func (s *server) obey(o order) (a answer, err error) {
	switch o.Do {
	case doBeat:
		if !s.running {
			err = s.heart.start(s.gpu)
			s.running = err == nil
		}
	case doRest:
		err = s.rest()
	case doRate:
		a.Rate = s.heart.rate()
	case doRequest:
		err = s.request.launch(s.gpu)
	case doRequests:
		a.Times, err = s.requests(o.N)
	case doWrite:
		a.Bytes, err = s.write(o)
	default:
		err = fmt.Errorf("no such order: %q", o.Do)
	}
	return a, err
}

func (s *server) rest() error {
	if !s.running {
		return nil
	}
	s.running = false
	return s.heart.end()
}

// requests times empty commands from launch to completion. They come at any
// moment of the other process's turns.
func (s *server) requests(n int) (*sheet.Times, error) {
	var took []time.Duration
	for i := range min(n, 10_000) + 1 {
		anyMoment(4 * time.Millisecond)
		begin := time.Now()
		err := s.gpu.driver.Launch(s.gpu.empty, [3]uint32{1, 1, 1}, [3]uint32{32, 1, 1}, 0, s.heart.stream, nil)
		if err = errors.Join(err, s.heart.stream.Synchronize()); err != nil {
			return nil, err
		}
		if i > 0 { // the first loads the kernel
			took = append(took, time.Since(begin))
		}
	}
	return times(took), nil
}

func (s *server) write(o order) (uint64, error) {
	chunks, err := s.gpu.leave(o.Allocator, o.Pattern)
	if !o.Keep || err != nil {
		err = errors.Join(err, s.gpu.giveAll(chunks))
	}
	return uint64(len(chunks)) * chunkBytes, err
}
