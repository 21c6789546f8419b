// Command generate writes the C header of the resource manager's interface from
// the data of package rm. Run by go generate in nvx/rm.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"xmsched/nvx/rm"
)

func main() {
	out := flag.String("out", "", "file to write")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "generate header of the resource manager:", err)
		os.Exit(1)
	}
}

func write(path string) error {
	var b bytes.Buffer
	if err := rm.WriteHeader(&b); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
