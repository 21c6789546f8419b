package plane

import "xmsched/memory"

// hostClaim is what one section has of the host and wants of it.
type hostClaim struct {
	firm  memory.Bytes // holds what is nowhere else: it cannot be given up
	has   memory.Bytes // that there is, free slots and clean copies included; at least firm
	used  memory.Bytes // the most that was firm of late
	asked memory.Bytes // that an allocation waits for, and has to do without at once otherwise
	going memory.Bytes // that its target sends there
	most  memory.Bytes // that it has any use for

	// It is its turn: none of its memory goes out before that is over. So that more of
	// others' can, it does with less than an even part, with enough at least.
	turn          bool
	enough, gives memory.Bytes // gives is by how much less at most
}

// divideHost divides what moved memory may take of the host, in parts of which the sum
// is never above the limit but for what is firm. In this order:
//
//   - what an allocation waits for;
//   - what was in use of late, as far as it is no more than an even part. Tasks that
//     take turns use theirs in turn. Would each have the other's, it would have to make
//     it anew at every turn (7 ms for 32 MiB, with the driver's lock held); with a part
//     of its own each keeps some of its memory on the device instead, and less moves.
//     Whose turn it is gives up a little of that, if it lacks memory for which the others
//     have no room;
//   - what a target sends to the host, up to an even part;
//   - an even part for whoever used the host of late: what others have more of it is
//     firm until their turns, and it would be the one that has less at all of its own;
//   - what a target sends to the host beyond that;
//   - a little for everybody, as an allocation that finds no room on the device goes
//     to the host at once;
//   - what there is already, and what can be made ahead. Of the last a quarter is left,
//     and spare at least: a limit that moves a little changes nobody's part, and who
//     asks for more has it at once, without another's word that it gave something up.
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
	even, wants := make([]memory.Bytes, len(claims)), make([]memory.Bytes, len(claims))
	for i, c := range claims {
		wants[i] = c.most
	}
	fillEvenly(limit, wants, even)
	for round := range rounds {
		if round == rounds-1 {
			left -= max(spare, left/4)
		}
		for i, c := range claims {
			upTo := c.most
			switch round {
			case 0:
				upTo = min(upTo, c.firm+c.asked)
			case 1:
				upTo = min(upTo, c.has, c.used, even[i])
				if c.turn {
					upTo = min(upTo, max(c.enough, even[i]-c.gives))
				}
			case 2:
				upTo = min(upTo, c.firm+c.asked+c.going, even[i])
			case 3:
				if upTo = min(upTo, even[i]); c.turn || c.used == 0 {
					upTo = 0
				}
			case 4:
				upTo = min(upTo, c.firm+c.asked+c.going)
			case 5:
				upTo = min(upTo, parts[i]+hostGrain)
			case 6:
				upTo = min(upTo, c.has)
			}
			wants[i] = max(0, upTo-parts[i])
		}
		left = fillEvenly(left, wants, parts)
	}
	return parts
}

// rounds in which the host is divided.
const rounds = 8

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
