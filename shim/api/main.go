// Command api is the library libxmsched_api.so (go build -buildmode=c-shared):
// the C interface of shim/include/xmsched.h over package library. The public
// functions are in api.c; what is exported here is called by them alone.
//
// What may not happen here: anything but turning C values into Go ones and
// back. The process is somebody else's.
package main

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror -fvisibility=hidden
#include <stdlib.h>
#include "api.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"xmsched/compute"
	"xmsched/preempt"
	"xmsched/shim/api/library"
)

func main() {}

var process = library.New()

// answer is the code for an error, whose text is kept for the calling thread.
func answer(err error) C.XResult {
	if err == nil {
		return C.kXSchedSuccess
	}
	text := C.CString(err.Error())
	defer C.free(unsafe.Pointer(text))
	return C.xm_api_fail(C.XResult(library.Code(err)), text)
}

func guarded(f func() error) C.XResult { return answer(library.Guard(f)) }

// handleInto stores a handle where the caller wants it.
func handleInto(out *C.uint64_t, f func() (uint64, error)) C.XResult {
	fit()
	return guarded(func() error {
		h, err := f()
		if err == nil {
			*out = C.uint64_t(h)
		}
		return err
	})
}

// resultError is nil for success.
func resultError(r C.XResult) error {
	if r == C.kXSchedSuccess {
		return nil
	}
	return library.Result(r)
}

func callback(launch C.LaunchCallback, data unsafe.Pointer) library.Launch {
	return func(hardware uint64) error {
		return resultError(C.xm_api_launch(launch, C.HwQueueHandle(hardware), data))
	}
}

// custom is a hardware queue of the caller's functions.
type custom struct {
	ops    *C.XHwQueueOps // a copy of ours, never freed: a thread may be in it
	data   unsafe.Pointer
	device compute.Device
}

func (c *custom) Device() compute.Device { return c.device }

func (c *custom) Mark() (preempt.Marker, error) {
	marker := (*unsafe.Pointer)(C.calloc(1, C.size_t(unsafe.Sizeof(unsafe.Pointer(nil)))))
	defer C.free(unsafe.Pointer(marker))
	if err := resultError(C.xm_api_mark(c.ops, c.data, marker)); err != nil {
		return nil, err
	}
	return customMarker{c, *marker}, nil
}

func (c *custom) Synchronize() error { return resultError(C.xm_api_synchronize(c.ops, c.data)) }

type customMarker struct {
	of     *custom
	marker unsafe.Pointer
}

func (m customMarker) Wait() error { return resultError(C.xm_api_wait(m.of.ops, m.of.data, m.marker)) }

//export xmgo_stream_create
func xmgo_stream_create(out *C.uint64_t, stream C.uintptr_t) C.XResult {
	return handleInto(out, func() (uint64, error) { return process.CreateStream(uintptr(stream)) })
}

//export xmgo_stream_find
func xmgo_stream_find(out *C.uint64_t, stream C.uintptr_t) C.XResult {
	return handleInto(out, func() (uint64, error) { return process.FindStream(uintptr(stream)) })
}

//export xmgo_hardware_create
func xmgo_hardware_create(out *C.uint64_t, ops *C.XHwQueueOps, data unsafe.Pointer) C.XResult {
	return handleInto(out, func() (uint64, error) {
		c := &custom{ops: (*C.XHwQueueOps)(C.malloc(C.size_t(unsafe.Sizeof(*ops)))), data: data}
		*c.ops = *ops
		c.device = compute.Device(C.GoString(ops.device))
		return process.CreateHardware(c), nil
	})
}

//export xmgo_hardware_destroy
func xmgo_hardware_destroy(h C.uint64_t) C.XResult {
	return guarded(func() error { return process.DestroyHardware(uint64(h)) })
}

//export xmgo_hardware_launch
func xmgo_hardware_launch(h, cmd C.uint64_t) C.XResult {
	return guarded(func() error { return process.LaunchHardware(uint64(h), uint64(cmd)) })
}

//export xmgo_hardware_synchronize
func xmgo_hardware_synchronize(h C.uint64_t) C.XResult {
	return guarded(func() error { return process.SyncHardware(uint64(h)) })
}

//export xmgo_command_create
func xmgo_command_create(launch C.LaunchCallback, data unsafe.Pointer) C.uint64_t {
	return C.uint64_t(process.CreateCommand(callback(launch, data)))
}

//export xmgo_command_destroy
func xmgo_command_destroy(cmd C.uint64_t) C.XResult {
	return guarded(func() error { return process.DestroyCommand(uint64(cmd)) })
}

//export xmgo_create
func xmgo_create(out *C.uint64_t, hardware C.uint64_t, level, flags C.int64_t) C.XResult {
	return handleInto(out, func() (uint64, error) {
		return process.CreateQueue(uint64(hardware), int64(level), int64(flags))
	})
}

