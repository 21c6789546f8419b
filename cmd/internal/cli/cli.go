// Package cli is what the commands of xmsched have in common on the outside:
// exit codes, the wording of errors, the version, tables, JSON and colour. It
// knows nothing of scheduling, holds no state, and nothing in it but Main ends
// the process.
//
// Exit codes: 0 done, 1 the command was understood and did not succeed, 2 it was
// not understood (unknown flag, argument out of range). A command that stands
// for another program returns an ExitError with that program's code.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Version is the version of the build, stamped by the linker
// (-X xmsched/cmd/internal/cli.Version=…).
var Version = "dev"

// Exit codes of every command.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
)

// UsageError says that the command line (or the environment, where it stands for
// flags) cannot be understood. It ends a command with ExitUsage, and nothing has
// been changed.
type UsageError struct {
	Message string // a sentence with the value and what is allowed
}

func (e *UsageError) Error() string { return e.Message }

// Usagef returns a *UsageError.
func Usagef(format string, args ...any) error {
	return &UsageError{Message: fmt.Sprintf(format, args...)}
}

// ExitError carries an exit code of its own. Err may be nil: then nothing is
// printed.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Main runs the command with the process's arguments and ends the process.
//
// It installs no signal handler: a command that wants to end tidily takes
// signal.NotifyContext itself.
func Main(root *cobra.Command) {
	os.Exit(Run(root, os.Args[1:], os.Stdout, os.Stderr))
}

// Run executes the command with args, prints an error if there is one, and
// returns the exit code. An error that comes from cobra itself (an unknown flag,
// a wrong number of arguments) is a usage error; an error returned by a
// function of the command is one only if it is a *UsageError.
func Run(root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	prepare(root)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return ExitOK
	}
	code, usage := classify(err)
	report(stderr, cmd, err, usage)
	return code
}

func classify(err error) (code int, usage bool) {
	var wrong *UsageError
	if errors.As(err, &wrong) {
		return ExitUsage, true
	}
	var exit *ExitError
	if errors.As(err, &exit) {
		return exit.Code, false
	}
	var own *commandError
	if errors.As(err, &own) {
		return ExitFailure, false
	}
	return ExitUsage, true
}

func report(w io.Writer, cmd *cobra.Command, err error, usage bool) {
	var exit *ExitError
	if errors.As(err, &exit) && exit.Err == nil {
		return
	}
	fmt.Fprintf(w, "%s: %v\n", cmd.Root().Name(), err)
	if usage {
		fmt.Fprintf(w, "Run '%s --help' for what is allowed.\n", cmd.CommandPath())
	}
}

// commandError marks an error as coming from a command's function and not from
// the parsing of its line.
type commandError struct{ error }

func (e *commandError) Unwrap() error { return e.error }

func prepare(root *cobra.Command) {
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.CompletionOptions.HiddenDefaultCmd = true
	if root.Version == "" {
		root.Version = Version
	}
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	if root.HasSubCommands() {
		help := helpCommand()
		root.SetHelpCommand(help)
		root.AddCommand(help)
	}
	walk(root, func(c *cobra.Command) {
		c.PersistentPreRunE = mark(c.PersistentPreRunE)
		c.PreRunE = mark(c.PreRunE)
		c.RunE = mark(c.RunE)
		c.PostRunE = mark(c.PostRunE)
	})
}

func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, child := range c.Commands() {
		walk(child, visit)
	}
}

func mark(f func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	if f == nil {
		return nil
	}
	return func(c *cobra.Command, args []string) error {
		if err := f(c, args); err != nil {
			return &commandError{err}
		}
		return nil
	}
}
