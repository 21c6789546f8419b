package web

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	xserverv1 "xmsched/xserver/api/v1"
)

// route is a path of ours: a request of the control plane's service, in the JSON of
// protobuf with the names of its fields as they are. Both its handler and its
// description are made from this.
type route struct {
	method, path, id, summary string
	body                      func() proto.Message // of the request; nil: it has none
	byPath                    []string             // fields of the body that the path gives
	reply                     proto.Message        // an example, for its type
	call                      func(ctx context.Context, task uint64, body proto.Message) (proto.Message, error)
}

func (a api) routes() []route {
	return []route{
		{"GET", "/v1/tasks", "listTasks", "The tasks that the caller may see", nil, nil, &xserverv1.ListTasksResponse{},
			func(ctx context.Context, _ uint64, _ proto.Message) (proto.Message, error) {
				return a.Service.ListTasks(ctx, &xserverv1.ListTasksRequest{})
			}},
		{"GET", "/v1/tasks/{task}", "getTask", "One task, with what became of it", nil, nil, &xserverv1.Task{},
			func(ctx context.Context, task uint64, _ proto.Message) (proto.Message, error) {
				return a.task(ctx, task)
			}},
		{"PATCH", "/v1/tasks/{task}/hints", "setHints", "Change the hints that are named; the others stay",
			func() proto.Message { return &xserverv1.SetHintRequest{} }, []string{"pid", "task"}, &xserverv1.SetHintResponse{},
			func(ctx context.Context, task uint64, body proto.Message) (proto.Message, error) {
				req := body.(*xserverv1.SetHintRequest)
				if req.Pid != 0 || req.Task != 0 {
					return nil, errNamedTwice
				}
				req.Task = task
				return a.Service.SetHint(ctx, req)
			}},
		{"PATCH", "/v1/tasks/{task}/settings", "setSettings", "Change how all processes of a task are governed; what is not named stays",
			func() proto.Message { return &xserverv1.SetConfigRequest{} }, []string{"pid", "task"}, &xserverv1.SetConfigResponse{},
			func(ctx context.Context, task uint64, body proto.Message) (proto.Message, error) {
				req := body.(*xserverv1.SetConfigRequest)
				if req.Pid != 0 || req.Task != 0 {
					return nil, errNamedTwice
				}
				req.Task = task
				return a.Service.SetConfig(ctx, req)
			}},
		{"GET", "/v1/report", "getReport", "What became of the tasks, those included that ended lately", nil, nil, &xserverv1.ReportResponse{},
			func(ctx context.Context, _ uint64, _ proto.Message) (proto.Message, error) {
				return a.Service.Report(ctx, &xserverv1.ReportRequest{})
			}},
		{"GET", "/v1/policy", "getPolicy", "The policy, and those that there are", nil, nil, &xserverv1.GetPolicyResponse{},
			func(ctx context.Context, _ uint64, _ proto.Message) (proto.Message, error) {
				return a.Service.GetPolicy(ctx, &xserverv1.GetPolicyRequest{})
			}},
		{"PUT", "/v1/policy", "setPolicy", "Change the policy of all devices; hints stay",
			func() proto.Message { return &xserverv1.SetPolicyRequest{} }, nil, &xserverv1.SetPolicyResponse{},
			func(ctx context.Context, _ uint64, body proto.Message) (proto.Message, error) {
				return a.Service.SetPolicy(ctx, body.(*xserverv1.SetPolicyRequest))
			}},
		{"GET", "/v1/memory", "getMemory", "Where the memory is", nil, nil, &xserverv1.MemoryStatsResponse{},
			func(ctx context.Context, _ uint64, _ proto.Message) (proto.Message, error) {
				return a.Service.MemoryStats(ctx, &xserverv1.MemoryStatsRequest{})
			}},
		{"PATCH", "/v1/memory", "setMemory", "Change how memory is managed, or what a task may allocate",
			func() proto.Message { return &xserverv1.SetMemoryRequest{} }, nil, &xserverv1.SetMemoryResponse{},
			func(ctx context.Context, _ uint64, body proto.Message) (proto.Message, error) {
				return a.Service.SetMemory(ctx, body.(*xserverv1.SetMemoryRequest))
			}},
		{"GET", "/v1/status", "getStatus", "How the daemon is", nil, nil, &xserverv1.GetStatusResponse{},
			func(ctx context.Context, _ uint64, _ proto.Message) (proto.Message, error) {
				return a.Service.GetStatus(ctx, &xserverv1.GetStatusRequest{})
			}},
	}
}

var errNamedTwice = status.Error(codes.InvalidArgument, "the path names the task, the body must not")

// v1 routes our paths, and their description.
func (a api) v1(mux *http.ServeMux) {
	routes := a.routes()
	for _, rt := range routes {
		mux.HandleFunc(rt.method+" "+rt.path, rt.serve)
	}
	description := describe(routes)
	mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, description)
	})
}

func (rt route) serve(w http.ResponseWriter, r *http.Request) {
	var task uint64
	if text := r.PathValue("task"); text != "" {
		var err error
		if task, err = strconv.ParseUint(text, 10, 64); err != nil || task == 0 {
			fail(w, status.Errorf(codes.NotFound, "no task has the number %q", text))
			return
		}
	}
	var body proto.Message
	if rt.body != nil {
		body = rt.body()
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = protojson.Unmarshal(text, body)
		}
		if err != nil {
			fail(w, bodyError(err))
			return
		}
	}
	reply, err := rt.call(r.Context(), task, body)
	if err != nil {
		fail(w, err)
		return
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(reply)
	if err != nil {
		fail(w, err)
		return
	}
	write(w, http.StatusOK, text)
}

// task is one of those that the caller may see, or an error that says why not.
func (a api) task(ctx context.Context, id uint64) (*xserverv1.Task, error) {
	r, err := a.Service.Report(ctx, &xserverv1.ReportRequest{})
	if err != nil {
		return nil, err
	}
	for _, t := range append(r.Tasks, r.Ended...) {
		if t.Id == id {
			return t, nil
		}
	}
	// A change of nothing: the service says whether there is none, or whose it is.
	if _, err := a.Service.SetConfig(ctx, &xserverv1.SetConfigRequest{Task: id}); err != nil {
		return nil, err
	}
	return nil, status.Errorf(codes.NotFound, "task %d has just come or gone", id)
}
