package workloads

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"xmsched/hal/cuda"
	"xmsched/hal/cuda/abi"
	"xmsched/hal/kernels"
)

// graph: a chain of kernels, captured once and launched again and again.
func (b *base) graph(m *cuda.Module) (stressor, error) {
	f, err := m.Function("xm_churn")
	if err != nil {
		return nil, err
	}
	w, err := b.newWords(inPlaceWords)
	if err != nil {
		return nil, err
	}
	const rounds = inPlaceRounds / graphNodes
	args, err := cuda.NewLaunchArgs(w.at, uint32(inPlaceWords), uint32(rounds))
	if err != nil {
		return nil, err
	}
	exec, err := b.capture(func() error {
		for range graphNodes {
			if err := b.launch(f, args); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	launch, err := b.gpu.driver.Proc("cuGraphLaunch")
	if err != nil {
		return nil, err
	}
	if err := w.fill(func(int) uint32 { return b.rng.Uint32() }); err != nil {
		return nil, err
	}
	return again(func() (uint64, uint64, error) {
		for range launchesEach {
			if r := launch.Call(exec, uintptr(b.stream.Handle)); r != abi.CUDA_SUCCESS {
				return 0, 0, fmt.Errorf("cuGraphLaunch: %w", r)
			}
		}
		for i, v := range w.want {
			w.want[i] = kernels.RoundResult(v, launchesEach*graphNodes*rounds)
		}
		return w.check()
	}), nil
}

// capture gives an executable graph of what f queues on the stream.
func (b *base) capture(f func() error) (exec uintptr, err error) {
	var graph uintptr
	if err := b.call("cuStreamBeginCapture_v2", uintptr(b.stream.Handle), uintptr(abi.CU_STREAM_CAPTURE_MODE_RELAXED)); err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	if err := b.call("cuStreamEndCapture", uintptr(b.stream.Handle), uintptr(unsafe.Pointer(&graph))); err != nil {
		return 0, err
	}
	err = b.call("cuGraphInstantiateWithFlags", uintptr(unsafe.Pointer(&exec)), graph, 0)
	return exec, err
}

//go:uintptrescapes
func (b *base) call(name string, args ...uintptr) error {
	p, err := b.gpu.driver.Proc(name)
	if err != nil {
		return err
	}
	if r := p.Call(args...); r != abi.CUDA_SUCCESS {
		return fmt.Errorf("%s: %w", name, r)
	}
	return nil
}

// copies: a pattern of its own in every round goes to the device, across it and
// back.
func (b *base) copies() (stressor, error) {
	d := b.gpu.driver
	var host [2][]byte
	var device [2]abi.DevicePtr
	for i := range 2 {
		var err error
		if host[i], err = d.HostAlloc(copyBytes, 0); err != nil {
			return nil, err
		}
		if device[i], err = d.MemAlloc(copyBytes); err != nil {
			return nil, err
		}
	}
	want := make([]uint32, copyBytes/4)
	return again(func() (uint64, uint64, error) {
		first := b.rng.Uint32()
		for i := range want {
			want[i] = first + uint32(i)*0x9e3779b9
			binary.LittleEndian.PutUint32(host[0][4*i:], want[i])
		}
		for range launchesEach {
			if err := d.MemcpyHtoDAsync(device[0], host[0], b.stream); err != nil {
				return 0, 0, err
			}
			if err := d.MemcpyDtoDAsync(device[1], device[0], copyBytes, b.stream); err != nil {
				return 0, 0, err
			}
			if err := d.MemcpyDtoHAsync(host[1], device[1], b.stream); err != nil {
				return 0, 0, err
			}
		}
		if err := b.stream.Synchronize(); err != nil {
			return 0, 0, err
		}
		return uint64(len(want)), differing(host[1], want), nil
	}), nil
}

// managed: the CPU writes the words and reads them, the kernel in between faults
// them over to the device. They are far fewer than the card has free.
func (b *base) managed(m *cuda.Module) (stressor, error) {
	f, err := m.Function("xm_churn")
	if err != nil {
		return nil, err
	}
	var at uint64
	if err := b.call("cuMemAllocManaged", uintptr(unsafe.Pointer(&at)), managedBytes, uintptr(abi.CU_MEM_ATTACH_GLOBAL)); err != nil {
		return nil, err
	}
	const rounds = 3
	args, err := cuda.NewLaunchArgs(abi.DevicePtr(at), uint32(managedBytes/4), uint32(rounds))
	if err != nil {
		return nil, err
	}
	memory := managedWords(at)
	want := make([]uint32, managedBytes/4)
	return again(func() (uint64, uint64, error) {
		first := b.rng.Uint32()
		for i := range want {
			v := first + uint32(i)
			memory[i] = v
			want[i] = kernels.RoundResult(v, rounds)
		}
		if err := b.launch(f, args); err != nil {
			return 0, 0, err
		}
		if err := b.stream.Synchronize(); err != nil {
			return 0, 0, err
		}
		wrong := uint64(0)
		for i, v := range want {
			if memory[i] != v {
				wrong++
			}
		}
		return uint64(len(want)), wrong, nil
	}), nil
}

// managedWords is managed memory as the CPU sees it: the driver maps it at the
// same address, outside Go's heap, as long as it is allocated.
func managedWords(at uint64) []uint32 {
	return unsafe.Slice((*uint32)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), managedBytes/4)
}
