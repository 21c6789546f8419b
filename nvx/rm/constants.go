package rm

import "unsafe"

// Numbers that Go code uses; Constants has all.
const (
	NV_IOCTL_MAGIC = 'F'

	NV_ESC_RM_FREE       = 0x29
	NV_ESC_RM_CONTROL    = 0x2A
	NV_ESC_RM_ALLOC      = 0x2B
	NV_ESC_RM_DUP_OBJECT = 0x34

	NVA06C_CTRL_CMD_SET_TIMESLICE         = 0xA06C0103
	NVA06C_CTRL_CMD_GET_TIMESLICE         = 0xA06C0104
	NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS = 0x2080110B
	NV2080_CTRL_CMD_GPU_GET_GID_INFO      = 0x2080014A

	NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES = 64
	NV2080_GPU_MAX_GID_LENGTH                     = 256
)

// Request is the ioctl request number of an escape code whose argument has size
// bytes: read and written, in the generic encoding of Linux (amd64, arm64).
func Request(escape uint64, size uintptr) uint64 {
	const readWrite = 3
	return readWrite<<30 | uint64(size)<<16 | NV_IOCTL_MAGIC<<8 | escape
}

// IsChannel says whether objects of a class are channels. The low byte is the
// same on every generation from Kepler on.
func IsChannel(class uint32) bool { return class&0xff == 0x6f }

// Constants are all numbers, in the order of the header.
func Constants() []Constant {
	var all []Constant
	for _, group := range [][]Constant{escapes(), requests(), classes, channels, refusing, controls, values, statuses} {
		all = append(all, group...)
	}
	return all
}

func escapes() []Constant {
	return []Constant{
		{"NV_IOCTL_MAGIC", NV_IOCTL_MAGIC, Numbers, "type of every request"},
		{"NV_ESC_RM_FREE", NV_ESC_RM_FREE, Escape, "NVOS00_PARAMETERS"},
		{"NV_ESC_RM_CONTROL", NV_ESC_RM_CONTROL, Escape, "NVOS54_PARAMETERS"},
		{"NV_ESC_RM_ALLOC", NV_ESC_RM_ALLOC, Escape, "NVOS21_PARAMETERS or NVOS64_PARAMETERS, told apart by size"},
		{"NV_ESC_RM_DUP_OBJECT", NV_ESC_RM_DUP_OBJECT, Escape, "NVOS55_PARAMETERS"},
		{"NV_ESC_IOCTL_XFER_CMD", 211, Numbers, "wraps a request whose argument is too large for the number: nv_ioctl_xfer_t"},
	}
}

func requests() []Constant {
	const derived = "escape code and size of the argument"
	return []Constant{
		{"XM_RM_FREE", Request(NV_ESC_RM_FREE, unsafe.Sizeof(NVOS00_PARAMETERS{})), derived, ""},
		{"XM_RM_CONTROL", Request(NV_ESC_RM_CONTROL, unsafe.Sizeof(NVOS54_PARAMETERS{})), derived, ""},
		{"XM_RM_ALLOC21", Request(NV_ESC_RM_ALLOC, unsafe.Sizeof(NVOS21_PARAMETERS{})), derived, ""},
		{"XM_RM_ALLOC64", Request(NV_ESC_RM_ALLOC, unsafe.Sizeof(NVOS64_PARAMETERS{})), derived, ""},
		{"XM_RM_DUP_OBJECT", Request(NV_ESC_RM_DUP_OBJECT, unsafe.Sizeof(NVOS55_PARAMETERS{})), derived, ""},
	}
}

var classes = []Constant{
	{"NV01_ROOT", 0x0, Classes + "cl0000.h", "a client"},
	{"NV01_ROOT_NON_PRIV", 0x1, Classes + "cl0001.h", "a client"},
	{"NV01_ROOT_CLIENT", 0x41, Calls, "a client: what libcuda makes"},
	{"NV01_DEVICE_0", 0x80, Classes + "cl0080.h", "a device, child of a client"},
	{"NV20_SUBDEVICE_0", 0x2080, Classes + "cl2080.h", "one GPU, child of a device"},
	{"KEPLER_CHANNEL_GROUP_A", 0xA06C, Classes + "cla06c.h", "a channel group, child of a device; all generations"},
}

var channels = []Constant{
	{"XM_RM_CHANNEL_LOW_BYTE", 0x6F, "the classes below", "low byte of every channel class"},
	{"KEPLER_CHANNEL_GPFIFO_A", 0xA06F, Classes + "cla06f.h", ""},
	{"KEPLER_CHANNEL_GPFIFO_B", 0xA16F, Classes + "cla16f.h", ""},
	{"MAXWELL_CHANNEL_GPFIFO_A", 0xB06F, Classes + "clb06f.h", ""},
	{"PASCAL_CHANNEL_GPFIFO_A", 0xC06F, Classes + "clc06f.h", ""},
	{"VOLTA_CHANNEL_GPFIFO_A", 0xC36F, Classes + "clc36f.h", ""},
	{"TURING_CHANNEL_GPFIFO_A", 0xC46F, Classes + "clc46f.h", ""},
	{"AMPERE_CHANNEL_GPFIFO_A", 0xC56F, Classes + "clc56f.h", "Ada too"},
	{"HOPPER_CHANNEL_GPFIFO_A", 0xC86F, Classes + "clc86f.h", "seen on the H200"},
	{"BLACKWELL_CHANNEL_GPFIFO_A", 0xC96F, Classes + "clc96f.h", ""},
	{"BLACKWELL_CHANNEL_GPFIFO_B", 0xCA6F, Classes + "clca6f.h", ""},
}

