package top

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	xserverv1 "xmsched/xserver/api/v1"
)

const gpu0, gpu1 = "GPU-0a0b0c0d-0000-0000-0000-000000000000", "GPU-1a1b1c1d-0000-0000-0000-000000000000"

// wave is a minute's shares.
func wave(n int, f func(i int) uint32) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

func sample() Sample {
	process := func(pid int32, level uint32, uuid string) *xserverv1.Process {
		return &xserverv1.Process{Pid: pid, Devices: []*xserverv1.ProcessDevice{{Uuid: uuid, Level: level}}}
	}
	h200 := func(d *xserverv1.Device) *xserverv1.Device {
		d.Uuid, d.Name = gpu0, "NVIDIA H200"
		return d
	}
	latency := func(n uint64, p50, p99 time.Duration) *xserverv1.Latency {
		return &xserverv1.Latency{Requests: n, P50Ns: uint64(p50), P99Ns: uint64(p99)}
	}
	return Sample{
		At: time.Date(2026, 11, 29, 12, 0, 5, 0, time.UTC), Policy: "HPF", Policies: []string{"HPF", "RR", "WRR", "CFS", "LAX"},
		Uptime: 3*time.Hour + 2*time.Minute + 3*time.Second,
		Tasks: []*xserverv1.Task{
			{Id: 1, Name: "llm-serving", Hints: &xserverv1.Hints{Priority: 10}, Processes: []*xserverv1.Process{process(100, 3, gpu0)},
				Devices: []*xserverv1.Device{h200(&xserverv1.Device{Ready: true, Open: true, Mode: "top", Outstanding: 3, Reason: "foreground",
					Shares: wave(60, func(i int) uint32 { return uint32(i%20) * 30 })})},
				Account: &xserverv1.Account{Recent: latency(40, 4200*time.Microsecond, 17800*time.Microsecond), SloRequests: 1000, SloMet: 993}},
			{Id: 2, Name: "a training job of many words", Hints: &xserverv1.Hints{Priority: -3}, Processes: []*xserverv1.Process{process(200, 3, gpu0), process(201, 2, gpu0)},
				Devices: []*xserverv1.Device{h200(&xserverv1.Device{Ready: true, Held: true, Mode: "bounded", Outstanding: 12345, Reason: "long request",
					Shares: wave(60, func(i int) uint32 { return 950 - uint32(i%20)*30 })})},
				Account: &xserverv1.Account{Latency: latency(1, 95*time.Minute, 95*time.Minute)}},
			{Id: 3, Name: "notebook", Hints: &xserverv1.Hints{NoExecute: true}, Processes: []*xserverv1.Process{{Pid: 300, Stopped: true}},
				Devices: []*xserverv1.Device{h200(&xserverv1.Device{Shares: wave(7, func(i int) uint32 { return 5 })})},
				Account: &xserverv1.Account{Latency: latency(9, 300*time.Microsecond, 130*time.Second), SloRequests: 9, SloMet: 9}},
			{Id: 4, Name: "early"},
		},
		Memory: map[string]Memory{gpu0: {Used: 97 << 30, Total: 141 << 30}},
	}
}

// asker notes what was asked for.
type asker struct {
	sample Sample
	did    []string
	err    error
}

func (a *asker) Sample() Sample { return a.sample }

func (a *asker) SetPriority(task uint64, priority int) error {
	a.did = append(a.did, fmt.Sprintf("task %d priority %d", task, priority))
	return a.err
}

func (a *asker) SetPolicy(name string) error {
	a.did = append(a.did, "policy "+name)
	return a.err
}

func view(o Options, s Sample) Model { return New(&asker{sample: s}, o).With(s) }

// golden compares with a file. XMSCHED_TEST_REWRITE=1 writes them: look at what changed
// before you commit it.
func golden(t *testing.T, name, have string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if os.Getenv("XMSCHED_TEST_REWRITE") != "" {
		if err := os.WriteFile(file, []byte(have+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), have+"\n"); diff != "" {
		t.Error(diff)
	}
}

func TestPictures(t *testing.T) {
	two := sample()
	two.Tasks[3].Devices = []*xserverv1.Device{{Uuid: gpu1, Name: "NVIDIA H200", Ready: true, Open: true, Shares: wave(60, func(int) uint32 { return 1000 })}}
	many := sample()
	for id := uint64(5); id < 40; id++ {
		many.Tasks = append(many.Tasks, &xserverv1.Task{Id: id, Name: fmt.Sprintf("task-%d", id)})
	}
	empty := sample()
	empty.Tasks = nil
	plain := func(w, h int) Options { return Options{Width: w, Height: h, Plain: true} }
	ascii := plain(80, 24)
	ascii.ASCII = true
	for name, m := range map[string]Model{
		"80x24": view(plain(80, 24), sample()), "132x24": view(plain(132, 24), sample()), "200x24": view(plain(200, 24), sample()),
		"40x10": view(plain(40, 10), sample()), "ascii": view(ascii, sample()), "two": view(plain(80, 24), two),
		"many": view(plain(80, 12), many), "empty": view(plain(80, 10), empty), "first": New(&asker{}, plain(80, 8)),
		"menu":   press(t, view(plain(80, 12), sample()), "p", "right"),
		"absent": view(plain(80, 10), sample()).With(Sample{Err: errors.New("no daemon answers in /run/xmsched")}),
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, m.Picture()) })
	}
}

