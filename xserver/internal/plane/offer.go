package plane

import (
	"time"

	"xmsched/compute"
	"xmsched/nvx/choose"
)

// Offer says whether Level 3 is to be had on a device, by the word of whoever
// probed it. The zero Offer is that of a device that nobody has probed.
type Offer struct {
	Level3 bool
	Why    string // not; empty: nobody has said
	Costs  choose.Costs
}

// A turn ends between two commands, so that there is no kernel in mid-flight to be
// saved: an H200 lost 0.155 ms with each, as shares of 50 us kernels in turns of 1 to
// 9 ms showed (2026-11-30, opening a gate included), where a switch in mid-kernel takes
// 0.224.
const betweenCommands = 0.7

// mostSwitch is the most that is believed of a sheet: turns are longer by that.
const mostSwitch = 2 * time.Millisecond

// tellSwitch has the policies know what a turn costs on a device.
func (p *Plane) tellSwitch(d *device) {
	p.events = append(p.events, compute.SwitchCost{Device: d.id, Cost: switchCost(d)})
}

// switchCost is what a turn costs on a device.
func switchCost(d *device) time.Duration {
	return min(time.Duration(betweenCommands*float64(d.costs().Switch)), mostSwitch)
}

// NotProbed is why a device offers no Level 3 of which nothing else is known.
const NotProbed = "not probed yet"

// why is the reason that Level 3 is not offered; empty where it is.
func (o Offer) why() string {
	switch {
	case o.Level3:
		return ""
	case o.Why == "":
		return NotProbed
	}
	return o.Why
}

// SetOffer says what a device offers from now on, whether or not anybody is on it.
func (p *Plane) SetOffer(id compute.Device, o Offer) {
	p.offers[id] = o
	d, ok := p.devices[id]
	if !ok {
		return
	}
	d.offer = o
	p.tellSwitch(d)
	d.chooser.SetCosts(o.Costs)
	for _, st := range d.seats {
		for _, s := range st.sections {
			p.refresh(s)
		}
		p.reassess(st)
	}
}
