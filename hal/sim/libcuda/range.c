/* The addresses that the driver knows: memory of the device and of its pools,
 * managed memory, pinned and registered host memory, what is mapped by hand. In order,
 * none overlapping. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static pthread_rwlock_t range_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct sim_range *ranges;
static size_t count, room;

/* The first range that ends behind address. */
static size_t behind(uint64_t address)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (ranges[mid].base + ranges[mid].size > address)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static bool overlaps(uint64_t address, uint64_t n)
{
    size_t i = behind(address);
    return i < count && ranges[i].base < address + n;
}

bool sim_range_overlaps(uint64_t address, uint64_t n)
{
    pthread_rwlock_rdlock(&range_lock);
    bool yes = overlaps(address, n);
    pthread_rwlock_unlock(&range_lock);
    return yes;
}

bool sim_range_add(const struct sim_range *r)
{
    static uint64_t ids; /* protected by range_lock */
    bool ok = false;

    pthread_rwlock_wrlock(&range_lock);
    if (count == room) {
        size_t more = room ? 2 * room : 64;
        struct sim_range *p = realloc(ranges, more * sizeof *p);
        if (p) {
            ranges = p;
            room = more;
        }
    }
    if (count < room && !overlaps(r->base, r->size)) {
        size_t i = behind(r->base);
        memmove(&ranges[i + 1], &ranges[i], (count - i) * sizeof *ranges);
        ranges[i] = *r;
        ranges[i].id = ++ids;
        count++;
        ok = true;
    }
    pthread_rwlock_unlock(&range_lock);
    return ok;
}

bool sim_range_find(uint64_t address, uint64_t n, struct sim_range *out)
{
    pthread_rwlock_rdlock(&range_lock);
    size_t i = behind(address);
    bool ok = i < count && ranges[i].base <= address;
    if (ok)
        *out = ranges[i];
    for (uint64_t end; ok && n > (end = ranges[i].base + ranges[i].size) - address; i++) /* mappings side by side are as one */
        ok = ranges[i].kind == SIM_RANGE_MAPPED && i + 1 < count && ranges[i + 1].kind == SIM_RANGE_MAPPED && ranges[i + 1].base == end;
    pthread_rwlock_unlock(&range_lock);
    return ok;
}

bool sim_range_pieces(uint64_t address, uint64_t n, void (*one)(struct sim_range *, void *), void *with)
{
    pthread_rwlock_wrlock(&range_lock);
    size_t first = behind(address), i = first;
    uint64_t at = address;
    while (i < count && ranges[i].kind == SIM_RANGE_MAPPED && ranges[i].base == at && at - address < n)
        at += ranges[i++].size;
    bool ok = n && at - address == n;
    for (size_t k = first; ok && k < i; k++)
        one(&ranges[k], with);
    pthread_rwlock_unlock(&range_lock);
    return ok;
}

static void cut(size_t i, struct sim_range *out)
{
    *out = ranges[i];
    count--;
    memmove(&ranges[i], &ranges[i + 1], (count - i) * sizeof *ranges);
}

bool sim_range_take(uint64_t base, struct sim_range *out)
{
    bool ok = false;

    pthread_rwlock_wrlock(&range_lock);
    size_t i = behind(base);
    if (i < count && ranges[i].base == base) {
        cut(i, out);
        ok = true;
    }
    pthread_rwlock_unlock(&range_lock);
    return ok;
}

bool sim_range_set_sync(uint64_t address, bool on)
{
    pthread_rwlock_wrlock(&range_lock);
    size_t i = behind(address);
    bool found = i < count && ranges[i].base <= address;
    if (found)
        ranges[i].sync = on;
    pthread_rwlock_unlock(&range_lock);
    return found;
}

bool sim_range_take_ctx(uint64_t ctx_id, struct sim_range *out)
{
    bool ok = false;

    pthread_rwlock_wrlock(&range_lock);
    for (size_t i = 0; i < count && !ok; i++)
        if ((ranges[i].kind == SIM_RANGE_DEVICE || ranges[i].kind == SIM_RANGE_MANAGED) && ranges[i].ctx_id == ctx_id) {
            cut(i, out);
            ok = true;
        }
    pthread_rwlock_unlock(&range_lock);
    return ok;
}
