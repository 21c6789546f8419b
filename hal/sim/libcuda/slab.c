/* Handles. Every kind of object has one reserved piece of address space that is
 * never given back, so a handle can be checked without being followed anywhere
 * else: right place, right alignment, alive. The longest free is used first, so
 * that a stale handle is noticed for as long as possible. */
#include "graph.h"
#include "library.h"
#include "sim.h"

#include <string.h>
#include <sys/mman.h>

struct slab {
    size_t stride, limit;
    char *base;
    size_t used;
    uint32_t *next;         /* free list through indices + 1 */
    uint32_t first, last;
};

static pthread_mutex_t slab_lock = PTHREAD_MUTEX_INITIALIZER;

static struct slab streams = {.stride = sizeof(struct sim_stream), .limit = 1 << 17};
static struct slab events = {.stride = sizeof(struct sim_event), .limit = 1 << 20};
static struct slab modules = {.stride = sizeof(struct sim_module), .limit = 1 << 16};
static struct slab functions = {.stride = sizeof(struct sim_function), .limit = 1 << 18};
static struct slab contexts = {.stride = sizeof(struct sim_ctx), .limit = 1 << 12};
static struct slab pools = {.stride = sizeof(struct sim_pool), .limit = 1 << 14};
static struct slab graphs = {.stride = sizeof(struct sim_graph), .limit = 1 << 16};
static struct slab nodes = {.stride = sizeof(struct sim_node), .limit = 1 << 20};
static struct slab execs = {.stride = sizeof(struct sim_exec), .limit = 1 << 16};
static struct slab libraries = {.stride = sizeof(struct sim_library), .limit = 1 << 14};
static struct slab kernels = {.stride = sizeof(struct sim_kernel), .limit = 1 << 18};
static struct slab *const slabs[] = {&streams, &events, &modules, &functions, &contexts, &pools, &graphs, &nodes, &execs, &libraries, &kernels};

static bool slab_map(struct slab *s)
{
    if (s->base)
        return true;
    size_t bytes = s->limit * (s->stride + sizeof(uint32_t));
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return false;
    s->next = (uint32_t *)(void *)(p + s->limit * s->stride);
    __atomic_store_n(&s->base, p, __ATOMIC_RELEASE);
    return true;
}

static void *slab_new(struct slab *s)
{
    char *p = NULL;

    pthread_mutex_lock(&slab_lock);
    if (slab_map(s)) {
        if (s->first && (s->used == s->limit || s->used > 1024)) {
            uint32_t i = s->first - 1;
            s->first = s->next[i];
            if (!s->first)
                s->last = 0;
            p = s->base + i * s->stride;
        } else if (s->used < s->limit) {
            p = s->base + s->used * s->stride;
            __atomic_store_n(&s->used, s->used + 1, __ATOMIC_RELEASE);
        }
    }
    if (p)
        memset(p, 0, s->stride);
    pthread_mutex_unlock(&slab_lock);
    return p;
}

/* Whether an object is, or was, at this place. */
static bool slab_place(const struct slab *s, const void *handle)
{
    const char *base = __atomic_load_n(&s->base, __ATOMIC_ACQUIRE);
    uintptr_t at = (uintptr_t)handle;

    if (!base || at < (uintptr_t)base)
        return false;
    at -= (uintptr_t)base;
    return at % s->stride == 0 && at / s->stride < __atomic_load_n(&s->used, __ATOMIC_ACQUIRE);
}

/* Every object begins with its mark of life. */
static bool slab_has(const struct slab *s, const void *handle)
{
    return slab_place(s, handle) && __atomic_load_n((const uint32_t *)handle, __ATOMIC_ACQUIRE);
}

void sim_object_free(void *object)
{
    for (size_t i = 0; i < sizeof slabs / sizeof *slabs; i++) {
        struct slab *s = slabs[i];
        if (!slab_has(s, object))
            continue;
        pthread_mutex_lock(&slab_lock);
        uint32_t index = (uint32_t)((size_t)((char *)object - s->base) / s->stride);
        __atomic_store_n((uint32_t *)object, 0, __ATOMIC_RELEASE);
        s->next[index] = 0;
        if (s->last)
            s->next[s->last - 1] = index + 1;
        else
            s->first = index + 1;
        s->last = index + 1;
        pthread_mutex_unlock(&slab_lock);
        return;
    }
}

struct sim_stream *sim_stream_new(void) { return slab_new(&streams); }
struct sim_event *sim_event_new(void) { return slab_new(&events); }
struct sim_module *sim_module_new(void) { return slab_new(&modules); }
struct sim_function *sim_function_new(void) { return slab_new(&functions); }
struct sim_ctx *sim_ctx_new(void) { return slab_new(&contexts); }
bool sim_is_stream(const void *h) { return slab_has(&streams, h); }
bool sim_is_event(const void *h) { return slab_has(&events, h); }
bool sim_is_module(const void *h) { return slab_has(&modules, h); }
bool sim_is_function(const void *h) { return slab_has(&functions, h); }
struct sim_pool *sim_pool_new(void) { return slab_new(&pools); }
bool sim_is_pool(const void *h) { return slab_has(&pools, h); }
bool sim_is_ctx(const void *h) { return slab_has(&contexts, h); }
bool sim_was_ctx(const void *h) { return slab_place(&contexts, h); }
struct sim_graph *sim_graph_new(void) { return slab_new(&graphs); }
bool sim_is_graph(const void *h) { return slab_has(&graphs, h); }
struct sim_node *sim_node_new(void) { return slab_new(&nodes); }
bool sim_is_node(const void *h) { return slab_has(&nodes, h); }
struct sim_exec *sim_exec_new(void) { return slab_new(&execs); }
bool sim_is_exec(const void *h) { return slab_has(&execs, h); }
struct sim_library *sim_library_new(void) { return slab_new(&libraries); }
bool sim_is_library(const void *h) { return slab_has(&libraries, h); }
struct sim_kernel *sim_kernel_new(void) { return slab_new(&kernels); }
bool sim_is_kernel(const void *h) { return slab_has(&kernels, h); }
