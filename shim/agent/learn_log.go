package agent

import (
	"encoding/hex"
	"encoding/json"
	"io"

	"xmsched/predictor"
)

// Seen is an observation as it is logged: a line of JSON each. Ranges, and what tensor
// maps among the parameters span, are pairs of an address and a length; Touched has an
// access behind: 1 read, 2 write, 3 both.
type Seen struct {
	Kernel  string      `json:"kernel"`
	Code    string      `json:"code"`             // hexadecimal
	Layout  [][2]uint32 `json:"layout,omitempty"` // offset and size of each parameter; none: not known
	Grid    [3]uint32   `json:"grid"`
	Block   [3]uint32   `json:"block"`
	Shared  uint32      `json:"shared,omitempty"`
	Params  string      `json:"params"` // hexadecimal, by offset
	Maps    [][2]uint64 `json:"maps,omitempty"`
	Watched [][2]uint64 `json:"watched"`
	Touched [][3]uint64 `json:"touched"`
	Lossy   bool        `json:"lossy,omitempty"`
}

// logged is an Observer that also writes what is observed.
type logged struct {
	Observer
	commands Commands
	to       *json.Encoder
}

// Logged writes each observation to w before it is learnt from. What cannot be
// written is learnt from all the same.
func Logged(o Observer, commands Commands, w io.Writer) Observer {
	return logged{o, commands, json.NewEncoder(w)}
}

func (l logged) Observe(c *Command, seen *predictor.Observation) {
	line := Seen{Grid: c.Grid, Block: c.Block, Shared: c.Shared, Params: hex.EncodeToString(c.Parameters()), Lossy: seen.Lossy}
	if k, err := l.commands.Kernel(c.Kernel); err == nil {
		known := KernelOf(k)
		line.Kernel, line.Code = k.Name, known.Code.String()
		for _, p := range known.Params {
			line.Layout = append(line.Layout, [2]uint32{p.Offset, p.Bytes})
		}
	}
	for _, m := range LaunchOf(c).Maps {
		line.Maps = append(line.Maps, [2]uint64{m.Base, m.Bytes})
	}
	for _, r := range seen.Watched {
		line.Watched = append(line.Watched, [2]uint64{r.Base, r.Bytes})
	}
	for _, t := range seen.Touched {
		line.Touched = append(line.Touched, [3]uint64{t.Base, t.Bytes, uint64(t.Access)})
	}
	_ = l.to.Encode(line)
	l.Observer.Observe(c, seen)
}
