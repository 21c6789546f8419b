package plane

import "xmsched/memory"

// hostClaim is what one section has of the host and wants of it.
type hostClaim struct {
	firm  memory.Bytes // holds what is nowhere else: it cannot be given up
	has   memory.Bytes // that there is, free slots and clean copies included; at least firm
	going memory.Bytes // that its target sends there
	most  memory.Bytes // that it has any use for
}

// divideHost divides what moved memory may take of the host, in parts of which the sum
// is never above the limit but for what is firm: what its target sends there comes
// first; then a little for everybody, as an allocation that finds no room on the device
// goes there at once; then what there is already, as to make it anew takes 7 ms for 32
// MiB (H200); then what can be made ahead. Of the last a quarter is left, and spare at
// least: a limit that moves a little changes nobody's part, and who asks for more has
// it at once, without another's word that it gave something up.
//
// Postcondition: firm <= part <= max(firm, most) for each.
func divideHost(limit, spare memory.Bytes, claims []hostClaim, parts []memory.Bytes) []memory.Bytes {
	parts = parts[:0]
	left := limit
	for _, c := range claims {
		parts = append(parts, c.firm)
		left -= c.firm
	}
	if left <= 0 {
		return parts
	}
	wants := make([]memory.Bytes, len(claims))
	for round := range 4 {
		if round == 3 {
			left -= max(spare, left/4)
		}
		for i, c := range claims {
			upTo := c.most
			switch round {
			case 0:
				upTo = min(upTo, c.firm+c.going)
			case 1:
				upTo = min(upTo, parts[i]+hostGrain)
			case 2:
				upTo = min(upTo, c.has)
			}
			wants[i] = max(0, upTo-parts[i])
		}
		left = fillEvenly(left, wants, parts)
	}
	return parts
}

// fillEvenly gives everybody the same, as far as he wants it, and returns what is left.
func fillEvenly(left memory.Bytes, wants, parts []memory.Bytes) memory.Bytes {
	for left >= memory.Granularity {
		n, least := memory.Bytes(0), memory.MaxBytes
		for _, w := range wants {
			if w > 0 {
				n, least = n+1, min(least, w)
			}
		}
		if n == 0 {
			break
		}
		each := min(least, max((left/n).Down(), memory.Granularity))
		for i := range wants {
			if wants[i] > 0 && left >= each {
				parts[i], wants[i], left = parts[i]+each, wants[i]-each, left-each
			}
		}
	}
	return left
}
