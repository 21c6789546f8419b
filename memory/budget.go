package memory

// DeviceBudget is what managed memory may take of a card: all of it but what
// the driver owns (contexts, modules, local memory), and a reserve for what the
// driver will still want: 2 %, at least 2 GiB, but of a card below 16 GiB an
// eighth, since the driver takes less there and more would be left for nobody.
func DeviceBudget(card, driver Bytes) Bytes {
	card, driver = within(card, MaxBytes), within(driver, MaxBytes)
	return max(0, card-max(min(2*GiB, card/8), card/50)-driver).Down()
}

// HostFigures are what is known of a host's memory. Our pool's pages are pinned,
// and the driver does not charge them to a cgroup.
type HostFigures struct {
	Wanted    Bytes // what the administrator allows; 0: no opinion
	Limit     Bytes // the cgroup's memory.max; 0: none
	Used      Bytes // the cgroup's memory.current
	Ours      Bytes // what the pool has already
	Available Bytes // MemAvailable
}

// HostLimit names what bounds the pool.
type HostLimit string

const (
	LimitWanted    HostLimit = "host budget"
	LimitCgroup    HostLimit = "memory.max"
	LimitAvailable HostLimit = "half of the available memory"
)

// HostBudget is how large the pool may be in all, and what bounds it: the least
// of what the administrator allows, of what is left in the cgroup, and of half
// of the memory that would be available without the pool. It is not negative,
// and may be less than the pool has: then nothing more is made.
func HostBudget(f HostFigures) (Bytes, HostLimit) {
	ours := within(f.Ours, MaxBytes)
	best, by := (within(f.Available, MaxBytes)+ours)/2, LimitAvailable
	if f.Limit > 0 {
		if left := within(f.Limit, MaxBytes) - within(f.Used, MaxBytes); left < best {
			best, by = max(0, left), LimitCgroup
		}
	}
	if f.Wanted > 0 && f.Wanted < best {
		best, by = f.Wanted, LimitWanted
	}
	return best.Down(), by
}
