package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func command(run func() error) *cobra.Command {
	root := &cobra.Command{Use: "xtool"}
	root.AddCommand(&cobra.Command{
		Use:  "do NAME",
		Args: cobra.ExactArgs(1),
		RunE: func(*cobra.Command, []string) error { return run() },
	})
	return root
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		err    error
		code   int
		stderr string
	}{
		{"done", []string{"do", "x"}, nil, 0, ""},
		{"failure", []string{"do", "x"}, errors.New("no daemon"), 1, "xtool: no daemon\n"},
		{"bad value", []string{"do", "x"}, Usagef("priority %d: not in -255 to 255", 300), 2,
			"xtool: priority 300: not in -255 to 255\nRun 'xtool do --help' for what is allowed.\n"},
		{"program's code", []string{"do", "x"}, &ExitError{Code: 127, Err: errors.New("x: not found")}, 127, "xtool: x: not found\n"},
		{"silent code", []string{"do", "x"}, &ExitError{Code: 3}, 3, ""},
		{"unknown flag", []string{"do", "--x"}, nil, 2, "xtool: unknown flag: --x\nRun 'xtool do --help' for what is allowed.\n"},
		{"missing argument", []string{"do"}, nil, 2, "xtool: accepts 1 arg(s), received 0\nRun 'xtool do --help' for what is allowed.\n"},
		{"unknown command", []string{"elsewhere"}, nil, 2, "xtool: unknown command \"elsewhere\" for \"xtool\"\nRun 'xtool --help' for what is allowed.\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs strings.Builder
			code := Run(command(func() error { return c.err }), c.args, &out, &errs)
			if code != c.code || errs.String() != c.stderr {
				t.Errorf("exit %d, stderr %q; want %d, %q", code, errs.String(), c.code, c.stderr)
			}
		})
	}
}

func TestVersionLine(t *testing.T) {
	var out, errs strings.Builder
	if code := Run(command(nil), []string{"--version"}, &out, &errs); code != 0 || out.String() != "xtool "+Version+"\n" {
		t.Errorf("exit %d, %q", code, out.String())
	}
}

func TestTable(t *testing.T) {
	table := NewTable("NAME", "PID", "WHY")
	table.Row("llm", 7, Cell{"ready", Green})
	table.Row("train\x1b[2J", 12345)
	var out strings.Builder
	if err := table.Write(&out); err != nil {
		t.Fatal(err)
	}
	want := "NAME         PID  WHY\nllm            7  ready\ntrain?[2J  12345\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestJSONIsOneLine(t *testing.T) {
	var out strings.Builder
	if err := JSON(&out, map[string]any{"a": []int{1}, "b": "<x>"}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "{\"a\":[1],\"b\":\"<x>\"}\n" {
		t.Errorf("%q", out.String())
	}
}
