/* Managed memory: one piece of memory that this process and the device reach at
 * the same address. Where it is at home (prefetch), and what it was advised, is
 * known for every page. */
#define _GNU_SOURCE
#include "managed.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Pages from begin to the next segment's begin, all alike. */
struct segment {
    uint64_t begin;
    struct sim_advice advice;
};

/* What is known of one allocation. It appears with the first thing to know. */
struct managed {
    struct managed *next;
    uint64_t id, end;
    struct segment *segments;
    size_t count, room;
};

static pthread_mutex_t managed_lock = PTHREAD_MUTEX_INITIALIZER;
static struct managed *all;

static struct managed *of_range(const struct sim_range *r)
{
    struct managed *m = all;

    while (m && m->id != r->id)
        m = m->next;
    return m;
}

/* Precondition: managed_lock is held. */
static struct managed *make(const struct sim_range *r)
{
    struct managed *m = of_range(r);
    if (m)
        return m;
    m = calloc(1, sizeof *m);
    struct segment *s = calloc(8, sizeof *s);
    if (!m || !s) {
        free(m);
        free(s);
        return NULL;
    }
    s[0] = (struct segment){r->base, {.preferred = {0, CU_DEVICE_INVALID}, .prefetched = {0, CU_DEVICE_INVALID}}};
    *m = (struct managed){.next = all, .id = r->id, .end = (r->base + r->size + 4095) & ~(uint64_t)4095, .segments = s, .count = 1, .room = 8};
    all = m;
    return m;
}

void sim_managed_gone(uint64_t range_id)
{
    pthread_mutex_lock(&managed_lock);
    for (struct managed **at = &all; *at; at = &(*at)->next)
        if ((*at)->id == range_id) {
            struct managed *m = *at;
            *at = m->next;
            free(m->segments);
            free(m);
            break;
        }
    pthread_mutex_unlock(&managed_lock);
}

/* The first segment that begins at or behind an address, made so by a cut. */
static bool cut(struct managed *m, uint64_t at, size_t *index)
{
    size_t i = 0;

    while (i < m->count && m->segments[i].begin < at)
        i++;
    *index = i;
    if (at >= m->end || (i < m->count && m->segments[i].begin == at))
        return true;
    if (m->count == m->room) {
        struct segment *s = realloc(m->segments, 2 * m->room * sizeof *s);
        if (!s)
            return false;
        m->segments = s;
        m->room *= 2;
    }
    memmove(&m->segments[i + 1], &m->segments[i], (m->count - i) * sizeof *m->segments);
    m->segments[i] = (struct segment){at, m->segments[i - 1].advice};
    m->count++;
    return true;
}

/* Neighbours that have become alike are one segment again. */
static void join(struct managed *m)
{
    size_t kept = 0;

    for (size_t i = 1; i < m->count; i++)
        if (memcmp(&m->segments[kept].advice, &m->segments[i].advice, sizeof m->segments[i].advice))
            m->segments[++kept] = m->segments[i];
    m->count = kept + 1;
}

