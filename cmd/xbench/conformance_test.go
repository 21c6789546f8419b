package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestKeepTranscript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.txt")
	var printed bytes.Buffer
	for _, text := range []string{"first", "== half of it", ""} { // a child's is empty and replaces nothing
		if err := keepTranscript(&printed, file, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "== half of it" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	if err := keepTranscript(&printed, "", []byte("to see")); err != nil || printed.String() != "to see" {
		t.Errorf("printed %q, %v", printed.String(), err)
	}
	if err := keepTranscript(&printed, filepath.Join(file, "below"), []byte("x")); err == nil {
		t.Error("written below a file")
	}
}
