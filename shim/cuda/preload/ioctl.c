#define _GNU_SOURCE
#include "ioctl.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "gen/rm.h"
#include "hold.h"
#include "owned.h"
#include "raw.h"
#include "state.h"

#define TYPE(request) ((uint32_t)(request) >> 8 & 0xFF)
#define NUMBER(request) ((uint32_t)(request) & 0xFF)
#define SIZE(request) ((uint32_t)(request) >> 16 & 0x3FFF)
#define NOT_A_POINTER 65536u /* an argument below is nobody's memory */

static _Thread_local bool inside __attribute__((tls_model("initial-exec")));
static _Thread_local bool making __attribute__((tls_model("initial-exec")));
static _Thread_local uint8_t made_on[16] __attribute__((tls_model("initial-exec")));

void xm_context_begins(const uint8_t uuid[16])
{
	making = uuid != NULL;
	if (uuid)
		memcpy(made_on, uuid, sizeof made_on);
}

/* While a thread is inside, a handler that interrupted it learns nothing and
 * takes no lock; what it made is missing then, and level 3 is off. */
struct stay {
	int cancel_state;
	int error;
};

static bool enter(struct stay *s)
{
	if (inside || atomic_load_explicit(&xm_aside, memory_order_relaxed))
		return false;
	s->error = errno;
	inside = true;
	atomic_signal_fence(memory_order_seq_cst);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &s->cancel_state);
	return true;
}

static void leave(const struct stay *s)
{
	pthread_setcancelstate(s->cancel_state, NULL);
	atomic_signal_fence(memory_order_seq_cst);
	inside = false;
	errno = s->error;
}

/* One request: as the driver gets it, and where its parameters are: at arg, or
 * behind the wrapper of those that are too long for the number. */
struct call {
	int fd;
	unsigned long request;
	void *arg;
	void *params;
	uint32_t number, size;
};

static int pass(const struct call *c)
{
	return xm_rm_raw(c->fd, c->request, c->arg);
}

/* The two layouts of an allocation begin alike. */
struct allocation {
	const struct NVOS64_PARAMETERS *p;
	uint32_t size, flags, status;
};

static struct allocation allocation_of(const struct call *c)
{
	const struct NVOS64_PARAMETERS *p = c->params;
	const struct NVOS21_PARAMETERS *old = c->params;

	if (c->size == sizeof *old)
		return (struct allocation){.p = p, .size = old->paramsSize, .status = old->status};
	return (struct allocation){.p = p, .size = p->paramsSize, .flags = p->flags, .status = p->status};
}

/* A word of the parameters, which the driver has just read itself; `otherwise`
 * where they are not there, not so long or not plain. */
static uint32_t word_of(const struct allocation *a, size_t offset, uint32_t otherwise)
{
	uint32_t word;

	if (a->p->pAllocParms < NOT_A_POINTER || (a->size && a->size < offset + sizeof word) ||
	    a->flags & NVOS64_FLAGS_FINN_SERIALIZED)
		return otherwise;
	memcpy(&word, (const char *)(uintptr_t)a->p->pAllocParms + offset, sizeof word);
	return word;
}

static void learn(int fd, const struct allocation *a, enum xm_rm_kind kind)
{
	const struct NVOS64_PARAMETERS *p = a->p;
	struct xm_rm_made m = {.client = p->hRoot,
			       .parent = p->hObjectParent,
			       .handle = p->hObjectNew,
			       .class = p->hClass,
			       .instance = XM_RM_NO_INSTANCE};

	if (!xm_rm_file(fd, &m.file))
		return;
	if (kind == XM_RM_CLIENT)
		xm_owned_begin();
	if (kind == XM_RM_CLIENT) /* its handle is what the driver gave it */
		m.client = m.handle = p->hObjectNew ? p->hObjectNew : p->hRoot;
	else if (!xm_hold_knows(p->hRoot, p->hRoot))
		return; /* nobody's that we know: nothing more of it is read */
	if (kind == XM_RM_DEVICE)
		m.instance = word_of(a, offsetof(struct NV0080_ALLOC_PARAMETERS, deviceId), XM_RM_NO_INSTANCE);
	if (kind == XM_RM_GROUP)
		m.engine = word_of(a, offsetof(struct NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS, engineType), 0);
	if (kind == XM_RM_GROUP && making)
		m.hint = made_on;
	xm_hold_made(&m, 0, 0);
}

