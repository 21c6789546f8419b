package experiment

import (
	"context"
	"errors"
	"strconv"
	"time"

	"xmsched/bench/workloads"
)

// linkRates are what pinned copies make both ways at once, in bytes a second.
type linkRates struct{ in, out float64 }

// link measures the link while nothing else uses it; once a lab.
func (l *Lab) link(ctx context.Context) (linkRates, error) {
	if l.linkRates.in > 0 {
		return l.linkRates, nil
	}
	bytes, span := 128<<20, time.Second
	if l.Facts.Simulated {
		bytes, span = 8<<20, 200*time.Millisecond
	}
	ctx, cancel := context.WithTimeoutCause(ctx, setupTimeout, errors.New("the link was not measured in time"))
	defer cancel()
	c, err := l.startWork("link", nil, "link", "--bytes", strconv.Itoa(bytes), "--span", span.String())
	if err != nil {
		return linkRates{}, err
	}
	defer c.Kill()
	var r workloads.Event
	if err := result(ctx, c, &r); err != nil {
		return linkRates{}, err
	}
	l.linkRates = linkRates{in: r.InPerS, out: r.OutPerS}
	return l.linkRates, nil
}
