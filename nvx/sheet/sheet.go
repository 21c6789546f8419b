// Package sheet is the preemption spec sheet of a device: what stopping and going
// on costs there, what else a scheduler of computation and memory has to know,
// and whether channel control passed its probe on this driver. As data: a struct,
// its file, and the comparison of two.
//
// It measures nothing (nvx/measure does) and asks no device. Every field has its
// unit in its name. A figure that was not to be had is absent, and Missing says
// why; nothing is ever filled in by a guess. A sheet of the simulated device says
// so in Simulated, and its figures are evidence for nothing.
//
// Files are read as claims of an unknown writer: a sheet that is too large, cut
// short or out of bounds is refused with one line.
package sheet

import "time"

// Schema is the version of the file's form. A file of another one is refused,
// and the device measured again.
const Schema = 1

// SimulatedDriver is the driver version of a simulated device.
const SimulatedDriver = "simulated"

// Sheet is what is known of one device under one driver.
type Sheet struct {
	Schema    int       `json:"schema"`
	Simulated bool      `json:"simulated"`
	Tool      string    `json:"tool"` // version of the program that wrote it
	Device    Device    `json:"device"`
	Driver    Driver    `json:"driver"`
	Probe     *Probe    `json:"probe,omitempty"`    // absent: never probed
	Measured  *Measured `json:"measured,omitempty"` // absent: never measured
}

// Device is the hardware.
type Device struct {
	UUID              string `json:"uuid"` // as nvidia-smi prints it
	Name              string `json:"name"`
	ComputeCapability string `json:"compute_capability"`
	MemoryBytes       uint64 `json:"memory_bytes"`
	Multiprocessors   int    `json:"multiprocessors"`
	CopyEngines       int    `json:"copy_engines"`
	ComputePreemption bool   `json:"compute_preemption"` // the driver's own attribute
}

// Driver is the software below the sheet's figures.
type Driver struct {
	Version string `json:"version"` // 580.159.04, or SimulatedDriver
	Module  string `json:"module"`  // "open", "proprietary", or "" where it is not known
	CUDA    string `json:"cuda"`    // newest CUDA version the driver supports
}

// Probe is the verdict whether level 3 works here.
type Probe struct {
	At     time.Time `json:"at"`
	TookMS float64   `json:"took_ms"`
	Level3 bool      `json:"level3"`
	Why    string    `json:"why,omitempty"` // why not; empty exactly when Level3
	Notes  []string  `json:"notes,omitempty"`
	// What the preload library knew of the process's objects on the device.
	ComputeGroups int `json:"compute_groups"`
	Groups        int `json:"groups"`
	Channels      int `json:"channels"`
}

// Measured are the figures.
type Measured struct {
	At         time.Time   `json:"at"`
	TookMS     float64     `json:"took_ms"`
	Levels     []Level     `json:"levels"`
	Switch     *Switch     `json:"context_switch,omitempty"`
	Foreground *Foreground `json:"foreground,omitempty"`
	TimeSlice  *TimeSlice  `json:"time_slice,omitempty"`
	Queue      *Queue      `json:"queue,omitempty"`
	Copy       *Copy       `json:"copy,omitempty"`
	Remap      []Remap     `json:"remap,omitempty"`
	Second     *Second     `json:"second_context,omitempty"`
	Isolation  []Isolation `json:"isolation,omitempty"` // of device memory
	// HostIsolation is of host memory that can be mapped like a device's, as moved
	// memory is kept in. Sheets of earlier versions lack it.
	HostIsolation *Isolation  `json:"host_isolation,omitempty"`
	Interfaces    []Interface `json:"interfaces,omitempty"`
	Missing       []Missing   `json:"missing,omitempty"`
}

// Times sums up repeated measurements.
type Times struct {
	MedianUS float64 `json:"median_us"`
	WorstUS  float64 `json:"worst_us"`
	Samples  int     `json:"samples"`
}

// Level is one way to stop a program.
type Level struct {
	Level int    `json:"level"`
	Unit  string `json:"unit"` // smallest unit that can be stopped
	How   string `json:"how"`
	// CommandUS is the length of the commands that were stopped, 0 for one
	// without end; Outstanding how many of them had been launched.
	CommandUS   float64 `json:"command_us"`
	Outstanding int     `json:"outstanding"`
	Idle        *Stops  `json:"idle,omitempty"` // nobody else uses the GPU
	// Busy: another process runs a kernel without end; both have the driver's time
	// slices, and what is asked for waits for the other's turn to end.
	Busy *Stops `json:"busy,omitempty"`
	// Request is how level 3 is used: stopped, with a time slice of 1 us, when
	// another process has just begun to use the GPU, and resumed when that is done.
	Request *Stops `json:"request,omitempty"`
}

// Stops are the times of stopping and going on.
type Stops struct {
	Stop       *Times `json:"stop"`        // from asking until nothing of it runs any more
	Resume     *Times `json:"resume"`      // from asking until its next instruction is seen
	ResumeCall *Times `json:"resume_call"` // how much of that the asking takes
}

// Switch is how two processes share the GPU that run kernels without end and have
// asked for nothing.
type Switch struct {
	Cost *Times `json:"cost"` // what the GPU loses when it turns from one to the other
	// TurnUS is how long the measuring process runs at a time, SharePercent how
	// much of the GPU's time it gets, OtherSharePercent what the other one gets.
	TurnUS            float64 `json:"turn_us"`
	SharePercent      float64 `json:"share_percent"`
	OtherSharePercent float64 `json:"other_share_percent"`
}

