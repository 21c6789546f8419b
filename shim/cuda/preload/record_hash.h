/*
 * A hash of 128 bits, for telling pieces of code and tensor maps apart: fast, the same on
 * every machine and in every version (it is written to disk), and no defence against anybody
 * who looks for two that agree.
 */
#ifndef XMSCHED_RECORD_HASH_H
#define XMSCHED_RECORD_HASH_H

#include <stdint.h>
#include <string.h>

struct xm_hash {
	uint64_t a, b;
};

static inline uint64_t xm_hash_fold(uint64_t x, uint64_t y)
{
	unsigned __int128 p = (unsigned __int128)x * y;

	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static inline struct xm_hash xm_hash_begin(uint64_t bytes)
{
	return (struct xm_hash){0x6a09e667f3bcc908u ^ bytes, 0xbb67ae8584caa73bu + bytes};
}

/* Adds bytes; the last of fewer than 16 counts as if zeroes followed. */
static inline void xm_hash_add(struct xm_hash *h, const void *from, uint64_t bytes)
{
	const uint8_t *p = from;

	while (bytes) {
		uint64_t n = bytes < 16 ? bytes : 16, w[2] = {0, 0}, a;

		memcpy(w, p, n);
		a = xm_hash_fold(h->a ^ w[0], 0x3c6ef372fe94f82bu ^ w[1]) + h->b;
		h->b = xm_hash_fold(h->b ^ w[1], 0xa54ff53a5f1d36f1u ^ w[0]) ^ (a << 23 | a >> 41);
		h->a = a;
		p += n;
		bytes -= n;
	}
}

/* Never both words 0. The constants are roots of primes. */
static inline void xm_hash_end(const struct xm_hash *h, uint64_t out[2])
{
	out[0] = xm_hash_fold(h->a ^ 0x510e527fade682d1u, h->b | 1);
	out[1] = xm_hash_fold(h->b ^ 0x9b05688c2b3e6c1fu, h->a | 1);
	if (!out[0] && !out[1])
		out[0] = 1;
}

#endif
