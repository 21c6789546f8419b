package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/predictor"
	"xmsched/shim/templates"
)

func templatesCommand(o *options) *cobra.Command {
	c := &cobra.Command{
		Use:   "templates",
		Short: "Show what is known of the memory that kernels touch",
		Long: `templates shows and changes what programs under xrun --learn found out about their
kernels: which memory a launch touches, by its arguments. It is kept in a directory of
yours ($` + templates.Variable + `, off for nowhere; else xmsched/templates under $XDG_STATE_HOME or
~/.local/state), which all your programs share. No daemon is needed.`,
		Example: "  xrun --learn -- python train.py\n  xcli templates list\n  xcli templates show gemm\n  xcli templates export templates.json",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(templatesListCommand(o), templatesShowCommand(o), templatesExportCommand(), templatesImportCommand(), templatesClearCommand())
	return c
}

// templatesStore is the user's.
func templatesStore() (templates.Store, error) {
	dir, err := templates.Dir()
	if err != nil {
		return templates.Store{}, cli.Usagef("%v", err)
	}
	return templates.Open(dir), nil
}

// loadTemplates reads the user's store.
func loadTemplates() ([]predictor.ExportedKernel, error) {
	store, err := templatesStore()
	if err != nil {
		return nil, err
	}
	library, err := store.Load()
	if err != nil {
		return nil, err
	}
	var out []predictor.ExportedKernel
	for _, m := range library.Models() {
		out = append(out, m.Describe())
	}
	return out, nil
}

func templatesListCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the kernels, the last used first",
		Long: `list shows each kernel with the hash of its code, how many launches of it were looked at
(SEEN), and how many of these were foretold by templates before these were fitted to
them (JUDGED): of the memory that they touched MISSED was not foretold, of what was
foretold VAIN was not touched, both in blocks of 2 MiB. TEMPLATES are the kinds: how many
of its pointers lead to a fixed extent, to one linear in a product of launch values, to
rows apart from each other (strided), to a part of a linear one that memory decides
(bound), or are taken for the whole allocation. A name with # for its numbers is of all
kernels that differ in these alone: by it those are foretold that nobody has seen yet.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			kernels, err := loadTemplates()
			if err != nil {
				return err
			}
			return o.listTemplates(c.OutOrStdout(), kernels)
		},
	}
}

func (o *options) listTemplates(w io.Writer, kernels []predictor.ExportedKernel) error {
	if o.json {
		return eachJSON(w, kernels)
	}
	if len(kernels) == 0 {
		_, err := fmt.Fprintln(w, "nothing is known yet: xrun --learn -- PROGRAM finds out")
		return err
	}
	t := cli.NewTable("KERNEL", "CODE", "SEEN", "JUDGED", "MISSED", "VAIN", "TEMPLATES", "USED")
	for _, k := range kernels {
		missed, vain := "-", "-"
		if k.Judged > 0 {
			missed, vain = fmt.Sprintf("%.2f %%", k.FalseNegative), fmt.Sprintf("%.2f %%", k.FalsePositive)
		}
		t.Row(shorten(k.Name, 48), k.Code[:min(8, len(k.Code))], k.Observations, k.Judged, missed, vain, shapes(k), time.Unix(int64(k.Used), 0).Format(time.DateTime))
	}
	return t.Write(w)
}

func eachJSON(w io.Writer, kernels []predictor.ExportedKernel) error {
	for _, k := range kernels {
		if err := cli.JSON(w, k); err != nil {
			return err
		}
	}
	return nil
}

// shapes counts a kernel's templates by their kinds: "3 linear, 1 fixed".
func shapes(k predictor.ExportedKernel) string {
	counts := map[string]int{}
	for _, v := range k.Variants {
		for _, p := range v.Pointers {
			counts[p.Shape]++
		}
	}
	var parts []string
	for _, shape := range []string{"fixed", "linear", "strided", "bound", "allocation"} {
		if n := counts[shape]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, shape))
		}
	}
	if k.Indirect {
		parts = append(parts, "indirect")
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// shorten keeps the end of what is too long: names of one library begin alike.
func shorten(name string, most int) string {
	if r := []rune(name); len(r) > most {
		return "…" + string(r[len(r)-most+1:])
	}
	return name
}

func templatesExportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write them in a readable form, JSON",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			store, err := templatesStore()
			if err != nil {
				return err
			}
			library, err := store.Load()
			if err != nil {
				return err
			}
			text, err := library.Export()
			if err != nil {
				return err
			}
			if !json.Valid(text) {
				return errors.New("what would be written is no JSON: please report this")
			}
			file := "-"
			if len(args) == 1 {
				file = args[0]
			}
			out, err := create(c.OutOrStdout(), file)
			if err != nil {
				return err
			}
			defer out.drop()
			if _, err := out.Write(append(text, '\n')); err != nil {
				return fmt.Errorf("write %s: %w", file, err)
			}
			return out.keep()
		},
	}
}

// maxImport bounds a readable file: it is longer than what it describes.
const maxImport = 4 * predictor.MaxStore

func templatesImportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Take in what was exported, here or on another machine",
		Long: `import takes the kernels of FILE ("-": standard input) in beside those that are known;
of one kernel's two the one that was looked at more often stays. A template that does not
hold here costs time, never results, and is dropped when a launch contradicts it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			store, err := templatesStore()
			if err != nil {
				return err
			}
			in := c.InOrStdin()
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			text, err := io.ReadAll(io.LimitReader(in, maxImport+1))
			if err != nil {
				return err
			}
			if len(text) > maxImport {
				return fmt.Errorf("%s: more than %d bytes", args[0], maxImport)
			}
			library, err := predictor.Import(text, predictor.Config{})
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			n := library.Len()
			if err := store.Update(func(l *predictor.Library) error { l.Merge(library); return nil }); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "took in %d kernels\n", n)
			return err
		},
	}
}

func templatesClearCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "clear [KERNEL]",
		Short: "Forget all kernels, or those whose name has KERNEL in it",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			store, err := templatesStore()
			if err != nil {
				return err
			}
			if len(args) == 1 && args[0] == "" { // of a script whose variable is not set
				return cli.Usagef("an empty name: without one all kernels are forgotten")
			}
			if len(args) == 1 {
				return clearSome(c.OutOrStdout(), store, args[0])
			}
			was, err := store.Clear()
			switch {
			case err != nil:
				return err
			case !was:
				_, err = fmt.Fprintln(c.OutOrStdout(), "nothing was known")
			default:
				_, err = fmt.Fprintln(c.OutOrStdout(), "forgot all kernels")
			}
			return err
		},
	}
}

func clearSome(w io.Writer, store templates.Store, name string) error {
	n := 0
	err := store.Update(func(l *predictor.Library) error {
		for _, m := range l.Models() {
			if k := m.Kernel(); strings.Contains(k.Name, name) {
				l.Remove(k.Key)
				n++
			}
		}
		if n == 0 {
			return cli.Usagef("no kernel's name has %q in it: `xcli templates list` lists all", name)
		}
		return nil
	})
	if usage := (*cli.UsageError)(nil); errors.As(err, &usage) {
		return usage
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "forgot %d kernels\n", n)
	return err
}
