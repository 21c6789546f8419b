/* Kernels: the parameters as they were given, laid out as the kernel finds them. */
#include <string.h>

#include "kernels.h"
#include "record.h"
#include "tensormap.h"

static void cut(struct xm_record *r)
{
	r->head.flags |= XM_COMMAND_CUT;
}

/* One buffer. The driver has read it by now. */
static uint32_t packed(struct xm_record *r, void **extra)
{
	const void *from = NULL;
	size_t n = 0;

	for (unsigned i = 0; i < XM_EXTRA_PAIRS && extra[0] != XM_EXTRA_END; i++, extra += 2) {
		if (extra[0] == XM_EXTRA_POINTER)
			from = extra[1];
		else if (extra[0] == XM_EXTRA_SIZE)
			n = extra[1] ? *(const size_t *)extra[1] : 0;
	}
	if (!from)
		return 0;
	if (n > XM_COMMAND_PARAMETERS) {
		n = XM_COMMAND_PARAMETERS;
		cut(r);
	}
	memcpy(r->payload, from, n);
	return (uint32_t)n;
}

/* One value. Nearly all are of the first two sizes; a shorter one leaves the rest of its word 0. */
static inline void put(uint8_t *to, const void *from, uint32_t offset, uint32_t size)
{
	if (size == 8) {
		memcpy(to, from, 8);
		return;
	}
	if (size < 8 && offset % 8 == 0)
		memset(to, 0, 8);
	if (size == 4)
		memcpy(to, from, 4);
	else
		memcpy(to, from, size);
}

/* One pointer a parameter. What lies between them is 0. */
static uint32_t gathered(struct xm_record *r, const struct xm_known *k, void **params)
{
	uint32_t n = k->bytes < XM_COMMAND_PARAMETERS ? k->bytes : XM_COMMAND_PARAMETERS;

	if (k->bytes > n || k->flags & XM_KERNEL_MORE)
		cut(r);
	if (!k->dense)
		memset(r->payload, 0, n);
	for (uint32_t i = 0; i < k->parameters; i++) {
		struct xm_parameter p = k->parameter[i];
		uint32_t room = p.offset < n ? n - p.offset : 0;

		if (__builtin_expect(p.size > room || !params[i], 0))
			p.size = params[i] ? room : 0;
		if (p.size)
			put(r->payload + p.offset, params[i], p.offset, p.size);
	}
	return n;
}

/* Parameters are padded so that the maps after them are aligned. */
static uint32_t with_maps(struct xm_record *r, uint32_t bytes)
{
	uint32_t at = (bytes + 7) & ~7u, n;

	if (bytes < XM_TENSORMAP_BYTES || !xm_tensormaps_any())
		return bytes;
	n = xm_tensormaps_in(r->payload, bytes, (struct xm_command_map *)(void *)(r->payload + at), XM_COMMAND_MAPS);
	if (!n)
		return bytes;
	if (n > XM_COMMAND_MAPS) {
		n = XM_COMMAND_MAPS;
		cut(r);
	}
	memset(r->payload + bytes, 0, at - bytes);
	r->head.maps = n;
	return at + n * (uint32_t)sizeof(struct xm_command_map);
}

void xm_record_build(struct xm_record *r, const struct xm_launch *l)
{
	const struct xm_known *k = xm_kernel_known(l->f);
	uint32_t bytes = 0;

	r->head = (struct xm_command){.kind = XM_COMMAND_KERNEL, .kernel = k ? k->id : 0, .shared = l->shared};
	memcpy(r->head.grid, l->grid, sizeof r->head.grid);
	memcpy(r->head.block, l->block, sizeof r->head.block);
	if (!k || !(k->flags & XM_KERNEL_LAYOUT))
		r->head.flags = XM_COMMAND_UNKNOWN;
	if (l->extra)
		bytes = packed(r, l->extra);
	else if (l->params && !r->head.flags)
		bytes = gathered(r, k, l->params);
	r->head.payload = with_maps(r, bytes);
}

void xm_record_launch(CUstream stream, unsigned flags, const struct xm_launch *l)
{
	struct xm_command place;
	struct xm_record *r;

	if (!xm_record_place(&place, stream, flags) || !(r = xm_record_begin()))
		return;
	xm_record_build(r, l);
	r->head.section = place.section;
	r->head.queue = place.queue;
	r->head.sequence = place.sequence;
	xm_record_end(r);
}

void xm_record_config(unsigned flags, const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
	struct xm_launch l = {.f = f,
			      .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
			      .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
			      .shared = config->sharedMemBytes,
			      .params = params,
			      .extra = extra};

	xm_record_launch(config->hStream, flags, &l);
}
