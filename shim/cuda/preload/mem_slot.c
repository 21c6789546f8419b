/* Slots: host memory to which segments go. What is left in one from another of this process's segments is no secret;
 * making one is dear (7 ms for 32 MiB, h200.md), so free ones are kept, or passed on to another process of the user:
 * 2 ms for 32 MiB. What such a one left there the program never sees: see `foreign`. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "mark.h"
#include "mem.h"

#define NEW (-1) /* no descriptor */

/* Addresses at which something stays mapped are not given back. */
static bool undo(struct xm_host_slot *slot, bool mapped)
{
	bool clear = !mapped || xm_vmm_unmap(slot->at, slot->bytes) == CUDA_SUCCESS;

	if (slot->handle)
		xm_vmm_release(slot->handle);
	if (clear)
		xm_vmm_unreserve(slot->at, slot->bytes);
	return clear;
}

/* Such that it can be passed on, where the driver has that. */
static CUresult create(const struct xm_mem *m, uint64_t bytes, CUmemGenericAllocationHandle *handle)
{
	CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = m->numa}};
	CUresult r = xm_real.cuMemCreate(handle, bytes, &p, 0);

	if (r != CUDA_ERROR_NOT_SUPPORTED && r != CUDA_ERROR_INVALID_VALUE && r != CUDA_ERROR_NOT_PERMITTED)
		return r;
	p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
	return xm_real.cuMemCreate(handle, bytes, &p, 0);
}

