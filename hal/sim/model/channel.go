package model

import "time"

// state is where a channel's head is.
type state uint8

const (
	empty    state = iota
	arriving       // its time of arrival is still to come: until
	held           // waits for Release
	stopped        // for the front end, while its channel is off
	passing        // in the front end: until
	ready          // waits for its engine, fresh or taken off in mid-flight
	running        // on its engine
	done           // waits for Retire
)

// channel is a queue in order. Invariant: state is empty exactly when the queue
// is; left is in [0, head.Work] while ready or running.
type channel struct {
	id     ChannelID
	ctx    *context
	index  int // in its context
	queue  []Command
	state  state
	until  time.Duration
	left   time.Duration // work to do
	refill time.Duration // time to pass first: caches and pipelines are cold
	fresh  bool          // ready, and Started is not told yet
	engine Engine        // last engine used: a front-end command keeps its group there
}

func (ch *channel) head() *Command { return &ch.queue[0] }

// off tells whether the channel may not run: on an engine, or, for a command of
// the front end, where its last command ran.
func (ch *channel) off(e Engine) bool { return ch.ctx.groups[e].off>>ch.index&1 != 0 }

func (ch *channel) pop() { ch.queue = ch.queue[:copy(ch.queue, ch.queue[1:])] }

// wants tells whether the head waits for (or runs on) this engine.
func (ch *channel) wants(e Engine) bool {
	return (ch.state == ready || ch.state == running) && ch.engine == e
}

// keeps tells whether the channel will want this engine in a moment: a short
// front-end command between two kernels does not give the slice away.
func (ch *channel) keeps(e Engine) bool {
	return (ch.state == passing || ch.state == done) && ch.engine == e
}
