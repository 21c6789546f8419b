package xserver

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	xserverv1 "xmsched/xserver/api/v1"
	"xmsched/xserver/client"
	"xmsched/xserver/internal/journal"
	"xmsched/xserver/internal/plane"
)

// maxThreshold is how far a process may go, with its batch as well.
const maxThreshold = client.MaxThreshold

// change is a change of settings; what is nil stays as it is.
type change struct{ level, threshold, batch *uint32 }

// empty says that nothing is to be changed.
func (c change) empty() bool { return c == change{} }

// apply gives the settings after the change.
func (c change) apply(s plane.Settings) plane.Settings {
	for from, into := range map[*uint32]*uint32{c.level: &s.Level, c.threshold: &s.Threshold, c.batch: &s.Batch} {
		if from != nil {
			*into = *from
		}
	}
	return s
}

// then is this change followed by another.
func (c change) then(next change) change {
	if next.level != nil {
		c.level = next.level
	}
	if next.threshold != nil {
		c.threshold = next.threshold
	}
	if next.batch != nil {
		c.batch = next.batch
	}
	return c
}

// check refuses what is out of range. A batch that is named has to fit the
// threshold that will hold; one that is not named never stands in a change's
// way, as it counts as the threshold where it is larger.
func (c change) check(before plane.Settings) error {
	after := c.apply(before)
	if c.threshold != nil && (after.Threshold < 1 || after.Threshold > maxThreshold) {
		return outOfRange("threshold", after.Threshold, maxThreshold, "")
	}
	most, meaning := after.Threshold, ", the threshold"
	if most == 0 { // it follows the level, and so does what the batch counts as
		most, meaning = maxThreshold, ""
	}
	if c.batch != nil && (after.Batch < 1 || after.Batch > most) {
		return outOfRange("batch", after.Batch, most, meaning)
	}
	return nil
}

func outOfRange(what string, value, most uint32, meaning string) error {
	allowed := fmt.Sprintf("1 to %d", most)
	return client.Reject(codes.InvalidArgument, what, strconv.Itoa(int(value)), []string{allowed},
		fmt.Sprintf("%s %d is out of range: %s%s", what, value, allowed, meaning))
}

// levels are the levels as settings have them, by their text.
var levels = map[string]uint32{"auto": 0, "1": 1, "2": 2, "3": 3}

func levelText(level uint32) string {
	if level == 0 {
		return "auto"
	}
	return strconv.Itoa(int(level))
}

// parseLevel reads a level.
func parseLevel(text string) (uint32, error) {
	if err := client.CheckLevel(text); err != nil {
		return 0, client.Reject(codes.InvalidArgument, "level", clean(text, maxName), client.Levels(), err.Error())
	}
	return levels[text], nil
}

// SetConfig changes what one process, or all processes of a task, those to come
// included, are governed by. All is checked before anything is changed.
func (v *service) SetConfig(ctx context.Context, req *xserverv1.SetConfigRequest) (*xserverv1.SetConfigResponse, error) {
	who, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	c := change{threshold: req.Threshold, batch: req.Batch}
	if req.Level != nil {
		level, err := parseLevel(*req.Level)
		if err == nil {
			err = v.server.offersLevel(level, who, req.Pid, req.Task)
		}
		if err != nil {
			return nil, err
		}
		c.level = &level
	}
	s := v.server
	s.steering.Lock()
	defer s.steering.Unlock()
	s.registry.mu.Lock()
	t, p, err := s.registry.target(who, req.Pid, req.Task)
	if err == nil {
		err = checkAll(t, p, c)
	}
	if err != nil {
		s.registry.mu.Unlock()
		return nil, err
	}
	id := t.id
	changed := s.registry.configure(t, p, c)
	reply := &xserverv1.SetConfigResponse{Task: uint64(id)}
	var ids []plane.ProcessID
	of := map[plane.ProcessID]plane.Settings{}
	notes := map[journal.Key]memory{}
	for _, p := range changed {
		of[p.id] = p.settings
		notes[p.key()] = p.memory()
		ids = append(ids, p.id)
		reply.Processes = append(reply.Processes, &xserverv1.ProcessSettings{Pid: int32(p.peer.PID)})
	}
	s.registry.mu.Unlock()
	if !c.empty() {
		if err := s.loop.Configure(of); err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
		s.note(notes)
	}
	state, _, err := s.loop.Describe()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	levels := map[plane.ProcessID][]plane.LevelState{}
	for _, p := range state.Processes {
		levels[p.ID] = p.Levels
	}
	for i, id := range ids {
		reply.Processes[i].Settings = settingsInForce(of[id], levels[id])
	}
	if c.empty() {
		return reply, nil
	}
	s.log.Info("settings changed", "task", id, "processes", len(of), "by", who.String())
	return reply, nil
}

// checkAll checks a change for a process, or if that is nil for a whole task.
func checkAll(t *task, p *process, c change) error {
	if p != nil {
		return c.check(p.settings)
	}
	for _, p := range t.processes {
		if err := c.check(p.settings); err != nil {
			return err
		}
	}
	return nil
}

// configure changes the settings of a process, or if that is nil of a task's
// processes and of those that it will have. It returns those that were meant.
// Precondition: mu is held, and the change was checked.
func (r *registry) configure(t *task, p *process, c change) []*process {
	changed := []*process{p}
	if p == nil {
		changed = t.processes
		t.later = t.later.then(c)
	}
	for _, p := range changed {
		p.settings = c.apply(p.settings)
		p.configured = p.configured || !c.empty()
		p.tell()
	}
	return changed
}

// settingsInForce are settings with the numbers that they come to at the level that
// is in force; where devices differ, at the lowest.
func settingsInForce(s plane.Settings, levels []plane.LevelState) *xserverv1.Settings {
	lowest := uint32(0)
	for _, l := range levels {
		if lowest == 0 || l.Level < lowest {
			lowest = l.Level
		}
	}
	s.Threshold, s.Batch = s.Bounds(lowest)
	return wireSettings(s)
}

// wireSettings are settings as they were asked for.
func wireSettings(s plane.Settings) *xserverv1.Settings {
	return &xserverv1.Settings{Level: levelText(s.Level), Threshold: s.Threshold, Batch: s.Batch}
}
