package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is also the child: TestMain becomes the program that the
// variable names.
const helperEnv = "EXPERIMENT_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(helperEnv); role != "" {
		os.Exit(helper(role))
	}
	goleak.VerifyTestMain(m)
}

func helper(role string) int {
	buf := make([]byte, 64)
	switch role {
	case "talk":
		fmt.Println("a library's chatter")
		fmt.Println(`{"event":"ready","device":"Test GPU"}`)
		n, _ := os.Stdin.Read(buf)
		fmt.Printf("{\"event\":\"progress\",\"message\":%q}\n", strings.TrimSpace(string(buf[:n])))
		if n, _ = os.Stdin.Read(buf); n == 0 {
			fmt.Println(`{"event":"result"}`)
		}
		return 0
	case "refused":
		fmt.Fprintln(os.Stderr, "first line")
		fmt.Println(`{"event":"error","call":"cuInit","code":100}`)
		return 1
	case "early":
		fmt.Fprintln(os.Stderr, "why it ended")
		return 7
	case "pytorch":
		return pretendPyTorch(os.Args[1:])
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(`{"event":"ready"}`)
		for {
			time.Sleep(time.Hour)
		}
	}
	return 2
}

func startHelper(t *testing.T, role string, onEvent func(Event)) *Child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Start(Spec{Name: role, Path: exe, Env: append(os.Environ(), helperEnv+"="+role), OnEvent: onEvent})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

func TestChildTalks(t *testing.T) {
	ctx := t.Context()
	var kinds []string
	c := startHelper(t, "talk", func(e Event) { kinds = append(kinds, e.Kind) })
	e, err := c.Await(ctx, "ready")
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Device string }
	if err := e.Into(&v); err != nil || v.Device != "Test GPU" {
		t.Errorf("device %q, %v", v.Device, err)
	}
	if err := c.Begin(); err != nil {
		t.Fatal(err)
	}
	p, err := c.Await(ctx, "progress")
	if err != nil || !strings.Contains(string(p.Raw), "start") {
		t.Errorf("%s, %v: want what we sent", p.Raw, err)
	}
	if err := c.Finish(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Await(ctx, "result"); err != nil {
		t.Errorf("an event that came with the end is lost: %v", err)
	}
	if got := strings.Join(kinds, " "); got != "ready progress result" {
		t.Errorf("events %q", got)
	}
}

func TestChildFailures(t *testing.T) {
	for role, wants := range map[string][]string{
		"refused": {"refused", "cuInit returned 100"},
		"early":   {"early", "exit status 7", "why it ended"},
	} {
		c := startHelper(t, role, nil)
		_, err := c.Await(t.Context(), "ready")
		var failed *ChildError
		if !errors.As(err, &failed) {
			t.Fatalf("%s: %v is not a ChildError", role, err)
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", role, err, want)
			}
		}
	}
}

func TestChildAwaitEndsWithItsContext(t *testing.T) {
	c := startHelper(t, "talk", nil)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("took too long"))
	defer cancel()
	_, err := c.Await(ctx, "never")
	if err == nil || !strings.Contains(err.Error(), "took too long") {
		t.Errorf("error %v, want the cause", err)
	}
}

func TestKillEndsAChildThatIgnoresSIGTERM(t *testing.T) {
	c := startHelper(t, "stubborn", nil)
	c.grace = 100 * time.Millisecond
	if _, err := c.Await(t.Context(), "ready"); err != nil {
		t.Fatal(err)
	}
	c.Kill()
	if err := syscall.Kill(c.Pid(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process is still there: %v", err)
	}
	c.Kill() // a second time is harmless
}

func TestStartOfNothing(t *testing.T) {
	if _, err := Start(Spec{Name: "nothing", Path: "/does/not/exist"}); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("error %v", err)
	}
}
