package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
)

// XSched's shapes. What it calls an XQueue is here a process on a device: all its
// queues there are suspended together, as a part of its task.

// compat routes XSched's paths.
func (a api) compat(mux *http.ServeMux) {
	mux.HandleFunc("GET /xqueues", a.getXQueues)
	mux.HandleFunc("GET /xqueue/{handle}", a.getXQueue)
	mux.HandleFunc("POST /config/{handle}", a.postConfig)
	mux.HandleFunc("GET /policy", a.getPolicyNumber)
	mux.HandleFunc("POST /policy", a.postPolicyNumber)
	mux.HandleFunc("POST /hint", a.postHint)
}

// xqueue is a process on a device, as XSched shows an XQueue; what comes after
// suspended is ours.
type xqueue struct {
	Handle    uint64 `json:"handle"`
	Device    uint64 `json:"device"` // 2 (a GPU) << 32 | head of its UUID
	Level     uint32 `json:"level"`
	PID       int32  `json:"pid"`
	Threshold uint32 `json:"threshold"`
	Batch     uint32 `json:"batch_size"`
	Ready     bool   `json:"ready"`
	Suspended bool   `json:"suspended"`
	Task      uint64 `json:"task"`
	UUID      string `json:"uuid"`
}

type process struct {
	PID     int32  `json:"pid"`
	Cmdline string `json:"cmdline"` // what the program calls itself
}

// handleOf is the same over restarts of the daemon, and below 2^53, so that no
// reader of JSON rounds it.
func handleOf(pid int32, uuid string) uint64 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(uuid)) // never fails
	return uint64(pid)<<24 | uint64(sum.Sum32()&(1<<24-1))
}

func deviceNumber(uuid string) uint64 {
	const gpu = 2 // XSched's number of the kind
	head, _, _ := strings.Cut(strings.TrimPrefix(uuid, "GPU-"), "-")
	n, _ := strconv.ParseUint(head, 16, 32) // 0 where a UUID is not written so
	return gpu<<32 | n
}

// xqueues are all that the caller may see. A process that is in no pid namespace
// that the daemon sees has no handle; /v1 has it, by its task.
func (a api) xqueues(ctx context.Context) (queues []xqueue, processes []process, err error) {
	r, err := a.Service.ListTasks(ctx, &xserverv1.ListTasksRequest{})
	queues, processes = []xqueue{}, []process{}
	for _, t := range r.GetTasks() {
		for _, p := range t.Processes {
			if p.Pid == 0 {
				continue
			}
			processes = append(processes, process{p.Pid, p.Name})
			for _, pd := range p.Devices {
				queues = append(queues, queueOf(t, p, pd))
			}
		}
	}
	return queues, processes, err
}

func queueOf(t *xserverv1.Task, p *xserverv1.Process, pd *xserverv1.ProcessDevice) xqueue {
	q := xqueue{
		Handle: handleOf(p.Pid, pd.Uuid), Device: deviceNumber(pd.Uuid), Level: pd.Level, PID: p.Pid,
		Threshold: p.GetSettings().GetThreshold(), Batch: p.GetSettings().GetBatch(), Task: t.Id, UUID: pd.Uuid,
	}
	for _, d := range t.Devices {
		if d.Uuid == pd.Uuid {
			q.Ready, q.Suspended = d.Ready, !d.Open
		}
	}
	return q
}

func (a api) getXQueues(w http.ResponseWriter, r *http.Request) {
	queues, processes, err := a.xqueues(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, map[string]any{"xqueues": queues, "processes": processes})
}

func (a api) getXQueue(w http.ResponseWriter, r *http.Request) {
	q, p, err := a.find(r.Context(), r.PathValue("handle"))
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, map[string]any{"xqueue": q, "process": p})
}

// find finds an XQueue by its handle, in hexadecimal digits.
func (a api) find(ctx context.Context, text string) (xqueue, process, error) {
	handle, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(text), "0x"), 16, 64)
	if err != nil {
		return xqueue{}, process{}, refuse("handle", text, "hexadecimal digits, as in 0x1f00a2")
	}
	return a.byHandle(ctx, handle)
}

func (a api) byHandle(ctx context.Context, handle uint64) (xqueue, process, error) {
	queues, processes, err := a.xqueues(ctx)
	if err != nil {
		return xqueue{}, process{}, err
	}
	for _, q := range queues {
		if q.Handle != handle {
			continue
		}
		for _, p := range processes {
			if p.PID == q.PID {
				return q, p, nil
			}
		}
	}
	// Another user's is not unknown; who may steer a process, the service says.
	if pid := handle >> 24; pid > 0 && pid < 1<<31 {
		_, err := a.Service.SetConfig(ctx, &xserverv1.SetConfigRequest{Pid: int32(pid)})
		if status.Code(err) == codes.PermissionDenied {
			return xqueue{}, process{}, err
		}
	}
	return xqueue{}, process{}, status.Errorf(codes.NotFound, "no XQueue has the handle %#x", handle)
}

