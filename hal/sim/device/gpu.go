package device

import (
	"crypto/sha256"
	"fmt"

	"xmsched/hal/sim/model"
)

// gpu is one of the devices: its engines, its memory, who it is. Its fields are
// protected by Device.mu, but for the first two, which never change.
type gpu struct {
	index    int
	uuid     [16]byte
	machine  *model.Machine
	capacity *model.Capacity
	channels map[model.ChannelID]*channel
}

func newGPUs(cfg *Config) []*gpu {
	gpus := make([]*gpu, cfg.Devices)
	for i := range gpus {
		gpus[i] = &gpu{
			index: i, uuid: uuidOf(cfg.Socket, i),
			machine:  model.New(cfg.Model),
			capacity: model.NewCapacity(cfg.HBM),
			channels: map[model.ChannelID]*channel{},
		}
	}
	return gpus
}

// gpuOf is the device that a request names, or nil.
func (d *Device) gpuOf(number uint32) *gpu {
	if int64(number) >= int64(len(d.gpus)) {
		return nil
	}
	return d.gpus[number]
}

// uuidOf makes a device's identity from where it lives: the same device keeps it
// over restarts, two devices differ.
func uuidOf(socket string, index int) (id [16]byte) {
	name := "xmsched simulated device " + socket
	if index > 0 {
		name += fmt.Sprint(" ", index)
	}
	sum := sha256.Sum256([]byte(name))
	copy(id[:], sum[:])
	return id
}

// refund gives back what a span was charged for. Precondition: Device.mu is held.
func (d *Device) refund(sp *span) {
	for i := range sp.blocks {
		d.leave(&sp.blocks[i])
	}
	if sp.charge > 0 {
		sp.gpu.capacity.Return(sp.charge)
	}
}

// removeSpans takes out every span of a client that want accepts.
// Precondition: Device.mu is held.
func (d *Device) removeSpans(c *client, want func(*span) bool) {
	for _, sp := range c.space.removeAll(want) {
		d.refund(sp)
	}
}
