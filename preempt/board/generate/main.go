// Command generate writes the C header of the board, from the layout that the
// Go side maps. Run by go generate in preempt/board.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"xmsched/preempt/board/internal/layout"
)

func main() {
	out := flag.String("out", "", "file to write")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "generate board header:", err)
		os.Exit(1)
	}
}

func write(path string) error {
	var b bytes.Buffer
	if err := layout.WriteHeader(&b); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
