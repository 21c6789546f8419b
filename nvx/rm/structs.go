package rm

import "structs"

// NVOS00_PARAMETERS frees an object and everything below it.
type NVOS00_PARAMETERS struct {
	_             structs.HostLayout
	HRoot         Handle `c:"hRoot"`
	HObjectParent Handle `c:"hObjectParent"`
	HObjectOld    Handle `c:"hObjectOld"`
	Status        uint32 `c:"status"`
}

// NVOS21_PARAMETERS makes an object.
type NVOS21_PARAMETERS struct {
	_             structs.HostLayout
	HRoot         Handle `c:"hRoot"`
	HObjectParent Handle `c:"hObjectParent"`
	HObjectNew    Handle `c:"hObjectNew" doc:"in and out: 0 asks for a handle"`
	HClass        uint32 `c:"hClass"`
	PAllocParms   uint64 `c:"pAllocParms" doc:"pointer, may be null"`
	ParamsSize    uint32 `c:"paramsSize" doc:"0 from older callers"`
	Status        uint32 `c:"status"`
}

// NVOS64_PARAMETERS makes an object and asks for rights on it.
type NVOS64_PARAMETERS struct {
	_                structs.HostLayout
	HRoot            Handle `c:"hRoot"`
	HObjectParent    Handle `c:"hObjectParent"`
	HObjectNew       Handle `c:"hObjectNew" doc:"in and out: 0 asks for a handle"`
	HClass           uint32 `c:"hClass"`
	PAllocParms      uint64 `c:"pAllocParms" doc:"pointer, may be null"`
	PRightsRequested uint64 `c:"pRightsRequested" doc:"pointer, may be null"`
	ParamsSize       uint32 `c:"paramsSize" doc:"0 from older callers"`
	Flags            uint32 `c:"flags"`
	Status           uint32 `c:"status"`
	_                uint32
}

// NVOS54_PARAMETERS carries a control to an object.
type NVOS54_PARAMETERS struct {
	_          structs.HostLayout
	HClient    Handle `c:"hClient"`
	HObject    Handle `c:"hObject"`
	Cmd        uint32 `c:"cmd"`
	Flags      uint32 `c:"flags"`
	Params     uint64 `c:"params" doc:"pointer"`
	ParamsSize uint32 `c:"paramsSize"`
	Status     uint32 `c:"status"`
}

// NVOS55_PARAMETERS makes a second name for an object, also in another client.
type NVOS55_PARAMETERS struct {
	_          structs.HostLayout
	HClient    Handle `c:"hClient" doc:"where the new name lives"`
	HParent    Handle `c:"hParent"`
	HObject    Handle `c:"hObject" doc:"in and out: 0 asks for a handle"`
	HClientSrc Handle `c:"hClientSrc"`
	HObjectSrc Handle `c:"hObjectSrc"`
	Flags      uint32 `c:"flags"`
	Status     uint32 `c:"status"`
}

// NV0080_ALLOC_PARAMETERS makes a device.
type NV0080_ALLOC_PARAMETERS struct {
	_               structs.HostLayout
	DeviceID        uint32 `c:"deviceId" doc:"instance, not the CUDA ordinal"`
	HClientShare    Handle `c:"hClientShare"`
	HTargetClient   Handle `c:"hTargetClient"`
	HTargetDevice   Handle `c:"hTargetDevice"`
	Flags           uint32 `c:"flags"`
	_               uint32
	VASpaceSize     uint64 `c:"vaSpaceSize"`
	VAStartInternal uint64 `c:"vaStartInternal"`
	VALimitInternal uint64 `c:"vaLimitInternal"`
	VAMode          uint32 `c:"vaMode"`
	_               uint32
}

// NV2080_ALLOC_PARAMETERS makes a subdevice.
type NV2080_ALLOC_PARAMETERS struct {
	_           structs.HostLayout
	SubDeviceID uint32 `c:"subDeviceId"`
}

// NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS makes a channel group.
type NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS struct {
	_                           structs.HostLayout
	HObjectError                Handle   `c:"hObjectError"`
	HObjectEccError             Handle   `c:"hObjectEccError"`
	HVASpace                    Handle   `c:"hVASpace"`
	EngineType                  uint32   `c:"engineType" doc:"NV2080_ENGINE_TYPE_…"`
	BIsCallingContextVgpuPlugin uint8    `c:"bIsCallingContextVgpuPlugin"`
	_                           [3]uint8 // to the alignment of the words
}

