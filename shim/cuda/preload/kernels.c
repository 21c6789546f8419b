#include "kernels.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels_code.h"
#include "mark.h"
#include "record_hash.h"
#include "resolve.h"
#include "sys.h"
#include "thread.h"

#define RELAXED memory_order_relaxed
#define IDS 65536u    /* kernels of one process; beyond that they are not known */
#define SLOTS 32768u  /* handles known at once; a power of two */
#define PROBES 64u    /* looked at for one */
#define BUCKETS 4096u
#define GONE ((uintptr_t)1) /* a slot whose handle was forgotten: no handle has this value */
#define INVALID_VALUE 1

/* A handle and what it stands for. Slots are filled and emptied under xm_code_lock and read
 * without: the handle is stored last. */
struct slot {
	_Atomic uintptr_t handle;
	const struct xm_known *_Atomic known;
	const void *_Atomic of; /* module or library */
};

static struct slot *_Atomic slots;
static const struct xm_known *_Atomic *_Atomic ids; /* by id */
static uint32_t id_count;                           /* the last; protected by xm_code_lock */
static struct xm_known *names[BUCKETS];             /* the same */

static uint32_t first_place(uintptr_t handle)
{
	return (uint32_t)(handle * 0x9e3779b97f4a7c15u >> 40) & (SLOTS - 1);
}

static const struct xm_known *look_up(uintptr_t handle)
{
	struct slot *all = atomic_load_explicit(&slots, memory_order_acquire);
	uint32_t at = first_place(handle);

	for (uint32_t i = 0; all && i < PROBES; i++) {
		struct slot *s = &all[(at + i) & (SLOTS - 1)];
		uintptr_t h = atomic_load_explicit(&s->handle, memory_order_acquire);

		if (h == handle)
			return atomic_load_explicit(&s->known, RELAXED);
		if (!h)
			return NULL;
	}
	return NULL;
}

/* ---- what the driver says --------------------------------------------------------- */

/* A kernel as the driver describes it, on the stack of who asks. */
struct answer {
	const char *name; /* the driver's; or NULL */
	const void *of;
	struct xm_code code;
	uint32_t flags, parameters, bytes;
	struct xm_parameter parameter[XM_KERNEL_PARAMETERS];
};

static CUresult parameter(CUfunction f, bool is_kernel, size_t i, size_t *offset, size_t *size)
{
	if (is_kernel)
		return xm_real.cuKernelGetParamInfo((CUkernel)(void *)f, i, offset, size);
	return xm_real.cuFuncGetParamInfo(f, i, offset, size);
}

static void ask_layout(struct answer *a, CUfunction f, bool is_kernel)
{
	size_t offset, size;
	CUresult r = CUDA_SUCCESS;

	if (is_kernel ? !xm_real.cuKernelGetParamInfo : !xm_real.cuFuncGetParamInfo)
		return;
	for (size_t i = 0; i <= XM_KERNEL_PARAMETERS && !(r = parameter(f, is_kernel, i, &offset, &size)); i++) {
		if (offset > UINT16_MAX || size > UINT16_MAX) /* the constant bank has 64 KiB */
			return;
		if (a->bytes < offset + size)
			a->bytes = (uint32_t)(offset + size);
		if (i < XM_KERNEL_PARAMETERS)
			a->parameter[a->parameters++] = (struct xm_parameter){(uint32_t)offset, (uint32_t)size};
	}
	if (r == CUDA_SUCCESS)
		a->flags = XM_KERNEL_LAYOUT | XM_KERNEL_MORE;
	else if (r == INVALID_VALUE) /* there are no more */
		a->flags = XM_KERNEL_LAYOUT;
}

static void ask_function(struct answer *a, CUfunction f, CUlibrary library)
{
	CUmodule m = NULL;

	if (xm_real.cuFuncGetModule && xm_real.cuFuncGetModule(&m, f) == CUDA_SUCCESS)
		a->of = m;
	a->code = xm_code_known(library ? (const void *)library : m);
	if (library)
		a->of = library;
	ask_layout(a, f, false);
}

