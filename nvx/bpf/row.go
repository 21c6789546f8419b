package bpf

// Flags of a hook, as in program/observe.h.
const (
	flagPerThread = 1
	flagOurs      = 2
	flagHandle    = 4
)

// row says where the values of a place are on this machine.
func (m machine) row(p place) (row, error) {
	r := row{hook: p.hook, first: p.first}
	find := m.at
	if p.ours {
		find = func(v value) (where, error) { return m.atSite(v, p.args) }
	}
	for _, one := range []struct {
		to   *where
		from value
	}{{&r.stream, p.stream}, {&r.value, p.value}, {&r.other, p.other}} {
		var err error
		if *one.to, err = find(one.from); err != nil {
			return row{}, err
		}
	}
	return r, nil
}

// encode is the row as the bpf program reads it.
func (r row) encode() *observeHook {
	h := &observeHook{Kind: uint16(r.hook.kind), Scope: uint16(r.hook.scope), Shape: uint16(r.hook.shape), Unit: r.hook.unit}
	if r.hook.perThread {
		h.Flags |= flagPerThread
	}
	if r.hook.ours {
		h.Flags |= flagOurs
	}
	if r.hook.handle {
		h.Flags |= flagHandle
	}
	h.Stream.How, h.Stream.Size, h.Stream.Reg, h.Stream.Offset = r.stream.how, r.stream.size, r.stream.reg, r.stream.offset
	h.Value.How, h.Value.Size, h.Value.Reg, h.Value.Offset = r.value.how, r.value.size, r.value.reg, r.value.offset
	h.Other.How, h.Other.Size, h.Other.Reg, h.Other.Offset = r.other.how, r.other.size, r.other.reg, r.other.offset
	return h
}
