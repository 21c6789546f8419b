// Package measure finds out what a device can do for a scheduler, and writes it
// into a spec sheet (nvx/sheet): a quick probe whether channel control works
// here, and the figures.
//
// It decides nothing and stores nothing. All that touches the device happens in
// child processes, because what is tried may crash or hang: Run starts a worker
// (the caller's own program, which calls Worker) under the preload library but
// without a daemon, and takes what it says so far as the result when it dies.
// The worker starts a second process, the peer, where a figure needs two.
//
// Worker and peer know the device through hal/cuda alone, and channel control
// through the functions xm_channels_* that the preload library exports. They use
// whatever is free of the device's memory up to half, of the host's up to half of
// what moved memory could have and 2 GiB, and only for moments.
//
// Concurrency: Run may be called from any goroutine; two at once on one device
// disturb each other's figures. Worker owns its process.
package measure
