/* A driver's virtual memory, for tests: handles with content (one word a granule), mappings with
 * access, reservations. It fails when it is told to, and ends the test when something is touched that is
 * not there. */
#ifndef FAKE_MEMORY_H
#define FAKE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

#define GRANULE XM_GRANULE
#define DIE(...)                                             \
    do {                                                     \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);      \
        fprintf(stderr, __VA_ARGS__);                        \
        fputc('\n', stderr);                                 \
        abort();                                             \
    } while (0)

enum { HANDLES = 4096, MAPPINGS = 4096, ROOMS = 4096 };

static struct fake_handle {
    uint64_t bytes; /* 0: free */
    bool released, device;
    int mapped;
    uint64_t *words;
} handles[HANDLES];

static struct fake_mapping {
    CUdeviceptr at;
    uint64_t bytes; /* 0: free */
    int handle;
    bool access;
} mappings[MAPPINGS];

static struct fake_room {
    CUdeviceptr at;
    uint64_t bytes; /* 0: free */
} rooms[ROOMS];

static CUdeviceptr next_room = (CUdeviceptr)1 << 40;
static uint64_t card = (uint64_t)8 << 30; /* of the device */
static unsigned fail_one_in;             /* calls fail by chance; 0: none */
static unsigned fail_seed = 1;
static long fail_at = -1; /* the call of that number fails */
static long calls;
static unsigned unmaps_failed, tokens;
static void (*making)(uint64_t bytes); /* before memory of the device is made: what there is with it */

static bool fails(void)
{
    long n = calls++;

    return n == fail_at || (fail_one_in && (unsigned)rand_r(&fail_seed) % fail_one_in == 0);
}

static uint64_t host_bytes(void)
{
    uint64_t sum = 0;

    for (int i = 1; i < HANDLES; i++)
        if (handles[i].bytes && !handles[i].device)
            sum += handles[i].bytes;
    return sum;
}

static uint64_t device_bytes(void)
{
    uint64_t sum = 0;

    for (int i = 1; i < HANDLES; i++)
        if (handles[i].bytes && handles[i].device)
            sum += handles[i].bytes;
    return sum;
}

static void let_go(int h)
{
    if (handles[h].released && !handles[h].mapped) {
        free(handles[h].words);
        handles[h] = (struct fake_handle){0};
    }
}

static CUresult fake_create(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *p, unsigned long long flags)
{
    (void)flags;
    if (!n || n % GRANULE)
        DIE("a handle of %zu bytes", n);
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (p->location.type == CU_MEM_LOCATION_TYPE_DEVICE && making)
        making(device_bytes() + n);
    if (p->location.type == CU_MEM_LOCATION_TYPE_DEVICE && device_bytes() + n > card)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 1; i < HANDLES; i++)
        if (!handles[i].bytes) {
            handles[i] = (struct fake_handle){.bytes = n, .device = p->location.type == CU_MEM_LOCATION_TYPE_DEVICE};
            handles[i].words = malloc(n / GRANULE * sizeof(uint64_t));
            memset(handles[i].words, 0xee, n / GRANULE * sizeof(uint64_t));
            *h = (CUmemGenericAllocationHandle)i;
            return CUDA_SUCCESS;
        }
    DIE("too many handles");
}

static CUresult fake_release(CUmemGenericAllocationHandle h)
{
    if (!h || h >= HANDLES || !handles[h].bytes || handles[h].released)
        DIE("handle %llu released", (unsigned long long)h);
    handles[h].released = true;
    let_go((int)h);
    return CUDA_SUCCESS;
}

static struct fake_room *room_of(CUdeviceptr at, uint64_t n)
{
    for (int i = 0; i < ROOMS; i++)
        if (rooms[i].bytes && at >= rooms[i].at && at + n <= rooms[i].at + rooms[i].bytes)
            return &rooms[i];
    return NULL;
}

static CUresult fake_reserve(CUdeviceptr *at, size_t n, size_t alignment, CUdeviceptr hint, unsigned long long flags)
{
    (void)alignment, (void)hint, (void)flags;
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < ROOMS; i++)
        if (!rooms[i].bytes) {
            rooms[i] = (struct fake_room){next_room, n};
            *at = next_room;
            next_room += n;
            return CUDA_SUCCESS;
        }
    DIE("too many reservations");
}