// refusing are classes whose presence says that somebody else has a say over
// the process's channels.
var refusing = []Constant{
	{"MPS_COMPUTE", 0x900E, Classes + "cl900e.h", "the process is a client of MPS, or its server"},
	{"GT200_DEBUGGER", 0x83DE, Classes + "cl83de.h", "a debugger session"},
	{"GF100_PROFILER", 0x90CC, Classes + "cl90cc.h", ""},
	{"MAXWELL_PROFILER", 0xB0CC, Classes + "clb0cc.h", ""},
	{"MAXWELL_PROFILER_DEVICE", 0xB2CC, Classes + "clb2cc.h", ""},
	{"AMPERE_SMC_PARTITION_REF", 0xC637, Classes + "clc637.h", "MIG: a GPU instance"},
	{"AMPERE_SMC_EXEC_PARTITION_REF", 0xC638, Classes + "clc638.h", "MIG: a compute instance"},
	{"AMPERE_SMC_CONFIG_SESSION", 0xC639, Classes + "clc639.h", "MIG: being configured"},
}

var controls = []Constant{
	{"NVA06C_CTRL_CMD_SET_TIMESLICE", NVA06C_CTRL_CMD_SET_TIMESLICE, Controls + "ctrla06c.h", "on a channel group; NVA06C_CTRL_TIMESLICE_PARAMS"},
	{"NVA06C_CTRL_CMD_GET_TIMESLICE", NVA06C_CTRL_CMD_GET_TIMESLICE, Controls + "ctrla06c.h", "the same"},
	{"NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS", NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, Controls + "ctrl2080/ctrl2080fifo.h", "on a subdevice; takes running channels off the GPU"},
	{"NV2080_CTRL_CMD_GPU_GET_GID_INFO", NV2080_CTRL_CMD_GPU_GET_GID_INFO, Controls + "ctrl2080/ctrl2080gpu.h", "on a subdevice: the UUID"},
}

var values = []Constant{
	{"NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES", NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES, Controls + "ctrl2080/ctrl2080fifo.h", "channels of one call"},
	{"NV2080_GPU_MAX_GID_LENGTH", NV2080_GPU_MAX_GID_LENGTH, Controls + "ctrl2080/ctrl2080gpu.h", ""},
	{"NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY", 2, Controls + "ctrl2080/ctrl2080gpu.h", "value of bits 1 to 0 of flags: the 16 bytes, not text"},
	{"NV2080_ENGINE_TYPE_GRAPHICS", 1, Classes + "cl2080_notification.h", "engine of the compute group"},
	{"NV2080_ENGINE_TYPE_COPY0", 9, Classes + "cl2080_notification.h", "first of ten copy engines; the H200 uses 11 to 13"},
	{"NV2080_ENGINE_TYPE_COPY9", 18, Classes + "cl2080_notification.h", ""},
	{"NVOS64_FLAGS_FINN_SERIALIZED", 1, Calls, "parameters of an allocation are not the plain struct"},
	{"NVOS54_FLAGS_FINN_SERIALIZED", 4, Calls, "the same of a control"},
	{"XM_RM_DEFAULT_TIMESLICE_US", 2048, "GET_TIMESLICE on the H200, driver 580.159.04", "of a new compute group"},
}

var statuses = []Constant{
	{"NV_OK", 0x00, Statuses, ""},
	{"NV_ERR_BUSY_RETRY", 0x03, Statuses, ""},
	{"NV_ERR_GPU_IS_LOST", 0x0F, Statuses, ""},
	{"NV_ERR_INSUFFICIENT_PERMISSIONS", 0x1B, Statuses, ""},
	{"NV_ERR_INVALID_ARGUMENT", 0x1F, Statuses, ""},
	{"NV_ERR_INVALID_CHANNEL", 0x21, Statuses, ""},
	{"NV_ERR_INVALID_CLIENT", 0x23, Statuses, ""},
	{"NV_ERR_INVALID_OBJECT", 0x31, Statuses, ""},
	{"NV_ERR_INVALID_OBJECT_HANDLE", 0x33, Statuses, ""},
	{"NV_ERR_INVALID_PARAM_STRUCT", 0x3A, Statuses, ""},
	{"NV_ERR_INVALID_STATE", 0x40, Statuses, ""},
	{"NV_ERR_NOT_SUPPORTED", 0x56, Statuses, ""},
	{"NV_ERR_OBJECT_NOT_FOUND", 0x57, Statuses, ""},
	{"NV_ERR_TIMEOUT", 0x65, Statuses, ""},
}

// StatusName is the vendor's name of a status, "" for one not listed here.
func StatusName(status uint32) string {
	for _, c := range statuses {
		if c.Value == uint64(status) {
			return c.Name
		}
	}
	return ""
}
