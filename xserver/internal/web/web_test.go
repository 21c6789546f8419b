package web

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	xserverv1 "xmsched/xserver/api/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service remembers on whose behalf it was asked.
type service struct {
	xserverv1.UnimplementedXServerServiceServer
	by uint32
}

type byKey struct{}

func (s *service) ListTasks(ctx context.Context, _ *xserverv1.ListTasksRequest) (*xserverv1.ListTasksResponse, error) {
	s.by = ctx.Value(byKey{}).(uint32)
	return &xserverv1.ListTasksResponse{}, nil
}

func config(s *service) Config {
	return Config{
		Service: s, Tokens: NewTokens(), Log: slog.New(slog.DiscardHandler),
		As: func(ctx context.Context, uid uint32) context.Context { return context.WithValue(ctx, byKey{}, uid) },
	}
}

// TestRequestsAreOnBehalfOfTheTokensUser and of nobody else.
func TestRequestsAreOnBehalfOfTheTokensUser(t *testing.T) {
	s := &service{}
	c := config(s)
	h := Handler(c)
	for _, uid := range []uint32{0, 1, 1000, 1<<32 - 1} {
		r := httptest.NewRequest("GET", "/v1/tasks", nil)
		r.Header.Set("Authorization", "bearer "+c.Tokens.Of(uid))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK || s.by != uid {
			t.Errorf("uid %d: %d, as uid %d", uid, w.Code, s.by)
		}
	}
}

// TestTokensOfOthers: a token that was changed in anything, or that another daemon
// made, is nobody's.
func TestTokensOfOthers(t *testing.T) {
	tokens := NewTokens()
	good := tokens.Of(1000)
	if uid, ok := tokens.user(good); !ok || uid != 1000 {
		t.Fatalf("%d, %v", uid, ok)
	}
	for i := range good {
		changed := []byte(good)
		changed[i] ^= 1
		if _, ok := tokens.user(string(changed)); ok {
			t.Errorf("%s is taken for %s", changed, good)
		}
	}
	for _, bad := range []string{"", "-", "--", "xm1-0-", NewTokens().Of(1000), strings.Replace(good, "1000", "01000", 1), strings.Replace(good, "1000", "0", 1), good + " "} {
		if uid, ok := tokens.user(bad); ok {
			t.Errorf("%q is uid %d's", bad, uid)
		}
	}
}

// TestSlowClientsAreClosed sends a part of a request and nothing more, or a body byte
// by byte: both end by their limits, and others are served meanwhile.
func TestSlowClientsAreClosed(t *testing.T) {
	l, err := Listen("localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	c := config(&service{})
	server := NewServer(Handler(c), c.Log)
	server.ReadHeaderTimeout, server.ReadTimeout = 200*time.Millisecond, 400*time.Millisecond
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	connect := func(text string) net.Conn {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			_, err = io.WriteString(conn, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	begin := time.Now()
	auth := "Authorization: Bearer " + c.Tokens.Of(1) + "\r\n"
	for _, part := range []string{"", "GET /v1/tasks HT", "GET /v1/tasks HTTP/1.1\r\nHost: x\r\n" + auth, "POST /hint HTTP/1.1\r\nHost: x\r\n" + auth + "Content-Length: 100\r\n\r\n{"} {
		conn := connect(part)
		defer conn.Close()
		defer func() {
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%q is kept: %v", part, err)
			}
			if d := time.Since(begin); d > time.Minute {
				t.Errorf("%q was kept for %v", part, d)
			}
		}()
	}
	good := connect("GET /v1/tasks HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + auth + "\r\n")
	defer good.Close()
	if text, err := io.ReadAll(good); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200") {
		t.Errorf("%v, %s", err, text)
	}
}

// TestBounds: the server as it runs has a limit for everything.
func TestBounds(t *testing.T) {
	s := NewServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	for what, d := range map[string]time.Duration{"header": s.ReadHeaderTimeout, "request": s.ReadTimeout, "answer": s.WriteTimeout, "idle": s.IdleTimeout} {
		if d <= 0 || d > time.Minute {
			t.Errorf("%s: %v", what, d)
		}
	}
}

// TestHandlesAreStable and fit what reads numbers as doubles.
func TestHandlesAreStable(t *testing.T) {
	const uuid = "GPU-0a0b0c0d-0000-0000-0000-000000000000"
	h := handleOf(1<<22, uuid)
	if h != handleOf(1<<22, uuid) || h>>53 != 0 || h>>24 != 1<<22 || h == handleOf(1<<22, "GPU-0a0b0c0e") {
		t.Errorf("%#x", h)
	}
	if n := deviceNumber(uuid); n != 2<<32|0x0a0b0c0d {
		t.Errorf("%#x", n)
	}
}

// TestDescriptionHasEveryPath that is served, and no other.
func TestDescriptionHasEveryPath(t *testing.T) {
	text := string(describe(api{}.routes()))
	for _, rt := range (api{}).routes() {
		if !strings.Contains(text, `"`+rt.path+`"`) || !strings.Contains(text, `"`+rt.id+`"`) {
			t.Errorf("%s %s is not described", rt.method, rt.path)
		}
	}
	if n := strings.Count(text, `"operationId"`); n != len((api{}).routes()) {
		t.Errorf("%d operations are described", n)
	}
}
