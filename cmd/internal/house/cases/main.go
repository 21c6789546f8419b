// Command cases lists the cases that the project answers for, and the tests
// that carry their numbers. It exits 1 if a case of a milestone that is done
// has no test. `make cases` runs it in the root of the tree.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// done is the last milestone that is finished.
const done = 1

func main() {
	missing, err := run(os.Stdout, ".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "cases:", err)
		os.Exit(2)
	}
	if missing > 0 {
		os.Exit(1)
	}
}

// run prints the list and returns how many cases lack a test that they owe.
func run(w io.Writer, root string) (missing int, err error) {
	cases, err := parse(list)
	if err != nil {
		return 0, err
	}
	if err := find(root, cases); err != nil {
		return 0, err
	}
	tested := 0
	for _, c := range cases {
		state := "ok"
		switch {
		case len(c.Tests) > 0:
			tested++
		case c.Milestone <= done:
			state = "MISSING"
			missing++
		default:
			state = fmt.Sprintf("later (%d of 6)", c.Milestone)
		}
		fmt.Fprintf(w, "%s  %-15s %s\n", c.Number, state, c.Title)
		if len(c.Tests) > 0 {
			fmt.Fprintf(w, "    %s\n", strings.Join(c.Tests, "\n    "))
		}
	}
	fmt.Fprintf(w, "%d cases, %d with a test, %d missing one\n", len(cases), tested, missing)
	return missing, nil
}
