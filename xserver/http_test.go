package xserver_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"xmsched/xserver"
	"xmsched/xserver/client"
)

// browser asks a daemon over HTTP, and holds whatever is said under /v1 against its
// description.
type browser struct {
	t      testing.TB
	at     string // host:port
	token  string
	router routers.Router
}

// browse starts with the caller's token, from the socket.
func browse(t testing.TB, c *client.Client) *browser {
	t.Helper()
	r, err := c.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	b := &browser{t: t, at: r.Http, token: r.Token}
	doc, err := openapi3.NewLoader().LoadFromData([]byte(b.want(200, "GET", "/v1/openapi.json", "")))
	if err != nil {
		t.Fatal(err)
	}
	doc.Servers = openapi3.Servers{{URL: "http://" + b.at}}
	if b.router, err = legacy.NewRouter(doc); err != nil { // validates the description
		t.Fatal(err)
	}
	return b
}

func (b *browser) ask(method, path, body string) (code int, text string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, "http://"+b.at+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if b.token != "" {
		req.Header.Set("Authorization", "Bearer "+b.token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if b.router != nil && strings.HasPrefix(path, "/v1/") && path != "/v1/openapi.json" {
		b.describes(req, resp, all)
	}
	return resp.StatusCode, string(all)
}

// describes holds that an answer is as the description says.
func (b *browser) describes(req *http.Request, resp *http.Response, body []byte) {
	b.t.Helper()
	route, params, err := b.router.FindRoute(req)
	if err != nil {
		b.t.Fatalf("%s %s is not described: %v", req.Method, req.URL.Path, err)
	}
	in := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route},
		Status:                 resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateResponse(b.t.Context(), in); err != nil {
		b.t.Errorf("%s %s: %v\n%s", req.Method, req.URL.Path, err, body)
	}
}

// want asks and holds that the answer has a code and words.
func (b *browser) want(code int, method, path, body string, words ...string) string {
	b.t.Helper()
	have, text := b.ask(method, path, body)
	if have != code {
		b.t.Errorf("%s %s %s: %d %s, want %d", method, path, body, have, text, code)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			b.t.Errorf("%s %s %s: %s, want %q in it", method, path, body, text, w)
		}
	}
	return text
}

func withHTTP(c *xserver.Config) { c.HTTP, c.Metrics = "127.0.0.1:0", "127.0.0.1:0" }

type xqueue struct {
	Handle    uint64 `json:"handle"`
	Device    uint64 `json:"device"`
	Level     int    `json:"level"`
	PID       int    `json:"pid"`
	Threshold int    `json:"threshold"`
	Batch     int    `json:"batch_size"`
	Ready     *bool  `json:"ready"`
	Suspended *bool  `json:"suspended"`
}

func (b *browser) xqueues() (list []xqueue) {
	b.t.Helper()
	var reply struct {
		XQueues   []xqueue `json:"xqueues"`
		Processes []struct {
			PID     int    `json:"pid"`
			Cmdline string `json:"cmdline"`
		} `json:"processes"`
	}
	if err := json.Unmarshal([]byte(b.want(200, "GET", "/xqueues", "")), &reply); err != nil {
		b.t.Fatal(err)
	}
	for i, q := range reply.XQueues {
		if q.Ready == nil || q.Suspended == nil || reply.Processes[i].PID != q.PID {
			b.t.Errorf("%+v", reply)
		}
	}
	return reply.XQueues
}

