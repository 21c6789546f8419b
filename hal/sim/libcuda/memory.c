/* Allocation and registration. Device memory has an address of this process that
 * nobody here can touch: it is reserved, and backed in the device alone. */
#define _GNU_SOURCE
#include "sim.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>


static size_t round_page(size_t n) { return (n + 4095) & ~(size_t)4095; }

static void *reserve(size_t n)
{
    void *p = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static int allocate(CUdeviceptr *out, size_t n)
{
    struct sim_ctx *c;
    struct sim_reply r;

    int rc = sim_current(&c);
    if (!rc)
        rc = sim_capture_unsafe();
    if (rc)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = 0; /* what a refused caller finds there */
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    if (n > sim_devices[c->device].memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *p = reserve(round_page(n));
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_request q = {.op = SIM_ALLOC, .a = c->id, .b = (uintptr_t)p, .c = n};
    rc = sim_call(&q, -1, &r, NULL);
    struct sim_range range = {.base = (uintptr_t)p, .size = n, .kind = SIM_RANGE_DEVICE, .ctx = c, .ctx_id = c->id};
    if (!rc && !sim_range_add(&range)) {
        q = (struct sim_request){.op = SIM_FREE, .a = range.base};
        sim_call(&q, -1, &r, NULL);
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (rc) {
        munmap(p, round_page(n));
        return rc;
    }
    *out = range.base;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t n) { return allocate(out, n); }

#define PITCH 512u /* an H200's: rows begin at multiples of it */

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element)
{
    struct sim_ctx *c;
    size_t row, n;

    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!out || !pitch)
        return CUDA_ERROR_INVALID_VALUE;
    *out = *pitch = 0; /* what a refused caller finds there */
    if (!width || !height || (element != 4 && element != 8 && element != 16) || __builtin_add_overflow(width, PITCH - 1, &row))
        return CUDA_ERROR_INVALID_VALUE;
    *pitch = row / PITCH * PITCH;
    return __builtin_mul_overflow(*pitch, height, &n) ? CUDA_ERROR_INVALID_VALUE : allocate(out, n);
}

int sim_range_release(const struct sim_range *r)
{
    bool device = r->kind == SIM_RANGE_DEVICE || r->kind == SIM_RANGE_MANAGED;
    struct sim_request q = {.op = device ? SIM_FREE : SIM_HOST_END, .a = r->base};
    struct sim_reply reply;

    if (r->kind == SIM_RANGE_POOL)
        return sim_pool_free(r);
    if (r->kind == SIM_RANGE_MANAGED)
        sim_managed_gone(r->id);
    int rc = sim_call(&q, -1, &reply, NULL);
    if (r->kind != SIM_RANGE_REGISTERED)
        munmap((void *)(uintptr_t)r->base, round_page(r->size));
    return rc;
}

static bool freed_by_cuMemFree(enum sim_kind kind)
{
    return kind == SIM_RANGE_DEVICE || kind == SIM_RANGE_POOL || kind == SIM_RANGE_MANAGED;
}

/* Takes a range of the wanted kind (DEVICE: one that cuMemFree frees) out and waits until the device cannot be using
 * it any more: like the driver, for everything in its context. */
static int take_and_wait(uint64_t base, enum sim_kind kind, int absent, struct sim_range *r)
{
    if (!sim_range_find(base, 1, r))
        return absent;
    if (r->base != base || (kind == SIM_RANGE_DEVICE ? !freed_by_cuMemFree(r->kind) : r->kind != kind))
        return CUDA_ERROR_INVALID_VALUE;
    if (r->kind == SIM_RANGE_POOL) /* freed so, it is the caller who knows that nobody uses it */
        return sim_range_take(base, r) ? CUDA_SUCCESS : absent;
    int rc = sim_ctx_is(r->ctx, r->ctx_id) ? sim_ctx_drain(r->ctx) : CUDA_SUCCESS;
    if (rc)
        return rc;
    return sim_range_take(base, r) ? CUDA_SUCCESS : absent;
}

/* The driver frees without a current context. */
EXPORT CUresult cuMemFree_v2(CUdeviceptr p)
{
    struct sim_range r;

    int rc = sim_ready();
    if (!rc && p)
        rc = sim_capture_unsafe();
    if (rc || !p)
        return rc;
    struct sim_ctx *c; /* where the memory of a context that has ended is looked for, by whoever has it current */
    int absent = sim_current(&c) == CUDA_ERROR_CONTEXT_IS_DESTROYED ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_VALUE;
    rc = take_and_wait(p, SIM_RANGE_DEVICE, absent, &r);
    if (!rc)
        rc = sim_range_release(&r);
    if (!rc && r.kind == SIM_RANGE_POOL)
        sim_pools_settle(); /* its pool lets go what it does not keep */
    return rc;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    struct sim_ctx *c;
    struct sim_reply r;

    int rc = sim_current(&c);
    if (rc)
        return rc;
    struct sim_request q = {.op = SIM_MEM_INFO, .device = sim_devices[c->device].number};
    rc = sim_call(&q, -1, &r, NULL);
    if (rc)
        return rc;
    if (free_bytes)
        *free_bytes = r.a;
    if (total)
        *total = r.b;
    return CUDA_SUCCESS;
}

/* ---- pinned host memory ---- */

int sim_host_alloc(size_t n, void **out)
{
    struct sim_reply r;
    int fd;

    if (n > (size_t)1 << 46)
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *p = reserve(round_page(n));
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_request q = {.op = SIM_HOST_ALLOC, .b = (uintptr_t)p, .c = n};
    int rc = sim_call(&q, -1, &r, &fd);
    if (!rc && (fd < 0 || mmap(p, round_page(n), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)) {
        q = (struct sim_request){.op = SIM_HOST_END, .a = (uintptr_t)p};
        sim_call(&q, -1, &r, NULL);
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (fd >= 0)
        close(fd);
    if (rc) {
        munmap(p, round_page(n));
        return rc;
    }
    *out = p;
    return CUDA_SUCCESS;
}

void sim_host_free(void *p, size_t n)
{
    struct sim_range r = {.base = (uintptr_t)p, .size = n, .kind = SIM_RANGE_HOST};
    sim_range_release(&r);
}

static int host_alloc(void **out, size_t n, unsigned flags)
{
    struct sim_ctx *c;
    void *p;

    int rc = sim_current(&c);
    if (!rc)
        rc = sim_capture_unsafe();
    if (rc)
        return rc;
    if (!out || flags & ~(unsigned)CU_MEMHOSTALLOC_ALL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!n) {
        *out = NULL;
        return CUDA_SUCCESS;
    }
    rc = sim_host_alloc(n, &p);
    if (rc)
        return rc;
    struct sim_range r = {.base = (uintptr_t)p, .size = n, .kind = SIM_RANGE_HOST, .flags = flags | 2, .ctx = c, .ctx_id = c->id};
    if (!sim_range_add(&r)) {
        sim_host_free(p, n);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = p;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostAlloc(void **out, size_t n, unsigned flags) { return host_alloc(out, n, flags); }
EXPORT CUresult cuMemAllocHost_v2(void **out, size_t n) { return host_alloc(out, n, 0); }

EXPORT CUresult cuMemFreeHost(void *p)
{
    struct sim_range r;

    int rc = sim_ready();
    if (!rc && p)
        rc = sim_capture_unsafe();
    if (rc || !p)
        return rc;
    rc = take_and_wait((uintptr_t)p, SIM_RANGE_HOST, CUDA_ERROR_INVALID_VALUE, &r);
    return rc ? rc : sim_range_release(&r);
}

/* ---- registration ---- */

struct mapping {
    uint64_t start, end, offset, inode;
    dev_t device;
    bool shared;
};

/* Whether all of [base, base + n) is mapped in this process, and where it begins
 * to be: *m is the mapping that holds base. */
static bool find_mapping(uint64_t base, uint64_t n, struct mapping *m)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[512];
    uint64_t upto = base;

    while (f && upto < base + n && fgets(line, sizeof line, f)) {
        char perm[5];
        unsigned long long start, end, offset, inode;
        unsigned major_number, minor_number;
        if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu", &start, &end, perm, &offset, &major_number, &minor_number, &inode) != 7)
            continue;
        if (start > upto || end <= upto || perm[0] != 'r')
            continue;
        if (upto == base)
            *m = (struct mapping){start, end, offset, inode, makedev(major_number, minor_number), perm[3] == 's'};
        upto = end;
    }
    if (f)
        fclose(f);
    return upto >= base + n;
}

/* A descriptor of ours for the file behind a mapping, or -1. The device can use
 * it whatever becomes of this process. */
static int find_descriptor(const struct mapping *m)
{
    DIR *d = opendir("/proc/self/fd");
    int found = -1;

    for (struct dirent *e; d && found < 0 && (e = readdir(d));) {
        struct stat st;
        int fd = atoi(e->d_name);
        if (e->d_name[0] == '.' || fd == dirfd(d) || fstat(fd, &st))
            continue;
        if (st.st_ino == m->inode && st.st_dev == m->device && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR)
            found = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    }
    if (d)
        closedir(d);
    return found;
}

EXPORT CUresult cuMemHostRegister_v2(void *p, size_t n, unsigned flags)
{
    struct sim_ctx *c;
    struct mapping m = {0};
    struct sim_reply reply;
    struct sim_range r;
    int fd = -1;

    int rc = sim_current(&c);
    if (!rc)
        rc = sim_capture_unsafe();
    if (rc)
        return rc;
    uint64_t base = (uintptr_t)p;
    if (!p || !n || flags & ~(unsigned)CU_MEMHOSTREGISTER_ALL || base + n < base)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
        return sim_unsupported("cuMemHostRegister with CU_MEMHOSTREGISTER_IOMEMORY");
    if (sim_range_overlaps(base, n))
        return sim_range_find(base, 1, &r) && r.kind == SIM_RANGE_MANAGED ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    struct sim_request q = {.op = SIM_HOST_REGISTER, .b = base, .c = n};
    if (!find_mapping(base, n, &m))
        return CUDA_ERROR_INVALID_VALUE;
    if (base + n <= m.end && m.shared && m.inode) {
        fd = find_descriptor(&m);
        q.d = m.offset + (base - m.start);
    }
    rc = sim_call(&q, fd, &reply, NULL);
    if (fd >= 0)
        close(fd);
    if (rc)
        return rc;
    r = (struct sim_range){.base = base, .size = n, .kind = SIM_RANGE_REGISTERED, .flags = flags | 2, .ctx = c, .ctx_id = c->id};
    if (!sim_range_add(&r)) {
        sim_range_release(&r);
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostRegister(void *p, size_t n, unsigned flags) { return cuMemHostRegister_v2(p, n, flags); }

EXPORT CUresult cuMemHostUnregister(void *p)
{
    struct sim_ctx *c;
    struct sim_range r;

    int rc = sim_current(&c);
    if (!rc)
        rc = sim_capture_unsafe();
    if (rc)
        return rc;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    rc = take_and_wait((uintptr_t)p, SIM_RANGE_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, &r);
    return rc ? rc : sim_range_release(&r);
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned flags)
{
    struct sim_ctx *c;
    struct sim_range r;

    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!out || flags || !sim_range_find((uintptr_t)p, 1, &r) || sim_on_device(r.kind) || r.kind == SIM_RANGE_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (uintptr_t)p;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostGetFlags(unsigned *flags, void *p)
{
    struct sim_ctx *c;
    struct sim_range r;

    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!flags || !sim_range_find((uintptr_t)p, 1, &r) || sim_on_device(r.kind))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = r.kind == SIM_RANGE_MANAGED ? 2 : r.flags; /* CU_MEMHOSTALLOC_DEVICEMAP, whatever it is attached to */
    return CUDA_SUCCESS;
}

/* The device forgets a context's own memory by itself; here its addresses become
 * free, and managed memory that it made goes too. Memory of pools belongs to no
 * context. Staging memory belongs to the process and is given back. */
void sim_memory_context_gone(struct sim_ctx *c)
{
    struct sim_range r;

    while (sim_range_take_ctx(c->id, &r))
        sim_range_release(&r);
    sim_pools_settle();
    for (unsigned i = 0; i < c->chunk_count; i++)
        sim_host_free(c->chunks[i].data, SIM_CHUNK_BYTES);
}
