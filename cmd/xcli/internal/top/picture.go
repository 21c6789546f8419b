package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	xserverv1 "xmsched/xserver/api/v1"
)

// theme paints text; a terminal that has no colours, or NO_COLOR, takes them out.
type theme struct {
	plain, title, head, good, wait, bad, dim, graph, selected func(string) string
}

func themeOf(plain bool) theme {
	style := func(s lipgloss.Style) func(string) string {
		return func(text string) string {
			if plain {
				return text
			}
			return s.Render(text)
		}
	}
	s := lipgloss.NewStyle()
	return theme{
		plain: func(text string) string { return text },
		title: style(s.Bold(true)), head: style(s.Bold(true).Reverse(true)), good: style(s.Foreground(lipgloss.Green)),
		wait: style(s.Foreground(lipgloss.Yellow)), bad: style(s.Foreground(lipgloss.Red)), dim: style(s.Faint(true)),
		graph: style(s.Foreground(lipgloss.Cyan)), selected: style(s.Bold(true)),
	}
}

// Smallest picture that says anything.
const minWidth, minHeight = 40, 6

// Picture is the screen: Height lines of at most Width columns.
func (m Model) Picture() string {
	width, height := max(m.options.Width, minWidth), max(m.options.Height, minHeight)
	lines := []string{m.title(width)}
	devices := m.devices()
	for i, d := range devices[:min(len(devices), height/4)] {
		lines = append(lines, m.deviceLine(i, d, width))
	}
	foot := m.foot(width)
	lines = append(lines, m.table(width, height-len(lines)-len(foot), len(devices) > 1)...)
	for len(lines) < height-len(foot) {
		lines = append(lines, "")
	}
	lines = append(lines, foot...)
	for i, l := range lines {
		lines[i] = ansi.Truncate(l, width, "")
	}
	return strings.Join(lines[:min(len(lines), height)], "\n")
}

