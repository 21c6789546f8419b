#include "kernels_code.h"

#include "kernels.h"
#include "resolve.h"
#include "sys.h"
#include "thread.h"

#define BUCKETS 4096u

pthread_mutex_t xm_code_lock = PTHREAD_MUTEX_INITIALIZER;

enum kind { MODULE = 1, LIBRARY, KERNEL, FUNCTION };

/* One handle of the driver's. */
struct handle {
	struct handle *next;
	const void *key;
	enum kind kind;
	CUcontext context; /* of modules, and functions */
	CUlibrary library; /* that it came out of */
	struct xm_code code;
};

static struct handle *handles[BUCKETS], *free_handles; /* protected by xm_code_lock */

/* Runs `work` under the lock on a thread of the program. */
#define LOCKED(work)                                       \
	do {                                               \
		struct xm_thread *me_ = xm_enter();        \
		if (!me_)                                  \
			break;                             \
		pthread_mutex_lock(&xm_code_lock);         \
		work;                                      \
		pthread_mutex_unlock(&xm_code_lock);       \
		xm_leave(me_);                             \
	} while (0)

/* The same where the thread is inside already. */
#define INSIDE(work)                                       \
	do {                                               \
		pthread_mutex_lock(&xm_code_lock);         \
		work;                                      \
		pthread_mutex_unlock(&xm_code_lock);       \
	} while (0)

static struct handle **place(const void *key)
{
	struct handle **at = &handles[(uintptr_t)key * 0x9e3779b97f4a7c15u >> 52 & (BUCKETS - 1)];

	while (*at && (*at)->key != key)
		at = &(*at)->next;
	return at;
}

static void drop(struct handle **at)
{
	struct handle *h = *at;

	*at = h->next;
	h->next = free_handles;
	free_handles = h;
}

/* A handle that is known already was given anew: what it stood for is gone. */
static struct handle *add(const void *key, enum kind kind)
{
	struct handle **at = place(key), *h = *at;

	if (h) {
		if (h->kind == MODULE || h->kind == LIBRARY)
			xm_kernels_drop(key);
	} else {
		h = free_handles;
		if (h)
			free_handles = h->next;
		else if (!(h = xm_keep(sizeof *h)))
			return NULL;
		h->next = NULL;
		*at = h;
	}
	*h = (struct handle){.next = h->next, .key = key, .kind = kind};
	return h;
}

static void add_module(CUmodule m, struct xm_code code, CUcontext context, CUlibrary library)
{
	struct handle *h = add(m, MODULE);

	if (!h)
		return;
	h->code = code;
	h->context = context;
	h->library = library;
}

static CUcontext current(void)
{
	CUcontext c = NULL;

	return xm_real.cuCtxGetCurrent && xm_real.cuCtxGetCurrent(&c) == CUDA_SUCCESS ? c : NULL;
}

void xm_code_module(CUmodule m, struct xm_code code)
{
	CUcontext context = current();

	LOCKED(add_module(m, code, context, NULL));
}

static void add_library(CUlibrary l, struct xm_code code)
{
	struct handle *h = add(l, LIBRARY);

	if (h)
		h->code = code;
}

void xm_code_library(CUlibrary l, struct xm_code code)
{
	LOCKED(add_library(l, code));
}

/* All that came out of it goes too: of a library its modules, and what came out of these. */
static struct xm_code goes(const void *handle)
{
	struct handle **at = place(handle);
	struct xm_code code = {{0, 0}};

	if (*at) {
		code = (*at)->code;
		drop(at);
	}
	for (unsigned i = 0; i < BUCKETS; i++)
		for (at = &handles[i]; *at;) {
			if ((*at)->library != handle) {
				at = &(*at)->next;
				continue;
			}
			if ((*at)->kind == MODULE)
				xm_kernels_drop((*at)->key);
			drop(at);
		}
	xm_kernels_drop(handle);
	return code;
}

struct xm_code xm_code_goes(const void *handle)
{
	struct xm_code code = {{0, 0}};

	if (handle)
		LOCKED(code = goes(handle));
	return code;
}

static void add_kernel(CUkernel k, CUlibrary l)
{
	struct handle *h;

	if (*place(k) && (*place(k))->kind == KERNEL && (*place(k))->library == l)
		return;
	h = add(k, KERNEL);
	if (h)
		h->library = l;
}

void xm_code_kernel(CUkernel k, CUlibrary l)
{
	LOCKED(add_kernel(k, l));
}

static void add_function(CUfunction f, CUkernel k, CUcontext context)
{
	struct handle *from = *place(k), *h;
	CUlibrary library = from && from->kind == KERNEL ? from->library : NULL;

	h = library ? add(f, FUNCTION) : NULL;
	if (!h)
		return;
	h->library = library;
	h->context = context;
}

void xm_code_function(CUfunction f, CUkernel k)
{
	CUcontext context = current();

	if ((const void *)f != (const void *)k)
		LOCKED(add_function(f, k, context));
}

static void add_instance(CUmodule m, CUlibrary l, CUcontext context)
{
	struct handle *from = *place(l);

	if (from && from->kind == LIBRARY)
		add_module(m, from->code, context, l);
}

void xm_code_instance(CUmodule m, CUlibrary l)
{
	CUcontext context = current();

	LOCKED(add_instance(m, l, context));
}

static void ended(CUcontext context)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct handle **at = &handles[i]; *at;)
			if ((*at)->context && (!context || (*at)->context == context))
				drop(at);
			else
				at = &(*at)->next;
	xm_kernels_drop_all();
}

void xm_code_context_ended(CUcontext context)
{
	LOCKED(ended(context));
}

static struct xm_origin origin(const void *key)
{
	const struct handle *h = *place(key);

	if (!h || (h->kind != KERNEL && h->kind != FUNCTION))
		return (struct xm_origin){0};
	return (struct xm_origin){.is_kernel = h->kind == KERNEL, .library = h->library};
}

struct xm_origin xm_code_origin(CUfunction f)
{
	struct xm_origin o;

	INSIDE(o = origin(f));
	return o;
}

static struct xm_code known(const void *handle)
{
	const struct handle *h = *place(handle);

	return h && (h->kind == MODULE || h->kind == LIBRARY) ? h->code : (struct xm_code){{0, 0}};
}

struct xm_code xm_code_known(const void *handle)
{
	struct xm_code c;

	INSIDE(c = known(handle));
	return c;
}
