// Package top is the live view of xcli top: what it shows for what the daemon said,
// and what it does for a key. It asks nobody by itself: an Asker does, whose answers
// come back as messages, so that every picture is a function of its model.
//
// Concurrency: bubbletea calls Update and View on one goroutine, and runs what
// Update returns on others.
package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"xmsched/compute"
	xserverv1 "xmsched/xserver/api/v1"
)

// Sample is what the daemon said at a time.
type Sample struct {
	At       time.Time
	Policy   string
	Policies []string // that there are
	Uptime   time.Duration
	Tasks    []*xserverv1.Task // as of a report
	Memory   map[string]Memory // by UUID, of devices of which figures are there
	Err      error             // nothing else holds then
}

// Memory is how full a device is, in bytes.
type Memory struct{ Used, Total uint64 }

// Asker asks the daemon. Its functions may take their time; each is called on a
// goroutine of its own.
type Asker interface {
	Sample() Sample
	SetPriority(task uint64, priority int) error
	SetPolicy(name string) error
}

// Options say how it looks.
type Options struct {
	Width, Height int  // until a terminal says otherwise
	ASCII         bool // no character beyond ASCII
	Plain         bool // no colours
	Interval      time.Duration
}

// Model is the state of the view.
type Model struct {
	options Options
	ask     Asker
	paint   theme
	sample  Sample

	at      line // the selected one
	byShare bool // sorted so

	menu    bool // of policies
	choice  int
	message string
	failed  bool  // the message says that something went wrong
	trouble error // why there is no newer sample
}

// line names a row: a task on a device.
type line struct {
	task   uint64
	device string
}

// New makes a view that has seen nothing yet.
func New(ask Asker, o Options) Model {
	return Model{options: o, ask: ask, paint: themeOf(o.Plain)}
}

// With is the view after a sample, for a picture without a program around it.
func (m Model) With(s Sample) Model {
	m.take(s)
	return m
}

type (
	tickMsg time.Time
	didMsg  struct {
		text string
		err  error
	}
)

// Init asks for the first sample.
func (m Model) Init() tea.Cmd { return m.fetch }

func (m Model) fetch() tea.Msg { return m.ask.Sample() }

// Update takes in what happened.
func (m Model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.options.Width, m.options.Height = msg.Width, msg.Height
	case Sample:
		m.take(msg)
		return m, tea.Tick(m.options.Interval, func(t time.Time) tea.Msg { return tickMsg(t) })
	case lookMsg:
		m.take(Sample(msg))
	case tickMsg:
		return m, m.fetch
	case didMsg:
		m.message, m.failed = msg.text, msg.err != nil
		if msg.err != nil {
			m.message = msg.err.Error()
		}
		return m, func() tea.Msg { return lookMsg(m.ask.Sample()) }
	case tea.KeyPressMsg:
		return m.key(msg.String())
	}
	return m, nil
}

// View is the picture.
func (m Model) View() tea.View {
	v := tea.NewView(m.Picture())
	v.AltScreen = true
	v.WindowTitle = "xcli top"
	return v
}

func (m *Model) take(s Sample) {
	if m.trouble = s.Err; s.Err != nil {
		return
	}
	m.sample = s
	rows := m.rows()
	if i := m.index(rows); i < 0 && len(rows) > 0 {
		m.at = rows[0].line
	}
}

// index is where the selected row is; negative: it is gone.
func (m *Model) index(rows []row) int {
	return slices.IndexFunc(rows, func(r row) bool { return r.line == m.at })
}

func (m Model) key(key string) (tea.Model, tea.Cmd) {
	m.message, m.failed = "", false
	if m.menu {
		return m.menuKey(key)
	}
	switch key {
	case "q", "Q", "ctrl+c", "ctrl+d", "esc":
		return m, tea.Quit
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "home", "g":
		m.move(-1 << 20)
	case "end", "G":
		m.move(1 << 20)
	case "pgup":
		m.move(-m.options.Height / 2)
	case "pgdown":
		m.move(m.options.Height / 2)
	case "s":
		m.byShare = !m.byShare
	case "+", "=":
		return m, m.prioritize(1)
	case "-", "_":
		return m, m.prioritize(-1)
	case "]":
		return m, m.prioritize(10)
	case "[":
		return m, m.prioritize(-10)
	case "p":
		m.menu = len(m.sample.Policies) > 0
		m.choice = max(0, slices.Index(m.sample.Policies, m.sample.Policy))
	}
	return m, nil
}

