package preempt

// ring is a queue of commands with consecutive numbers. It grows to what was in
// it at once, and is not made smaller.
type ring struct {
	slots []*Command // a power of two
	head  uint64     // of the front one
	count int
}

func (r *ring) len() int { return r.count }

func (r *ring) at(i int) **Command { return &r.slots[(r.head+uint64(i))&uint64(len(r.slots)-1)] }

func (r *ring) front() *Command { return *r.at(0) }
func (r *ring) back() *Command  { return *r.at(r.count - 1) }

// find returns the command with a number that is in the ring.
func (r *ring) find(seq uint64) *Command { return *r.at(int(seq - r.front().seq)) }

func (r *ring) push(c *Command) {
	if r.count == len(r.slots) {
		grown := make([]*Command, max(16, 2*len(r.slots)))
		for i := range r.count {
			grown[i] = *r.at(i)
		}
		r.slots, r.head = grown, 0
	}
	r.count++
	*r.at(r.count - 1) = c
}

func (r *ring) pop() *Command {
	c := r.front()
	*r.at(0) = nil
	r.head++
	r.count--
	return c
}

func (r *ring) popBack() *Command {
	c := r.back()
	*r.at(r.count - 1) = nil
	r.count--
	return c
}