int sim_managed_change(const struct sim_range *r, uint64_t p, size_t n, void (*change)(struct sim_advice *, const void *), const void *how)
{
    size_t from, to;

    pthread_mutex_lock(&managed_lock);
    struct managed *m = make(r);
    bool ok = m && cut(m, p & ~(uint64_t)4095, &from) && cut(m, (p + n + 4095) & ~(uint64_t)4095, &to);
    for (size_t i = from; ok && i < to; i++)
        change(&m->segments[i].advice, how);
    if (m)
        join(m);
    pthread_mutex_unlock(&managed_lock);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static const CUmemLocation nowhere = {0, CU_DEVICE_INVALID};

static bool same_place(CUmemLocation a, CUmemLocation b) { return a.type == b.type && a.id == b.id; }

/* What holds of two ranges together. */
static void both(struct sim_advice *a, const struct sim_advice *b)
{
    a->read_mostly &= b->read_mostly;
    a->accessed_by &= b->accessed_by;
    if (!same_place(a->preferred, b->preferred))
        a->preferred = nowhere;
    if (!same_place(a->prefetched, b->prefetched))
        a->prefetched = nowhere;
}

struct sim_advice sim_managed_state(const struct sim_range *r, uint64_t p, size_t n)
{
    struct sim_advice a = {.preferred = nowhere, .prefetched = nowhere};
    bool first = true;

    pthread_mutex_lock(&managed_lock);
    const struct managed *m = of_range(r);
    for (size_t i = 0; m && i < m->count; i++) {
        uint64_t end = i + 1 < m->count ? m->segments[i + 1].begin : m->end;
        if (end <= p || m->segments[i].begin >= p + n)
            continue;
        if (first)
            a = m->segments[i].advice;
        else
            both(&a, &m->segments[i].advice);
        first = false;
    }
    pthread_mutex_unlock(&managed_lock);
    return a;
}

/* ---- allocation ---- */

/* Addresses that begin with a block: the driver faults and migrates by 2 MiB. */
static void *reserve(size_t n)
{
    const size_t block = 2u << 20;
    char *p = mmap(NULL, n + block, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)p & (block - 1);
    if (before)
        munmap(p, before);
    munmap(p + before + n, block - before);
    return p + before;
}

static int allocate(size_t n, void **out)
{
    struct sim_reply reply;
    size_t whole = (n + 4095) & ~(size_t)4095;
    int fd;

    if (n > (size_t)1 << 46)
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *p = reserve(whole);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_request q = {.op = SIM_MANAGED_ALLOC, .b = (uintptr_t)p, .c = n};
    int rc = sim_call(&q, -1, &reply, &fd);
    if (!rc && (fd < 0 || mmap(p, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)) {
        q = (struct sim_request){.op = SIM_FREE, .a = (uintptr_t)p};
        sim_call(&q, -1, &reply, NULL);
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (fd >= 0)
        close(fd);
    if (rc) {
        munmap(p, whole);
        return rc;
    }
    *out = p;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *out, size_t n, unsigned flags)
{
    struct sim_ctx *c;
    void *p;

    int rc = sim_current(&c);
    if (!rc)
        rc = sim_capture_unsafe();
    if (rc)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = 0; /* what a refused caller finds there */
    if (!n || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    rc = allocate(n, &p);
    if (rc)
        return rc;
    struct sim_range r = {.base = (uintptr_t)p, .size = n, .kind = SIM_RANGE_MANAGED, .flags = flags, .sync = true, .ctx = c, .ctx_id = c->id};
    if (!sim_range_add(&r)) {
        sim_range_release(&r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = r.base;
    return CUDA_SUCCESS;
}

/* ---- attachment: the device reaches managed memory beside the host, so it changes nothing but the order ---- */

static int attach(CUstream h, bool ptds, CUdeviceptr p, size_t n, unsigned flags)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    struct sim_range r;
    struct sim_entry e = {.command = SIM_NOP};

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    if ((flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE) ||
        (flags == CU_MEM_ATTACH_SINGLE && s->legacy) || !sim_range_find(p, 1, &r) || r.kind != SIM_RANGE_MANAGED || r.base != p ||
        (n && n != r.size))
        return CUDA_ERROR_INVALID_VALUE;
    rc = sim_capture_sync(s);
    return rc ? rc : sim_submit(s, &e, NULL);
}

EXPORT CUresult cuStreamAttachMemAsync(CUstream h, CUdeviceptr p, size_t n, unsigned flags) { return attach(h, false, p, n, flags); }
EXPORT CUresult cuStreamAttachMemAsync_ptsz(CUstream h, CUdeviceptr p, size_t n, unsigned flags) { return attach(h, true, p, n, flags); }

/* ---- prefetch ---- */

static void prefetched(struct sim_advice *a, const void *to) { a->prefetched = *(const CUmemLocation *)to; }

static int prefetch(CUdeviceptr p, size_t n, CUmemLocation to, struct sim_stream *s)
{
    struct sim_range r;

    if (!n || !sim_range_find(p, n, &r) || r.kind != SIM_RANGE_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_entry e = {.command = SIM_PREFETCH, .kind = to.type == CU_MEM_LOCATION_TYPE_DEVICE, .a = p, .c = n};
    if (e.kind)
        e.flags = sim_devices[to.id].number;
    int rc = sim_capture_sync(s);
    if (!rc)
        rc = sim_submit(s, &e, NULL);
    return rc ? rc : sim_managed_change(&r, p, n, prefetched, &to);
}

/* CUresult: whether there is such a place. */
int sim_place_ok(CUmemLocation l)
{
    switch (l.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return sim_device_is(l.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return l.id == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUmemLocation sim_place_of(CUdevice device)
{
    if (device == CU_DEVICE_CPU)
        return (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, CU_DEVICE_CPU};
    return (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, device};
}

static int prefetch_to(CUdeviceptr p, size_t n, CUmemLocation to, unsigned flags, CUstream h, bool ptds)
{
    struct sim_ctx *c;
    struct sim_stream *s;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (!rc && flags)
        rc = CUDA_ERROR_INVALID_VALUE;
    if (!rc)
        rc = sim_place_ok(to);
    if (to.type == CU_MEM_LOCATION_TYPE_HOST)
        to.id = CU_DEVICE_CPU; /* whatever was said; a batch keeps that */
    return rc ? rc : prefetch(p, n, to, s);
}

EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr p, size_t n, CUdevice to, CUstream h)
{
    return prefetch_to(p, n, sim_place_of(to), 0, h, false);
}

EXPORT CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr p, size_t n, CUdevice to, CUstream h)
{
    return prefetch_to(p, n, sim_place_of(to), 0, h, true);
}

EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr p, size_t n, CUmemLocation to, unsigned flags, CUstream h)
{
    return prefetch_to(p, n, to, flags, h, false);
}

EXPORT CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr p, size_t n, CUmemLocation to, unsigned flags, CUstream h)
{
    return prefetch_to(p, n, to, flags, h, true);
}

/* Several at once: each place is for the ranges from its index on. */
struct prefetches {
    const CUdeviceptr *pointers;
    const size_t *sizes;
    size_t count;
    const CUmemLocation *places;
    const size_t *first;
    size_t place_count;
    unsigned long long flags;
};

static int prefetch_list(const struct prefetches *l, CUstream h, bool ptds)
{
    struct sim_ctx *c;
    struct sim_stream *s;
    struct sim_range r;
    size_t which = 0;

    int rc = sim_stream_of(h, ptds, &c, &s);
    if (rc)
        return rc;
    if (s->legacy || !l->count || !l->pointers || !l->sizes || !l->places || !l->first || !l->place_count ||
        l->place_count > l->count || l->first[0] || l->flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < l->place_count && !rc; i++)
        rc = l->first[i] >= l->count || (i && l->first[i] <= l->first[i - 1]) ? CUDA_ERROR_INVALID_VALUE : sim_place_ok(l->places[i]);
    for (size_t i = 0; i < l->count && !rc; i++)
        if (!l->sizes[i] || !sim_range_find(l->pointers[i], l->sizes[i], &r) || r.kind != SIM_RANGE_MANAGED)
            rc = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < l->count && !rc; i++) {
        while (which + 1 < l->place_count && l->first[which + 1] <= i)
            which++;
        rc = prefetch(l->pointers[i], l->sizes[i], l->places[which], s);
    }
    return rc;
}

#define LIST_PARAMS                                                                                                 \
    CUdeviceptr *pointers, size_t *sizes, size_t count, CUmemLocation *places, size_t *first, size_t place_count, \
        unsigned long long flags
#define LIST (&(struct prefetches){pointers, sizes, count, places, first, place_count, flags})

EXPORT CUresult cuMemPrefetchBatchAsync(LIST_PARAMS, CUstream h) { return prefetch_list(LIST, h, false); }
EXPORT CUresult cuMemPrefetchBatchAsync_ptsz(LIST_PARAMS, CUstream h) { return prefetch_list(LIST, h, true); }
