package memory

// list is a list of segments from the oldest to the newest, in which one is
// found at once. Nothing is allocated once it has grown.
type list struct {
	index map[ID]int32
	nodes []node // nodes[0] is the ring's head: next is the oldest, prev the newest
	spare int32  // the first unused node, linked by next; 0: none
}

type node struct {
	id         ID
	prev, next int32
}

func newList() list { return list{index: make(map[ID]int32), nodes: make([]node, 1)} }

func (l *list) len() int { return len(l.index) }

func (l *list) has(id ID) bool {
	_, ok := l.index[id]
	return ok
}

// push adds a segment as the newest. Precondition: it is not in the list.
func (l *list) push(id ID) {
	i := l.spare
	if i == 0 {
		i = int32(len(l.nodes))
		l.nodes = append(l.nodes, node{})
	} else {
		l.spare = l.nodes[i].next
	}
	last := l.nodes[0].prev
	l.nodes[i] = node{id, last, 0}
	l.nodes[last].next, l.nodes[0].prev = i, i
	l.index[id] = i
}

// remove takes a segment out, if it is there, and says whether it was.
func (l *list) remove(id ID) bool {
	i, ok := l.index[id]
	if !ok {
		return false
	}
	delete(l.index, id)
	n := &l.nodes[i]
	l.nodes[n.prev].next, l.nodes[n.next].prev = n.next, n.prev
	n.next, l.spare = l.spare, i
	return true
}

// first is the oldest; 0 if there is none.
func (l *list) first() ID { return l.nodes[l.nodes[0].next].id }

// oldest yields the segments from the oldest on.
func (l *list) oldest(yield func(ID) bool) {
	for i := l.nodes[0].next; i != 0; i = l.nodes[i].next {
		if !yield(l.nodes[i].id) {
			return
		}
	}
}
