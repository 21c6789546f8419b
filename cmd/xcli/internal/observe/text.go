package observe

import (
	"fmt"
	"io"
	"strings"
	"time"

	"xmsched/cmd/internal/cli"
	"xmsched/nvx/bpf"
)

// page is a text that is written; the first error stays.
type page struct {
	w   io.Writer
	err error
}

func (p *page) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *page) table(t *cli.Table) {
	if p.err == nil && t.Len() > 0 {
		p.err = t.Write(p.w)
	}
}

func (p *page) head(text string) { p.printf("\n%s\n", cli.Paint(p.w, cli.Bold, text)) }

// Text writes the report about one process.
func Text(w io.Writer, s *Subject) error {
	p := &page{w: w}
	p.printf("%s\n", cli.Paint(w, cli.Bold, fmt.Sprintf("process %d, %s", s.PID, cli.Printable(s.Name))))
	p.printf("observed for %s%s%s\n", length(s.Took), mentioned(s.Before >= time.Millisecond, ", %s of it before its first call", length(s.Before)), mentioned(s.Left, "; it has ended"))
	if s.Ours {
		p.printf("it runs under xmsched and was looked at there, at the preload library's probe sites\n")
	}
	if s.Seen == 0 {
		p.printf("it made no call of the driver meanwhile\n")
		return p.err
	}
	if s.sampled() {
		p.printf("to keep the cost below its limit launches, copies and other commands were looked at %s of\nthe time: their counts, and the estimates, are of that time\n", share(s.Looked, s.Seen))
	}
	p.calls(s)
	p.work(s)
	p.memory(s)
	p.gives(s)
	p.cost(s)
	return p.err
}

