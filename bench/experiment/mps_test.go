package experiment

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xmsched/bench/workloads"
)

// fakeControl is a control daemon as a script: with -f it runs until it is told
// to quit, without it passes on what it reads.
const fakeControl = `#!/bin/sh
cd "$CUDA_MPS_PIPE_DIRECTORY" || exit 1
if [ "$1" = -f ]; then
	[ -z "$XB_BROKEN" ] || { echo "no device for MPS" >&2; exit 1; }
	echo $$ >control
	while [ ! -e quit ]; do sleep 0.02; done
	rm control
	exit 0
fi
[ -e control ] || exit 1
read -r word
[ "$word" != quit ] || : >quit
`

// fakeBench is an xbench whose first client says whether MPS serves it.
const fakeBench = `#!/bin/sh
[ "$CUDA_MPS_CLIENT_PRIORITY" = 0 ] || exit 1
echo '{"event":"ready","mps":'"$XB_MPS"'}'
`

func fakeMPS(t *testing.T) *Lab {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{mpsControl: fakeControl, "xbench": fakeBench} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("XB_MPS", "true")
	return &Lab{Places: Places{Bin: dir}, dir: t.TempDir(), env: os.Environ(), note: func(string) {}}
}

func TestMPSStartsAndQuits(t *testing.T) {
	l := fakeMPS(t)
	w, err := l.clientOfMPS(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	daemon := l.mps.daemon
	path, args, env, err := w.dress(l, "prog", []string{"x"})
	if err != nil || path != "prog" || len(args) != 1 {
		t.Errorf("%s %q, %v", path, args, err)
	}
	if all := strings.Join(env, "\n"); !strings.Contains(all, "CUDA_MPS_CLIENT_PRIORITY=1") || !strings.Contains(all, "CUDA_MPS_PIPE_DIRECTORY="+l.dir) {
		t.Errorf("environment %q", env)
	}
	if _, err := l.clientOfMPS(t.Context(), true); err != nil || l.mps.daemon != daemon {
		t.Errorf("a second daemon, or %v", err)
	}
	l.stopMPS()
	select {
	case <-daemon.ended:
	default:
		t.Error("the daemon still runs")
	}
	if daemon.err != nil {
		t.Errorf("it did not quit by itself: %v", daemon.err)
	}
	l.stopMPS()
}

func TestMPSIsLeftOutWithAReason(t *testing.T) {
	for name, c := range map[string]struct {
		env, value string
		sim        bool
		want       string
	}{
		"simulated":      {sim: true, want: "the simulated GPU has no MPS"},
		"absent":         {env: "PATH", value: "/nowhere", want: mpsControl},
		"does not start": {env: "XB_BROKEN", value: "1", want: "no device for MPS"},
		"does not serve": {env: "XB_MPS", value: "false", want: "does not share the device by MPS"},
		"client is mute": {env: "XB_MPS", value: "", want: "a first client of MPS"},
	} {
		t.Run(name, func(t *testing.T) {
			l := fakeMPS(t)
			l.Facts = workloads.Facts{Simulated: c.sim}
			if c.env != "" {
				t.Setenv(c.env, c.value)
			}
			l.env = os.Environ()
			_, err := l.clientOfMPS(t.Context(), true)
			var skip *SkippedError
			if !errors.As(err, &skip) || !strings.Contains(err.Error(), "mode mps is left out") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want it to say %q", err, c.want)
			}
			if l.mps != nil {
				t.Error("a daemon that does not work is kept")
			}
		})
	}
}

// TestOverMPSIsBoth has a program under the daemon that is a client as well.
func TestOverMPSIsBoth(t *testing.T) {
	l := fakeMPS(t)
	defer l.stopMPS()
	client, err := l.clientOfMPS(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.Places.Bin, "xrun"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	path, args, env, err := overMPS{&Under{Name: "train", Level: 2}, client}.dress(l, "prog", []string{"x"})
	if err != nil || filepath.Base(path) != "xrun" || args[len(args)-2] != "prog" || args[len(args)-1] != "x" {
		t.Errorf("%s %q, %v", path, args, err)
	}
	all := strings.Join(env, "\n")
	for _, want := range []string{"XMSCHED_DIR=" + l.RunDir(), "CUDA_MPS_CLIENT_PRIORITY=1", "CUDA_MPS_PIPE_DIRECTORY=" + l.dir} {
		if strings.Count(all, want) != 1 {
			t.Errorf("%q is not there once in\n%s", want, all)
		}
	}
}