func (m *Model) title(width int) string {
	s := m.sample
	if s.At.IsZero() {
		return m.paint.title("xmsched") + "  asking the daemon"
	}
	processes := 0
	for _, t := range s.Tasks {
		processes += len(t.Processes)
	}
	left := "xmsched  " + s.Policy
	right := fmt.Sprintf("%s, %s, up %s  %s", count(len(s.Tasks), "task", "tasks"), count(processes, "process", "processes"),
		s.Uptime.Truncate(time.Second), s.At.Format(time.TimeOnly))
	gap := max(width-len(left)-len(right), 2)
	return m.paint.title("xmsched") + "  " + m.paint.good(s.Policy) + strings.Repeat(" ", gap) + right
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// deviceLine is the share of a device that tasks have, its last minute, and how full
// its memory is where that is known.
func (m *Model) deviceLine(i int, d device, width int) string {
	share := uint32(0)
	if n := len(d.shares); n > 0 {
		share = d.shares[n-1]
	}
	name := fmt.Sprintf("%d %s %s", i, head(d.uuid), d.name)
	text := pad(name, min(36, width-24)) + " " + m.paint.graph(graph(d.shares, 15, m.options.ASCII)) + fmt.Sprintf(" %3d%%", (share+5)/10)
	used, ok := m.sample.Memory[d.uuid]
	if rest := width - lipgloss.Width(text); ok && rest >= 22 {
		figures := fmt.Sprintf(" %s/%s", gib(used.Used), gib(used.Total))
		text += "  " + m.paint.wait(bar(used.Used, used.Total, min(rest-2-len(figures), 20), m.options.ASCII)) + figures
	}
	return text
}

// head is the head of a UUID.
func head(uuid string) string {
	const enough = len("GPU-00000000")
	return uuid[:min(len(uuid), enough)]
}

func gib(bytes uint64) string {
	n := float64(bytes) / (1 << 30)
	if n < 10 {
		return fmt.Sprintf("%.1fG", n)
	}
	return fmt.Sprintf("%.0fG", n)
}

// columns of the table.
type columns struct {
	name, graph, reason int // widths; reason 0: there is none
	device              bool
}

func layout(width int, device bool) columns {
	const fixed = 1 + 4 + 4 + 9 + 2 + 5 + 4 + 6 + 6 + 5 + 10 // the others, and the blanks between
	c := columns{name: 8, graph: 8, device: device}
	rest := width - fixed - c.name - c.graph
	if device {
		rest -= 4
	}
	grow := func(column *int, most int) {
		n := max(0, min(rest, most-*column))
		*column += n
		rest -= n
	}
	grow(&c.graph, 12)
	grow(&c.name, 12)
	grow(&c.graph, span/2)
	grow(&c.name, 24)
	if rest > 20 {
		c.reason = rest - 1
	}
	return c
}

// join sets cells, which have their widths, in a line.
func (c columns) join(mark string, cells ...string) string {
	const device, reason = 5, 12 // places of the columns that are not always there
	kept := cells[:0:0]
	for i, cell := range cells {
		if i == device && !c.device || i == reason && c.reason == 0 {
			continue
		}
		kept = append(kept, cell)
	}
	return mark + strings.Join(kept, " ")
}

func (c columns) heads() string {
	return c.join(" ", flush("TASK", 4), flush("PRIO", 4), pad("NAME", c.name), pad("STATE", 9), flush("LV", 2), flush("DEV", 3),
		flush("QUEUE", 5), flush("GPU", 4), pad("LAST MINUTE", c.graph), flush("P50", 6), flush("P99", 6), flush("SLO", 5), pad("WHY", c.reason))
}

// table is the tasks, in at most so many lines.
func (m *Model) table(width, height int, device bool) []string {
	c := layout(width, device)
	lines := []string{m.paint.head(pad(c.heads(), width))}
	rows := m.rows()
	if len(rows) == 0 && !m.sample.At.IsZero() {
		return append(lines, "", "no task is scheduled; start one with: xrun -- COMMAND")
	}
	room := max(height-1, 1)
	if len(rows) > room {
		room-- // for how many more there are
	}
	first := max(0, min(m.index(rows), len(rows)-1)-room+1)
	last := min(first+room, len(rows))
	for _, r := range rows[first:last] {
		lines = append(lines, m.rowLine(r, c))
	}
	if n := len(rows) - (last - first); n > 0 {
		lines = append(lines, m.paint.dim(fmt.Sprintf("  %d more", n)))
	}
	return lines
}

func (m *Model) rowLine(r row, c columns) string {
	prio := strconv.Itoa(int(r.task.GetHints().GetPriority()))
	if r.task.GetHints().GetNoExecute() {
		prio = "off"
	}
	queue, share, device, level := "-", "-", "-", "-"
	if r.on != nil {
		queue, device = large(r.on.Outstanding), strconv.Itoa(r.number)
		share = fmt.Sprintf("%d%%", (lastShare(r.on)+5)/10)
	}
	if r.level > 0 {
		level = strconv.Itoa(int(r.level))
	}
	a := r.task.GetAccount()
	l := a.GetRecent()
	if l.GetRequests() == 0 {
		l = a.GetLatency()
	}
	mark, name := " ", m.paint.plain
	if r.line == m.at {
		mark, name = "▸", m.paint.selected
		if m.options.ASCII {
			mark = ">"
		}
	}
	state := r.state()
	return c.join(mark, flush(strconv.FormatUint(r.task.Id, 10), 4), flush(prio, 4), name(pad(r.task.Name, c.name)),
		m.paint.state(state)(pad(state, 9)), flush(level, 2), flush(device, 3), flush(queue, 5), flush(share, 4),
		m.paint.graph(graph(r.on.GetShares(), c.graph, m.options.ASCII)),
		flush(quantile(l, l.GetP50Ns()), 6), flush(quantile(l, l.GetP99Ns()), 6), flush(met(a), 5), m.paint.dim(ansi.Truncate(r.on.GetReason(), c.reason, "~")))
}

// state paints a state.
func (t theme) state(name string) func(string) string {
	switch name {
	case "running":
		return t.good
	case "gated", "suspended", "newcomer":
		return t.wait
	case "stopped":
		return t.bad
	}
	return t.dim
}

// large writes a number in four characters.
func large(n uint64) string {
	switch {
	case n < 10_000:
		return strconv.FormatUint(n, 10)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprintf("%dM", n/1_000_000)
}

// quantile is a length of time in six characters.
func quantile(l *xserverv1.Latency, ns uint64) string {
	if l.GetRequests() == 0 {
		return "-"
	}
	switch ms := float64(ns) / 1e6; {
	case ms < 1:
		return fmt.Sprintf("%.0fus", ms*1e3)
	case ms < 999.5:
		return fmt.Sprintf("%.3gms", ms)
	case ms < 99_950:
		return fmt.Sprintf("%.3gs", ms/1e3)
	default:
		return fmt.Sprintf("%.0fm", ms/60e3)
	}
}

// met is the share of requests within the SLO.
func met(a *xserverv1.Account) string {
	if a.GetSloRequests() == 0 {
		return "-"
	}
	share := 100 * float64(a.SloMet) / float64(a.SloRequests)
	if a.SloMet < a.SloRequests && share > 99.9 {
		share = 99.9 // not all of them
	}
	return strings.Replace(fmt.Sprintf("%.1f%%", share), "100.0", "100", 1)
}

// foot is what keys do, or what was done, or the policies to choose from.
func (m *Model) foot(width int) []string {
	switch {
	case m.menu:
		return m.policies(width)
	case m.trouble != nil:
		return []string{m.paint.bad(m.trouble.Error())}
	case m.message != "" && m.failed:
		return []string{m.paint.bad(m.message)}
	case m.message != "":
		return []string{m.paint.good(m.message)}
	}
	keys := "up/down select   + - ] [ priority   p policy   s sort by GPU share   q quit"
	return []string{m.paint.dim(keys)}
}

// policies is the menu, in as many lines as it takes.
func (m *Model) policies(width int) []string {
	lines := []string{m.paint.title("policy of all devices:")}
	text, length := "", 0
	for i, name := range m.sample.Policies {
		shown := " " + name + " "
		if i == m.choice {
			shown = "[" + name + "]"
		}
		if length+len(shown) > width {
			lines, text, length = append(lines, text), "", 0
		}
		length += len(shown)
		if i == m.choice {
			shown = m.paint.selected(shown)
		}
		text += shown
	}
	return append(lines, text, m.paint.dim("arrows choose   enter sets it   esc leaves it"))
}

// pad cuts text to a width, or fills it up.
func pad(text string, width int) string {
	text = ansi.Truncate(text, width, "~")
	return text + strings.Repeat(" ", max(width-lipgloss.Width(text), 0))
}

// flush is pad, to the right.
func flush(text string, width int) string {
	text = ansi.Truncate(text, width, "~")
	return strings.Repeat(" ", max(width-lipgloss.Width(text), 0)) + text
}