// TestXSchedOverHTTP goes through XSched's shapes.
func TestXSchedOverHTTP(t *testing.T) {
	c := dial(t, serve(t, rundir(t), withHTTP).dir)
	p := spawn(t, part{Role: "player", Dir: c.Dir(), Registration: client.Registration{Name: "x"}})
	eventually(t, "its device", func() bool { return len(list(t, c)[0].Devices) == 1 })
	b := browse(t, c)
	qs := b.xqueues()
	if len(qs) != 1 || qs[0].PID != p.PID || qs[0].Threshold != 16 || qs[0].Batch != 8 || qs[0].Device>>32 != 2 {
		t.Fatalf("%+v", qs)
	}
	h := fmt.Sprintf("%#x", qs[0].Handle)
	b.want(200, "GET", "/xqueue/"+h, "", `"xqueue":{"handle":`, `"cmdline":"x"`)
	b.want(200, "GET", "/xqueue/"+h[2:], "", `"xqueue":`)
	b.want(404, "GET", "/xqueue/0x123", "", "0x123")
	b.want(400, "GET", "/xqueue/nothing", "", "hexadecimal")

	b.want(200, "POST", "/config/"+h+"?threshold=4&batch_size=4", "", `"info":"success"`)
	if q := b.xqueues()[0]; q.Threshold != 4 || q.Batch != 4 {
		t.Errorf("%+v", q)
	}
	b.want(200, "POST", "/config/"+h+"?level=0&threshold=-1&batch_size=-1", "", `"warning":"no change"`)
	b.want(400, "POST", "/config/"+h+"?threshold=257", "", "1 to 256")
	b.want(400, "POST", "/config/"+h+"?level=7", "", `"allowed":["auto"`)
	b.want(400, "POST", "/config/"+h+"?threshold=many", "", "1 to 256")
	b.want(404, "POST", "/config/0x1?level=1", "")

	b.want(200, "GET", "/policy", "", `"policy":1`, `"name":"HPF"`)
	b.want(200, "POST", "/policy?policy=8", "", "success")
	b.want(200, "GET", "/policy", "", `"policy":8`, `"name":"LAX"`)
	b.want(200, "POST", "/policy?policy=rr", "", "success")
	b.want(400, "POST", "/policy?policy=77", "", `"allowed":["HPF"`)

	named := strings.NewReplacer("HANDLE", fmt.Sprint(qs[0].Handle), "HEX", h, "PID", fmt.Sprint(p.PID))
	hint := func(code int, body string, words ...string) {
		t.Helper()
		b.want(code, "POST", "/hint", named.Replace(body), words...)
	}
	hint(200, `{"hint_type":1,"handle":HANDLE,"priority":9}`, "success")
	hint(200, `{"hint_type":2,"handle":HANDLE,"utilization":75}`)
	hint(200, `{"hint_type":3,"timeslice":2000}`)
	hint(200, `{"hint_type":4,"pid":PID,"deadline":40000}`)
	hint(200, `{"hint_type":5,"pid":PID,"k_deadline":2}`)
	hint(200, `{"hint_type":6,"handle":"HEX","laxity":30000,"lax_prio":-1,"crit_prio":9}`)
	hint(200, `{"hint_type":7,"pid":PID,"display":0}`)
	have := client.HintsOf(list(t, c)[0].Hints)
	want := every
	want.Priority, want.Quantum, want.IdleAfter, want.Weight, want.Gang, want.MinShare, want.SLO = 9, 2e6, 0, 0, "", 0, 0
	if have != want {
		t.Errorf("%+v, want %+v", have, want)
	}
	hint(400, `{"hint_type":1,"handle":HANDLE,"priority":256}`, "-255 to 255", `"field":"priority"`)
	hint(400, `{"hint_type":2,"pid":PID,"utilization":101}`, "1 to 100")
	hint(400, `{"hint_type":3,"timeslice":99}`, "100µs to 10s")
	hint(400, `{"hint_type":8,"handle":HANDLE}`, "7 window")
	hint(400, `{"hint_type":1,"handle":HANDLE}`, "priority is missing")
	hint(400, `{"hint_type":1,"handle":HANDLE,"prio":3}`, "prio")
	hint(400, `{"hint_type":3,"timeslice":2000} more`, "body")
	hint(404, `{"hint_type":1,"handle":77,"priority":3}`)
	hint(200, `{"hint_type":7,"pid":1,"display":0}`) // a window of nobody who is scheduled
	if w := list(t, c)[0].Hints.Window; w != "" {
		t.Errorf("the window %q is still in front", w)
	}
	b.want(405, "DELETE", "/policy", "")
}

