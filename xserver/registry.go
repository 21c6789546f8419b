package xserver

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xmsched/compute"
	mem "xmsched/memory"
	"xmsched/xserver/client"
	"xmsched/xserver/internal/journal"
	"xmsched/xserver/internal/peer"
	"xmsched/xserver/internal/plane"
)

// Limits of what clients may make the daemon keep.
const (
	ticketLife   = 10 * time.Second
	maxProcesses = 4096
	// The share of one user; the daemon's own user may have all.
	maxProcessesPerUser = 1024
	maxPending          = 256            // registrations whose board was not fetched yet, a user
	maxName             = client.MaxName // bytes
	maxUncovered        = 512            // names of uncovered calls, a process
	maxCallName         = 128            // bytes of one
)

// registry knows who is registered: processes, the tasks they form, and tickets
// on their way. It is the control plane's memory; what decides is in the plane.
type registry struct {
	mu        sync.Mutex
	processes map[plane.ProcessID]*process // registered, attached or not
	tickets   map[string]*process          // not attached yet
	tasks     map[compute.TaskID]*task
	byToken   map[taskKey]*task
	past      []pastTask // that ended, the newest last
	nextProc  plane.ProcessID
	nextTask  compute.TaskID

	alive func(peer.Peer) bool // asks the kernel
}

// taskKey is a token within its user: nobody joins another user's task.
type taskKey struct {
	uid   uint32
	token string
}

// task is all processes of one token.
type task struct {
	id        compute.TaskID
	key       taskKey // token empty: a process by itself
	name      string
	hints     compute.Hints
	steered   bool       // hints were changed while it ran
	later     change     // of the settings of processes that it will have
	limit     *mem.Bytes // of the memory of each, those to come included; nil: their own
	processes []*process
	began     time.Time
}

// process is one registration.
type process struct {
	id       plane.ProcessID
	peer     peer.Peer
	nonce    uint64
	name     string
	task     *task
	settings plane.Settings

	configured bool // settings were changed while it ran

	limit   mem.Bytes // that it may allocate on a device; 0: no limit
	limited bool      // that was changed while it ran

	ticket    string
	expires   time.Time
	uncovered []string      // sorted
	news      chan struct{} // hints or settings changed; buffered, 1
	gone      chan struct{} // closed when the registration ends
}

func (p *process) key() journal.Key {
	return journal.Key{PID: p.peer.PID, Start: p.peer.StartTime, Nonce: p.nonce}
}

// tell has the process's session send what is wanted of it now.
func (p *process) tell() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// memory is what is worth remembering of a process over a restart.
func (p *process) memory() memory {
	m := memory{hints: p.task.hints, later: p.task.later}
	if p.configured {
		settings := p.settings
		m.settings = &settings
	}
	if p.limited {
		limit := p.limit
		m.limit = &limit
	}
	return m
}

func newRegistry() *registry {
	return &registry{
		processes: map[plane.ProcessID]*process{},
		tickets:   map[string]*process{},
		tasks:     map[compute.TaskID]*task{},
		byToken:   map[taskKey]*task{},
		alive:     peer.Peer.Alive,
	}
}

// application is a valid request to register.
type application struct {
	peer         peer.Peer
	nonce        uint64
	name         string
	token        string
	hints        compute.Hints
	settings     plane.Settings
	limit        mem.Bytes
	previousTask compute.TaskID

	// What was changed for the same process before the daemon was started again.
	memory   memory
	recalled bool
}

func (a *application) key() journal.Key {
	return journal.Key{PID: a.peer.PID, Start: a.peer.StartTime, Nonce: a.nonce}
}

var (
	errTooMany = errors.New("too many processes are registered")
	errPending = errors.New("too many registrations wait for their board")
	errTicket  = errors.New("unknown, used or expired ticket")
)