func (m Model) menuKey(key string) (tea.Model, tea.Cmd) {
	n := len(m.sample.Policies)
	switch key {
	case "ctrl+c":
		return m, tea.Quit
	case "up", "k", "left", "h":
		m.choice = (m.choice + n - 1) % n
	case "down", "j", "right", "l", "p":
		m.choice = (m.choice + 1) % n
	case "enter", "space":
		name := m.sample.Policies[min(m.choice, n-1)]
		m.menu = false
		return m, m.then("policy is "+name, func() error { return m.ask.SetPolicy(name) })
	case "q", "esc":
		m.menu = false
	}
	return m, nil
}

// move selects another row.
func (m *Model) move(by int) {
	rows := m.rows()
	if len(rows) > 0 {
		m.at = rows[min(max(m.index(rows)+by, 0), len(rows)-1)].line
	}
}

// prioritize changes the selected task's priority.
func (m Model) prioritize(by int) tea.Cmd {
	rows := m.rows()
	i := m.index(rows)
	if i < 0 {
		return nil
	}
	r := rows[i]
	priority := min(max(int(r.task.GetHints().GetPriority())+by, compute.MinPriority), compute.MaxPriority)
	text := fmt.Sprintf("priority of task %d is %d", r.task.Id, priority)
	return m.then(text, func() error { return m.ask.SetPriority(r.task.Id, priority) })
}

// then does something and says so.
func (m Model) then(text string, do func() error) tea.Cmd {
	return func() tea.Msg { return didMsg{text, do()} }
}

// lookMsg is a sample out of turn: the next one is on its way already.
type lookMsg Sample

// row is a task on a device.
type row struct {
	line
	task   *xserverv1.Task
	on     *xserverv1.Device // nil: it is on none yet
	level  uint32
	number int // of the device in the head
}

// rows are all lines, in order.
func (m *Model) rows() []row {
	var rows []row
	devices := m.devices()
	for _, t := range m.sample.Tasks {
		if len(t.Devices) == 0 {
			rows = append(rows, row{line: line{task: t.Id}, task: t, number: -1})
		}
		for _, d := range t.Devices {
			number := slices.IndexFunc(devices, func(x device) bool { return x.uuid == d.Uuid })
			rows = append(rows, row{line{t.Id, d.Uuid}, t, d, levelOn(t, d.Uuid), number})
		}
	}
	if m.byShare {
		slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(lastShare(b.on), lastShare(a.on)) })
	}
	return rows
}

// levelOn is the level at which a task is stopped on a device: the lowest of its
// processes'.
func levelOn(t *xserverv1.Task, uuid string) uint32 {
	level := uint32(0)
	for _, p := range t.Processes {
		for _, d := range p.Devices {
			if d.Uuid == uuid && (level == 0 || d.Level < level) {
				level = d.Level
			}
		}
	}
	return level
}

// device is one of the head's.
type device struct {
	uuid, name string
	shares     []uint32 // of all tasks, the newest last
}

// devices are those that tasks use.
func (m *Model) devices() []device {
	var list []device
	for _, t := range m.sample.Tasks {
		for _, d := range t.Devices {
			i := slices.IndexFunc(list, func(x device) bool { return x.uuid == d.Uuid })
			if i < 0 {
				list = append(list, device{uuid: d.Uuid, name: d.Name})
				i = len(list) - 1
			}
			list[i].shares = sum(list[i].shares, d.Shares)
		}
	}
	slices.SortFunc(list, func(a, b device) int { return strings.Compare(a.uuid, b.uuid) })
	return list
}

// sum adds up two series that end at the same time.
func sum(a, b []uint32) []uint32 {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	for i := range b {
		out[len(out)-len(b)+i] += b[i]
	}
	return out
}

func lastShare(d *xserverv1.Device) uint32 {
	if n := len(d.GetShares()); n > 0 {
		return d.Shares[n-1]
	}
	return 0
}

// state words what a task does on a device, as xcli list does.
func (r row) state() string {
	stopped := len(r.task.Processes) > 0
	for _, p := range r.task.Processes {
		stopped = stopped && p.Stopped
	}
	d := r.on
	switch {
	case stopped:
		return "stopped"
	case d == nil:
		return "idle"
	case d.Newcomer:
		return "newcomer"
	case d.Ready && d.Open:
		return "running"
	case d.Ready && d.Held:
		return "suspended"
	case d.Ready || !d.Open && d.WaitingThreads > 0:
		return "gated"
	}
	return "idle"
}
