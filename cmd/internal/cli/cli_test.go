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

// TestFlagsThatCannotBeRead holds that nobody has to know Go to understand what
// is wrong with a value.
func TestFlagsThatCannotBeRead(t *testing.T) {
	for flag, want := range map[string]string{
		"--count=x":                       `--count "x" is not a whole number; allowed: 1 to 9`,
		"--count=1.5":                     `--count "1.5" is not a whole number; allowed: 1 to 9`,
		"--count=1e30":                    `--count "1e30" is not a whole number; allowed: 1 to 9`,
		"--id=-1":                         `--id "-1" is not a whole number from 0 on`,
		"--id=" + strings.Repeat("9", 30): `--id "` + strings.Repeat("9", 30) + `" is out of range`,
		"--pause=x":                       `--pause "x" is not a length of time such as 10ms`,
		"--pause=5":                       `--pause "5" is not a length of time such as 10ms`,
		"--share=half":                    `--share "half" is not a number`,
		"--quick=maybe":                   `--quick "maybe" is neither true nor false`,
	} {
		c := &cobra.Command{Use: "xtool", RunE: func(*cobra.Command, []string) error { return nil }}
		c.Flags().Int("count", 1, "")
		c.Flags().Uint64("id", 0, "")
		c.Flags().Duration("pause", 0, "")
		c.Flags().Float64("share", 0, "")
		c.Flags().Bool("quick", false, "")
		Allow(c, "count", "1 to 9")
		var out, errs strings.Builder
		code := Run(c, []string{flag}, &out, &errs)
		if first, _, _ := strings.Cut(errs.String(), "\n"); code != ExitUsage || first != "xtool: "+want {
			t.Errorf("%s: exit %d, %q, want %q", flag, code, first, want)
		}
	}
}

func TestHelpOfCommands(t *testing.T) {
	var out, errs strings.Builder
	if code := Run(command(nil), []string{"help", "do"}, &out, &errs); code != ExitOK || !strings.Contains(out.String(), "xtool do NAME") {
		t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
	}
	out.Reset()
	if code := Run(command(nil), []string{"help"}, &out, &errs); code != ExitOK || !strings.Contains(out.String(), "do") {
		t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
	}
	for _, args := range [][]string{{"help", "bogus"}, {"help", "do", "bogus"}} {
		errs.Reset()
		if code := Run(command(nil), args, &out, &errs); code != ExitUsage || !strings.Contains(errs.String(), "bogus") {
			t.Errorf("%v: exit %d, %q", args, code, errs.String())
		}
	}
	if !strings.Contains(errs.String(), "unknown command") {
		t.Errorf("%q", errs.String())
	}
}
