#include "mem_count.h"

#include <stdatomic.h>

#include "agent_start.h"
#include "device.h"
#include "mark.h"
#include "mem.h"
#include "mem_pool.h"
#include "sys.h"
#include "thread.h"

#define BUCKETS 4096u

enum kind { MADE = 1, HANDLE, MAPPING };

struct note {
	struct note *next;
	enum kind kind;
	enum xm_count_kind what;
	uint64_t key;
	uint64_t bytes;
	uint32_t refs;    /* of a handle: of the program, and mappings */
	uint32_t handles; /* of these, the program's */
	struct note *of;  /* of a mapping: its memory */
	struct xm_mem *m;
	CUcontext context;
};

static struct note *notes[BUCKETS], *free_notes; /* protected by xm_mem_lock */

static bool counting(void)
{
	return atomic_load_explicit(&xm_mem_any, memory_order_relaxed);
}

/* --- the table. xm_mem_lock held ------------------------------------------------ */

static struct note **place(enum kind kind, uint64_t key)
{
	struct note **at = &notes[(key * 0x9e3779b97f4a7c15u + kind) >> 52 & (BUCKETS - 1)];

	while (*at && ((*at)->key != key || (*at)->kind != kind))
		at = &(*at)->next;
	return at;
}

static struct note *add(enum kind kind, uint64_t key, struct xm_mem *m, uint64_t bytes)
{
	struct note **at = place(kind, key), *n = *at;

	if (n)
		return NULL; /* as far as we have seen it is there already */
	n = free_notes;
	if (n)
		free_notes = n->next;
	else if (!(n = xm_keep(sizeof *n)))
		return NULL;
	*n = (struct note){.kind = kind, .key = key, .m = m, .bytes = bytes};
	*at = n;
	return n;
}

static void drop(struct note **at)
{
	struct note *n = *at;

	*at = n->next;
	n->next = free_notes;
	free_notes = n;
}

static void counted(const struct note *n, bool more)
{
	uint64_t bytes = more ? n->bytes : -n->bytes;

	n->m->pinned += bytes;
	n->m->pinned_by[n->what] += bytes;
	xm_mem_tell(n->m);
}

static void unref(struct note *handle)
{
	struct note **at;

	if (--handle->refs)
		return;
	counted(handle, false);
	at = place(HANDLE, handle->key);
	if (*at != handle) { /* its number was given anew */
		handle->next = free_notes;
		free_notes = handle;
	} else {
		drop(at);
	}
}

/* --- the doors -------------------------------------------------------------------- */

/* Runs `work` under the lock on a thread of the program. */
#define LOCKED(work)                                      \
	do {                                              \
		struct xm_thread *me_ = xm_enter();       \
		if (!me_)                                 \
			break;                            \
		pthread_mutex_lock(&xm_mem_lock);         \
		work;                                     \
		pthread_mutex_unlock(&xm_mem_lock);       \
		xm_leave(me_);                            \
	} while (0)