// Foreground is the time from launch to completion of one empty command of
// another process, while this one is as the fields say.
type Foreground struct {
	Alone   *Times `json:"alone"`   // it runs nothing
	Beside  *Times `json:"beside"`  // it runs, with the default time slice
	Armed   *Times `json:"armed"`   // it runs, with a time slice of 1 us
	Stopped *Times `json:"stopped"` // it is stopped in mid-kernel
}

// TimeSlice is what can be asked of the hardware's time slices.
type TimeSlice struct {
	LowestUS  uint32  `json:"lowest_us"`          // accepted
	HighestUS uint32  `json:"highest_us"`         // accepted
	Tried     []Slice `json:"tried"`              // beside a process with the default
	SetIdle   *Times  `json:"set_idle,omitempty"` // a call, with the GPU idle
	SetBusy   *Times  `json:"set_busy,omitempty"` // beside another busy process
}

// Slice is one length that was tried.
type Slice struct {
	AskedUS  uint32 `json:"asked_us"`
	Accepted bool   `json:"accepted"`
	Status   string `json:"status,omitempty"` // of a refusal
	// TurnUS is how long the process with that slice ran at a time, beside an
	// equally busy one; SharePercent how much of the GPU's time it got.
	TurnUS       float64 `json:"turn_us"`
	SharePercent float64 `json:"share_percent"`
	// OtherSharePercent is what the other one got; the rest nobody did.
	OtherSharePercent float64 `json:"other_share_percent"`
}

// Queue is what one stream holds.
type Queue struct {
	// DepthCommands were accepted by a held stream before a launch blocked.
	DepthCommands int  `json:"depth_commands"`
	Blocks        bool `json:"blocks"` // false: it took all that it was given
	BoundLowest   int  `json:"bound_lowest"`
	BoundHighest  int  `json:"bound_highest"`
}

// Copy is the link to the host.
type Copy struct {
	Bytes           uint64  `json:"bytes"` // of one copy, pinned
	ToDeviceGBs     float64 `json:"to_device_gb_per_s"`
	FromDeviceGBs   float64 `json:"from_device_gb_per_s"`
	BothToGBs       float64 `json:"both_ways_to_device_gb_per_s"`
	BothFromGBs     float64 `json:"both_ways_from_device_gb_per_s"`
	BesideKernelGBs float64 `json:"to_device_beside_a_kernel_gb_per_s"`
}

// Remap is the cost of changing what lies at an address.
type Remap struct {
	Bytes     uint64 `json:"bytes"`
	Create    *Times `json:"create"`
	Map       *Times `json:"map"`
	SetAccess *Times `json:"set_access"`
	Unmap     *Times `json:"unmap"`
	Release   *Times `json:"release"`
}

// Second is a further context of the same process.
type Second struct {
	CreateMS    float64 `json:"create_ms"`
	DestroyMS   float64 `json:"destroy_ms"`
	MemoryBytes uint64  `json:"memory_bytes"`
}

// Isolation looks for what one process wrote in what the next one gets. The
// writer has seen all of its words where it wrote them.
type Isolation struct {
	Allocator    string `json:"allocator"`     // the driver's call
	WrittenBytes uint64 `json:"written_bytes"` // filled by the first process, then freed
	ReadBytes    uint64 `json:"read_bytes"`    // allocated by the next and read before it wrote
	FreeBytes    uint64 `json:"free_bytes"`    // how much of its kind was free then: what the reader could have got
	WordsSeen    uint64 `json:"words_seen"`    // of the first one's words, of 4 bytes
	ExitedToo    bool   `json:"exited_too"`    // the first process ended, too, before the second reading
}

// Visible says that memory of one process showed up in the next.
func (i Isolation) Visible() bool { return i.WordsSeen > 0 }

// Interface says what something rests on.
type Interface struct {
	Name   string `json:"name"`
	Public bool   `json:"public"` // documented API; else the driver's own interface to its kernel module
	Call   string `json:"call"`
}

// Missing is a figure that was not to be had.
type Missing struct {
	Figure string `json:"figure"`
	Why    string `json:"why"`
}

// Level3 says whether level 3 is offered, and if not why. A nil sheet is that of
// a device nobody has probed.
func (s *Sheet) Level3() (offered bool, why string) {
	if s == nil || s.Probe == nil {
		return false, "not probed yet"
	}
	return s.Probe.Level3, s.Probe.Why
}

// On says whether the sheet is of a driver. Probe and figures say nothing about
// another one.
func (s *Sheet) On(driver string) bool { return s != nil && s.Driver.Version == driver }

// Costs are the figures that choosing between arming, gating and stopping rests
// on. A field is 0 where it was not measured.
type Costs struct {
	Suspend  time.Duration // level 3 stop, armed, for another process's request, median
	Resume   time.Duration // from asking for it after that request until it goes on, median
	Switch   time.Duration // context switch in mid-kernel
	SetSlice time.Duration // change of a time slice beside a busy process, median
}

// Costs of the device.
func (s *Sheet) Costs() Costs {
	var c Costs
	if s == nil || s.Measured == nil {
		return c
	}
	for _, l := range s.Measured.Levels {
		if l.Level == 3 && l.Request != nil {
			c.Suspend, c.Resume = l.Request.Stop.median(), l.Request.Resume.median()
		}
	}
	if w := s.Measured.Switch; w != nil {
		c.Switch = w.Cost.median()
	}
	if t := s.Measured.TimeSlice; t != nil {
		c.SetSlice = t.SetBusy.median()
	}
	return c
}

func (t *Times) median() time.Duration {
	if t == nil {
		return 0
	}
	return time.Duration(t.MedianUS * float64(time.Microsecond))
}
