#include "mem.h"

/* The calls are made with the thread's capture mode relaxed by who makes several of
 * them: none of them is a stream's business. None needs a current context. */

#define READ_WRITE CU_MEM_ACCESS_FLAGS_PROT_READWRITE

CUresult xm_vmm_device(const struct xm_mem *m, uint64_t bytes, CUmemGenericAllocationHandle *h)
{
	CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = m->device}};

	*h = 0;
	return xm_real.cuMemCreate(h, bytes, &p, 0);
}

CUresult xm_vmm_map(CUdeviceptr at, uint64_t bytes, CUmemGenericAllocationHandle h)
{
	return xm_real.cuMemMap(at, bytes, 0, h, 0);
}

CUresult xm_vmm_access(const struct xm_mem *m, CUdeviceptr at, uint64_t bytes)
{
	CUmemAccessDesc who[1 + 64];
	size_t n = 0;

	who[n++] = (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = m->device}, .flags = READ_WRITE};
	for (int peer = 0; peer < 64; peer++)
		if (m->peers >> peer & 1 && peer != m->device)
			who[n++] = (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = peer}, .flags = READ_WRITE};
	return xm_real.cuMemSetAccess(at, bytes, who, n);
}

CUresult xm_vmm_unmap(CUdeviceptr at, uint64_t bytes)
{
	return xm_real.cuMemUnmap(at, bytes);
}

void xm_vmm_release(CUmemGenericAllocationHandle h)
{
	(void)xm_real.cuMemRelease(h);
}

CUresult xm_vmm_reserve(uint64_t bytes, CUdeviceptr *at)
{
	*at = 0;
	return xm_real.cuMemAddressReserve(at, bytes, XM_GRANULE, 0, 0);
}

void xm_vmm_unreserve(CUdeviceptr at, uint64_t bytes)
{
	(void)xm_real.cuMemAddressFree(at, bytes);
}

static bool has(CUdevice device, CUdevice_attribute what)
{
	int yes = 0;

	return xm_real.cuDeviceGetAttribute(&yes, what, device) == CUDA_SUCCESS && yes;
}

static bool granule_fits(CUmemLocationType type, int id)
{
	CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = type, .id = id}};
	size_t n = 0;

	return xm_real.cuMemGetAllocationGranularity(&n, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS && n && XM_GRANULE % n == 0;
}

bool xm_vmm_usable(struct xm_mem *m)
{
	size_t card = 0;

	if (!xm_real.cuMemCreate || !xm_real.cuMemMap || !xm_real.cuMemSetAccess || !xm_real.cuMemUnmap || !xm_real.cuMemRelease ||
	    !xm_real.cuMemAddressReserve || !xm_real.cuMemAddressFree || !xm_real.cuMemGetAllocationGranularity ||
	    !xm_real.cuDeviceGetAttribute || !xm_real.cuDeviceTotalMem_v2 || !xm_real.cuMemAlloc_v2 || !xm_real.cuMemFree_v2)
		return false;
	if (!has(m->device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ||
	    !has(m->device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ||
	    xm_real.cuDeviceTotalMem_v2(&card, m->device))
		return false;
	if (xm_real.cuDeviceGetAttribute(&m->numa, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, m->device) || m->numa < 0)
		m->numa = 0; /* a machine without NUMA says -1 */
	m->card = card;
	return granule_fits(CU_MEM_LOCATION_TYPE_DEVICE, m->device) && granule_fits(CU_MEM_LOCATION_TYPE_HOST_NUMA, m->numa);
}