/* A new one, or the one behind a descriptor. */
static CUresult make(const struct xm_mem *m, uint64_t bytes, int fd, struct xm_host_slot *slot)
{
	bool mapped = false;
	CUresult r;

	*slot = (struct xm_host_slot){.bytes = bytes, .foreign = fd >= 0};
	r = xm_vmm_reserve(bytes, &slot->at);
	if (r)
		return r;
	r = fd < 0 ? create(m, bytes, &slot->handle) : xm_real.cuMemImportFromShareableHandle(&slot->handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (!r)
		r = xm_vmm_map(slot->at, bytes, slot->handle);
	mapped = slot->handle && !r;
	if (!r)
		r = xm_vmm_access(m, slot->at, bytes);
	if (r)
		(void)undo(slot, mapped);
	return r;
}

/* xm_mem_lock held. How much of what there is would have to go for so many bytes more. */
static uint64_t too_much(const struct xm_mem *m, uint64_t bytes)
{
	uint64_t most = xm_mem_bounds(m).host;

	return most && m->slots_all + bytes > most ? m->slots_all + bytes - most : 0;
}

bool xm_slot_bounded(struct xm_mem *m, uint64_t bytes)
{
	bool bounded;

	pthread_mutex_lock(&xm_mem_lock);
	bounded = too_much(m, bytes) != 0;
	pthread_mutex_unlock(&xm_mem_lock);
	return bounded;
}

bool xm_slot_likely(struct xm_mem *m, uint64_t bytes)
{
	bool likely;

	pthread_mutex_lock(&xm_mem_lock);
	likely = too_much(m, bytes) <= m->slots_free + m->slots_kept;
	pthread_mutex_unlock(&xm_mem_lock);
	return likely;
}

/* A record, and its bytes counted before they are there, so that two threads cannot both have the last of the bound. */
static struct xm_host_slot *begin(struct xm_mem *m, uint64_t bytes)
{
	struct xm_host_slot *slot;

	pthread_mutex_lock(&xm_mem_lock);
	slot = too_much(m, bytes) ? NULL : xm_slot_record();
	m->slots_all += slot ? bytes : 0;
	pthread_mutex_unlock(&xm_mem_lock);
	return slot;
}

static void end(struct xm_mem *m, struct xm_host_slot *slot, uint64_t bytes)
{
	pthread_mutex_lock(&xm_mem_lock);
	m->slots_all -= bytes;
	xm_slot_forget(slot);
	pthread_mutex_unlock(&xm_mem_lock);
}

static CUresult make_slot(struct xm_mem *m, uint64_t bytes, int fd, struct xm_host_slot **made)
{
	struct xm_quiet quiet = xm_quiet_begin();
	struct xm_host_slot *slot = begin(m, bytes);
	CUresult r = slot ? make(m, bytes, fd, slot) : CUDA_ERROR_OUT_OF_MEMORY;

	if (slot && r)
		end(m, slot, bytes);
	xm_quiet_end(quiet);
	*made = r ? NULL : slot;
	return r;
}

enum whose { ANY, OWN /* with nothing of another process in it */, OURS /* that the program cannot reach */ };

/* xm_mem_lock held. A free one of that size, 0: of any. */
static struct xm_host_slot *take(struct xm_mem *m, uint64_t bytes, enum whose whose)
{
	struct xm_host_slot **at = &m->slots, *slot;

	while (*at && ((bytes && (*at)->bytes != bytes) || (whose == OWN && (*at)->foreign) || (whose == OURS && (*at)->shown)))
		at = &(*at)->next;
	slot = *at;
	if (slot) {
		*at = slot->next;
		m->slots_free -= slot->bytes;
	}
	return slot;
}

/* xm_mem_lock held. Gives up a clean copy of that size, 0: of any; its slot is free then. */
static bool forgo(struct xm_mem *m, uint64_t bytes)
{
	for (struct xm_range *r = m->slots_kept ? m->first : NULL; r; r = r->next)
		for (struct xm_seg *s = r->segs; s; s = s->next)
			if (s->kept && (!bytes || s->bytes == bytes)) {
				xm_seg_forget(s);
				xm_slot_put(m, s->slot);
				s->slot = NULL;
				return true;
			}
	return false;
}

uint64_t xm_slot_forgo(struct xm_mem *m, uint64_t keep)
{
	uint64_t kept;

	pthread_mutex_lock(&xm_mem_lock);
	while (m->slots_kept > keep && forgo(m, 0))
		;
	kept = m->slots_kept;
	xm_mem_tell(m);
	pthread_mutex_unlock(&xm_mem_lock);
	return kept;
}

/* What there is goes before more is made: a clean copy saves 0.7 ms of copying, to make a
 * slot takes 7; but it saves that at every move, so it goes only when there may be no more. */
CUresult xm_slot_get(struct xm_mem *m, uint64_t bytes, bool own, struct xm_host_slot **slot)
{
	uint64_t excess, idle;
	CUresult r;

	pthread_mutex_lock(&xm_mem_lock);
	*slot = take(m, bytes, own ? OWN : ANY);
	excess = *slot ? 0 : too_much(m, bytes);
	if (excess && forgo(m, bytes))
		*slot = take(m, bytes, own ? OWN : ANY);
	while (!*slot && excess > m->slots_free && forgo(m, 0))
		;
	idle = m->slots_free;
	pthread_mutex_unlock(&xm_mem_lock);
	if (*slot)
		return CUDA_SUCCESS;
	if (excess && excess <= idle)
		xm_slot_trim(m, idle - excess);
	r = make_slot(m, bytes, NEW, slot);
	if (r == CUDA_ERROR_OUT_OF_MEMORY && own && idle) { /* what is another's makes room for one that is not */
		xm_slot_trim(m, idle > bytes ? idle - bytes : 0);
		r = make_slot(m, bytes, NEW, slot);
	}
	if (r != CUDA_ERROR_OUT_OF_MEMORY)
		return r;
	pthread_mutex_lock(&xm_mem_lock);
	if (forgo(m, bytes))
		*slot = take(m, bytes, own ? OWN : ANY);
	pthread_mutex_unlock(&xm_mem_lock);
	return *slot ? CUDA_SUCCESS : r;
}

/* Until xm_slot_given it counts as ours: somebody else may have so much more after that. */
CUresult xm_slot_give(struct xm_mem *m, int *fd, uint64_t *bytes)
{
	struct xm_quiet quiet = xm_quiet_begin();
	struct xm_host_slot *slot;
	CUresult r = CUDA_SUCCESS;

	*fd = -1;
	*bytes = 0;
	pthread_mutex_lock(&xm_mem_lock);
	slot = take(m, 0, OURS);
	pthread_mutex_unlock(&xm_mem_lock);
	if (slot) {
		*bytes = slot->bytes;
		r = xm_real.cuMemExportToShareableHandle(fd, slot->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		if (!r)
			(void)fcntl(*fd, F_SETFD, FD_CLOEXEC);
		if (!undo(slot, true) && !r) {
			close(*fd);
			*fd = -1;
		}
		pthread_mutex_lock(&xm_mem_lock);
		xm_slot_forget(slot);
		pthread_mutex_unlock(&xm_mem_lock);
	}
	xm_quiet_end(quiet);
	return r;
}

void xm_slot_given(struct xm_mem *m, uint64_t bytes)
{
	pthread_mutex_lock(&xm_mem_lock);
	m->slots_all -= bytes;
	xm_mem_tell(m);
	pthread_mutex_unlock(&xm_mem_lock);
}

CUresult xm_slot_accept(struct xm_mem *m, int fd, uint64_t bytes)
{
	struct xm_host_slot *slot;
	CUresult r = make_slot(m, bytes, fd, &slot);

	if (!r) {
		pthread_mutex_lock(&xm_mem_lock);
		xm_slot_put(m, slot);
		xm_mem_tell(m);
		pthread_mutex_unlock(&xm_mem_lock);
	}
	return r;
}

void xm_slot_pool(struct xm_mem *m, uint64_t *all, uint64_t *idle)
{
	pthread_mutex_lock(&xm_mem_lock);
	*all = m->slots_all;
	*idle = m->slots_free;
	pthread_mutex_unlock(&xm_mem_lock);
}

void xm_slot_put(struct xm_mem *m, struct xm_host_slot *slot)
{
	slot->next = m->slots;
	m->slots = slot;
	m->slots_free += slot->bytes;
}

CUresult xm_slot_ahead(struct xm_mem *m, uint32_t count, uint64_t bytes)
{
	struct xm_host_slot *slot;
	CUresult r = CUDA_SUCCESS;

	while (!r) {
		uint32_t have = 0;

		pthread_mutex_lock(&xm_mem_lock);
		for (slot = m->slots; slot; slot = slot->next)
			have += slot->bytes == bytes;
		pthread_mutex_unlock(&xm_mem_lock);
		if (have >= count)
			break;
		r = make_slot(m, bytes, NEW, &slot);
		if (r)
			break;
		pthread_mutex_lock(&xm_mem_lock);
		xm_slot_put(m, slot);
		xm_mem_tell(m);
		pthread_mutex_unlock(&xm_mem_lock);
	}
	return r;
}

void xm_slot_trim(struct xm_mem *m, uint64_t keep)
{
	struct xm_quiet quiet = xm_quiet_begin();

	for (;;) {
		struct xm_host_slot *slot = NULL;

		pthread_mutex_lock(&xm_mem_lock);
		if (m->slots_free > keep)
			slot = take(m, 0, ANY);
		pthread_mutex_unlock(&xm_mem_lock);
		if (!slot)
			break;
		(void)undo(slot, true);
		end(m, slot, slot->bytes);
	}
	pthread_mutex_lock(&xm_mem_lock);
	xm_mem_tell(m);
	pthread_mutex_unlock(&xm_mem_lock);
	xm_quiet_end(quiet);
}
