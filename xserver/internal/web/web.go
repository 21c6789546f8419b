// Package web is the daemon's HTTP side, on a loopback port and only where the
// daemon's user asks for it: XSched's shapes (compat.go), ours under /v1 (v1.go) with
// their description (openapi.go), and figures for Prometheus (metrics.go).
//
// It decides nothing and knows of nobody: a request becomes one of the control
// plane's own, on behalf of the user whom its token names, so that what may be seen
// and steered is decided in one place. A token is the only thing that is believed of
// a request; no browser sends it by itself.
//
// What others send is bounded in size and in time, before it is known who they are.
//
// Concurrency: handlers run on the goroutines of net/http and share nothing that
// changes.
package web

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	xserverv1 "xmsched/xserver/api/v1"
)

// Bounds of what a client may take.
const (
	maxConnections = 64
	maxHeader      = 8 << 10
	maxBody        = 16 << 10
	headerLimit    = 2 * time.Second
	requestLimit   = 5 * time.Second
	answerLimit    = 10 * time.Second
	idleLimit      = 30 * time.Second
)

// Config is what a Server stands on.
type Config struct {
	// Service answers what is asked.
	Service xserverv1.XServerServiceServer
	// As makes a context on behalf of a user.
	As     func(ctx context.Context, uid uint32) context.Context
	Tokens *Tokens
	Log    *slog.Logger
}

// AddressError says that an address is none that can be listened on here.
type AddressError struct{ Address, Why string }

func (e *AddressError) Error() string {
	return fmt.Sprintf("address %q: %s; allowed are 127.0.0.1:PORT, [::1]:PORT and localhost:PORT, PORT from 0 to 65535", e.Address, e.Why)
}

// Listen opens a loopback port. The error is an *AddressError where the address is
// no such.
func Listen(address string) (net.Listener, error) {
	at, err := loopback(address)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return netutil.LimitListener(l, maxConnections), nil
}

func loopback(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", &AddressError{address, "not a host and a port"}
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", &AddressError{address, "not a port"}
	}
	if host == "localhost" { // whatever the machine's files say it is
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.IsLoopback() {
		return "", &AddressError{address, "not an address of this machine alone"}
	}
	return net.JoinHostPort(host, port), nil
}

// NewServer makes a server of a handler, with all bounds. It closes a connection
// that is too slow in anything.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           http.MaxBytesHandler(h, maxBody),
		ReadHeaderTimeout: headerLimit, ReadTimeout: requestLimit, WriteTimeout: answerLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// Handler is the whole interface but the figures for Prometheus.
func Handler(c Config) http.Handler {
	mux := http.NewServeMux()
	a := api{c}
	a.compat(mux)
	a.v1(mux)
	return a.authenticated(mux)
}

// api answers requests by way of the control plane's service.
type api struct{ Config }

// authenticated lets those in whose token is good.
func (a api) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		uid, ok := a.Tokens.bearer(r)
		if !ok {
			w.Header().Set("WWW-Authenticate", `Bearer realm="xmsched"`)
			fail(w, status.Error(codes.Unauthenticated, "a token is needed: send Authorization: Bearer TOKEN; xcli token shows yours"))
			return
		}
		next.ServeHTTP(w, r.WithContext(a.As(r.Context(), uid)))
	})
}

// failure is the body of an answer that refuses.
type failure struct {
	Error   string   `json:"error"`
	Field   string   `json:"field,omitempty"`
	Given   string   `json:"given,omitempty"`
	Allowed []string `json:"allowed,omitempty"`
}

var statusOf = map[codes.Code]int{
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.Unauthenticated:    http.StatusUnauthorized,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.NotFound:           http.StatusNotFound,
	codes.FailedPrecondition: http.StatusConflict,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.Unavailable:        http.StatusServiceUnavailable,
}

// fail answers with what the control plane said against a request.
func fail(w http.ResponseWriter, err error) {
	st := status.Convert(err)
	body := failure{Error: st.Message()}
	for _, d := range st.Details() {
		if r, ok := d.(*xserverv1.Rejection); ok {
			body.Field, body.Given, body.Allowed = r.Field, r.Given, r.Allowed
		}
	}
	code, ok := statusOf[st.Code()]
	if !ok {
		code = http.StatusInternalServerError
	}
	answer(w, code, body)
}

func answer(w http.ResponseWriter, code int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	write(w, code, text)
}

func write(w http.ResponseWriter, code int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // who is gone misses nothing
}