static void ask_kernel(struct answer *a, CUfunction f, CUlibrary library)
{
	if (!library && xm_real.cuKernelGetLibrary)
		(void)xm_real.cuKernelGetLibrary(&library, (CUkernel)(void *)f);
	a->of = library;
	a->code = xm_code_known(library);
	ask_layout(a, f, true);
}

/* A launch's handle may be a kernel's: the driver tells them apart there, and hardly
 * elsewhere, so what is known of the handle goes first. */
static bool ask(struct answer *a, CUfunction f)
{
	struct xm_origin origin = xm_code_origin(f);

	*a = (struct answer){.name = NULL};
	if (!origin.is_kernel && xm_real.cuFuncGetName && xm_real.cuFuncGetName(&a->name, f) == CUDA_SUCCESS)
		ask_function(a, f, origin.library);
	else if (xm_real.cuKernelGetName && xm_real.cuKernelGetName(&a->name, (CUkernel)(void *)f) == CUDA_SUCCESS)
		ask_kernel(a, f, origin.library);
	else
		return false;
	return a->name != NULL;
}

/* ---- ids. xm_code_lock held -------------------------------------------------------- */

/* The name as it is kept: whole when there is room, else with a hash of all of it. */
static uint32_t keep_name(char *into, const char *name)
{
	size_t n = strlen(name);
	struct xm_hash h;
	uint64_t hash[2];

	if (n < XM_KERNEL_NAME) {
		memcpy(into, name, n);
		return (uint32_t)n;
	}
	h = xm_hash_begin(n);
	xm_hash_add(&h, name, n);
	xm_hash_end(&h, hash);
	n = XM_KERNEL_NAME - 1 - 17;
	memcpy(into, name, n);
	snprintf(into + n, 18, "#%016llx", (unsigned long long)hash[0]);
	return XM_KERNEL_NAME - 1;
}

static bool same(const struct xm_known *k, const struct answer *a, const char *name, uint32_t n)
{
	return k->name_bytes == n && !memcmp(k->name, name, n) && !memcmp(k->code, a->code.hash, sizeof k->code) &&
	       k->flags == a->flags && k->bytes == a->bytes && k->parameters == a->parameters &&
	       !memcmp(k->parameter, a->parameter, a->parameters * sizeof *a->parameter);
}

static bool dense(const struct xm_known *k)
{
	uint32_t end = 0;

	for (uint32_t i = 0; i < k->parameters; i++) {
		struct xm_parameter p = k->parameter[i];

		if (p.offset < end || p.offset / 8 > (end + 7) / 8 || (p.size >= 8 && (p.size % 8 || p.offset % 8)))
			return false;
		if (p.offset % 8 && p.offset / 8 != end / 8)
			return false;
		end = p.offset + p.size;
	}
	return true;
}

static struct xm_known *new_known(const struct answer *a, const char *name, uint32_t n)
{
	uint32_t layout = a->parameters * (uint32_t)sizeof *a->parameter;
	struct xm_known *k = xm_keep(sizeof *k + layout + n);
	char *rest = (char *)(k + 1);

	if (!k)
		return NULL;
	*k = (struct xm_known){.flags = a->flags, .parameters = a->parameters, .bytes = a->bytes, .name_bytes = n};
	memcpy(k->code, a->code.hash, sizeof k->code);
	memcpy(rest, a->parameter, layout);
	memcpy(rest + layout, name, n);
	k->parameter = (const void *)rest;
	k->name = rest + layout;
	k->dense = dense(k);
	return k;
}

static void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static bool tables(void)
{
	if (!atomic_load_explicit(&ids, RELAXED))
		atomic_store_explicit(&ids, map(IDS * sizeof **ids), memory_order_release);
	if (!atomic_load_explicit(&slots, RELAXED))
		atomic_store_explicit(&slots, map(SLOTS * sizeof *slots), memory_order_release);
	return atomic_load_explicit(&ids, RELAXED) && atomic_load_explicit(&slots, RELAXED);
}