// register takes an application in. An earlier registration with the same key is
// replaced: its id is returned to be removed from the plane.
func (r *registry) register(a application, now time.Time) (p *process, replaced []plane.ProcessID, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(now)
	pending, owned := 0, 0
	for _, other := range r.processes {
		if other.peer.UID == a.peer.UID {
			owned++
		}
		if other.ticket != "" && other.peer.UID == a.peer.UID {
			pending++
		}
		if other.nonce == a.nonce && other.peer == a.peer && other.peer.PID != 0 {
			replaced = append(replaced, other.id)
		}
	}
	if len(r.processes) >= maxProcesses || owned >= maxProcessesPerUser && a.peer.UID != uint32(os.Geteuid()) {
		return nil, nil, errTooMany
	}
	if pending >= maxPending {
		return nil, nil, errPending
	}
	r.nextProc++
	p = &process{
		id: r.nextProc, peer: a.peer, nonce: a.nonce, name: a.name,
		settings: a.settings, limit: a.limit,
		ticket: newTicket(), expires: now.Add(ticketLife),
		news: make(chan struct{}, 1), gone: make(chan struct{}),
	}
	r.join(p, a)
	for _, id := range replaced {
		r.drop(id)
	}
	r.processes[p.id] = p
	r.tickets[p.ticket] = p
	return p, replaced, nil
}

// join puts a process into its token's task, or makes that.
func (r *registry) join(p *process, a application) {
	key := taskKey{a.peer.UID, a.token}
	t := r.byToken[key]
	if a.token == "" || t == nil {
		t = &task{id: r.taskID(a.previousTask), key: key, name: a.name, hints: a.hints, began: time.Now()}
		if a.recalled {
			t.hints, t.steered, t.later = a.memory.hints, true, a.memory.later
		}
		r.tasks[t.id] = t
		if a.token != "" {
			r.byToken[key] = t
		}
	}
	p.task = t
	p.settings = t.later.apply(p.settings)
	p.configured = !t.later.empty()
	if a.recalled && a.memory.settings != nil {
		p.settings, p.configured = *a.memory.settings, true
	}
	if a.recalled && a.memory.limit != nil {
		p.limit, p.limited = *a.memory.limit, true
	}
	if t.limit != nil {
		p.limit, p.limited = *t.limit, true
	}
	t.processes = append(t.processes, p)
}

// taskID gives a task its earlier id back if nobody has it, else a new one.
func (r *registry) taskID(previous compute.TaskID) compute.TaskID {
	const plausible = 1 << 32 // an id of ours; keeps listings readable
	if previous > 0 && previous < plausible && r.tasks[previous] == nil {
		r.nextTask = max(r.nextTask, previous)
		return previous
	}
	r.nextTask++
	return r.nextTask
}

// redeem takes a ticket back for the process it was given to.
func (r *registry) redeem(ticket string, by peer.Peer, now time.Time) (*process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(now)
	p := r.tickets[ticket]
	if p == nil || p.peer != by {
		return nil, errTicket
	}
	delete(r.tickets, ticket)
	p.ticket = ""
	return p, nil
}

// expire forgets registrations whose board nobody fetched in time.
// Precondition: mu is held.
func (r *registry) expire(now time.Time) {
	for _, p := range r.tickets {
		if now.After(p.expires) {
			r.drop(p.id)
		}
	}
}

// sweep forgets registrations whose board nobody will fetch: in time, or because
// the process is dead. Of those that have their board, the plane tells.
// Precondition: mu is held.
func (r *registry) sweep(now time.Time) {
	r.expire(now)
	for _, p := range r.tickets {
		if !r.alive(p.peer) {
			r.drop(p.id)
		}
	}
}

// remove forgets a process.
func (r *registry) remove(id plane.ProcessID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(id)
}

func (r *registry) drop(id plane.ProcessID) {
	p, ok := r.processes[id]
	if !ok {
		return
	}
	delete(r.processes, id)
	delete(r.tickets, p.ticket)
	close(p.gone)
	t := p.task
	t.processes = slices.DeleteFunc(t.processes, func(x *process) bool { return x == p })
	if len(t.processes) == 0 {
		r.bury(t)
		delete(r.tasks, t.id)
		if r.byToken[t.key] == t {
			delete(r.byToken, t.key)
		}
	}
}