// TestOursOverHTTP goes through /v1; every answer is held against the description.
func TestOursOverHTTP(t *testing.T) {
	c := dial(t, serve(t, rundir(t), withHTTP).dir)
	p := join(t, c, client.Registration{Name: "one", TaskToken: "one", Priority: 3})
	p.ready(true)
	b := browse(t, c)
	at := fmt.Sprintf("/v1/tasks/%d", p.Task)
	b.want(200, "GET", "/v1/tasks", "", `"name":"one"`)
	b.want(200, "GET", at, "", `"account":{`, `"began_unix_ns"`)
	b.want(404, "GET", "/v1/tasks/99", "", "no task of task 99")
	b.want(404, "GET", "/v1/tasks/x", "")
	b.want(200, "PATCH", at+"/hints", `{"quantum_ns":2000000,"slo_ns":"20000000"}`, `"priority":3`, `"slo_ns":"20000000"`)
	b.want(400, "PATCH", at+"/hints", `{"priority":300}`, "-255 to 255")
	b.want(400, "PATCH", at+"/hints", `{"task":7,"priority":3}`, "path")
	b.want(400, "PATCH", at+"/hints", `{"prio":3}`, "prio")
	b.want(400, "PATCH", at+"/hints", strings.Repeat(" ", 20<<10), "more than")
	b.want(404, "PATCH", "/v1/tasks/99/hints", `{"priority":3}`)
	b.want(200, "PATCH", at+"/settings", `{"threshold":4}`, `"threshold":4`, `"batch":8`)
	b.want(400, "PATCH", at+"/settings", `{"threshold":0}`, "1 to 256")
	b.want(200, "GET", "/v1/report", "", `"ended":[]`)
	b.want(200, "PUT", "/v1/policy", `{"policy":"cfs"}`, "CFS")
	b.want(400, "PUT", "/v1/policy", `{"policy":"best"}`, `"allowed"`)
	b.want(200, "GET", "/v1/policy", "", `"policy":"CFS"`)
	b.want(200, "GET", "/v1/status", "", `"version":"test"`)
	b.want(200, "GET", "/v1/memory", "", `"devices":[`)
	b.want(409, "PATCH", "/v1/memory", `{"policy":"swap"}`, "--hbm-budget")
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it to be reported as ended", func() bool {
		_, text := b.ask("GET", "/v1/report", "")
		return strings.Contains(text, `"tasks":[]`) && strings.Contains(text, `"name":"one"`)
	})
}

func TestHTTPNeedsAToken(t *testing.T) {
	d := serve(t, rundir(t), withHTTP)
	c := dial(t, d.dir)
	file := filepath.Join(d.dir, client.TokenFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	b := browse(t, c)
	if b.token != strings.TrimSpace(string(text)) {
		t.Error("the file has another token than the socket gives")
	}
	good := b.token
	for _, bad := range []string{"", "x", good + "0", strings.Replace(good, "-"+fmt.Sprint(os.Getuid())+"-", "-4711-", 1)} {
		b.token = bad
		for _, path := range []string{"/xqueues", "/xqueue/1", "/policy", "/v1/tasks", "/v1/openapi.json", "/v1/status"} {
			b.want(401, "GET", path, "", "xcli token")
		}
		b.want(401, "POST", "/policy?policy=RR", "")
		b.want(401, "POST", "/hint", `{"hint_type":3,"timeslice":2000}`)
	}
	b.token = good
	_, description := b.ask("GET", "/v1/openapi.json", "")
	var described struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(description), &described); err != nil || len(described.Paths) < 8 {
		t.Fatalf("%v: %s", err, description)
	}
	b.token = ""
	for path, methods := range described.Paths { // every one that there is
		for method := range methods {
			b.want(401, strings.ToUpper(method), strings.NewReplacer("{", "", "}", "").Replace(path), "")
		}
	}
	if name, _, err := c.Policy(t.Context()); err != nil || name != "HPF" {
		t.Errorf("%s, %v: the policy was changed", name, err)
	}
	d.stop()
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the token is left behind: %v", err)
	}
}

// TestHTTPIsOffByDefault, and is served on this machine alone.
func TestHTTPIsOffByDefault(t *testing.T) {
	d := serve(t, rundir(t))
	if _, err := dial(t, d.dir).Token(t.Context()); err == nil || !strings.Contains(err.Error(), "--http") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(d.dir, client.TokenFile)); err == nil {
		t.Error("there is a token")
	}
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:50000", "[::]:0", "example.org:80", "127.0.0.1", "127.0.0.1:70000"} {
		for _, edit := range []func(*xserver.Config){
			func(c *xserver.Config) { c.HTTP = address }, func(c *xserver.Config) { c.Metrics = address },
		} {
			cfg := xserver.Config{Dir: rundir(t)}
			edit(&cfg)
			var wrong *xserver.AddressError
			if _, err := xserver.New(cfg); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "127.0.0.1:PORT") {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
}

