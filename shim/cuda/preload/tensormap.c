#include "tensormap.h"

#include <pthread.h>
#include <string.h>

#include "record_hash.h"
#include "sys.h"
#include "thread.h"

#define SETS 512u /* a power of two */
#define WAYS 8u

struct entry {
	uint64_t hash[2];
	uint64_t used; /* turn of its last use; 0: empty */
	struct xm_command_map map;
};

_Atomic bool xm_tensormaps_made;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *sets[SETS]; /* of WAYS, or NULL; protected by lock, as the next */
static uint64_t turn;

static void hash_of(const void *map, uint64_t hash[2])
{
	struct xm_hash h = xm_hash_begin(XM_TENSORMAP_BYTES);

	xm_hash_add(&h, map, XM_TENSORMAP_BYTES);
	xm_hash_end(&h, hash);
}

static struct entry *find(const uint64_t hash[2])
{
	struct entry *set = sets[hash[0] & (SETS - 1)];

	for (struct entry *e = set; set && e < set + WAYS; e++)
		if (e->used && e->hash[0] == hash[0] && e->hash[1] == hash[1])
			return e;
	return NULL;
}

/* An empty one, or that which was used longest ago. */
static struct entry *room(const uint64_t hash[2])
{
	struct entry **set = &sets[hash[0] & (SETS - 1)], *oldest;

	if (!*set && !(*set = xm_keep(WAYS * sizeof **set)))
		return NULL;
	oldest = *set;
	for (struct entry *e = *set; e < *set + WAYS; e++)
		if (e->used < oldest->used)
			oldest = e;
	return oldest;
}

static void remember(const void *map, const struct xm_command_map *made)
{
	struct xm_thread *me = xm_enter();
	struct entry *e;
	uint64_t hash[2];

	if (!me)
		return;
	hash_of(map, hash);
	pthread_mutex_lock(&lock);
	e = find(hash);
	if (!e)
		e = room(hash);
	if (e) {
		memcpy(e->hash, hash, sizeof e->hash);
		e->used = ++turn;
		e->map = *made;
		atomic_store_explicit(&xm_tensormaps_made, true, memory_order_relaxed);
	}
	pthread_mutex_unlock(&lock);
	xm_leave(me);
}

/* Bits of an element, by CUtensorMapDataType (CUDA 13.0). */
static uint32_t element(uint32_t type)
{
	static const uint8_t bits[] = {8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 8, 8};

	/* The last: 16 elements of 4 bits in 8 bytes, or in 16, and of 6 bits in 16. */
	return type < sizeof bits ? bits[type] : 0;
}

void xm_tensormap_made(const void *map, uint32_t type, uint32_t rank, const void *address, const cuuint64_t *dims,
		       const cuuint64_t *strides)
{
	struct xm_command_map m = {.address = (uintptr_t)address, .rank = rank, .type = type, .element = element(type)};

	if (!rank || rank > sizeof m.dims / sizeof *m.dims)
		return;
	memcpy(m.dims, dims, rank * sizeof *m.dims);
	if (rank > 1)
		memcpy(m.strides, strides, (rank - 1) * sizeof *m.strides);
	remember(map, &m);
}

static bool known(const void *map, struct xm_command_map *out)
{
	struct entry *e;
	uint64_t hash[2];

	hash_of(map, hash);
	pthread_mutex_lock(&lock);
	e = find(hash);
	if (e) {
		e->used = ++turn;
		*out = e->map;
	}
	pthread_mutex_unlock(&lock);
	return e != NULL;
}

struct xm_tensormap_was xm_tensormap_before(const void *map)
{
	struct xm_tensormap_was was = {.known = false};
	struct xm_thread *me;

	if (!map || !xm_tensormaps_any() || !(me = xm_enter()))
		return was;
	was.known = known(map, &was.map);
	xm_leave(me);
	return was;
}

void xm_tensormap_moved(const void *map, const struct xm_tensormap_was *was, const void *address)
{
	struct xm_command_map m = was->map;

	if (!was->known)
		return;
	m.address = (uintptr_t)address;
	remember(map, &m);
}

uint32_t xm_tensormaps_in(const void *parameters, uint32_t bytes, struct xm_command_map *maps, uint32_t most)
{
	struct xm_thread *me = xm_enter();
	struct xm_command_map m;
	uint32_t n = 0;

	if (!me)
		return 0;
	for (uint32_t at = 0; at + XM_TENSORMAP_BYTES <= bytes; at += XM_TENSORMAP_ALIGN) {
		if (!known((const uint8_t *)parameters + at, &m))
			continue;
		if (n < most) {
			m.offset = at;
			maps[n] = m;
		}
		n++;
		at += XM_TENSORMAP_BYTES - XM_TENSORMAP_ALIGN;
	}
	xm_leave(me);
	return n;
}