// session finds a registration for its own process.
func (r *registry) session(id plane.ProcessID, by peer.Peer) *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.processes[id]; p != nil && p.peer == by {
		return p
	}
	return nil
}

// addUncovered takes in names of calls that are not covered.
func (r *registry) addUncovered(p *process, names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		name = clean(name, maxCallName)
		i, known := slices.BinarySearch(p.uncovered, name)
		if name == "" || known {
			continue
		}
		if len(p.uncovered) >= maxUncovered {
			return
		}
		p.uncovered = slices.Insert(p.uncovered, i, name)
	}
}

// wanted are the present hints of a process's task and its settings.
func (r *registry) wanted(p *process) (compute.Hints, plane.Settings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return p.task.hints, p.settings
}

// limitOf is what a process may allocate on a device; 0: no limit.
func (r *registry) limitOf(p *process) mem.Bytes {
	r.mu.Lock()
	defer r.mu.Unlock()
	return p.limit
}

// memoryOf is what is worth remembering of a process, if anything was changed
// while its task ran.
func (r *registry) memoryOf(p *process) (memory, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return p.memory(), p.task.steered || p.configured || p.limited
}

// target finds what a caller means: a task by its id, or by a process, which is
// returned as well then. Precondition: mu is held.
func (r *registry) target(who peer.Peer, pid int32, id uint64) (*task, *process, error) {
	if (pid == 0) == (id == 0) {
		return nil, nil, client.Reject(codes.InvalidArgument, "task", "", nil, "name one task: by its id, or by the pid of a process")
	}
	r.sweep(time.Now())
	t, p := r.find(compute.TaskID(id), int(pid))
	if t == nil || !maySee(who, t.key.uid) {
		return nil, nil, r.unknown(who, t, pid, id)
	}
	return t, p, nil
}

// unknown words why a task cannot be steered. Precondition: mu is held.
func (r *registry) unknown(who peer.Peer, t *task, pid int32, id uint64) error {
	if t != nil {
		return status.Errorf(codes.PermissionDenied, "task %d belongs to uid %d: only that user and root steer it", t.id, t.key.uid)
	}
	var ids []string
	field, given := "task", strconv.FormatUint(id, 10)
	if pid != 0 {
		field, given = "pid", strconv.Itoa(int(pid))
		for _, p := range r.processes {
			if maySee(who, p.peer.UID) && p.peer.PID != 0 {
				ids = append(ids, strconv.Itoa(p.peer.PID))
			}
		}
	} else {
		for _, t := range r.tasks {
			if maySee(who, t.key.uid) {
				ids = append(ids, strconv.FormatUint(uint64(t.id), 10))
			}
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return client.Reject(codes.NotFound, field, given, ids,
		fmt.Sprintf("no task of %s %s is scheduled; %s", field, given, client.Allowed(ids)))
}

// find names a task by its id or by a process's pid; nil if there is none.
// Precondition: mu is held.
func (r *registry) find(id compute.TaskID, pid int) (*task, *process) {
	if pid == 0 {
		return r.tasks[id], nil
	}
	for _, p := range r.processes {
		if p.peer.PID == pid {
			return p.task, p
		}
	}
	return nil, nil
}

// setHints changes a task's hints and tells its processes. Precondition: mu is
// held.
func (r *registry) setHints(t *task, h compute.Hints) {
	t.hints, t.steered = h, true
	for _, p := range t.processes {
		p.tell()
	}
}

// clean makes a client's text fit for a terminal and a table; limit is in bytes.
func clean(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") // less a rune that was cut
	}
	return strings.TrimSpace(s)
}

func newTicket() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails on Linux
	return hex.EncodeToString(b[:])
}
