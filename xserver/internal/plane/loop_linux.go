package plane

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"xmsched/compute"
)

// Attachment is a process with what tells of its rings and of its end. The
// descriptors belong to the Loop from Add on; so does the board.
type Attachment struct {
	Process
	PID    int // as this process sees it; 0: in no namespace that it can see
	Bell   int // eventfd that the client writes
	Death  int // pidfd; -1: none
	Socket int // connection that the client keeps open as long as it lives
}

// Loop runs a Plane on an OS thread of its own: it sleeps in epoll over bells,
// pidfds, sockets and one timer, and hands everything slow to others. For Config.Spin
// after a bell rang it looks for the next one instead of sleeping. Bells that nobody
// waits for it hears together while there are many; see lull.
type Loop struct {
	plane *Plane
	start time.Time
	epoll int
	timer int
	wake  int

	onGone  func(ProcessID) // called on the reaper's goroutine
	devices chan struct{}   // news: a device came; see Devices

	attached map[ProcessID]*attached
	byIndex  map[int32]*attached // what epoll names
	indices  int32
	more     bool          // the plane has more to do at once
	stirred  time.Duration // when a bell last rang
	armed    time.Duration // what the timer stands at; 0: not armed
	suspects []ProcessID   // reused
	muted    []*attached   // whose bells are not listened to
	haunting map[int32]haunting
	dead     []ProcessID // reused
	turns    latency
	lull     lull

	reaper reaper
	prober prober

	mu     sync.Mutex
	queue  []func() // to run on the loop's thread; protected by mu
	closed bool     // protected by mu: the queue is not looked at any more

	done chan struct{} // closed when the thread has ended
}

// attached is the loop's side of a process.
type attached struct {
	Attachment
	index   int32
	process *process // the plane's side of it
}

// What an epoll event is about.
const (
	onWake int32 = iota
	onTimer
	onBell
	onDeath
	onSocket
	onGhost
	onLull
)

// maxQueued bounds what others may ask of the loop between two turns, so that
// their asking cannot take the thread away from the bells.
const maxQueued = 64

// NewLoop prepares a loop around plane. onGone is told of every process that
// ended, from another goroutine.
func NewLoop(plane *Plane, onGone func(ProcessID)) (*Loop, error) {
	l := &Loop{
		plane: plane, start: time.Now(), onGone: onGone,
		epoll: -1, timer: -1, wake: -1, lull: lull{epoll: -1},
		attached: map[ProcessID]*attached{},
		byIndex:  map[int32]*attached{},
		haunting: map[int32]haunting{},
		done:     make(chan struct{}),
		devices:  make(chan struct{}, 1),
	}
	if err := l.open(); err != nil {
		l.closeFDs()
		return nil, fmt.Errorf("open decision loop: %w", err)
	}
	return l, nil
}

func (l *Loop) open() (err error) {
	l.plane.cfg.Epoch = monotonic() - uint64(l.now())
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	if l.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	// Edge-triggered and never read: every write and every expiry is one event,
	// and a shared descriptor that a client made blocking cannot hold us.
	if err := l.watch(l.wake, unix.EPOLLIN|unix.EPOLLET, onWake, 0); err != nil {
		return err
	}
	if err := l.watch(l.timer, unix.EPOLLIN|unix.EPOLLET, onTimer, 0); err != nil {
		return err
	}
	return l.openLull()
}

func (l *Loop) closeFDs() {
	for _, fd := range []int{l.epoll, l.timer, l.wake, l.lull.epoll} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

func (l *Loop) watch(fd int, events uint32, what, index int32) error {
	ev := unix.EpollEvent{Events: events, Fd: what, Pad: index}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &ev))
}

// monotonic is CLOCK_MONOTONIC in ns, by which clients tell times; 0 if there is none.
func monotonic() uint64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0
	}
	return uint64(ts.Nano())
}

func (l *Loop) now() time.Duration { return time.Since(l.start) }

// Run starts the loop's thread and its helpers. Stop ends them.
func (l *Loop) Run() {
	l.reaper.run(l.onGone)
	l.prober.run(l.reportStopped)
	go l.thread()
}

// Stop opens every gate, detaches every process and ends the loop's goroutines.
func (l *Loop) Stop() {
	_ = l.call(func() {
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
	})
	<-l.done
	l.prober.stop()
	l.reaper.stop()
	l.closeFDs()
}

// errStopped says that the loop has ended.
var errStopped = errors.New("the daemon is going down")

// post has f run on the loop's thread, soon.
func (l *Loop) post(f func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errStopped
	}
	l.queue = append(l.queue, f)
	if len(l.queue) == 1 {
		one := [8]byte{0: 1}
		_, _ = unix.Write(l.wake, one[:])
	}
	return nil
}

// call has f run on the loop's thread and waits for it.
func (l *Loop) call(f func()) error {
	ran := make(chan struct{})
	if err := l.post(func() { f(); close(ran) }); err != nil {
		return err
	}
	select {
	case <-ran:
		return nil
	case <-l.done:
	}
	select {
	case <-ran: // it was among the last things done
		return nil
	default:
		return errStopped
	}
}