static const struct xm_known *intern(const struct answer *a)
{
	char name[XM_KERNEL_NAME];
	uint32_t n = keep_name(name, a->name);
	struct xm_hash h = xm_hash_begin(n);
	struct xm_known **at, *k;

	xm_hash_add(&h, name, n);
	at = &names[h.a >> 52 & (BUCKETS - 1)];
	for (k = *at; k; k = k->next)
		if (same(k, a, name, n))
			return k;
	if (id_count + 1 >= IDS || !(k = new_known(a, name, n)))
		return NULL;
	k->id = ++id_count;
	k->next = *at;
	*at = k;
	atomic_store_explicit(&atomic_load_explicit(&ids, RELAXED)[k->id], k, memory_order_release);
	return k;
}

/* Puts the handle where it is found. When its neighbourhood is full of others, they are
 * forgotten, and asked about again. */
static void remember(uintptr_t handle, const struct xm_known *k, const void *of)
{
	struct slot *all = atomic_load_explicit(&slots, RELAXED), *s = NULL;
	uint32_t at = first_place(handle);

	for (uint32_t i = 0; i < PROBES && !s; i++) {
		struct slot *p = &all[(at + i) & (SLOTS - 1)];
		uintptr_t h = atomic_load_explicit(&p->handle, RELAXED);

		if (h == handle)
			return; /* another thread was faster */
		if (!h || h == GONE)
			s = p;
	}
	if (!s) {
		xm_kernels_drop_all();
		s = &all[at];
	}
	atomic_store_explicit(&s->known, k, RELAXED);
	atomic_store_explicit(&s->of, of, RELAXED);
	atomic_store_explicit(&s->handle, handle, memory_order_release);
}

void xm_kernels_drop(const void *of)
{
	struct slot *all = atomic_load_explicit(&slots, RELAXED);

	for (uint32_t i = 0; all && i < SLOTS; i++)
		if (atomic_load_explicit(&all[i].handle, RELAXED) > GONE && atomic_load_explicit(&all[i].of, RELAXED) == of)
			atomic_store_explicit(&all[i].handle, GONE, memory_order_release);
}

void xm_kernels_drop_all(void)
{
	struct slot *all = atomic_load_explicit(&slots, RELAXED);

	for (uint32_t i = 0; all && i < SLOTS; i++)
		if (atomic_load_explicit(&all[i].handle, RELAXED))
			atomic_store_explicit(&all[i].handle, 0, memory_order_release);
}

/* ---- outside ------------------------------------------------------------------------ */

static const struct xm_known *learn(CUfunction f)
{
	const struct xm_known *k = NULL;
	struct xm_quiet quiet = xm_quiet_begin();
	struct answer a;
	bool known = ask(&a, f);

	xm_quiet_end(quiet);
	if (!known)
		return NULL;
	pthread_mutex_lock(&xm_code_lock);
	if (tables() && (k = intern(&a)))
		remember((uintptr_t)f, k, a.of);
	pthread_mutex_unlock(&xm_code_lock);
	return k;
}

const struct xm_known *xm_kernel_known(CUfunction f)
{
	const struct xm_known *k = f ? look_up((uintptr_t)f) : NULL;
	struct xm_thread *me;

	if (k || !f || !(me = xm_enter()))
		return k;
	k = learn(f);
	xm_leave(me);
	return k;
}

int xm_kernel_info(uint32_t id, struct xm_kernel *out)
{
	const struct xm_known *_Atomic *all = atomic_load_explicit(&ids, memory_order_acquire);
	const struct xm_known *k = all && id && id < IDS ? atomic_load_explicit(&all[id], memory_order_acquire) : NULL;

	if (!k)
		return -ENOENT;
	memset(out, 0, sizeof *out);
	memcpy(out->code, k->code, sizeof out->code);
	out->flags = k->flags;
	out->parameters = k->parameters;
	out->parameter_bytes = k->bytes;
	out->name_bytes = k->name_bytes;
	memcpy(out->name, k->name, k->name_bytes);
	memcpy(out->parameter, k->parameter, k->parameters * sizeof *k->parameter);
	return 0;
}
