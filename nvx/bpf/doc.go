// Package bpf looks at programs that use the NVIDIA driver and were started
// without us: bpf programs at the entries of the driver's functions (uprobes), or
// at the probe sites of our preload library where a program runs under it, add up
// in the kernel what the program does; this package attaches them and reads the
// sums. Nothing of the observed program is changed but for the breakpoints, and
// they go when the observer goes, however it ends.
//
// What can be known: launches, copies, memsets and other commands, exactly;
// memory that is allocated and given back while somebody looks, exactly; how long
// calls waited for the device. When the device is busy is an estimate, from when
// commands are handed over and when calls that wait come back
// (program/model.h). The device itself is not looked at.
//
// The place of a hook is the exported function, which in the real driver is a small
// entry before code of the driver's own. Who gets a function's address from
// cuGetProcAddress, as the CUDA runtime does, gets that of the exported one (every
// answer recorded of driver 580.159.04 was, hal/cuda/abi/facts), so such calls hit
// the same place. What the driver calls inside itself does not, and neither do programs
// that have the driver linked in some other way (cuGetExportTable).
//
// The objects are compiled from program/ by go generate (generate/), with types
// that the running kernel's type information relocates, and committed. Needs Linux
// 5.15 on amd64 or arm64, type information in /sys/kernel/btf, and root or CAP_BPF,
// CAP_PERFMON and, for programs of others, CAP_SYS_PTRACE. Hooks that a kernel
// lacks are tried by attaching them; what is missing is said (Missing), and the
// rest goes on. Return addresses of the calls whose return is hooked lead through the
// kernel, so a stack that is read in between shows that and not the caller.
//
// An Observer belongs to one goroutine; those that it starts end before it returns.
package bpf
