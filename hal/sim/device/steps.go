package device

import (
	"fmt"
	"time"

	"xmsched/hal/kernels"
)

// stepEvery is how often a kernel that shows what it does while it runs is asked
// to, in wall time.
const stepEvery = 150 * time.Microsecond

// stepping is the kernel of a command that has Steps instead of a Body.
func (cmd *command) stepping() (kernels.Kernel, bool) {
	if verb(cmd.entry.Verb) != verbLaunch {
		return kernels.Kernel{}, false
	}
	k := kernelTable[cmd.entry.Kernel]
	return k, k.Step != nil
}

// beginSteps puts a kernel that has just got its engine among those that are
// stepped.
func (d *Device) beginSteps(cmd *command) {
	d.steppers = append(d.steppers, cmd)
	d.takeStep(cmd, 0)
}

// takeSteps steps the kernels that run, each now and then. It says whether one is
// through.
func (d *Device) takeSteps() (through bool) {
	if len(d.steppers) == 0 {
		return false
	}
	now := time.Now()
	if now.Sub(d.stepped) < stepEvery {
		return false
	}
	d.stepped = now
	d.endSteps(nil)
	for _, cmd := range append([]*command(nil), d.steppers...) { // a failing one takes others along
		if cmd.dead {
			continue
		}
		if ran, on := cmd.ch.machine().Running(cmd.ch.id); on && d.takeStep(cmd, ran) {
			d.endSteps(cmd)
			d.bodyEnded(cmd)
			cmd.ch.machine().Finish(cmd.ch.id)
			through = true
		}
	}
	return through
}

// takeStep is one step; a failed one ends the context.
func (d *Device) takeStep(cmd *command, ran time.Duration) (through bool) {
	k, _ := cmd.stepping()
	v := &view{space: cmd.ch.ctx.owner.space, by: cmd.ch.ctx}
	through, err := k.Step(v, cmd.entry.launch(), ran)
	d.fault(cmd, v.touched)
	if err = v.close(err); err != nil {
		cmd.err = fmt.Errorf("kernel %s: %w", k.Name, err)
		d.endSteps(cmd)
		d.bodyEnded(cmd)
		return false
	}
	return through
}

// lastStep is the one at the end of a kernel's time, where no step has ended it
// before.
func (d *Device) lastStep(cmd *command) {
	k, steps := cmd.stepping()
	if !steps || cmd.bodyDone || cmd.dead {
		return
	}
	d.takeStep(cmd, k.Cost(cmd.entry.launch()))
	if cmd.err == nil {
		d.endSteps(cmd)
		d.bodyEnded(cmd)
	}
}

// endSteps takes a kernel from those that are stepped, with all that went with
// their contexts.
func (d *Device) endSteps(cmd *command) {
	kept := d.steppers[:0]
	for _, s := range d.steppers {
		if s != cmd && !s.dead {
			kept = append(kept, s)
		}
	}
	clear(d.steppers[len(kept):])
	d.steppers = kept
}
