package workloads

// Stops are an observer's result, in us.
type Stops struct {
	// StopUS is, for each closing of the gate, the time until the last kernel
	// ended that ended before the gate opened again; 0 when none did.
	StopUS []float64 `json:"stop_us"`
	// HoldUS is, for each of these, how long the gate was closed.
	HoldUS []float64 `json:"hold_us"`
	// ResumeUS is, for each opening, the time until the first kernel ended: the
	// kernel itself is in it.
	ResumeUS []float64 `json:"resume_us"`
	// IntervalUS are times between the ends of two kernels in a row while the
	// gate was open, at most maxIntervals of them: those that were seen to a
	// quarter. After a pause of the observer it finds several kernels ended, and
	// the times between seeing them are its own.
	IntervalUS []float64 `json:"interval_us"`
	// Idle counts the closings that found no kernel ended since the gate was
	// last opened; they are not in StopUS, for nothing ran that could be stopped.
	Idle int `json:"idle"`
	// GapUS is the longest time between two looks of the observer.
	GapUS float64 `json:"gap_us"`
}

const maxIntervals = 20_000

// stopLog makes stops of what is seen, in the order of time (ns from
// anywhere, above 0). It allocates nothing while it looks.
type stopLog struct {
	open     bool
	running  bool  // a kernel ended since the gate opened
	last     int64 // end of a kernel; 0: none yet
	late     int64 // by how much it may have ended before
	closedAt int64 // 0: the gate was not seen closing
	openedAt int64
	stops    Stops
}

func newStopLog(open bool) *stopLog {
	const closings = maxPulses
	return &stopLog{open: open, stops: Stops{
		StopUS: make([]float64, 0, closings), HoldUS: make([]float64, 0, closings), ResumeUS: make([]float64, 0, closings), IntervalUS: make([]float64, 0, maxIntervals),
	}}
}

// gate takes that the gate opened or closed.
func (s *stopLog) gate(open bool, at int64) {
	if open == s.open {
		return
	}
	s.open = open
	switch {
	case !open && !s.running:
		s.stops.Idle++
		s.closedAt = 0
	case !open:
		s.closedAt = at
	default:
		if s.closedAt > 0 {
			s.stops.StopUS = append(s.stops.StopUS, float64(max(s.last-s.closedAt, 0))/1e3)
			s.stops.HoldUS = append(s.stops.HoldUS, float64(at-s.closedAt)/1e3)
		}
		s.openedAt, s.running = at, false
	}
}

// ended takes that a kernel ended: it is seen now, and was running when it, or
// one before it, was last seen running.
func (s *stopLog) ended(at, running int64) {
	late := at - running
	if s.open {
		switch {
		case s.running && s.last > 0:
			s.interval(at-s.last, max(s.late, late))
		case !s.running && s.openedAt > 0:
			s.stops.ResumeUS = append(s.stops.ResumeUS, float64(at-s.openedAt)/1e3)
		}
		s.running = true
	}
	s.last, s.late = at, late
}

// interval keeps a time between two ends that is wrong by a quarter at most.
func (s *stopLog) interval(ns, late int64) {
	if 4*late <= ns && len(s.stops.IntervalUS) < cap(s.stops.IntervalUS) {
		s.stops.IntervalUS = append(s.stops.IntervalUS, float64(ns)/1e3)
	}
}

// result gives what was seen; a stop that has not ended is left out.
func (s *stopLog) result() *Stops { return &s.stops }
