package predictor

import (
	"fmt"
	"strconv"
	"strings"
)

// parseSource reads what source.String writes.
func parseSource(text string) (source, error) {
	s := source{}
	name := text
	switch {
	case strings.HasSuffix(name, "-1"):
		s.change, name = less1, name[:len(name)-2]
	case strings.HasSuffix(name, "+1"):
		s.change, name = more1, name[:len(name)-2]
	case strings.HasPrefix(name, "up") && strings.HasSuffix(name, ")"):
		tile, inner, _ := strings.Cut(name[2:len(name)-1], "(")
		for c := up8; c < changeEnd; c++ {
			if tile == strconv.Itoa(8<<(c-up8)) {
				s.change = c
			}
		}
		if s.change == plain {
			return s, fmt.Errorf("value %.40q: no such tile", text)
		}
		name = inner
	}
	name, over, divided := strings.Cut(name, "/")
	var ok bool
	if s.kind, s.at, ok = parseName(name); ok && divided {
		ok = s.parseOver(over)
	}
	if !ok || !s.valid() {
		return s, fmt.Errorf("value %.40q: there is none of this name", text)
	}
	return s, nil
}

// parseOver reads what a value is divided by.
func (s *source) parseOver(text string) bool {
	parts := strings.Split(text, "/")
	if s.kind != word32 || len(parts) > maxDivisors {
		return false
	}
	s.kind = quotient
	for i, part := range parts {
		k, at, ok := parseName(part)
		if !ok || k != word32 || at%4 != 0 || at > MaxParams-4 {
			return false
		}
		s.over[i] = at/4 + 1
	}
	return true
}

var dimNames = map[string]source{
	"grid.x": {kind: gridDim, at: 0}, "grid.y": {kind: gridDim, at: 1}, "grid.z": {kind: gridDim, at: 2},
	"block.x": {kind: blockDim, at: 0}, "block.y": {kind: blockDim, at: 1}, "block.z": {kind: blockDim, at: 2},
	"shared": {kind: sharedBytes}, "rest": {kind: rest}, "signature": {kind: signature},
}

var indexed = map[string]kind{"u32": word32, "u64": word64, "each32": each32, "each64": each64, "map": mapBytes, "pointer": isPointer}

func parseName(name string) (k kind, at uint16, ok bool) {
	if s, ok := dimNames[name]; ok {
		return s.kind, s.at, true
	}
	word, index, found := strings.Cut(strings.TrimSuffix(name, "]"), "[")
	k, known := indexed[word]
	n, err := strconv.ParseUint(index, 10, 16)
	return k, uint16(n), found && known && err == nil && strings.HasSuffix(name, "]")
}

// parseExpr reads what expr.String writes.
func parseExpr(text string) (expr, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		e := expr{add: n}
		if !e.valid() {
			return e, fmt.Errorf("expression %.40q: too large", text)
		}
		return e, nil
	}
	e := expr{num: 1, den: 1}
	product, add := cutAdded(text)
	if add != "" {
		n, err := strconv.ParseInt(add, 10, 64)
		if err != nil {
			return e, fmt.Errorf("expression %.40q: %w", text, err)
		}
		e.add = n
	}
	for i, factor := range strings.Split(product, "*") {
		if i == 0 && factor != "" && factor[0] >= '0' && factor[0] <= '9' {
			if err := e.parseCoefficient(factor); err != nil {
				return e, fmt.Errorf("expression %.40q: %w", text, err)
			}
			continue
		}
		if e.n == maxFactors {
			return e, fmt.Errorf("expression %.40q: more than %d values", text, maxFactors)
		}
		if strings.HasPrefix(factor, "(") && strings.HasSuffix(factor, ")") {
			factor = factor[1 : len(factor)-1]
		}
		s, err := parseSource(factor)
		if err != nil {
			return e, err
		}
		e.factor[e.n] = s
		e.n++
	}
	if !e.valid() {
		return e, fmt.Errorf("expression %.40q: nothing that can be worked out", text)
	}
	return e, nil
}

// cutAdded splits off what is added; the signs within brackets belong to values.
func cutAdded(text string) (product, add string) {
	depth := 0
	for i, c := range text {
		switch c {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case '+', '-':
			if depth == 0 && i > 0 {
				return text[:i], text[i:]
			}
		}
	}
	return text, ""
}

func (e *expr) parseCoefficient(text string) error {
	num, den, part := strings.Cut(text, "/")
	n, err := strconv.ParseUint(num, 10, 32)
	if err != nil {
		return err
	}
	e.num = uint32(n)
	if part {
		d, err := strconv.ParseUint(den, 10, 32)
		if err != nil {
			return err
		}
		e.den = uint32(d)
	}
	return nil
}