// TestPicturesFit holds that no picture is larger than its screen, painted or not, and
// that paint changes no character.
func TestPicturesFit(t *testing.T) {
	for width := 20; width < 220; width += 7 {
		for height := 4; height < 40; height += 5 {
			text := view(Options{Width: width, Height: height}, sample()).Picture()
			if plain := view(Options{Width: width, Height: height, Plain: true}, sample()).Picture(); ansi.Strip(text) != plain {
				t.Fatalf("%dx%d: painted\n%s\nplain\n%s", width, height, ansi.Strip(text), plain)
			}
			lines := strings.Split(text, "\n")
			if len(lines) > max(height, minHeight) {
				t.Errorf("%dx%d has %d lines", width, height, len(lines))
			}
			for _, l := range lines {
				if w := lipgloss.Width(l); w > max(width, minWidth) {
					t.Errorf("%dx%d: %d columns: %q", width, height, w, l)
				}
			}
		}
	}
}

func TestASCIIIsASCII(t *testing.T) {
	for i, c := range view(Options{Width: 200, Height: 24, Plain: true, ASCII: true}, sample()).Picture() {
		if c > 0x7e || c < ' ' && c != '\n' {
			t.Fatalf("%q at %d", c, i)
		}
	}
}

// press sends keys, and does what they ask for.
func press(t *testing.T, m Model, keys ...string) Model {
	t.Helper()
	for _, k := range keys {
		msg := tea.KeyPressMsg{Text: k, Code: []rune(k)[0]}
		if code, ok := map[string]rune{"up": tea.KeyUp, "down": tea.KeyDown, "right": tea.KeyRight, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "end": tea.KeyEnd}[k]; ok {
			msg = tea.KeyPressMsg{Code: code}
		}
		next, cmd := m.Update(msg)
		m = next.(Model)
		if cmd != nil {
			next, _ := m.Update(cmd())
			m = next.(Model)
		}
	}
	return m
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		keys string
		did  string
		says string
	}{
		{"+", "task 1 priority 11", "priority of task 1 is 11"},
		{"down -", "task 2 priority -4", "priority of task 2 is -4"},
		{"j k ]", "task 1 priority 20", ""},
		{"end [", "task 4 priority -10", ""},
		{"down down down down down up +", "task 3 priority 1", ""},
		{"s +", "task 2 priority -2", ""},
		{"p right enter", "policy RR", "policy is RR"},
		{"p up enter", "policy LAX", ""},
		{"p esc down", "", ""},
	} {
		a := &asker{sample: sample()}
		m := New(a, Options{Width: 80, Height: 24, Plain: true}).With(a.sample)
		if c.keys[0] == 's' { // the selection stays on its task: start from the top row
			m = press(t, m, "down")
		}
		m = press(t, m, strings.Fields(c.keys)...)
		if have := strings.Join(a.did, ", "); have != c.did {
			t.Errorf("%s: did %q, want %q", c.keys, have, c.did)
		}
		if !strings.Contains(m.Picture(), c.says) {
			t.Errorf("%s:\n%s\nwant %q in it", c.keys, m.Picture(), c.says)
		}
	}
}

func TestRefusalIsShown(t *testing.T) {
	a := &asker{sample: sample(), err: errors.New("the policy holds for everyone")}
	m := press(t, New(a, Options{Width: 80, Height: 24, Plain: true}).With(a.sample), "p", "enter")
	if !strings.Contains(m.Picture(), "the policy holds for everyone") {
		t.Error(m.Picture())
	}
}

func TestQuit(t *testing.T) {
	for _, k := range []string{"q", "esc"} {
		code := map[string]rune{"q": 'q', "esc": tea.KeyEscape}[k]
		_, cmd := view(Options{}, sample()).Update(tea.KeyPressMsg{Code: code})
		if cmd == nil || cmd() != tea.Quit() {
			t.Errorf("%s does not end it", k)
		}
	}
}

// TestSelectionFollowsItsTask when others come and go.
func TestSelectionFollowsItsTask(t *testing.T) {
	m := press(t, view(Options{Width: 80, Height: 24, Plain: true}, sample()), "down")
	s := sample()
	s.Tasks = s.Tasks[1:]
	if m = m.With(s); m.at.task != 2 {
		t.Errorf("task %d is selected, want 2", m.at.task)
	}
	s.Tasks = s.Tasks[1:]
	if m = m.With(s); m.at.task != 3 {
		t.Errorf("with it gone, task %d is selected, want 3", m.at.task)
	}
}

func TestGraph(t *testing.T) {
	ramp := wave(60, func(i int) uint32 { return uint32(i) * 1000 / 59 })
	for _, c := range []struct {
		samples []uint32
		columns int
		ascii   bool
		want    string
	}{
		{nil, 4, false, "⠀⠀⠀⠀"},
		{ramp, 6, false, "⣀⣠⣤⣶⣾⣿"},
		{ramp, 8, true, ".:-==+*#"},
		{[]uint32{1000}, 30, false, strings.Repeat("⠀", 29) + "⢸"},
		{[]uint32{1}, 60, true, strings.Repeat(" ", 59) + "."},
		{wave(100, func(i int) uint32 { return uint32(i/99) * 1000 }), 40, false, strings.Repeat("⠀", 39) + "⢸"},
	} {
		if have := graph(c.samples, c.columns, c.ascii); have != c.want {
			t.Errorf("%v in %d: %q, want %q", c.samples, c.columns, have, c.want)
		}
	}
}