static CUresult fake_unreserve(CUdeviceptr at, size_t n)
{
    struct fake_room *r = room_of(at, n);

    if (!r || r->at != at || r->bytes != n)
        DIE("no reservation at %llx", (unsigned long long)at);
    for (int i = 0; i < MAPPINGS; i++)
        if (mappings[i].bytes && mappings[i].at >= at && mappings[i].at < at + n)
            DIE("a reservation ended with a mapping in it");
    r->bytes = 0;
    return CUDA_SUCCESS;
}

static struct fake_mapping *mapping_at(CUdeviceptr at)
{
    for (int i = 0; i < MAPPINGS; i++)
        if (mappings[i].bytes && at >= mappings[i].at && at < mappings[i].at + mappings[i].bytes)
            return &mappings[i];
    return NULL;
}

static CUresult fake_map(CUdeviceptr at, size_t n, size_t offset, CUmemGenericAllocationHandle h, unsigned long long flags)
{
    (void)offset, (void)flags;
    if (!room_of(at, n) || mapping_at(at) || mapping_at(at + n - 1) || !handles[h].bytes || handles[h].released || handles[h].bytes != n)
        DIE("handle %llu mapped at %llx", (unsigned long long)h, (unsigned long long)at);
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < MAPPINGS; i++)
        if (!mappings[i].bytes) {
            mappings[i] = (struct fake_mapping){at, n, (int)h, false};
            handles[h].mapped++;
            return CUDA_SUCCESS;
        }
    DIE("too many mappings");
}

static CUresult fake_unmap(CUdeviceptr at, size_t n)
{
    struct fake_mapping *m;

    for (CUdeviceptr p = at; p < at + n; p += m->bytes)
        if (!(m = mapping_at(p)) || m->at != p || m->at + m->bytes > at + n)
            DIE("nothing mapped at %llx", (unsigned long long)p);
    if (fails()) {
        unmaps_failed++;
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (CUdeviceptr p = at; p < at + n;) {
        int h;

        m = mapping_at(p);
        p += m->bytes;
        h = m->handle;
        m->bytes = 0;
        handles[h].mapped--;
        let_go(h);
    }
    return CUDA_SUCCESS;
}

static CUresult fake_access(CUdeviceptr at, size_t n, const CUmemAccessDesc *who, size_t count)
{
    struct fake_mapping *m;

    (void)who, (void)count;
    for (CUdeviceptr p = at; p < at + n; p += m->bytes)
        if (!(m = mapping_at(p)) || m->at != p)
            DIE("access to %llx, where nothing is", (unsigned long long)p);
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (CUdeviceptr p = at; p < at + n; p += m->bytes) {
        m = mapping_at(p);
        m->access = true;
    }
    return CUDA_SUCCESS;
}

static CUresult fake_alloc(CUdeviceptr *at, size_t n)
{
    (void)n;
    if (fails())
        return CUDA_ERROR_INVALID_VALUE;
    tokens++;
    *at = 7;
    return CUDA_SUCCESS;
}

static CUresult fake_free(CUdeviceptr at)
{
    if (at != 7 || !tokens)
        DIE("the driver is to free %llx", (unsigned long long)at);
    tokens--;
    return CUDA_SUCCESS;
}

/* The word of the granule at an address, as the device sees it. */
static uint64_t *word_at(CUdeviceptr at)
{
    struct fake_mapping *m = mapping_at(at);

    if (!m || !m->access)
        DIE("the device touches %llx, which is %s", (unsigned long long)at, m ? "closed to it" : "mapped to nothing");
    return &handles[m->handle].words[(at - m->at) / GRANULE];
}

static void copy_granules(CUdeviceptr to, CUdeviceptr from, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += GRANULE)
        *word_at(to + i) = *word_at(from + i);
}

static void fake_memory_begin(void)
{
    xm_real.cuMemCreate = fake_create;
    xm_real.cuMemRelease = fake_release;
    xm_real.cuMemAddressReserve = fake_reserve;
    xm_real.cuMemAddressFree = fake_unreserve;
    xm_real.cuMemMap = fake_map;
    xm_real.cuMemUnmap = fake_unmap;
    xm_real.cuMemSetAccess = fake_access;
    xm_real.cuMemAlloc_v2 = fake_alloc;
    xm_real.cuMemFree_v2 = fake_free;
}

#endif
