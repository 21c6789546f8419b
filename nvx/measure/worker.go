package measure

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"xmsched/nvx/sheet"
)

// The roles of a child.
const (
	roleDevices = "devices" // list the devices
	roleProbe   = "probe"   // the probe alone
	roleMeasure = "measure" // probe and figures
	rolePeer    = "peer"    // the worker's second process
)

// eventsFD is where a child writes its lines: its standard output may carry the
// chatter of libraries.
const eventsFD = 3

// event is one line of a worker.
type event struct {
	// Step that begins now, Done of Total before it. Level3: a crash in it says
	// something about level 3.
	Step   string `json:"step,omitempty"`
	Done   int    `json:"done,omitempty"`
	Total  int    `json:"total,omitempty"`
	Level3 bool   `json:"level3,omitempty"`

	Sheet *sheet.Sheet `json:"sheet,omitempty"` // as it is by now
	End   bool         `json:"end,omitempty"`   // nothing comes after it
	Error string       `json:"error,omitempty"` // nothing comes after it
}

// Worker is the child's side of Run: the program that Config names calls it with
// the arguments behind Config.Args, and ends when it returns. again starts the
// same program in another role.
func Worker(args []string, again func(role, uuid string) *exec.Cmd) error {
	if len(args) != 2 {
		return fmt.Errorf("worker of the measurements: %d arguments, want a role and a UUID", len(args))
	}
	out := os.NewFile(eventsFD, "events")
	runtime.LockOSThread()
	role, uuid := args[0], args[1]
	if role == rolePeer {
		g, err := find(uuid)
		if err == nil {
			err = serve(g, os.Stdin, out)
		}
		if err != nil {
			_ = json.NewEncoder(out).Encode(answer{Error: oneLine(err)}) // and by the exit code
		}
		return err
	}
	w := &worker{tell: json.NewEncoder(out), again: again}
	if err := w.work(role, uuid); err != nil {
		w.say(event{Error: oneLine(err)})
		return err
	}
	w.say(event{End: true})
	return w.deaf
}

// worker is the process that measures. It belongs to one goroutine, on one
// thread.
type worker struct {
	tell  *json.Encoder
	again func(role, uuid string) *exec.Cmd
	deaf  error // of the first event that could not be said

	sheet       sheet.Sheet
	done, total int
}

func (w *worker) say(e event) {
	if err := w.tell.Encode(e); err != nil && w.deaf == nil {
		w.deaf = fmt.Errorf("tell what was measured: %w", err)
	}
}

func (w *worker) work(role, uuid string) error {
	switch role {
	case roleDevices:
		return w.devices()
	case roleProbe, roleMeasure:
	default:
		return fmt.Errorf("no such role: %q", role)
	}
	g, err := find(uuid)
	if err != nil {
		return err
	}
	if err := w.begin(g); err != nil {
		return err
	}
	c, bound := w.probe(g)
	if role == roleProbe {
		return nil
	}
	return w.measure(g, c, bound)
}

// devices says a sheet of facts for each device.
func (w *worker) devices() error {
	all, err := findAll()
	if err != nil {
		return err
	}
	for _, g := range all {
		if err := w.begin(g); err != nil {
			return err
		}
	}
	return nil
}

// begin says what the device is.
func (w *worker) begin(g *gpu) error {
	driver, err := g.software()
	if err != nil {
		return err
	}
	w.sheet = sheet.Sheet{Schema: sheet.Schema, Simulated: g.simulated, Device: g.facts, Driver: driver}
	w.say(event{Sheet: &w.sheet})
	return nil
}

// probe makes the context and tries level 3; what it found stands in the sheet.
func (w *worker) probe(g *gpu) (*channels, error) {
	w.total = 1
	w.step("probe", true)
	if err := g.open(); err != nil {
		w.sheet.Probe = refusedProbe(err)
		w.say(event{Sheet: &w.sheet})
		return nil, err
	}
	c, err := bindChannels(g.uuid)
	w.sheet.Probe = probe(g, c, err)
	w.say(event{Sheet: &w.sheet})
	return c, nil
}

func refusedProbe(err error) *sheet.Probe {
	return &sheet.Probe{At: time.Now().UTC().Truncate(time.Second), Why: oneLine(err)}
}

// step says what begins.
func (w *worker) step(what string, level3 bool) {
	w.say(event{Step: what, Done: w.done, Total: w.total, Level3: level3})
	w.done++
}

// figure is one thing to measure.
type figure struct {
	name   string
	level3 bool // needs level 3
	take   func(m *sheet.Measured) error
}

// measure takes all figures; one that fails is missing, and the next one's turn
// comes.
func (w *worker) measure(g *gpu, c *channels, opened error) error {
	if opened != nil {
		return opened
	}
	begin := time.Now()
	m := &sheet.Measured{At: begin.UTC().Truncate(time.Second), Levels: levels(), Interfaces: interfaces()}
	w.sheet.Measured = m
	p, err := newPeer(g.facts.UUID, w.again)
	if err != nil {
		return err
	}
	all := w.figures(g, c, p)
	w.total = len(all) + 1
	for _, f := range all {
		w.step(f.name, f.level3)
		err := f.take(m)
		if offered, why := w.sheet.Level3(); f.level3 && !offered && err == nil {
			err = fmt.Errorf("level 3 does not work here: %s", why)
		}
		if err != nil {
			m.Missing = append(m.Missing, sheet.Missing{Figure: f.name, Why: oneLine(err)})
		}
		m.TookMS = milliseconds(time.Since(begin))
		w.say(event{Sheet: &w.sheet})
	}
	return p.end()
}