/* An allocation in a layout that is not known: of what, nobody can say. */
static int allocate_strangely(const struct call *c)
{
	int r = pass(c);
	struct stay s;

	if (r >= 0 && enter(&s)) {
		xm_hold_strange();
		leave(&s);
	}
	return r;
}

static int allocate(const struct call *c)
{
	struct allocation a;
	enum xm_rm_kind kind;
	struct stay s;
	int r;

	if (c->size != sizeof(struct NVOS21_PARAMETERS) && c->size != sizeof(struct NVOS64_PARAMETERS))
		return allocate_strangely(c);
	r = pass(c);
	if (r < 0)
		return r;
	a = allocation_of(c);
	kind = xm_rm_kind_of(a.p->hClass);
	if (!kind || a.status != NV_OK)
		return r;
	if (enter(&s)) {
		learn(c->fd, &a, kind);
		leave(&s);
	} else {
		xm_hold_missed();
	}
	return r;
}

static int duplicate(const struct call *c)
{
	const struct NVOS55_PARAMETERS *p = c->params;
	struct xm_rm_made m;
	struct stay s;
	int r = pass(c);

	if (r < 0 || p->status != NV_OK || !enter(&s))
		return r;
	m = (struct xm_rm_made){.client = p->hClient, .parent = p->hParent, .handle = p->hObject};
	if (xm_rm_file(c->fd, &m.file))
		xm_hold_made(&m, p->hClientSrc, p->hObjectSrc);
	leave(&s);
	return r;
}

static int release(const struct call *c)
{
	const struct NVOS00_PARAMETERS *p = c->params;
	uint32_t client, handle;
	struct stay s;
	int r;

	if ((uintptr_t)p < NOT_A_POINTER || !enter(&s))
		return pass(c);
	client = p->hRoot;
	handle = p->hObjectOld;
	if (!xm_hold_knows(client, handle)) {
		leave(&s);
		return pass(c);
	}
	xm_hold_free_begin();
	errno = s.error;
	r = pass(c);
	s.error = errno;
	xm_hold_free_end(client, handle, r >= 0 && p->status == NV_OK);
	leave(&s);
	return r;
}

/* While something is held: what the program's driver does to a group or channel
 * of its own, such as scheduling a new one, may switch it on. */
static int controlled(const struct call *c)
{
	const struct NVOS54_PARAMETERS *p = c->params;
	struct stay s;
	uint32_t class;
	int r = pass(c);

	if (r < 0 || !xm_hold_any())
		return r;
	class = p->cmd >> 16;
	if ((class == KEPLER_CHANNEL_GROUP_A || xm_rm_kind_of(class) == XM_RM_CHANNEL) && enter(&s)) {
		xm_hold_touched(p->hClient, p->hObject);
		leave(&s);
	}
	return r;
}

static int handle(const struct call *c)
{
	switch (c->number) {
	case NV_ESC_RM_ALLOC:
		return allocate(c);
	case NV_ESC_RM_FREE:
		return c->size == sizeof(struct NVOS00_PARAMETERS) ? release(c) : pass(c);
	case NV_ESC_RM_DUP_OBJECT:
		return c->size == sizeof(struct NVOS55_PARAMETERS) ? duplicate(c) : pass(c);
	case NV_ESC_RM_CONTROL:
		return c->size == sizeof(struct NVOS54_PARAMETERS) ? controlled(c) : pass(c);
	}
	return pass(c);
}

/* A request of the resource manager's type. */
static __attribute__((noinline)) int manage(int fd, unsigned long request, void *arg)
{
	struct call c = {.fd = fd, .request = request, .arg = arg, .params = arg, .number = NUMBER(request), .size = SIZE(request)};
	const struct nv_ioctl_xfer_t *wrapper = arg;

	if (c.number != NV_ESC_IOCTL_XFER_CMD)
		return handle(&c);
	if (c.size != sizeof *wrapper || (uintptr_t)wrapper < NOT_A_POINTER)
		return pass(&c);
	c.number = wrapper->cmd;
	c.size = wrapper->size;
	c.params = (void *)(uintptr_t)wrapper->ptr;
	return handle(&c);
}

/* Declared without the dots, so that it can leave by a jump: where we run a
 * variadic argument is passed like any other. */
XM_EXPORT int ioctl(int fd, unsigned long request, void *arg)
{
	if (__builtin_expect(TYPE(request) == NV_IOCTL_MAGIC, 0))
		return manage(fd, request, arg);
	return xm_ioctl_next(fd, request, arg);
}
