package xserver

import (
	"fmt"
	"log/slog"
	"maps"

	"xmsched/compute"
	mem "xmsched/memory"
	"xmsched/nvx/sheet"
)

// tellLinks tells what links to the host carry by their spec sheets.
func (s *Server) tellLinks(sheets []*sheet.Sheet) {
	rates := map[compute.Device]mem.Rate{}
	for _, sh := range sheets {
		id := compute.Device(sh.Device.UUID)
		if r := linkOf(sh); r > 0 && s.managed.sheetLinks[id] != r {
			rates[id] = r
		}
	}
	if len(rates) > 0 && s.loop.SetLinks(rates) == nil {
		if s.managed.sheetLinks == nil {
			s.managed.sheetLinks = map[compute.Device]mem.Rate{}
		}
		maps.Copy(s.managed.sheetLinks, rates)
	}
	if s.log.Enabled(s.ending, slog.LevelDebug) {
		s.logLinks()
	}
}

// logLinks logs what the data plane made of that and of what moved, where it changed.
func (s *Server) logLinks() {
	state, _, err := s.loop.DescribeMemory()
	if err != nil {
		return
	}
	now := make(map[compute.Device]mem.Rate, len(state.Devices))
	for _, d := range state.Devices {
		if now[d.Device] = d.Link; s.managed.links[d.Device] != d.Link {
			s.log.Debug("memory link", "device", d.Device, "rate", fmt.Sprintf("%.1f GB/s", d.Link/1e9))
		}
	}
	s.managed.links = now
}

// linkOf is what a sheet says that a link carries one way while the other is busy too;
// 0: nothing.
func linkOf(sh *sheet.Sheet) mem.Rate {
	if sh.Measured == nil || sh.Measured.Copy == nil {
		return 0
	}
	c := sh.Measured.Copy
	gbs := min(c.BothToGBs, c.BothFromGBs)
	if !(gbs > 0) { // a sheet that has only one way at a time
		gbs = min(c.ToDeviceGBs, c.FromDeviceGBs)
	}
	return mem.Rate(max(0, gbs) * 1e9)
}
