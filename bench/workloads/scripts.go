// Package workloads holds the programs whose running is measured. None of them
// knows of xmsched: a request server and a background load in Go over hal/cuda,
// the launch loop in C (launchloop/, built by the Makefile here), and two
// PyTorch programs. But for the two models in one process, which schedule
// themselves: the same program in Go, in C (models/) and with PyTorch.
//
// The Go ones are functions, run by the hidden command `xbench work` in a
// process of their own. A workload speaks in Events, one JSON object a line on
// stdout, and is steered by its stdin: a line "start" lets it begin, end of file
// lets it end tidily.
//
// What may not happen here: reading a clock inside a timed loop to decide how
// much work is done, and reporting a time whose result was not verified.
package workloads

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
)

// Names of the PyTorch programs.
const (
	ScriptLLM    = "llm.py"
	ScriptTrain  = "train.py"
	ScriptModels = "models.py"
	ScriptInfer  = "infer.py"
)

//go:embed llm.py
var scriptLLM []byte

//go:embed train.py
var scriptTrain []byte

//go:embed models.py
var scriptModels []byte

//go:embed infer.py
var scriptInfer []byte

// WriteScripts puts the PyTorch programs into dir, so that an installed xbench
// needs nothing beside it.
func WriteScripts(dir string) error {
	for name, text := range map[string][]byte{ScriptLLM: scriptLLM, ScriptTrain: scriptTrain, ScriptModels: scriptModels, ScriptInfer: scriptInfer} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return fmt.Errorf("write workload: %w", err)
		}
	}
	return nil
}