// postConfig changes what the query names. As with XSched's own tools, level 0 and a
// threshold or batch size of -1 mean no change.
func (a api) postConfig(w http.ResponseWriter, r *http.Request) {
	q, _, err := a.find(r.Context(), r.PathValue("handle"))
	if err != nil {
		fail(w, err)
		return
	}
	req := &xserverv1.SetConfigRequest{Pid: q.PID}
	query := r.URL.Query()
	if text := query.Get("level"); text != "" && text != "0" {
		req.Level = &text
	}
	for name, into := range map[string]**uint32{"threshold": &req.Threshold, "batch_size": &req.Batch} {
		text := query.Get(name)
		if text == "" || text == "-1" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			fail(w, refuse(name, text, fmt.Sprintf("1 to %d", client.MaxThreshold)))
			return
		}
		*into = new(uint32)
		**into = uint32(n)
	}
	if req.Level == nil && req.Threshold == nil && req.Batch == nil {
		answer(w, http.StatusOK, map[string]string{"warning": "no change"})
		return
	}
	_, err = a.Service.SetConfig(r.Context(), req)
	done(w, err)
}

func done(w http.ResponseWriter, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, map[string]string{"info": "success"})
}

// policyNumbers are XSched's numbers of the policies; those that it has not are ours.
var policyNumbers = map[string]int{
	"HPF": 1, "HHPF": 2, "CHPF": 3, "UP": 4, "PUP": 5, "SPUP": 6, "KEDF": 7, "LAX": 8, "AWF": 9, "CFS": 10, "MLFQ": 11,
	"RR": 101, "WRR": 102, "FCFS": 103,
}

func (a api) getPolicyNumber(w http.ResponseWriter, r *http.Request) {
	p, err := a.Service.GetPolicy(r.Context(), &xserverv1.GetPolicyRequest{})
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, map[string]any{"policy": policyNumbers[p.Policy], "name": p.Policy})
}

func (a api) postPolicyNumber(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("policy")
	if n, err := strconv.Atoi(name); err == nil {
		for policy, number := range policyNumbers {
			if number == n {
				name = policy
			}
		}
	}
	_, err := a.Service.SetPolicy(r.Context(), &xserverv1.SetPolicyRequest{Policy: name})
	done(w, err)
}

// XSched's kinds of hints.
const (
	hintPriority = 1 + iota
	hintUtilization
	hintTimeslice
	hintDeadline
	hintKDeadline
	hintLaxity
	hintWindow
)

// handle is written as a number, or in hexadecimal digits as text.
type handle uint64

// UnmarshalJSON reads either.
func (h *handle) UnmarshalJSON(text []byte) error {
	base, digits := 10, string(text)
	if s, ok := strings.CutPrefix(digits, `"`); ok {
		base, digits = 16, strings.TrimPrefix(strings.TrimSuffix(s, `"`), "0x")
	}
	n, err := strconv.ParseUint(digits, base, 64)
	*h = handle(n)
	return err
}

// display is a name as text, or a number: that of X's display.
type display string

// UnmarshalJSON reads either.
func (d *display) UnmarshalJSON(text []byte) error {
	if n, err := strconv.ParseUint(string(text), 10, 16); err == nil {
		*d = display(fmt.Sprintf(":%d", n))
		return nil
	}
	return json.Unmarshal(text, (*string)(d))
}

// hint is the body of POST /hint. Lengths of time are in microseconds.
type hint struct {
	Type        int     `json:"hint_type"`
	Handle      handle  `json:"handle"`
	PID         int32   `json:"pid"`
	Priority    *int32  `json:"priority"`
	Utilization *uint32 `json:"utilization"`
	Timeslice   *uint64 `json:"timeslice"`
	Deadline    *uint64 `json:"deadline"`
	KDeadline   *uint32 `json:"k_deadline"`
	Laxity      *uint64 `json:"laxity"`
	LaxPriority *int32  `json:"lax_prio"`
	CritPrio    *int32  `json:"crit_prio"`
	Display     display `json:"display"`
}