//export xmgo_destroy
func xmgo_destroy(xq C.uint64_t) C.XResult {
	return guarded(func() error { return process.DestroyQueue(uint64(xq)) })
}

//export xmgo_find
func xmgo_find(out *C.uint64_t, hardware C.uint64_t) C.XResult {
	return handleInto(out, func() (uint64, error) { return process.FindQueue(uint64(hardware)) })
}

//export xmgo_set_level
func xmgo_set_level(xq C.uint64_t, level C.int64_t) C.XResult {
	return guarded(func() error { return process.SetLevel(uint64(xq), int64(level)) })
}

// withQueue is guarded for what needs the XQueue alone.
func withQueue(xq C.uint64_t, f func(*preempt.XQueue) error) C.XResult {
	return guarded(func() error {
		q, err := process.Queue(uint64(xq))
		if err != nil {
			return err
		}
		return f(q)
	})
}

//export xmgo_configure
func xmgo_configure(xq C.uint64_t, threshold, batch C.int64_t) C.XResult {
	return withQueue(xq, func(q *preempt.XQueue) error {
		return q.SetLaunchConfig(preempt.LaunchConfig{Threshold: int(threshold), Batch: int(batch)})
	})
}

//export xmgo_submit
func xmgo_submit(xq, cmd C.uint64_t) C.XResult {
	return guarded(func() error { return process.Submit(uint64(xq), uint64(cmd)) })
}

//export xmgo_submit_callback
func xmgo_submit_callback(xq C.uint64_t, launch C.LaunchCallback, data unsafe.Pointer) C.XResult {
	return guarded(func() error { return process.SubmitCallback(uint64(xq), callback(launch, data)) })
}

//export xmgo_begin
func xmgo_begin(xq C.uint64_t, out *C.uint64_t) C.XResult {
	return handleInto(out, func() (uint64, error) { return process.Begin(uint64(xq)) })
}

//export xmgo_end
func xmgo_end(xq, cmd C.uint64_t, launched C.XResult) C.XResult {
	return guarded(func() error { return process.End(uint64(xq), uint64(cmd), library.Result(launched)) })
}

//export xmgo_wait_command
func xmgo_wait_command(xq, other C.uint64_t) C.XResult {
	return guarded(func() error { return process.WaitCommand(uint64(xq), uint64(other)) })
}

//export xmgo_wait
func xmgo_wait(xq, cmd C.uint64_t, timeout C.int64_t) C.XResult {
	return guarded(func() error {
		limit := time.Duration(-1)
		if timeout >= 0 {
			limit = library.Timespan(int64(timeout))
		}
		return process.Wait(uint64(xq), uint64(cmd), limit)
	})
}

//export xmgo_query
func xmgo_query(xq C.uint64_t, state *C.XQueueState) C.XResult {
	return withQueue(xq, func(q *preempt.XQueue) error {
		*state = C.XQueueState(q.Query())
		return nil
	})
}

//export xmgo_suspend
func xmgo_suspend(xq C.uint64_t, flags C.int64_t) C.XResult {
	return withQueue(xq, func(q *preempt.XQueue) error {
		if known := preempt.SyncHardware | preempt.WaitAll | preempt.WaitIdle; flags&^C.int64_t(known) != 0 {
			return fmt.Errorf("suspend flags %#x: %w", int64(flags), library.InvalidValue)
		}
		return q.Suspend(context.Background(), preempt.SuspendFlags(flags))
	})
}

//export xmgo_resume
func xmgo_resume(xq C.uint64_t, flags C.int64_t) C.XResult {
	return withQueue(xq, func(q *preempt.XQueue) error {
		if flags&^C.int64_t(preempt.DropCommands) != 0 {
			return fmt.Errorf("resume flags %#x: %w", int64(flags), library.InvalidValue)
		}
		return q.Resume(preempt.ResumeFlags(flags))
	})
}

//export xmgo_count
func xmgo_count(xq C.uint64_t, count *C.int64_t) C.XResult {
	return withQueue(xq, func(q *preempt.XQueue) error {
		*count = C.int64_t(q.Info().Submitted)
		return nil
	})
}

//export xmgo_info
func xmgo_info(xq C.uint64_t, out *C.XQueueInfo) C.XResult {
	return withQueue(xq, func(q *preempt.XQueue) error {
		i := q.Info()
		out.suspended, out.open = flag(i.Suspended), flag(i.Open)
		out.submitted, out.launched, out.completed = C.uint64_t(i.Submitted), C.uint64_t(i.Launched), C.uint64_t(i.Completed)
		out.threshold, out.batch_size = C.int64_t(i.Threshold), C.int64_t(i.Batch)
		text(unsafe.Slice(&out.device[0], len(out.device)), string(i.Device))
		return nil
	})
}

func flag(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}