CUresult xm_count_before(struct xm_mem *m, size_t bytes)
{
	bool beyond = false;

	if (m)
		LOCKED(beyond = xm_mem_beyond(m, bytes));
	return beyond ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

bool xm_count_again(struct xm_mem *m, size_t bytes)
{
	struct xm_thread *me;
	bool more;

	if (!m || !(me = xm_enter()))
		return false;
	more = xm_pools_release(m, true);
	more |= xm_cache_flush(m);
	more |= xm_room_ask(m, bytes);
	xm_leave(me);
	return more;
}

static void made(struct xm_mem *m, CUcontext context, enum xm_count_kind kind, uint64_t key, size_t bytes)
{
	struct note *n = add(MADE, key, m, bytes);

	if (!n)
		return;
	n->context = context;
	n->what = kind;
	counted(n, true);
}

void xm_count_made(struct xm_mem *m, CUcontext context, enum xm_count_kind kind, uint64_t key, size_t bytes)
{
	if (m)
		LOCKED(made(m, context, kind, key, bytes));
}

static void gone(uint64_t key)
{
	struct note **at = place(MADE, key);

	if (!*at)
		return;
	counted(*at, false);
	drop(at);
}

void xm_count_gone(uint64_t key)
{
	if (counting())
		LOCKED(gone(key));
}

static void handle_made(struct xm_mem *m, CUmemGenericAllocationHandle h, size_t bytes)
{
	struct note *n = add(HANDLE, h, m, bytes);

	if (!n)
		return;
	n->refs = n->handles = 1;
	n->what = XM_COUNT_MAPPED;
	counted(n, true);
}

void xm_count_handle(struct xm_mem *m, CUmemGenericAllocationHandle h, size_t bytes)
{
	if (m)
		LOCKED(handle_made(m, h, bytes));
}

static void retained(CUmemGenericAllocationHandle h)
{
	struct note *n = *place(HANDLE, h);

	if (n) {
		n->refs++;
		n->handles++;
	}
}

CUresult xm_count_retained(CUresult result, const CUmemGenericAllocationHandle *h)
{
	if (result == CUDA_SUCCESS && counting())
		LOCKED(retained(*h));
	return result;
}

/* Without a handle of the program's the number may be given anew while a mapping
 * still keeps the memory: then it is found by its mappings alone. */
static void released(CUmemGenericAllocationHandle h)
{
	struct note **at = place(HANDLE, h), *n = *at;

	if (!n || !n->handles)
		return;
	n->handles--;
	if (!n->handles && n->refs > 1)
		*at = n->next;
	unref(n);
}

void xm_count_released(CUmemGenericAllocationHandle h)
{
	if (counting())
		LOCKED(released(h));
}

static void mapped(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle h)
{
	struct note *memory = *place(HANDLE, h), *n = memory ? add(MAPPING, at, memory->m, bytes) : NULL;

	if (!n)
		return;
	n->of = memory;
	memory->refs++;
}

void xm_count_mapped(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle h)
{
	if (counting())
		LOCKED(mapped(at, bytes, h));
}

static void unmapped(CUdeviceptr at, size_t bytes)
{
	for (CUdeviceptr end = at + bytes; at < end;) {
		struct note **p = place(MAPPING, at), *n = *p, *memory;

		if (!n) { /* of host memory */
			at += XM_GRANULE;
			continue;
		}
		at += n->bytes;
		memory = n->of;
		drop(p);
		unref(memory);
	}
}

void xm_count_unmapped(CUdeviceptr at, size_t bytes)
{
	if (counting())
		LOCKED(unmapped(at, bytes));
}

static void ended(CUcontext context)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct note **at = &notes[i]; *at;) {
			if ((*at)->kind != MADE || (*at)->context != context) {
				at = &(*at)->next;
				continue;
			}
			counted(*at, false);
			drop(at);
		}
}

void xm_count_context_ended(CUcontext context)
{
	struct xm_thread *me;

	if (!counting() || !context)
		return;
	LOCKED(ended(context));
	me = xm_enter();
	if (!me)
		return;
	xm_pool_context_ended(context);
	xm_mem_context_ended(context);
	xm_leave(me);
}

/* --- peers -------------------------------------------------------------------------- */

/* Access for all that is mapped; what is gone gets it when it comes. */
static void open_to_peers(struct xm_mem *m)
{
	struct xm_quiet quiet = xm_quiet_begin();

	xm_move_take(m);
	for (struct xm_range *r = m->first; r; r = r->next)
		for (struct xm_seg *s = r->segs; s; s = s->next)
			if (s->mapped)
				(void)xm_vmm_access(m, s->at, s->bytes);
	xm_move_give(m);
	xm_quiet_end(quiet);
}

void xm_count_reached(struct xm_mem *m, CUdevice device)
{
	if (!m || device == m->device || device < 0 || device >= 64)
		return;
	(void)xm_cache_flush(m);
	pthread_mutex_lock(&xm_mem_lock);
	m->peers |= (uint64_t)1 << device;
	xm_mem_tell(m);
	pthread_mutex_unlock(&xm_mem_lock);
	open_to_peers(m);
}

void xm_count_peer(CUcontext peer)
{
	CUdevice device;
	struct xm_thread *me;

	if (!counting() || !xm_real.cuCtxGetDevice || xm_real.cuCtxGetDevice(&device) || !(me = xm_enter()))
		return;
	xm_count_reached(xm_mem_of_context(peer), device);
	xm_leave(me);
}

bool xm_memory_plain(struct xm_mem *m)
{
	bool plain = false;

	LOCKED(plain = xm_mem_plain(m));
	return plain;
}

CUresult xm_count_plain(struct xm_mem *m, CUcontext context, CUdeviceptr *dptr, size_t bytes)
{
	CUresult r = XM_COUNTED(m, bytes, xm_real.cuMemAlloc_v2(dptr, bytes));

	if (r == CUDA_SUCCESS)
		xm_count_made(m, context, XM_COUNT_PLAIN, *dptr, bytes);
	return r;
}

void xm_count_say_ipc(void)
{
	xm_warn_once(XM_WARN_IPC, "memory of this program is managed and can move, so it cannot be shared with another process "
				  "(cuIpcGetMemHandle); start it with xrun --pin-memory, or let it share cuMemCreate or pool memory");
}
