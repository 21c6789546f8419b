package measure

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"xmsched/nvx/sheet"
)

const (
	// calm is how long a suspended kernel is watched: longer than a busy
	// neighbour's turn, in which a kernel that is not suspended stands still too.
	calm = 8 * time.Millisecond
	// again is how long a resumed kernel may take to go on, others' turns included.
	again = 2 * time.Second
	// newcomerTime is how long a context may take to be made while the process is
	// suspended; one that needs the GPU for it waits for the end of the suspension.
	newcomerTime = 500 * time.Millisecond
	// rounds of suspension in the probe.
	probeRounds = 5
)

// errUnknown is what there is to say where the library knows nothing.
var errUnknown = errors.New("the driver has made this process's channels in a way that is not known, or somebody else's rules hold for them (MPS, MIG, a debugger)")

// probe tries what level 3 rests on, in this process alone.
func probe(g *gpu, c *channels, bound error) *sheet.Probe {
	begin := time.Now()
	p := &sheet.Probe{At: begin.UTC().Truncate(time.Second)}
	err := bound
	if err == nil {
		err = probeSteps(g, c, p)
	}
	p.Level3 = err == nil
	if err != nil {
		p.Why = oneLine(err)
	}
	p.TookMS = milliseconds(time.Since(begin))
	return p
}

func probeSteps(g *gpu, c *channels, p *sheet.Probe) error {
	var err error
	p.ComputeGroups, p.Groups, p.Channels, err = c.known()
	if errors.Is(err, unix.ENODEV) || err == nil && (p.ComputeGroups == 0 || p.Channels == 0) {
		return errUnknown
	}
	if err != nil {
		return err
	}
	// Harmless, and refused where the control is not to be had at all.
	if err := c.set(holdNone); err != nil {
		return err
	}
	h, err := g.newHeart()
	if err != nil {
		return err
	}
	if err := h.start(g); err != nil {
		return err
	}
	err = suspensions(c, h)
	if err == nil {
		err = setSlices(c)
	}
	var q *guest
	if err == nil {
		q, err = newcomer(g, c, h, p)
	}
	// Whatever happened: nothing of this process may stay suspended.
	if resumed := c.set(holdNone); err == nil {
		err = resumed
	}
	if ended := h.end(); err == nil && ended != nil {
		err = fmt.Errorf("the kernel that had been suspended: %w", ended)
	}
	if q != nil { // last: the end of a context waits for the kernels of the others
		err = errors.Join(err, q.leave())
	}
	h.close()
	return err
}

// suspensions stops the kernel and lets it go on, several times; asking twice for
// the same must do no harm.
func suspensions(c *channels, h *heart) error {
	for round := range probeRounds {
		for range 1 + round%2 {
			if err := c.set(holdCompute); err != nil {
				return err
			}
		}
		if !h.still(calm) {
			return errNotStill
		}
		for range 1 + round%2 {
			if err := c.set(holdNone); err != nil {
				return err
			}
		}
		if !h.beating(again) {
			return fmt.Errorf("a kernel did not go on within %v of its resumption", again)
		}
	}
	return nil
}

// setSlices sets the shortest time slice and restores what was.
func setSlices(c *channels) error {
	for _, us := range []uint32{1, sliceBefore} {
		if err := c.setSlice(us); err != nil {
			return err
		}
	}
	return nil
}

// newcomer makes a context while the process is suspended: what runs in it has
// to stand still as well. The guest, if there is one, has to leave.
func newcomer(g *gpu, c *channels, h *heart, p *sheet.Probe) (*guest, error) {
	if err := c.set(holdCompute); err != nil {
		return nil, err
	}
	q, err := g.invite()
	if err != nil {
		return nil, err
	}
	inTime, err := q.begun(newcomerTime)
	if err == nil && !inTime {
		p.Notes = append(p.Notes, "a context that is made while its process is suspended waits for the end of the suspension")
	}
	if err == nil && (!h.still(calm) || inTime && !q.still(calm)) {
		err = fmt.Errorf("%w (a context had been made meanwhile)", errNotStill)
	}
	if resumed := c.set(holdNone); err == nil {
		err = resumed
	}
	if err == nil {
		err = q.goesOn(inTime)
	}
	if err == nil && !h.beating(again) {
		err = fmt.Errorf("a kernel did not go on within %v of its resumption", again)
	}
	return q, err
}