// Add attaches a process. On an error the attachment stays the caller's.
func (l *Loop) Add(a Attachment) error {
	var err error
	if cerr := l.call(func() { err = l.add(a) }); cerr != nil {
		return cerr
	}
	return err
}

// Remove detaches a process, if it is still there.
func (l *Loop) Remove(id ProcessID) error {
	return l.call(func() {
		if a, ok := l.attached[id]; ok {
			l.part(a)
			l.remove(id)
		}
	})
}

// SetHints changes a task's hints.
func (l *Loop) SetHints(id compute.TaskID, h compute.Hints) error {
	return l.call(func() { l.plane.SetHints(id, h) })
}

// Configure changes what processes are governed by.
func (l *Loop) Configure(of map[ProcessID]Settings) error {
	return l.call(func() {
		for id, s := range of {
			l.plane.Configure(id, s)
		}
	})
}

// SetPolicy changes the policy.
func (l *Loop) SetPolicy(p compute.Policy) error {
	return l.call(func() { l.plane.SetPolicy(p) })
}

// Describe copies the state for listings.
func (l *Loop) Describe() (State, Latency, error) {
	var s State
	var t Latency
	err := l.call(func() { s, t = l.plane.Describe(), l.turns.summary() })
	return s, t, err
}

// SetOffer says what a device offers.
func (l *Loop) SetOffer(id compute.Device, o Offer) error {
	return l.call(func() { l.plane.SetOffer(id, o) })
}

// Devices gives a value whenever a device came on which nobody was; which those
// are, Describe tells.
func (l *Loop) Devices() <-chan struct{} { return l.devices }

// reportStopped is the prober's answer.
func (l *Loop) reportStopped(id ProcessID, stopped bool) {
	_ = l.post(func() { l.plane.SetStopped(id, stopped) })
}

// thread is the loop. It ends with its OS thread, whose timer slack and priority
// it changed.
func (l *Loop) thread() {
	runtime.LockOSThread()
	defer close(l.done)
	nameThisThread("xm-decisions")
	preferThisThread()
	defer l.release()
	events := make([]unix.EpollEvent, 128)
	l.turn(nil)
	for !l.isClosed() {
		wait := l.wait()
		n, err := l.sleep(events, wait)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return // the epoll descriptor itself is gone
		case n <= 0 && wait == 0 && !l.more:
			continue // it spins
		}
		l.turn(events[:max(n, 0)])
	}
}

// release lets everybody go, as the loop ends.
func (l *Loop) release() {
	l.plane.Release()
	for id := range l.attached {
		l.remove(id)
	}
	for index := range l.haunting {
		l.died(index)
	}
}

// wait is how long epoll may wait, in ms: not at all while there is more to do at once,
// or a bell rang a moment ago, else until the timer or somebody else calls.
func (l *Loop) wait() int {
	if l.more || l.plane.cfg.Spin > 0 && l.now()-l.stirred < l.plane.cfg.Spin {
		return 0
	}
	return -1
}

// briefly is how far ahead the timer may stand for a wait that ends by it to count as short.
const briefly = mostPatience + time.Millisecond

// sleep waits for what epoll tells.
func (l *Loop) sleep(events []unix.EpollEvent, wait int) (int, error) {
	if wait == 0 || l.armed != 0 && l.armed-l.plane.now < briefly {
		return epollNow(l.epoll, events, wait)
	}
	return unix.EpollWait(l.epoll, events, wait)
}

func (l *Loop) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// turn takes in what happened, decides, and sets the timer. Whatever is no matter
// of a decision comes after it: what others asked for, and putting away the dead.
func (l *Loop) turn(events []unix.EpollEvent) {
	begin := l.now()
	l.plane.Begin(begin)
	asked := len(events) == 0 && !l.more // the first turn
	l.dead = l.dead[:0]
	for i := range events {
		switch e := &events[i]; e.Fd {
		case onWake:
			asked = true
		case onTimer:
			l.armed = 0
		case onBell:
			l.stirred = begin
			l.ring(e.Pad)
		case onDeath, onSocket:
			if a, ok := l.byIndex[e.Pad]; ok {
				l.part(a)
				l.dead = append(l.dead, a.ID)
			}
		case onGhost:
			l.died(e.Pad)
		case onLull:
			l.hearLull()
		}
	}
	if l.lull.at != 0 && l.lull.at <= l.plane.now {
		l.hearLull()
	}
	next := l.plane.Finish()
	l.turns.record(l.now() - begin)
	for _, id := range l.dead {
		l.remove(id)
	}
	if asked {
		l.plane.Begin(l.now())
		l.runQueue()
		next = l.plane.Finish()
	}
	if l.plane.newDevice {
		l.plane.newDevice = false
		select {
		case l.devices <- struct{}{}:
		default:
		}
	}
	l.recalm()
	l.listen()
	if l.lull.at != 0 {
		l.lull.at = min(l.lull.at, l.plane.nextLook()) // somebody is kept out now
		next = min(next, l.lull.at)
	}
	before := len(l.suspects)
	if l.suspects = l.plane.Suspects(l.suspects[:0]); len(l.suspects)+before > 0 {
		l.prober.set(l.suspects, l.pid)
	}
	if l.more = next <= l.plane.now; !l.more {
		l.arm(next)
	}
}

