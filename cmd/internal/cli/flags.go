package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// allowedBy is the annotation of a flag that holds what Allow says.
const allowedBy = "xmsched-allowed"

// Allow says which values a flag takes, such as "1 to 16": the sentence that
// refuses another value ends with it. It panics where there is no such flag.
func Allow(c *cobra.Command, flag, allowed string) {
	if err := c.Flags().SetAnnotation(flag, allowedBy, []string{allowed}); err != nil {
		panic(err)
	}
}

// flagError words what is wrong with a flag's value for people: the value, what
// it is not, and what is allowed.
func flagError(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	f := invalid.GetFlag()
	kind := f.Value.Type()
	sentence := ""
	switch {
	case errors.Is(err, strconv.ErrRange):
		sentence = "is out of range"
	case strings.HasPrefix(kind, "int"):
		sentence = "is not a whole number"
	case strings.HasPrefix(kind, "uint"):
		sentence = "is not a whole number from 0 on"
	case strings.HasPrefix(kind, "float"):
		sentence = "is not a number"
	case kind == "duration":
		sentence = "is not a length of time such as 10ms"
	case kind == "bool":
		sentence = "is neither true nor false"
	default:
		return err
	}
	if allowed := f.Annotations[allowedBy]; len(allowed) > 0 {
		sentence += "; allowed: " + allowed[0]
	}
	return Usagef("--%s %q %s", f.Name, invalid.GetValue(), sentence)
}

// helpCommand is cobra's, but for what it does with a command that does not
// exist: that is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Say what a command does",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				var names []string
				for _, s := range about.Commands() {
					if s.IsAvailableCommand() {
						names = append(names, s.Name())
					}
				}
				return Usagef("unknown command %q; there are: %s", strings.Join(args, " "), strings.Join(names, ", "))
			}
			about.InitDefaultHelpFlag()
			if err := about.Help(); err != nil {
				return fmt.Errorf("print help: %w", err)
			}
			return nil
		},
	}
}