// TestCase34OthersTasksOverHTTP has another user ask with a token of his own.
func TestCase34OthersTasksOverHTTP(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a second user needs root")
	}
	dir := rundir(t)
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	c := dial(t, serve(t, dir, withHTTP).dir)
	mine := spawn(t, part{Role: "player", Dir: dir, Registration: client.Registration{Name: "mine"}})
	eventually(t, "its device", func() bool { return len(list(t, c)[0].Devices) == 1 })
	const nobody = 65534
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAsAnotherUserOverHTTP$", "-test.v")
	cmd.Env = append(os.Environ(), "XMSCHED_OTHER_DIR="+dir, fmt.Sprintf("XMSCHED_OTHER_HANDLE=%#x", browse(t, c).xqueues()[0].Handle))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestAsAnotherUserOverHTTP") {
		t.Fatalf("%v\n%s", err, out)
	}
	if tasks := list(t, c); len(tasks) != 1 || tasks[0].Id != mine.Task || tasks[0].Hints.Priority != 0 || tasks[0].Hints.QuantumNs != 0 {
		t.Errorf("after the attempts: %v", tasks)
	}
}

// TestAsAnotherUserOverHTTP is the other user's part of TestCase34OthersTasksOverHTTP.
func TestAsAnotherUserOverHTTP(t *testing.T) {
	dir, h := os.Getenv("XMSCHED_OTHER_DIR"), os.Getenv("XMSCHED_OTHER_HANDLE")
	if h == "" {
		t.Skip("runs in a child of TestCase34OthersTasksOverHTTP")
	}
	if _, err := os.ReadFile(filepath.Join(dir, client.TokenFile)); !errors.Is(err, os.ErrPermission) {
		t.Errorf("the token of root: %v", err)
	}
	b := browse(t, dial(t, dir))
	if qs := b.xqueues(); len(qs) != 0 {
		t.Errorf("sees %v", qs)
	}
	b.want(200, "GET", "/v1/report", "", `"tasks":[]`)
	b.want(403, "GET", "/xqueue/"+h, "", "belongs to uid 0")
	b.want(403, "POST", "/config/"+h+"?threshold=1", "")
	b.want(403, "POST", "/hint", `{"hint_type":1,"handle":"`+h+`","priority":9}`)
	b.want(403, "POST", "/hint", fmt.Sprintf(`{"hint_type":7,"pid":%d,"display":0}`, pidOf(t, h)))
	b.want(403, "GET", "/v1/tasks/1", "")
	b.want(403, "PATCH", "/v1/tasks/1/hints", `{"priority":9}`)
	b.want(403, "PATCH", "/v1/tasks/1/settings", `{"threshold":1}`)
	b.want(403, "POST", "/policy?policy=RR", "")
	b.want(403, "PUT", "/v1/policy", `{"policy":"RR"}`)
	b.want(200, "POST", "/hint", `{"hint_type":3,"timeslice":2000}`) // of all that are his: none
}

func pidOf(t *testing.T, handle string) int {
	t.Helper()
	var n uint64
	if _, err := fmt.Sscanf(handle, "0x%x", &n); err != nil {
		t.Fatal(err)
	}
	return int(n >> 24)
}

// TestMetrics are of the daemon alone without a token, and of what its user sees with
// one.
func TestMetrics(t *testing.T) {
	c := dial(t, serve(t, rundir(t), withHTTP).dir)
	p := join(t, c, client.Registration{Name: "one \"1\"", TaskToken: "one"})
	p.ready(true)
	eventually(t, "a request", func() bool { return list(t, c)[0].Devices[0].Ready })
	p.ready(false)
	r, err := c.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	b := &browser{t: t, at: r.Metrics}
	text := b.want(200, "GET", "/metrics", "", `xmsched_info{policy="HPF",version="test"} 1`, `xmsched_registered{what="tasks"} 1`, "xmsched_device_share{device=")
	if strings.Contains(text, "one") {
		t.Errorf("a task is named to everybody:\n%s", text)
	}
	b.token = r.Token
	eventually(t, "the request to be counted", func() bool {
		_, text = b.ask("GET", "/metrics", "")
		return strings.Contains(text, `xmsched_task_request_seconds_count{name="one \"1\"",task="1",uid="`+fmt.Sprint(os.Getuid())+`"} 1`)
	})
	for _, w := range []string{`le="6.4e-05"`, `le="+Inf"} 1`, "xmsched_task_run_seconds_total{", "xmsched_task_share{"} {
		if !strings.Contains(text, w) {
			t.Errorf("no %s in\n%s", w, text)
		}
	}
	b.token = "wrong"
	b.want(401, "GET", "/metrics", "")
	b.want(404, "GET", "/", "")
}
