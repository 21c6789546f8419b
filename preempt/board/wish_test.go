package board

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"xmsched/preempt/board/internal/layout"
)

func TestWishReachesTheOtherSide(t *testing.T) {
	daemon, client := pair(t)
	if want, w := client.Device(1).Wish(); want != 0 || w != (Wish{}) {
		t.Fatalf("a new board wishes %d %+v", want, w)
	}
	asked := Wish{Hold: HoldCompute, SliceUS: 1}
	word := daemon.Device(1).Ask(0, asked)
	if want, w := client.Device(1).Wish(); want != word || word == 0 || w != asked {
		t.Errorf("client reads %d %+v, want %d %+v", want, w, word, asked)
	}
	did := HoldView{Did: word, Held: HoldCompute, SliceUS: 1, Holds: 3, HoldTime: 600 * time.Microsecond, ReleaseTime: time.Hour}
	client.Device(1).Did(did)
	did.ReleaseTime = 1<<32 - 1
	if have := daemon.HoldView(1); have != did {
		t.Errorf("daemon reads %+v, want %+v", have, did)
	}
}

func TestWishWordIsNeverZeroAgain(t *testing.T) {
	daemon, _ := pair(t)
	if word := daemon.Device(0).Ask(1<<32-1, Wish{}); word != 1 {
		t.Errorf("after the last word comes %d, want 1", word)
	}
}

func TestWaitWishIsWoken(t *testing.T) {
	daemon, client := pair(t)
	woken := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			if want, _ := client.Device(0).Wish(); want != 0 {
				break
			}
			err = client.Device(0).WaitWish(0, time.Minute)
		}
		woken <- err
	}()
	time.Sleep(20 * time.Millisecond) // let it fall asleep; a wake before that is seen by the value
	daemon.Device(0).Ask(0, Wish{Hold: HoldAll})
	daemon.Device(0).WakeWish()
	select {
	case err := <-woken:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("not woken")
	}
}

// TestHoldViewClampsClaims has a client write what it likes.
func TestHoldViewClampsClaims(t *testing.T) {
	daemon, client := pair(t)
	rapid.Check(t, func(t *rapid.T) {
		c := &client.page.Devices[4].Client
		c.Did, c.Held = rapid.Uint32().Draw(t, "did"), rapid.Uint32().Draw(t, "held")
		c.SliceNow, c.HoldError = rapid.Uint32().Draw(t, "slice"), rapid.Uint32().Draw(t, "error")
		c.HoldNS, c.ReleaseNS = rapid.Uint32().Draw(t, "hold"), rapid.Uint32().Draw(t, "release")
		v := daemon.HoldView(4)
		if v.Held > HoldAll || v.SliceUS > MaxSliceUS || v.HoldTime < 0 || v.ReleaseTime < 0 {
			t.Fatalf("%+v", v)
		}
		if c.Held > uint32(HoldAll) && v.Held != HoldNone {
			t.Fatalf("garbage %d counts as %v", c.Held, v.Held)
		}
	})
}

// TestValuesOfTheLayout ties the named values to those that C has.
func TestValuesOfTheLayout(t *testing.T) {
	mine := map[string]uint64{
		"XM_HOLD_NONE": uint64(HoldNone), "XM_HOLD_COMPUTE": uint64(HoldCompute), "XM_HOLD_ALL": uint64(HoldAll),
		"XM_LEVEL_WHY_NONE": uint64(NothingInTheWay), "XM_LEVEL_WHY_UNREGISTERED": uint64(NotRegistered),
		"XM_LEVEL_WHY_NO_WAITS": uint64(NoStreamWaits), "XM_LEVEL_WHY_ASIDE": uint64(StandsAside),
		"XM_LEVEL_WHY_RM_LAYOUT": uint64(UnknownObjects), "XM_LEVEL_WHY_RM_REFUSED": uint64(ControlRefused),
		"XM_LEVEL_WHY_MPS": uint64(ClientOfMPS), "XM_LEVEL_WHY_DEBUGGER": uint64(DebuggerPresent), "XM_LEVEL_WHY_MIG": uint64(SlicedByMIG),
	}
	for _, c := range layout.Constants() {
		if v, ok := mine[c.Name]; ok && v != c.Value {
			t.Errorf("%s is %d in the layout and %d here", c.Name, c.Value, v)
		}
		delete(mine, c.Name)
	}
	if len(mine) > 0 {
		t.Errorf("not in the layout: %v", mine)
	}
	for why := NothingInTheWay; why <= SlicedByMIG; why++ {
		if why.String() == LevelWhy(1000).String() {
			t.Errorf("reason %d has no words", why)
		}
	}
}