// NVA06C_CTRL_TIMESLICE_PARAMS belongs to SET_TIMESLICE and GET_TIMESLICE.
type NVA06C_CTRL_TIMESLICE_PARAMS struct {
	_           structs.HostLayout
	TimesliceUs uint64 `c:"timesliceUs" doc:"microseconds"`
}

// NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS disables or enables channels; the
// two lists go together by index.
type NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS struct {
	_                      structs.HostLayout
	BDisable               uint8 `c:"bDisable"`
	_                      [3]uint8
	NumChannels            uint32 `c:"numChannels"`
	BOnlyDisableScheduling uint8  `c:"bOnlyDisableScheduling" doc:"1 leaves what runs alone"`
	BRewindGpPut           uint8  `c:"bRewindGpPut" doc:"1 throws queued work away: never"`
	_                      [6]uint8
	PRunlistPreemptEvent   uint64                                                `c:"pRunlistPreemptEvent" doc:"of the kernel's own callers"`
	HClientList            [NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES]Handle `c:"hClientList"`
	HChannelList           [NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES]Handle `c:"hChannelList"`
}

// NV2080_CTRL_GPU_GET_GID_INFO_PARAMS asks for a GPU's UUID.
type NV2080_CTRL_GPU_GET_GID_INFO_PARAMS struct {
	_      structs.HostLayout
	Index  uint32                           `c:"index"`
	Flags  uint32                           `c:"flags"`
	Length uint32                           `c:"length" doc:"in: room, out: bytes"`
	Data   [NV2080_GPU_MAX_GID_LENGTH]uint8 `c:"data"`
}

// nv_ioctl_xfer_t is the envelope of NV_ESC_IOCTL_XFER_CMD.
type nv_ioctl_xfer_t struct {
	_    structs.HostLayout
	Cmd  uint32 `c:"cmd" doc:"escape code"`
	Size uint32 `c:"size"`
	Ptr  uint64 `c:"ptr" doc:"pointer to the argument"`
}

// Structs are all parameter blocks, in the order of the header.
func Structs() []Struct {
	return []Struct{
		{"nv_ioctl_xfer_t", nv_ioctl_xfer_t{}, "src/nvidia/arch/nvalloc/unix/include/nv-ioctl.h", "argument of NV_ESC_IOCTL_XFER_CMD"},
		{"NVOS00_PARAMETERS", NVOS00_PARAMETERS{}, Calls, "free an object and all below it"},
		{"NVOS21_PARAMETERS", NVOS21_PARAMETERS{}, Calls, "make an object"},
		{"NVOS64_PARAMETERS", NVOS64_PARAMETERS{}, Calls, "make an object and ask for rights; the first 24 bytes are NVOS21's"},
		{"NVOS54_PARAMETERS", NVOS54_PARAMETERS{}, Calls, "control an object"},
		{"NVOS55_PARAMETERS", NVOS55_PARAMETERS{}, Calls, "a second name for an object"},
		{"NV0080_ALLOC_PARAMETERS", NV0080_ALLOC_PARAMETERS{}, Classes + "cl0080.h", "make a device"},
		{"NV2080_ALLOC_PARAMETERS", NV2080_ALLOC_PARAMETERS{}, Classes + "cl2080.h", "make a subdevice"},
		{"NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS", NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS{}, Calls, "make a channel group"},
		{"NVA06C_CTRL_TIMESLICE_PARAMS", NVA06C_CTRL_TIMESLICE_PARAMS{}, Controls + "ctrla06c.h", "time slice of a channel group"},
		{"NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS", NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS{}, Controls + "ctrl2080/ctrl2080fifo.h", "disable or enable channels"},
		{"NV2080_CTRL_GPU_GET_GID_INFO_PARAMS", NV2080_CTRL_GPU_GET_GID_INFO_PARAMS{}, Controls + "ctrl2080/ctrl2080gpu.h", "UUID of a GPU"},
	}
}
