package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"xmsched/cmd/internal/cli"
	"xmsched/predictor"
)

func templatesShowCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "show KERNEL",
		Short: "Show what a kernel touches by its arguments",
		Long: `show prints the templates of every kernel whose name has KERNEL in it, or whose code's
hash begins with it. A variant's line says for which launch values it holds. A pointer
is named by its offset among the parameters; u32[16] and u64[16] are the values at offset
16, grid.x and block.x those of the launch. "+N" is added, in bytes.`,
		Example: "  xcli templates show vector_add",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			kernels, err := loadTemplates()
			if err != nil {
				return err
			}
			var found []predictor.ExportedKernel
			for _, k := range kernels {
				if strings.Contains(k.Name, args[0]) || strings.HasPrefix(k.Code, args[0]) {
					found = append(found, k)
				}
			}
			if len(found) == 0 {
				return cli.Usagef("no kernel's name has %q in it: `xcli templates list` lists all %d", args[0], len(kernels))
			}
			if o.json {
				return eachJSON(c.OutOrStdout(), found)
			}
			return showTemplates(c.OutOrStdout(), found)
		},
	}
}

func showTemplates(w io.Writer, kernels []predictor.ExportedKernel) error {
	for i, k := range kernels {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s\n  code %s; %d launches looked at, %d foretold right\n", cli.Paint(w, cli.Bold, cli.Printable(k.Name)), k.Code, k.Observations, k.Verified)
		if k.Indirect {
			fmt.Fprintln(w, "  also touches what none of its arguments points to")
		}
		for _, v := range k.Variants {
			fmt.Fprintf(w, "  %s\n", variantText(v))
			t := cli.NewTable("    AT", "SHAPE", "BYTES", "STRIDE", "COUNT", "START", "ACCESS")
			for _, p := range v.Pointers {
				t.Row("    "+atText(p.At), p.Shape, dash(p.Bytes), dash(p.Stride), dash(p.Count), dash(p.Start), p.Access)
			}
			if err := t.Write(w); err != nil {
				return err
			}
		}
	}
	return nil
}

func variantText(v predictor.ExportedVariant) string {
	if len(v.When) == 0 {
		return fmt.Sprintf("always (%d right)", v.Verified)
	}
	var parts []string
	for _, is := range v.When {
		parts = append(parts, fmt.Sprintf("%s = %d", is.Value, is.Is))
	}
	return fmt.Sprintf("where %s (%d right)", strings.Join(parts, ", "), v.Verified)
}

func atText(at uint16) string {
	if at >= predictor.MaxParams {
		return fmt.Sprintf("map %d", at-predictor.MaxParams)
	}
	return fmt.Sprint(at)
}
