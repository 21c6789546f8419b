package preempt

import "xmsched/compute"

// HardwareQueue is a command queue of an accelerator that works its commands
// off in their order. The program launches its commands on it in any way it
// likes, from inside the functions it hands to an [XQueue].
//
// Mark and Synchronize are called from goroutines of the XQueue, never two Marks
// at a time and never a Mark beside a launch. A HardwareQueue belongs to its
// maker: close what there is to close after the XQueue.
type HardwareQueue interface {
	// Device names what the queue computes on. Queues of one name share a
	// device, and a [Scheduler] decides for each device alone.
	Device() compute.Device
	// Mark puts a marker behind everything launched so far. An error means
	// that the queue is broken and everything in it lost.
	Mark() (Marker, error)
	// Synchronize waits until everything in the queue is done, also what was
	// launched past the XQueue.
	Synchronize() error
}

// Marker is a point in a hardware queue.
type Marker interface {
	// Wait waits until the queue has passed the marker. It is called once, and
	// afterwards the marker is not used again. An error means that the queue is
	// broken.
	Wait() error
}

// Binder is a HardwareQueue whose calls need something of the calling thread,
// as CUDA's need a current context. Bind prepares the calling OS thread, which
// its caller has locked, and unbind undoes that.
type Binder interface {
	Bind() (unbind func(), err error)
}
