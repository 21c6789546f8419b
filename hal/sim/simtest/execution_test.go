package simtest_test

import (
	"testing"

	"xmsched/hal/sim/simtest"
)

// Case 12: host functions and callbacks run in their place in the stream, on a
// thread of the driver's.
func TestCase12HostFunctionsKeepTheirPlace(t *testing.T) {
	run(t, program(t, "host_functions", simtest.Start(t)))
}

// A graph launch is one submission, however many nodes and threads there are.
func TestGraphs(t *testing.T) { run(t, program(t, "graphs", simtest.Start(t))) }

// Descriptors of tensors hold what they were made of; what the vendor documents as wrong is refused.
func TestTensorMaps(t *testing.T) { run(t, program(t, "tensormaps", simtest.Start(t))) }

// Case 17: captures of one thread beside the work of another; what a capture
// forbids is refused with the driver's code.
func TestCase17Captures(t *testing.T) { run(t, program(t, "captures", simtest.Start(t))) }

func TestExecutionSanitized(t *testing.T) {
	library := simtest.SanitizedLibrary(t)
	env := append(simtest.StartWith(t, library), "ASAN_OPTIONS=detect_leaks=0:abort_on_error=1")
	for _, name := range []string{"host_functions", "graphs", "captures"} {
		bin := simtest.CompileC(t, "testdata/"+name+".c", library, "-fsanitize=address,undefined")
		run(t, command(t, bin, env))
	}
}
