package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// Exception is a line in which another driver may differ from the recorded one.
type Exception struct {
	Case   string
	Line   string // as the recorded transcript has it; "*": the whole case
	Reason string
}

// ParseExceptions reads "case | line | reason" lines. Empty lines and lines that
// begin with # are skipped.
func ParseExceptions(text string) ([]Exception, error) {
	var out []Exception
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, " | ")
		if len(parts) != 3 {
			return nil, fmt.Errorf("exception in line %d: want \"case | line | reason\", have %q", n, line)
		}
		out = append(out, Exception{strings.TrimSpace(parts[0]), strings.TrimSpace(parts[1]), strings.TrimSpace(parts[2])})
	}
	return out, nil
}

// ParseUnrecorded reads the names of cases that are written and not recorded yet,
// one a line. Empty lines and lines that begin with # are skipped.
func ParseUnrecorded(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if name := strings.TrimSpace(line); name != "" && !strings.HasPrefix(name, "#") {
			out = append(out, name)
		}
	}
	return out
}

// StaleUnrecorded gives one sentence for each name that has no place in the list
// of unrecorded cases: nobody's, there twice, or recorded in the transcript want.
func StaleUnrecorded(unrecorded []string, want string) []string {
	var out []string
	recorded, _ := parse(want)
	for i, name := range unrecorded {
		_, has := recorded[name]
		switch {
		case !slices.Contains(Cases(), name):
			out = append(out, fmt.Sprintf("%s: listed as unrecorded, and there is no such case", name))
		case slices.Contains(unrecorded[:i], name):
			out = append(out, fmt.Sprintf("%s: listed as unrecorded twice", name))
		case has:
			out = append(out, fmt.Sprintf("%s: listed as unrecorded, and recorded", name))
		}
	}
	return out
}

// WithoutCases is a transcript without some of its cases.
func WithoutCases(text string, names []string) string {
	var out strings.Builder
	skip := false
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "== "); ok {
			skip = slices.Contains(names, name)
		}
		if !skip {
			out.WriteString(line)
		}
	}
	return out.String()
}

// Compare gives one sentence for each difference of got from the recorded
// transcript want that no exception allows, and for each exception that nothing
// needed. A line that follows a call which ended the recorded process is free.
func Compare(want, got string, exceptions []Exception) []string {
	var out []string
	used := make([]bool, len(exceptions))
	allowed := func(name, line string) bool {
		ok := strings.HasSuffix(line, "("+EndsTheProcess+")")
		for i, e := range exceptions {
			if e.Case == name && (e.Line == "*" || e.Line == strings.TrimSpace(line)) {
				used[i], ok = true, true
			}
		}
		return ok
	}
	recorded, order := parse(want)
	theirs, extra := parse(got)
	for _, name := range order {
		out = append(out, compareCase(name, recorded[name], theirs[name], allowed)...)
	}
	for _, name := range extra {
		if _, ok := recorded[name]; !ok {
			out = append(out, fmt.Sprintf("%s: not in the recorded transcript; record it", name))
		}
	}
	for i, e := range exceptions {
		if !used[i] {
			out = append(out, fmt.Sprintf("%s: exception %q is needed no more", e.Case, e.Line))
		}
	}
	return out
}

// compareCase walks both lists together; lines that one of them lacks are
// reported once, since all that follows would be.
func compareCase(name string, want, got []string, allowed func(name, line string) bool) []string {
	var out []string
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			if !allowed(name, want[i]) {
				return append(out, fmt.Sprintf("%s: ends before %q", name, want[i]))
			}
		case i >= len(want):
			return append(out, fmt.Sprintf("%s: goes on with %q after the recorded end", name, got[i]))
		case want[i] == got[i]:
		case !allowed(name, want[i]):
			out = append(out, fmt.Sprintf("%s: recorded %q, here %q", name, strings.TrimSpace(want[i]), strings.TrimSpace(got[i])))
		}
		if i < len(want) && i < len(got) && label(want[i]) != label(got[i]) {
			return append(out, fmt.Sprintf("%s: out of step after %q", name, want[i]))
		}
	}
	return out
}

// label is what a line asks; a note has none.
func label(line string) string {
	if strings.HasPrefix(line, " ") {
		return ""
	}
	// The result is behind the last " = ", since an argument may hold one.
	if i := strings.LastIndex(line, ") = "); i >= 0 {
		return line[:i]
	}
	asked, _, _ := strings.Cut(line, " = ")
	return asked
}

func parse(text string) (lines map[string][]string, order []string) {
	lines = map[string][]string{}
	name := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if n, ok := strings.CutPrefix(line, "== "); ok {
			name = n
			order = append(order, name)
			lines[name] = []string{}
			continue
		}
		lines[name] = append(lines[name], line)
	}
	return lines, order
}
