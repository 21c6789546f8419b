package xserver

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"xmsched/compute"
	"xmsched/nvx/choose"
	"xmsched/nvx/sheet"
	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/internal/plane"
)

const (
	// maxOffers bounds the devices that are remembered: a client may claim any.
	maxOffers = 64
	// offersEvery is how often the sheets of devices are looked at that offer no
	// Level 3: somebody may have probed one by hand.
	offersEvery = 5 * time.Second
	// probeEvery is the least time between two probes. One covers all devices that
	// there are, so that another finds no more.
	probeEvery = 10 * time.Minute
)

// Sheets are the spec sheets of the devices, by which Level 3 is offered.
type Sheets struct {
	// Dir is the state directory that they lie in. Empty: there are none, and Level 3
	// is offered nowhere.
	Dir string
	// Driver tells the version of the driver that is in use.
	Driver func() (string, error)
	// Probe has the devices of this machine probed, and returns when that is done.
	// nil: nobody probes.
	Probe func(context.Context) error
	// Present are the devices that are known to be there at the start.
	Present []string
	// AtStart has a probe made at the start unless there is a sheet of this driver,
	// though no device is known to be there.
	AtStart bool
}

// offers is what is known of devices.
type offers struct {
	mu     sync.Mutex
	known  map[compute.Device]plane.Offer // protected by mu
	probed time.Time                      // when the last probe ended; the keeper's
	failed string                         // why it found nothing; the keeper's
}

// list is what is offered on the devices that are or were in use.
func (o *offers) list(state plane.State) []*xserverv1.DeviceOffer {
	names := map[compute.Device]string{}
	for _, seat := range state.Seats {
		names[seat.Device] = seat.DeviceName
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []*xserverv1.DeviceOffer
	for id, offer := range o.known {
		list = append(list, &xserverv1.DeviceOffer{
			Uuid: string(id), Name: clean(names[id], maxName), Level3: offer.Level3, Why: offer.Why,
		})
	}
	slices.SortFunc(list, func(a, b *xserverv1.DeviceOffer) int { return cmp.Compare(a.Uuid, b.Uuid) })
	return list
}

// keepOffers tells the data plane what its devices offer, and has those probed of
// which nothing is known. It runs until the daemon ends.
func (s *Server) keepOffers() {
	if s.cfg.Sheets.Dir == "" {
		return
	}
	tick := time.NewTicker(offersEvery)
	defer tick.Stop()
	for _, id := range s.cfg.Sheets.Present {
		s.offers.add(compute.Device(id))
	}
	if s.cfg.Sheets.AtStart && s.mayProbe() && !s.haveSheets() {
		s.probe()
	}
	for s.ending.Err() == nil {
		if s.refreshOffers() && s.mayProbe() {
			s.probe()
			s.refreshOffers()
		}
		s.managed.setProbe(probeOver)
		select {
		case <-s.loop.Devices():
			s.addDevices()
		case <-tick.C:
		case <-s.ending.Done():
		}
	}
}

// haveSheets says whether there is any sheet of the driver in use.
func (s *Server) haveSheets() bool {
	driver, err := s.cfg.Sheets.Driver()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(s.sheets(), func(sh *sheet.Sheet) bool { return sh.On(driver) })
}

// add takes a device in, unless there are too many.
func (o *offers) add(id compute.Device) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.known[id]; !ok && len(o.known) < maxOffers && sheet.CheckUUID(string(id)) == nil {
		o.known[id] = plane.Offer{Why: plane.NotProbed} // as the plane takes it for by itself
	}
}

// addDevices takes in the devices that are in use, and forgets those that nobody
// uses, of which a client may have made up many.
func (s *Server) addDevices() {
	state, _, err := s.loop.Describe()
	if err != nil {
		return
	}
	used := map[compute.Device]bool{}
	for _, seat := range state.Seats {
		used[seat.Device] = true
	}
	s.offers.mu.Lock()
	if len(s.offers.known) >= maxOffers {
		maps.DeleteFunc(s.offers.known, func(id compute.Device, o plane.Offer) bool { return !used[id] && !o.Level3 })
	}
	s.offers.mu.Unlock()
	for id := range used {
		s.offers.add(id)
	}
}

// refreshOffers reads the sheets of the devices that offer nothing yet, and tells
// what is new. It says whether a device has no sheet of this driver.
func (s *Server) refreshOffers() (missing bool) {
	s.offers.mu.Lock()
	known := maps.Clone(s.offers.known)
	s.offers.mu.Unlock()
	driver, err := s.cfg.Sheets.Driver()
	for id, before := range known {
		if before.Level3 {
			continue
		}
		offer := plane.Offer{}
		absent := false
		if err != nil {
			offer.Why = err.Error()
		} else {
			offer, absent = s.readOffer(id, driver)
		}
		missing = missing || absent
		if offer == before {
			continue
		}
		s.offers.set(id, offer)
		_ = s.loop.SetOffer(id, offer) // it ends when we do
		s.forgetState()
		s.log.Info("level 3", "device", id, "offered", offer.Level3, "why", offer.Why)
	}
	return missing
}

// readOffer is what a device's sheet says under a driver; absent: there is none.
func (s *Server) readOffer(id compute.Device, driver string) (offer plane.Offer, absent bool) {
	sh, err := sheet.Load(s.cfg.Sheets.Dir, string(id))
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !sh.On(driver):
		offer.Why = plane.NotProbed
		if s.offers.failed != "" {
			offer.Why = s.offers.failed
		}
		return offer, true
	case err != nil:
		offer.Why = err.Error()
		return offer, true
	}
	offer.Level3, offer.Why = sh.Level3()
	c := sh.Costs()
	offer.Costs = choose.Costs{Suspend: c.Suspend, Resume: c.Resume, Switch: c.Switch, SetSlice: c.SetSlice}
	return offer, sh.Probe == nil
}

func (o *offers) set(id compute.Device, offer plane.Offer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known[id] = offer
}

// mayProbe says whether a probe may be tried now.
func (s *Server) mayProbe() bool {
	return s.cfg.Sheets.Probe != nil && (s.offers.probed.IsZero() || time.Since(s.offers.probed) > probeEvery)
}

// probesAtStart says whether the first thing that a daemon does may be a probe.
func (s *Server) probesAtStart() bool {
	sh := &s.cfg.Sheets
	return sh.Dir != "" && sh.Probe != nil && (sh.AtStart || len(sh.Present) > 0)
}

func (s *Server) probe() {
	s.managed.setProbe(probing)
	s.log.Info("probing the devices for level 3")
	err := s.cfg.Sheets.Probe(s.ending)
	s.offers.probed = time.Now()
	s.offers.failed = "the probe did not reach this device"
	if err != nil {
		s.offers.failed = "the probe ended early: " + clean(err.Error(), 200)
		s.log.Warn("devices not probed", "why", err)
	}
}