// request is the hint as ours, but for whom it is. Missing is the field that is not
// there, or "hint_type".
func (h *hint) request() (req *xserverv1.SetHintRequest, missing string) {
	ns := func(us *uint64) *uint64 {
		if us == nil {
			return nil
		}
		n := min(*us, 1<<53) * 1000
		return &n
	}
	req = &xserverv1.SetHintRequest{}
	switch h.Type {
	case hintPriority:
		req.Priority = h.Priority
		return req, missingIf(h.Priority == nil, "priority")
	case hintUtilization:
		req.Utilization = h.Utilization
		return req, missingIf(h.Utilization == nil, "utilization")
	case hintTimeslice:
		req.QuantumNs = ns(h.Timeslice)
		return req, missingIf(h.Timeslice == nil, "timeslice")
	case hintDeadline:
		req.DeadlineNs = ns(h.Deadline)
		return req, missingIf(h.Deadline == nil, "deadline")
	case hintKDeadline:
		req.KDeadline = h.KDeadline
		return req, missingIf(h.KDeadline == nil, "k_deadline")
	case hintLaxity:
		req.LaxityNs, req.LaxityLow, req.LaxityHigh = ns(h.Laxity), h.LaxPriority, h.CritPrio
		return req, missingIf(h.Laxity == nil, "laxity")
	case hintWindow:
		display := string(h.Display)
		req.Window = &display
		return req, missingIf(h.PID == 0, "pid")
	}
	return nil, "hint_type"
}

func missingIf(missing bool, field string) string {
	if missing {
		return field
	}
	return ""
}

func (a api) postHint(w http.ResponseWriter, r *http.Request) {
	h := hint{Display: ":0"}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(&h)
	if err == nil && d.More() {
		err = errors.New("there is more than one value")
	}
	if err != nil {
		fail(w, bodyError(err))
		return
	}
	req, missing := h.request()
	switch {
	case missing == "hint_type":
		fail(w, refuse("hint_type", strconv.Itoa(h.Type),
			"1 priority, 2 utilization, 3 timeslice, 4 deadline, 5 k-deadline, 6 laxity, 7 window"))
	case missing != "":
		fail(w, status.Errorf(codes.InvalidArgument, "%s is missing, which a hint of hint_type %d has", missing, h.Type))
	case h.Handle == 0 && h.PID == 0 && (h.Type == hintTimeslice || h.Type == hintKDeadline):
		done(w, a.hintAll(r.Context(), req)) // XSched has these once for all
	case h.Type == hintWindow:
		done(w, a.hintWindow(r.Context(), req, h.PID))
	default:
		done(w, a.hintOne(r.Context(), req, uint64(h.Handle), h.PID))
	}
}

func (a api) hintOne(ctx context.Context, req *xserverv1.SetHintRequest, handle uint64, pid int32) error {
	req.Pid = pid
	if handle != 0 {
		q, _, err := a.byHandle(ctx, handle)
		if err != nil {
			return err
		}
		req.Pid = q.PID
	}
	_, err := a.Service.SetHint(ctx, req)
	return err
}

// hintAll gives a hint to every task that the caller may see.
func (a api) hintAll(ctx context.Context, req *xserverv1.SetHintRequest) error {
	r, err := a.Service.ListTasks(ctx, &xserverv1.ListTasksRequest{})
	for _, t := range r.GetTasks() {
		req.Task = t.Id
		if _, one := a.Service.SetHint(ctx, req); one != nil && status.Code(one) != codes.NotFound && err == nil {
			err = one
		}
	}
	return err
}

// hintWindow says whose window is in front. One that is nobody's who is scheduled
// leaves the display to nobody.
func (a api) hintWindow(ctx context.Context, req *xserverv1.SetHintRequest, pid int32) error {
	err := a.hintOne(ctx, req, 0, pid)
	if status.Code(err) != codes.NotFound {
		return err
	}
	r, err := a.Service.ListTasks(ctx, &xserverv1.ListTasksRequest{})
	none := ""
	for _, t := range r.GetTasks() {
		if t.GetHints().GetWindow() == req.GetWindow() {
			_, err = a.Service.SetHint(ctx, &xserverv1.SetHintRequest{Task: t.Id, Window: &none})
		}
	}
	return err
}

// refuse words a value that is not allowed.
func refuse(field, given, allowed string) error {
	return client.Reject(codes.InvalidArgument, field, given, []string{allowed}, fmt.Sprintf("%s %q: allowed is %s", field, given, allowed))
}

// bodyError says what is wrong with a body.
func bodyError(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return status.Errorf(codes.InvalidArgument, "the body has more than %d bytes", large.Limit)
	}
	return status.Errorf(codes.InvalidArgument, "the body cannot be read: %v", err)
}
