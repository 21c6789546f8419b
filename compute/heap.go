package compute

// heap is a binary heap whose members know their place in it, so that one in
// the middle leaves in O(log n) and nothing is allocated once the slice has
// grown. The least member by less comes first; members that less cannot tell
// apart come in no particular order, so less should tell all apart.
type heap[T any] struct {
	less  func(a, b *T) bool
	place func(*T) *int // where a member keeps its index + 1; 0: it is in no heap
	list  []*T
}

func (h *heap[T]) len() int { return len(h.list) }

// first returns the least member, or nil.
func (h *heap[T]) first() *T {
	if len(h.list) == 0 {
		return nil
	}
	return h.list[0]
}

func (h *heap[T]) has(m *T) bool { return *h.place(m) != 0 }

// push takes a member in. Precondition: it is in no heap of the same place.
func (h *heap[T]) push(m *T) {
	h.list = append(h.list, m)
	*h.place(m) = len(h.list)
	h.up(len(h.list) - 1)
}

// remove takes a member out. Precondition: it is in this heap.
func (h *heap[T]) remove(m *T) {
	i, last := *h.place(m)-1, len(h.list)-1
	*h.place(m) = 0
	moved := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	if i == last {
		return
	}
	h.list[i] = moved
	*h.place(moved) = i + 1
	h.fix(moved)
}

// fix restores the order after a member's key has changed.
func (h *heap[T]) fix(m *T) {
	i := *h.place(m) - 1
	h.down(i)
	h.up(*h.place(m) - 1)
}

func (h *heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(h.list[i], h.list[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heap[T]) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.list); child++ {
			if h.less(h.list[child], h.list[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h *heap[T]) swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	*h.place(h.list[i]), *h.place(h.list[j]) = i+1, j+1
}
