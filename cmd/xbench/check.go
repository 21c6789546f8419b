package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"xmsched/bench/bounds"
	"xmsched/bench/rows"
	"xmsched/cmd/internal/cli"
)

func checkCommand() *cobra.Command {
	var asJSON bool
	var files, issues []string
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Which of the numbers that must be reached do these rows reach?",
		Long: `Judges the numbers of the issues (bench/bounds/<issue>.json, built in) by the rows
in the files given: reached, missed or not measured. Every fitting row of the
commit that was measured last must keep a bound; the worst is shown. Simulated rows
never count.

Exit code 0: all are reached; 1: one is missed or not measured, or a file is bad.`,
		Example: "  xbench check bench/results/h200/*.jsonl\n  xbench check --issue 1 rows.jsonl",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := wantedBounds(files, issues)
			if err != nil {
				return err
			}
			var measured []rows.Row
			for _, path := range args {
				r, err := rows.ReadFile(path)
				if err != nil {
					return err
				}
				measured = append(measured, r...)
			}
			verdicts, err := bounds.Check(wanted, measured)
			if err != nil {
				return err
			}
			return printVerdicts(cmd, verdicts, asJSON)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print one JSON object a line instead of a table")
	f.StringSliceVar(&issues, "issue", nil, "judge only the numbers of these issues")
	f.StringSliceVar(&files, "bounds", nil, "judge the numbers in these `FILES` instead of the built-in ones")
	return cmd
}

func wantedBounds(files, issues []string) ([]bounds.Bound, error) {
	var sets []bounds.Set
	for _, path := range files {
		set, err := bounds.Load(path)
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	if len(files) == 0 {
		var err error
		if sets, err = bounds.Embedded(); err != nil {
			return nil, err
		}
	}
	byIssue := map[string][]bounds.Bound{}
	var all []bounds.Bound
	var known []string
	for _, set := range sets {
		known = append(known, set.Issue)
		byIssue[set.Issue] = append(byIssue[set.Issue], set.Bounds...)
		all = append(all, set.Bounds...)
	}
	if len(issues) == 0 {
		return all, nil
	}
	var some []bounds.Bound
	for _, issue := range issues {
		b, ok := byIssue[issue]
		if !ok {
			return nil, cli.Usagef("issue %q has no numbers: known are %s", issue, strings.Join(known, ", "))
		}
		some = append(some, b...)
	}
	return some, nil
}

// verdictLine is a verdict in JSON.
type verdictLine struct {
	Bound     bounds.Bound  `json:"bound"`
	Result    bounds.Result `json:"result"`
	Value     *float64      `json:"value"`
	Rows      int           `json:"rows"`
	Simulated int           `json:"simulated_rows"`
	Earlier   int           `json:"earlier_rows"`
}

// notCounted says which rows of a bound were left out.
func notCounted(v bounds.Verdict) string {
	var parts []string
	if v.Simulated > 0 {
		parts = append(parts, fmt.Sprintf("%d simulated", v.Simulated))
	}
	if v.Earlier > 0 {
		parts = append(parts, fmt.Sprintf("%d earlier", v.Earlier))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

func printVerdicts(cmd *cobra.Command, verdicts []bounds.Verdict, asJSON bool) error {
	styles := map[bounds.Result]cli.Style{bounds.Reached: cli.Green, bounds.Missed: cli.Red, bounds.NotMeasured: cli.Yellow}
	count := map[bounds.Result]int{}
	t := cli.NewTable("RESULT", "MEASURED", "BOUND", "ROWS", "NOT COUNTED")
	for _, v := range verdicts {
		count[v.Result]++
		line := verdictLine{Bound: v.Bound, Result: v.Result, Rows: v.Fitting, Simulated: v.Simulated, Earlier: v.Earlier}
		measured := "-"
		if value, ok := v.Value(); ok {
			line.Value, measured = &value, figure(value)
		}
		if asJSON {
			if err := cli.JSON(cmd.OutOrStdout(), line); err != nil {
				return err
			}
		}
		t.Row(cli.Cell{Text: v.Result.String(), Style: styles[v.Result]}, measured, v.Bound.String(), v.Fitting, notCounted(v))
	}
	if !asJSON {
		if err := t.Write(cmd.OutOrStdout()); err != nil {
			return err
		}
	}
	if n := count[bounds.Missed] + count[bounds.NotMeasured]; n > 0 {
		return fmt.Errorf("%d of %d numbers reached, %d missed, %d not measured",
			count[bounds.Reached], len(verdicts), count[bounds.Missed], count[bounds.NotMeasured])
	}
	return nil
}
