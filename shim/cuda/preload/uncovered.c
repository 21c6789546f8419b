#include "uncovered.h"

#include <string.h>

#include "agent_start.h"

#define NAMES 128
#define NAME_SIZE 64 /* the terminating NUL included; longer names are cut */

uint32_t xm_uncovered_total;

static uint64_t passed;

/* A slot is taken by its state going 0 -> 1, and readable at 2. */
static struct {
    uint32_t state;
    char name[NAME_SIZE];
} names[NAMES];

static bool same(const char *kept, const char *name)
{
    return strncmp(kept, name, NAME_SIZE - 1) == 0;
}

/* Takes a slot for the name. False: it is there already, or there is no room. */
static bool keep(const char *name)
{
    for (int i = 0; i < NAMES; i++) {
        uint32_t free = 0;

        if (__atomic_compare_exchange_n(&names[i].state, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
            strncpy(names[i].name, name, NAME_SIZE - 1);
            __atomic_store_n(&names[i].state, 2, __ATOMIC_RELEASE);
            return true;
        }
        /* Another thread is writing a name here: at worst ours is kept twice. */
        if (free == 2 && same(names[i].name, name))
            return false;
    }
    return false;
}

void xm_uncovered(const char *name)
{
    if (!keep(name))
        return;
    __atomic_fetch_add(&xm_uncovered_total, 1, __ATOMIC_RELEASE);
    xm_agent_news();
}

int xm_uncovered_names(char *buf, int n)
{
    int need = 0;

    for (int i = 0; i < NAMES; i++) {
        int length;

        if (__atomic_load_n(&names[i].state, __ATOMIC_ACQUIRE) != 2)
            continue;
        length = (int)strlen(names[i].name);
        if (buf && need + length + 1 <= n) {
            memcpy(buf + need, names[i].name, (size_t)length);
            buf[need + length] = '\n';
        }
        need += length + 1;
    }
    return need;
}

/* Ends with "Async", before any "_v2", "_ptsz", "_ptds". */
static bool is_async(const char *name)
{
    const char *end = strchr(name, '_');
    size_t length = end ? (size_t)(end - name) : strlen(name);

    return length > 5 && memcmp(name + length - 5, "Async", 5) == 0;
}

/* What a name that has no hook says of itself. All names of the drivers that
 * this library knows and that start or move work have hooks, but for the
 * graphics ones; so this is for them, and for drivers to come. */
static bool looks_like_work(const char *name)
{
    static const char *const prefixes[] = {
        "cuLaunch", "cuMemcpy", "cuMemset", "cuMemPrefetch", "cuGraphLaunch", "cuStreamBatch", "cuStreamWriteValue",
        "cuStreamWaitValue", "cuGLMapBuffer", "cuGLUnmapBuffer", "cuEGLStreamConsumerAcquire",
        "cuEGLStreamConsumerRelease", "cuEGLStreamProducerPresent", "cuEGLStreamProducerReturn",
    };

    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    }
    return is_async(name);
}

void xm_passed(const char *name)
{
    __atomic_fetch_add(&passed, 1, __ATOMIC_RELAXED);
    if (name && looks_like_work(name))
        xm_uncovered(name);
}

uint64_t xm_passed_total(void)
{
    return __atomic_load_n(&passed, __ATOMIC_RELAXED);
}
