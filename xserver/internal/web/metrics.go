package web

import (
	"context"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/internal/plane"
)

// maxSeries is how many tasks have figures of their own, the longest running ones:
// what a scraper keeps is bounded by it at any time.
const maxSeries = 128

// Metrics serves figures for Prometheus at /metrics. Without a token they are those of
// the daemon and of devices; with one, those of its user's tasks as well.
func Metrics(c Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		f := figures{ctx: r.Context(), config: c}
		if r.Header.Get("Authorization") != "" {
			if f.uid, f.tasks = c.Tokens.bearer(r); !f.tasks {
				fail(w, status.Error(codes.Unauthenticated, "the token is none of this daemon; xcli token shows yours"))
				return
			}
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(&f)
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
	return mux
}

// figures are those of one request.
type figures struct {
	ctx    context.Context
	config Config
	tasks  bool // of its user's tasks as well
	uid    uint32
}

func metric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("xmsched_"+name, help, labels, nil)
}

var (
	infoDesc      = metric("info", "The daemon's version and policy; always 1.", "version", "policy")
	countDesc     = metric("registered", "Tasks, processes and devices that are served.", "what")
	edgesDesc     = metric("edges_total", "Ready and idle edges that clients rang for.")
	grantsDesc    = metric("gate_words_total", "Gate words stored.")
	decisionDesc  = metric("decision_seconds", "Times of a turn of the decision loop.", "quantile")
	deviceDesc    = metric("device_share", "Part of the last second that tasks had the device.", "device")
	notShownDesc  = metric("tasks_not_shown", "Tasks beyond the limit of those with figures of their own.")
	runDesc       = taskMetric("run_seconds_total", "Time that the task had work and could run.")
	waitDesc      = taskMetric("wait_seconds_total", "Time that the task had work and was stopped.")
	switchDesc    = taskMetric("switching_seconds_total", "Part of the waiting in which nobody ran in its place.")
	preemptedDesc = taskMetric("preempted_total", "Times that the task was stopped while it had work.")
	preemptDesc   = taskMetric("preempting_total", "Times that others were stopped for the task.")
	sloDesc       = taskMetric("slo_requests_total", "Requests that ended while the task had an SLO.")
	sloMetDesc    = taskMetric("slo_met_total", "Requests that ended within the SLO.")
	metDesc       = taskMetric("deadlines_met_total", "Requests that ended within the task's deadline.")
	missedDesc    = taskMetric("deadlines_missed_total", "Requests that ended after the task's deadline.")
	requestDesc   = taskMetric("request_seconds", "How long requests took, from turning ready to turning idle.")
	shareDesc     = metric("task_share", "Part of the last second that the task had the device.", "task", "name", "uid", "device")
)

func taskMetric(name, help string) *prometheus.Desc {
	return metric("task_"+name, help, "task", "name", "uid")
}

// Describe says nothing: what there is depends on who asks.
func (f *figures) Describe(chan<- *prometheus.Desc) {}

// Collect asks the service.
func (f *figures) Collect(out chan<- prometheus.Metric) {
	const root = 0
	all := f.config.As(f.ctx, root)
	st, err := f.config.Service.GetStatus(all, &xserverv1.GetStatusRequest{})
	if err != nil {
		out <- prometheus.NewInvalidMetric(infoDesc, err)
		return
	}
	gauge(out, infoDesc, 1, st.Version, st.Policy)
	gauge(out, countDesc, float64(st.Tasks), "tasks")
	gauge(out, countDesc, float64(st.Processes), "processes")
	gauge(out, countDesc, float64(st.Devices), "devices")
	counter(out, edgesDesc, float64(st.Edges))
	counter(out, grantsDesc, float64(st.Grants))
	gauge(out, decisionDesc, seconds(st.DecisionP50Ns), "0.5")
	gauge(out, decisionDesc, seconds(st.DecisionP99Ns), "0.99")
	gauge(out, decisionDesc, seconds(st.DecisionMaxNs), "1")

	r, err := f.config.Service.Report(all, &xserverv1.ReportRequest{})
	if err != nil {
		out <- prometheus.NewInvalidMetric(deviceDesc, err)
		return
	}
	shares := map[string]float64{}
	for _, t := range r.Tasks {
		for _, d := range t.Devices {
			shares[d.Uuid] += lastShare(d)
		}
	}
	for device, share := range shares {
		gauge(out, deviceDesc, share, device)
	}
	if f.tasks {
		f.collectTasks(out)
	}
}

func (f *figures) collectTasks(out chan<- prometheus.Metric) {
	r, err := f.config.Service.Report(f.config.As(f.ctx, f.uid), &xserverv1.ReportRequest{})
	if err != nil {
		out <- prometheus.NewInvalidMetric(runDesc, err)
		return
	}
	shown := r.Tasks[:min(len(r.Tasks), maxSeries)]
	gauge(out, notShownDesc, float64(len(r.Tasks)-len(shown)))
	for _, t := range shown {
		collectTask(out, t)
	}
}

func collectTask(out chan<- prometheus.Metric, t *xserverv1.Task) {
	labels := []string{strconv.FormatUint(t.Id, 10), t.Name, strconv.FormatUint(uint64(t.Uid), 10)}
	a := t.GetAccount()
	for desc, value := range map[*prometheus.Desc]float64{
		runDesc: seconds(a.GetRunNs()), waitDesc: seconds(a.GetWaitNs()), switchDesc: seconds(a.GetSwitchingNs()),
		preemptedDesc: float64(a.GetPreempted()), preemptDesc: float64(a.GetPreempting()),
		sloDesc: float64(a.GetSloRequests()), sloMetDesc: float64(a.GetSloMet()),
		metDesc: float64(a.GetDeadlinesMet()), missedDesc: float64(a.GetDeadlinesMissed()),
	} {
		counter(out, desc, value, labels...)
	}
	within := map[float64]uint64{}
	for i, n := range a.GetLatency().GetWithin() {
		within[plane.Limit(i).Seconds()] = n
	}
	out <- prometheus.MustNewConstHistogram(requestDesc, a.GetLatency().GetRequests(), seconds(a.GetLatency().GetSumNs()), within, labels...)
	for _, d := range t.Devices {
		gauge(out, shareDesc, lastShare(d), append(labels, d.Uuid)...)
	}
}

func lastShare(d *xserverv1.Device) float64 {
	if len(d.Shares) == 0 {
		return 0
	}
	return float64(d.Shares[len(d.Shares)-1]) / 1000
}

func gauge(out chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func counter(out chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func seconds(ns uint64) float64 { return float64(ns) / 1e9 }
