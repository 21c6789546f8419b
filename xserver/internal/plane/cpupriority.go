package plane

import "xmsched/compute"

// SetCPUPriority tells a task's priority at the processor, as
// compute.CPUPriorityChanged has it; a task that is gone is ignored.
func (p *Plane) SetCPUPriority(id compute.TaskID, priority int) {
	if t, ok := p.tasks[id]; ok && t.cpu != priority {
		t.cpu = priority
		p.regime++
		p.events = append(p.events, compute.CPUPriorityChanged{Task: id, Priority: priority})
	}
}

// SetCPUPriorities tells the priorities of tasks.
func (l *Loop) SetCPUPriorities(of map[compute.TaskID]int) error {
	return l.call(func() {
		for id, priority := range of {
			l.plane.SetCPUPriority(id, priority)
		}
	})
}