func (l *Loop) pid(id ProcessID) int { return l.attached[id].PID }

// runQueue does what others asked for, a bounded number of things a turn.
func (l *Loop) runQueue() {
	l.mu.Lock()
	n := min(len(l.queue), maxQueued)
	batch := append([]func(){}, l.queue[:n]...)
	rest := l.queue[n:]
	l.queue = append(l.queue[:0:0], rest...)
	if len(rest) > 0 {
		one := [8]byte{0: 1}
		_, _ = unix.Write(l.wake, one[:])
	}
	l.mu.Unlock()
	for _, f := range batch {
		f()
	}
}

// ring takes a bell. A client that rings too often is muted.
func (l *Loop) ring(index int32) {
	a, ok := l.byIndex[index]
	if !ok {
		return
	}
	l.countRing()
	l.plane.edge(a.process)
	l.calm(a)
	if a.process.flood.throttled && l.hear(a, false) {
		l.muted = append(l.muted, a)
	}
}

// listen hears the bells again that were muted for long enough. A ring in the
// meantime is reported at once: the eventfd is never drained.
func (l *Loop) listen() {
	l.muted = slices.DeleteFunc(l.muted, func(a *attached) bool {
		return l.attached[a.ID] != a || !a.process.flood.throttled && l.hear(a, true)
	})
}

// hear listens to a bell or not, and says whether that could be done.
func (l *Loop) hear(a *attached, on bool) bool {
	ev := unix.EpollEvent{Fd: onBell, Pad: a.index}
	if on {
		ev.Events = unix.EPOLLIN | unix.EPOLLET
	}
	return unix.EpollCtl(l.ears(a), unix.EPOLL_CTL_MOD, a.Bell, &ev) == nil
}

func (l *Loop) add(a Attachment) error {
	for l.indices++; l.byIndex[l.indices] != nil || l.haunting[l.indices] != (haunting{}); l.indices++ {
	}
	at := &attached{Attachment: a, index: l.indices}
	err := l.watch(a.Bell, unix.EPOLLIN|unix.EPOLLET, onBell, at.index)
	if err == nil && a.Death >= 0 {
		err = l.watch(a.Death, unix.EPOLLIN, onDeath, at.index)
	}
	if err == nil {
		err = l.watch(a.Socket, unix.EPOLLRDHUP|unix.EPOLLHUP, onSocket, at.index)
	}
	if err != nil {
		l.unwatch(a)
		return fmt.Errorf("attach process %d: %w", a.PID, err)
	}
	l.attached[a.ID], l.byIndex[at.index] = at, at
	l.cameBack(a.PID)
	l.plane.Add(a.Process)
	at.process = l.plane.processes[a.ID]
	return nil
}

func (l *Loop) remove(id ProcessID) {
	a, ok := l.attached[id]
	if !ok {
		return
	}
	l.plane.Remove(id)
	l.unwatch(a.Attachment)
	delete(l.attached, id)
	delete(l.byIndex, a.index)
	l.reaper.take(a.Attachment)
}

func (l *Loop) unwatch(a Attachment) {
	for _, fd := range []int{a.Bell, a.Death, a.Socket} {
		if fd >= 0 {
			_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, fd, nil)
		}
	}
	_ = unix.EpollCtl(l.lull.epoll, unix.EPOLL_CTL_DEL, a.Bell, nil) // where it may be instead
}

// arm sets the timer to a point in time, unless it stands there.
func (l *Loop) arm(at time.Duration) {
	if at == l.armed {
		return
	}
	left := max(at-l.now(), time.Nanosecond) // 0 would disarm it
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(left.Nanoseconds())}
	if unix.TimerfdSettime(l.timer, 0, &spec, nil) != nil {
		at = 0
	}
	l.armed = at
}

// nameThisThread gives the thread a name in top and profiles, at most 15 bytes.
func nameThisThread(name string) {
	if b, err := unix.BytePtrFromString(name); err == nil {
		_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(b)), 0, 0, 0)
	}
}

// preferThisThread asks for exact timers, for a short slice, by which the kernel
// (6.12 and later) has a thread that wakes go before those with long ones, and
// where the user may have it (root) for the best place among ordinary threads. A
// real-time priority would be too much: Go's runtime spins on what another of its
// threads holds, and a real-time thread would spin until that one is moved to
// another processor, which took 10 ms. All are wishes: without them decisions
// come a little later.
func preferThisThread() {
	const slackNS = 1000 // the default of 50 us is half of what a decision may take
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, slackNS, 0, 0, 0)
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL {
		return // whoever chose another policy for us knows why
	}
	attr.Runtime = uint64(100 * time.Microsecond)
	attr.Flags |= unix.SCHED_FLAG_RESET_ON_FORK // threads that the runtime starts are as others
	own := attr.Nice
	for _, attr.Nice = range []int32{-20, own} {
		if unix.SchedSetAttr(0, attr, 0) == nil {
			return
		}
	}
}
