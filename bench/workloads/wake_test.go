package workloads

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWakeEachWriteOnce(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	const n = 20
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdin, starter := io.Pipe()
	defer starter.Close()
	var woken bytes.Buffer
	waited := make(chan error, 1)
	go func() {
		waited <- RunWake(Steering{Context: ctx}, NewSpeaker(&woken), Wake{FD: fd, Count: n})
	}()
	var rung bytes.Buffer
	go func() { _, _ = io.WriteString(starter, "start\n") }()
	if err := RunWake(Steer(t.Context(), stdin), NewSpeaker(&rung), Wake{FD: fd, Count: n, Ring: true}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	rang, woke := lastTimes(t, &rung), lastTimes(t, &woken)
	if len(rang) != n || len(woke) == 0 || len(woke) > n {
		t.Fatalf("%d writes, %d wake-ups", len(rang), len(woke))
	}
	if woke[0] < rang[0] {
		t.Error("woken before the first write")
	}
}

func lastTimes(t *testing.T, b *bytes.Buffer) []int64 {
	t.Helper()
	lines := bytes.Split(bytes.TrimSpace(b.Bytes()), []byte("\n"))
	var times EdgeTimes
	if err := json.Unmarshal(lines[len(lines)-1], &times); err != nil {
		t.Fatal(err)
	}
	return times.AtNS
}

func TestWakeSettings(t *testing.T) {
	for _, bad := range []Wake{{FD: 2, Count: 1}, {FD: 3}, {FD: 3, Count: maxRequests + 1}} {
		if bad.Validate() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
