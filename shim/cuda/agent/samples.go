package main

/*
#include "../preload/agent.h"

// Go cannot call a pointer to a C function; these do.
static int  smp_learns(const struct xm_samples *s) { return s->learns(); }
static int  smp_next(const struct xm_samples *s, int ms, struct xm_sample *head, void *record) { return s->next(ms, head, record); }
static int  smp_skip(const struct xm_samples *s, uint32_t n) { return s->skip(n); }
static int  smp_ready(const struct xm_samples *s, uint32_t n) { return s->ready(n); }
static int  smp_ran(const struct xm_samples *s, uint32_t n, int ms) { return s->ran(n, ms); }
static int  smp_done(const struct xm_samples *s, uint32_t n) { return s->done(n); }
static void smp_stop(const struct xm_samples *s) { s->stop(); }
static int  smp_ranges(const struct xm_samples *s, struct xm_sample_range *views, int n) { return s->ranges(views, n); }
*/
import "C"

import (
	"time"
	"unsafe"

	"xmsched/memory"
	"xmsched/nvx/faults"
	"xmsched/nvx/mover"
	"xmsched/shim/agent"
	"xmsched/xserver/client"
)

// samples is the C library's table of launches that are looked at. One goroutine
// uses it.
type samples struct {
	s      *C.struct_xm_samples
	record []byte
	views  []C.struct_xm_sample_range
}

// learningOf is how this process learns; nil: it does not.
func learningOf(h *C.struct_xm_host, commands agent.Commands, knowledge *agent.Knowledge) *agent.Learning {
	if commands == nil || h.samples == nil || h.samples.version != C.XM_SAMPLES_VERSION || uintptr(h.samples.size) < unsafe.Sizeof(*h.samples) ||
		C.smp_learns(h.samples) == 0 || memoryOf(h) == nil {
		return nil
	}
	find := memoryOf(h).Driver
	device, err := agent.NewDevice(find)
	if err != nil {
		C.smp_stop(h.samples)
		return nil
	}
	var observer agent.Observer = agent.NewLearner(knowledge, commands)
	if to := logOf(client.LearnLogVariable); to != nil {
		observer = agent.Logged(observer, commands, to)
	}
	host, _ := memory.HostBudget(mover.HostMemory())
	return &agent.Learning{
		Host:     host,
		Samples:  &samples{s: h.samples, record: make([]byte, agent.CommandBytes)},
		Device:   device,
		Observer: observer,
		Open:     func() (agent.Feed, error) { return faults.Open(faults.SystemOf(find), 0) },
	}
}

func (s *samples) Next(limit time.Duration) (agent.Sample, bool, error) {
	var head C.struct_xm_sample
	switch r := C.smp_next(s.s, C.int(limit.Milliseconds()), &head, unsafe.Pointer(&s.record[0])); {
	case r < 0:
		return agent.Sample{}, false, agent.ErrNoSamples
	case r == 0:
		return agent.Sample{}, false, nil
	}
	c, _, err := agent.NextCommand(s.record[:min(int(head.bytes), len(s.record))])
	if err != nil {
		s.Skip(uint32(head.number))
		return agent.Sample{}, false, nil
	}
	return agent.Sample{Number: uint32(head.number), Context: uint64(head.context), Device: int(head.device), Command: c}, true, nil
}

func (s *samples) Skip(number uint32) bool  { return C.smp_skip(s.s, C.uint32_t(number)) != 0 }
func (s *samples) Ready(number uint32) bool { return C.smp_ready(s.s, C.uint32_t(number)) != 0 }
func (s *samples) Done(number uint32) bool  { return C.smp_done(s.s, C.uint32_t(number)) != 0 }
func (s *samples) Stop()                    { C.smp_stop(s.s) }

func (s *samples) Ran(number uint32, limit time.Duration) (bool, error) {
	r := C.smp_ran(s.s, C.uint32_t(number), C.int(limit.Milliseconds()))
	if r < 0 {
		return false, agent.ErrNoSamples
	}
	return r == 1, nil
}

// Ranges asks with a larger buffer until all fit.
func (s *samples) Ranges(to []faults.Range) []faults.Range {
	for {
		n := int(C.smp_ranges(s.s, unsafe.SliceData(s.views), C.int(len(s.views))))
		if n > len(s.views) {
			s.views = make([]C.struct_xm_sample_range, n+n/4)
			continue
		}
		for _, v := range s.views[:n] {
			to = append(to, faults.Range{Base: uint64(v.address), Bytes: uint64(v.bytes)})
		}
		return to
	}
}
