package doors

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"xmsched/hal/kernels"
	"xmsched/hal/sim/simtest"
)

// channels builds channels_run and returns its path.
var channels = sync.OnceValues(func() (string, error) {
	return filepath.Join(built, "channels", "channels_run"), build("channels")
})

// channelsOnDevice returns how to run channels_run on a simulated device of its own.
func channelsOnDevice(t *testing.T) (r run, path string) {
	t.Helper()
	device := simtest.Start(t)
	path, err := channels()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	env := append(device, "XMSCHED_LIB="+dir) // and no agent there
	for name, text := range map[string][]byte{"XM_PTX": kernels.PTX(), "XM_PROBE": kernels.ProbePTX()} {
		file := filepath.Join(dir, name+".ptx")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+file)
	}
	return run{driver: "-", env: env}, path
}

// TestChannels stops a kernel of the program itself by its channels, under the
// library alone: what each case does and looks at stands in channels_run.c.
func TestChannels(t *testing.T) {
	for _, c := range []struct{ name, cycles string }{
		{"objects", "0"}, {"compute", "10"}, {"all", "10"}, {"twice", "0"}, {"legacy", "3"}, {"cooperative", "3"}, {"graph", "3"},
		{"slices", "10"}, {"copies", "3"}, {"copies_beside", "0"}, {"made", "0"}, {"goes", "0"}, {"in_place", "20"}, {"pinning", "3"},
		{"forked", "0"}, {"leaves", "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, path := channelsOnDevice(t)
			out, _ := r.output(t, path, c.name, c.cycles)
			t.Log(out)
		})
	}
}

// TestKilledWhileHeld: a program that is killed while it is held leaves the
// device as it was.
func TestKilledWhileHeld(t *testing.T) {
	t.Parallel()
	r, path := channelsOnDevice(t)
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		cmd := r.command(ctx, path, "killed")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
			t.Fatalf("%q: %v", line, err)
		}
		cancel() // kills it
		_ = cmd.Wait()
		r.output(t, path, "compute", "3")
	}
}
