package sheet

import "time"

const sampleUUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"

func timesOf(median, worst float64) *Times { return &Times{median, worst, 30} }

// sample is a whole sheet, with figures as the H200 has them.
func sample() *Sheet {
	stops := func(stop, resume float64) *Stops {
		return &Stops{timesOf(stop, 2*stop), timesOf(resume, 2*resume), timesOf(resume/2, resume)}
	}
	return &Sheet{
		Schema: Schema, Tool: "v1",
		Device: Device{UUID: sampleUUID, Name: "NVIDIA H200", ComputeCapability: "9.0", MemoryBytes: 150e9, Multiprocessors: 132, CopyEngines: 3, ComputePreemption: true},
		Driver: Driver{Version: "580.159.04", Module: "open", CUDA: "13.0"},
		Probe:  &Probe{At: time.Date(2026, 11, 29, 16, 0, 0, 0, time.UTC), TookMS: 800, Level3: true, ComputeGroups: 1, Groups: 4, Channels: 20},
		Measured: &Measured{
			At: time.Date(2026, 11, 29, 16, 1, 0, 0, time.UTC), TookMS: 15_000,
			Levels: []Level{
				{Level: 1, Unit: "outstanding commands", CommandUS: 200, Outstanding: 16, Idle: stops(1600, 10)},
				{Level: 2, Unit: "command", CommandUS: 200, Outstanding: 16, Idle: stops(100, 10)},
				{Level: 3, Unit: "instruction", Idle: stops(1700, 400), Busy: stops(1700, 2200), Request: stops(540, 360)},
			},
			Switch:        &Switch{Cost: timesOf(180, 200), TurnUS: 2048, SharePercent: 46, OtherSharePercent: 46},
			TimeSlice:     &TimeSlice{LowestUS: 1, HighestUS: 1000, Tried: []Slice{{AskedUS: 1, Accepted: true, SharePercent: 0.1}}, SetBusy: timesOf(1500, 2000)},
			Copy:          &Copy{Bytes: 64 << 20, ToDeviceGBs: 55.5, FromDeviceGBs: 55.3},
			Remap:         []Remap{{Bytes: 2 << 20, Create: timesOf(9.5, 12)}},
			Second:        &Second{CreateMS: 114, MemoryBytes: 526 << 20},
			Isolation:     []Isolation{{Allocator: "cuMemAlloc", WrittenBytes: 1 << 30, ReadBytes: 1 << 33}},
			HostIsolation: &Isolation{Allocator: "cuMemCreate HOST_NUMA", WrittenBytes: 1 << 30, ReadBytes: 1 << 31},
			Interfaces:    []Interface{{Name: "level 2", Public: true, Call: "cuStreamWaitValue32"}},
			Missing:       []Missing{{Figure: "foreground", Why: "nobody asked"}},
		},
	}
}