// text copies a string into a C array, cut to fit with its end.
func text(to []C.char, s string) {
	n := min(len(s), len(to)-1)
	for i := range n {
		to[i] = C.char(s[i])
	}
	to[n] = 0
}

//export xmgo_hint_priority
func xmgo_hint_priority(xq C.uint64_t, priority C.int32_t) C.XResult {
	return guarded(func() error { return process.Hint(uint64(xq), library.Priority(int(priority))) })
}

//export xmgo_hint_utilization
func xmgo_hint_utilization(xq C.uint64_t, percent C.int32_t) C.XResult {
	return guarded(func() error {
		return process.Hint(uint64(xq), func(h *compute.Hints) { h.Utilization = int(percent) })
	})
}

//export xmgo_hint_weight
func xmgo_hint_weight(xq C.uint64_t, weight C.int32_t) C.XResult {
	return guarded(func() error {
		return process.Hint(uint64(xq), func(h *compute.Hints) { h.Weight = int(weight) })
	})
}

//export xmgo_hint_min_share
func xmgo_hint_min_share(xq C.uint64_t, share C.double) C.XResult {
	return guarded(func() error {
		return process.Hint(uint64(xq), func(h *compute.Hints) { h.MinShare = float64(share) })
	})
}

//export xmgo_hint_laxity
func xmgo_hint_laxity(xq C.uint64_t, us C.int64_t, low, high C.int32_t) C.XResult {
	return guarded(func() error {
		after, err := library.Micros("laxity", int64(us))
		if err != nil {
			return err
		}
		laxity := compute.Laxity{After: after, Low: int(low), High: int(high)}
		return process.Hint(uint64(xq), func(h *compute.Hints) { h.Laxity = laxity })
	})
}

//export xmgo_hint_text
func xmgo_hint_text(xq C.uint64_t, hints *C.char) C.XResult {
	return guarded(func() error {
		change, err := library.HintText(C.GoString(hints))
		if err != nil {
			return err
		}
		return process.Hint(uint64(xq), change)
	})
}

//export xmgo_hint_get_text
func xmgo_hint_get_text(xq C.uint64_t, to *C.char, size C.size_t) C.XResult {
	return withQueue(xq, func(q *preempt.XQueue) error {
		text(unsafe.Slice(to, size), library.SpellHints(q.Hints()))
		return nil
	})
}

// hintTime sets a hint that is a time.
func hintTime(xq C.uint64_t, name string, us C.int64_t, of func(*compute.Hints) *time.Duration) C.XResult {
	return guarded(func() error {
		d, err := library.Micros(name, int64(us))
		if err != nil {
			return err
		}
		return process.Hint(uint64(xq), func(h *compute.Hints) { *of(h) = d })
	})
}

//export xmgo_hint_deadline
func xmgo_hint_deadline(xq C.uint64_t, us C.int64_t) C.XResult {
	return hintTime(xq, "deadline", us, func(h *compute.Hints) *time.Duration { return &h.Deadline })
}

//export xmgo_hint_idle_after
func xmgo_hint_idle_after(xq C.uint64_t, us C.int64_t) C.XResult {
	return hintTime(xq, "idle-after", us, func(h *compute.Hints) *time.Duration { return &h.IdleAfter })
}

//export xmgo_hint_quantum
func xmgo_hint_quantum(xq C.uint64_t, us C.int64_t) C.XResult {
	return hintTime(xq, "quantum", us, func(h *compute.Hints) *time.Duration { return &h.Quantum })
}

//export xmgo_hint_timeslice
func xmgo_hint_timeslice(us C.int64_t) C.XResult {
	return guarded(func() error {
		d, err := library.Micros("timeslice", int64(us))
		if err != nil {
			return err
		}
		return process.HintAll(func(h *compute.Hints) { h.Quantum = d })
	})
}

//export xmgo_hint_k
func xmgo_hint_k(k C.size_t) C.XResult {
	return guarded(func() error {
		if k == 0 || k > compute.MaxK {
			return &compute.RangeError{
				Hint: "k-deadline", Value: fmt.Sprint(uint64(k)), Min: fmt.Sprint(compute.MinK), Max: fmt.Sprint(compute.MaxK),
			}
		}
		return process.HintAll(func(h *compute.Hints) { h.K = int(k) })
	})
}

//export xmgo_set_scheduler
func xmgo_set_scheduler(kind, policy C.int) C.XResult {
	return guarded(func() error { return process.SetScheduler(int(kind), int(policy)) })
}

//export xmgo_set_policy
func xmgo_set_policy(name *C.char) C.XResult {
	return guarded(func() error { return process.SetPolicy(C.GoString(name)) })
}

//export xmgo_policy_names
func xmgo_policy_names(to *C.char, size C.size_t) C.XResult {
	return guarded(func() error {
		if size == 0 {
			return errors.New("no room for names")
		}
		text(unsafe.Slice(to, int(min(size, 4096))), library.PolicyNames())
		return nil
	})
}