func mentioned(when bool, format string, args ...any) string {
	if !when {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func (p *page) calls(s *Subject) {
	t := cli.NewTable("CALLS", "COUNT", "A SECOND", "BYTES")
	for _, k := range []struct {
		name string
		kind bpf.Kind
	}{
		{"launches of kernels and graphs", bpf.KindLaunch}, {"copies", bpf.KindCopy}, {"memsets", bpf.KindFill},
		{"other commands", bpf.KindOther}, {"queries", bpf.KindQuery},
	} {
		n, bytes := totals(s.Calls, k.kind)
		if n == 0 && k.kind != bpf.KindLaunch {
			continue
		}
		size := "-"
		if bytes > 0 {
			size = amount(bytes)
		}
		t.Row(k.name, n, rate(n, s.Looked), size)
	}
	t.Row("waits for the device", s.Work.Waits, rate(s.Work.Waits, s.Seen), "-")
	t.Row("allocations", s.Memory.Allocations, rate(s.Memory.Allocations, s.Seen), "-")
	p.printf("\n")
	p.table(t)
	var most []string
	for _, c := range s.Calls {
		if len(most) < 5 {
			most = append(most, fmt.Sprintf("%s %d", c.Function, c.Count))
		}
	}
	if len(most) > 0 {
		p.printf("most: %s\n", strings.Join(most, ", "))
	}
}

// work is the part that is estimated.
func (p *page) work(s *Subject) {
	if s.Commands == 0 {
		p.printf("\n")
		return
	}
	p.head("work, estimated from when commands are handed over and when waits come back")
	known := s.Work.Busy + s.Work.Idle
	p.printf("busy             %s to %s of the time: threads waited for commands; commands were outstanding\n", share(s.Work.Waited, known), share(s.Work.Busy, known))
	n, long := s.Work.Gaps.Long()
	p.printf("idle             %s at least, in %d gaps; %s in %d gaps of 1 ms and more\n", share(s.Work.Idle, known), s.Work.Gaps.Count(), share(long, known), n)
	if s.Work.Unknown >= time.Millisecond {
		p.printf("not known        %s, until a call told\n", length(s.Work.Unknown))
	}
	p.printf("longest block    %s, %d commands%s\n", length(s.Work.Longest), s.Work.InLongest, mentioned(s.Work.Busying && s.Work.InLongest > 0, "; one still lasts"))
	p.printf("longest command  %s\n", longest(s))
	if s.Ours {
		p.printf("at the gate      %d waits, %s together, the longest %s\n", s.Gate.Waits, length(s.Gate.Time), length(s.Gate.Longest))
	}
	if q, _ := totals(s.Calls, bpf.KindQuery); q > 0 && s.Work.Waits == 0 {
		p.printf("It waits by asking again and again, which does not tell when its work was done: busy may be too much.\n")
	}
	if s.Devices > 1 {
		p.printf("It uses %d devices; they are taken together here.\n", s.Devices)
	}
}

// longest is what waits tell of the longest command.
func longest(s *Subject) string {
	switch {
	case s.Work.Waited == 0:
		return "not known: no wait came back; at most the longest block"
	case s.Work.Singles > 0 && s.Work.Single >= s.Work.Longest:
		return fmt.Sprintf("%s, as it was waited for by itself", length(s.Work.Single))
	case s.Work.Singles > 0:
		return fmt.Sprintf("from %s to %s; of those waited for by themselves (%d) %s", length(s.Work.Command), length(s.Work.Longest), s.Work.Singles, length(s.Work.Single))
	}
	return fmt.Sprintf("from %s to %s", length(s.Work.Command), length(s.Work.Longest))
}

func (p *page) memory(s *Subject) {
	if s.Memory.Allocations+s.Memory.Frees+s.Memory.UnknownFrees+s.Memory.Refused == 0 {
		p.printf("memory           nothing was allocated or given back; what it had before is not known\n")
		return
	}
	p.printf("memory           %s at most, of what it allocated meanwhile; in the end %s than at the beginning%s\n", amount(s.Memory.High), signed(s.Memory.Now),
		mentioned(s.Memory.UnknownFrees > 0, "; %d pieces that it had before were given back", s.Memory.UnknownFrees))
	if s.Memory.Refused > 0 {
		p.printf("                 %d allocations were refused, the largest of %s\n", s.Memory.Refused, amount(s.Memory.LargestRefused))
	}
}

// wide is, in percent of the time, how far apart the bounds of an estimate are that
// says little.
const wide = 40

// gives is what sharing would give this program, and others beside it.
func (p *page) gives(s *Subject) {
	p.head("what sharing would give")
	known := s.Work.Busy + s.Work.Idle
	n, long := s.Work.Gaps.Long()
	switch PatternOf(&s.Figures) {
	case Silent:
		p.printf("It made no command: nothing can be said.\n")
		return
	case Steady:
		p.printf("It always has work: another program takes from it what it gets. Run it in the background of those with gaps.\n")
	case Idle:
		p.printf("It hardly uses the device: others can have %s of the time. Run it in the foreground, and it will not notice them.\n", share(s.Work.Idle, known))
	case Bursty:
		p.printf("Its work comes in bursts: others can have %s of the time, in %d gaps of %s on average, while it gets the device back when it wants it.\n", share(long, known), n, length(long/time.Duration(max(n, 1))))
	case Fine:
		p.printf("It has gaps, %s of the time, but of %s on average: too short to stop and resume another program in; at levels 1 and 2 others fill them.\n", share(s.Work.Idle, known), length(s.Work.Idle/time.Duration(max(s.Work.Gaps.Count(), 1))))
	}
	if percent(s.Work.Busy-s.Work.Waited, known) > wide {
		p.printf("It seldom waits for its commands, so gaps between them hardly show: there may be more of them.\n")
	}
	switch {
	case s.Work.Command >= longCommand:
		p.printf("Some command takes %s or more: at level 2 others wait so long for it, at level 1 for several such; level 3 stops it within 2 ms.\n", length(s.Work.Command))
	case s.Work.Longest > 0:
		p.printf("At level 2 others wait for one command of it, at most %s; without us for all that is queued.\n", length(s.Work.Longest))
	}
	if s.DeviceBytes > 0 && s.Memory.High > 0 {
		if s.Memory.High < s.DeviceBytes {
			p.printf("Of the device's %s it left %s, not counting what it had before.\n", amount(s.DeviceBytes), amount(s.DeviceBytes-s.Memory.High))
		} else {
			p.printf("It had more than the device's %s allocated: its memory would have to move.\n", amount(s.DeviceBytes))
		}
	}
	p.printf("\n  %s\n", shell(s.Line()))
}

func (p *page) cost(s *Subject) {
	p.printf("\nobserving cost it about %s, %s of the time: %d hits\n", length(s.Cost), share(s.Cost, s.Seen), s.Hits)
}

// shell writes words so that a shell reads them as they are.
func shell(words []string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		w = cli.Printable(w)
		if w != "" && strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+") == "" {
			b.WriteString(w)
			continue
		}
		b.WriteString("'" + strings.ReplaceAll(w, "'", `'\''`) + "'")
	}
	return b.String()
}
