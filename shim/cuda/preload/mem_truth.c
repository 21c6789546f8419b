#include "mem_truth.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "mem_pool.h"

void xm_truth_info(struct xm_mem *m, size_t *free, size_t *total)
{
	struct xm_mem_bounds b = xm_mem_bounds(m);
	uint64_t all = b.total && b.total < m->card ? b.total : m->card;
	uint64_t used;

	if (b.limit && b.limit < all)
		all = b.limit;
	pthread_mutex_lock(&xm_mem_lock);
	used = xm_mem_used(m);
	pthread_mutex_unlock(&xm_mem_lock);
	*total = all;
	*free = used < all ? all - used : 0;
}

bool xm_truth_range(CUdeviceptr address, struct xm_truth_range *range)
{
	struct xm_block *b;

	pthread_mutex_lock(&xm_mem_lock);
	b = xm_block_at(address);
	if (b)
		*range = (struct xm_truth_range){.at = b->at,
						 .bytes = b->asked,
						 .context = b->range->context,
						 .device = b->range->mem->device,
						 .id = b->id,
						 .pool = b->range->pool ? b->range->pool->handle : NULL};
	pthread_mutex_unlock(&xm_mem_lock);
	return b != NULL;
}

struct value {
	uint64_t bits;
	size_t bytes;
	bool absent;
};

/* As the driver answers for what cuMemAlloc gave (recorded on an H200, hal/cuda), but for what is not so: such
 * memory can be exported to nobody. */
static bool value_of(const struct xm_truth_range *r, CUdeviceptr address, CUpointer_attribute what, struct value *v)
{
	switch (what) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*v = (struct value){(uintptr_t)r->context, sizeof(CUcontext), false};
		return true;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*v = (struct value){CU_MEMORYTYPE_DEVICE, sizeof(unsigned), false};
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*v = (struct value){address, sizeof address, false};
		return true;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*v = (struct value){0, sizeof(void *), true};
		return true;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*v = (struct value){r->id, sizeof r->id, false};
		return true;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*v = (struct value){0, sizeof(bool), false};
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*v = (struct value){(uint64_t)(int64_t)r->device, sizeof(int), false};
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*v = (struct value){r->at, sizeof r->at, false};
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*v = (struct value){r->bytes, sizeof(size_t), false};
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*v = (struct value){true, sizeof(bool), false};
		return true;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*v = (struct value){0, sizeof(uint64_t), false};
		return true;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*v = (struct value){CU_MEM_ACCESS_FLAGS_PROT_READWRITE, sizeof(int), false};
		return true;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*v = (struct value){(uintptr_t)r->pool, sizeof(CUmemoryPool), false};
		return true;
	default: /* tokens for peers, and what later drivers know */
		return false;
	}
}

bool xm_truth_attribute(const struct xm_truth_range *r, CUdeviceptr address, CUpointer_attribute what, void *data, bool *absent)
{
	struct value v;

	if (!value_of(r, address, what, &v))
		return false;
	memcpy(data, &v.bits, v.bytes);
	*absent = v.absent;
	return true;
}

size_t xm_truth_early_limit(void)
{
	const char *text = getenv("XMSCHED_MEMORY_LIMIT");
	char *end = NULL;
	unsigned long long n = text && *text ? strtoull(text, &end, 10) : 0;

	return end && !*end ? (size_t)n : 0;
}
