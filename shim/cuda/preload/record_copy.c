/* Copies of every form, as rows and layers from one address to another. */
#include <string.h>

#include "record.h"

/* The beginnings of what a batch of 3D copies is made of (CUDA 13.0, cuda.h). */
struct operand {
	unsigned type; /* 1: an address */
	union {
		struct {
			CUdeviceptr at;
			size_t row, rows; /* of the whole; 0: as the copy */
			int place[2];
		} pointer;
		struct {
			void *array;
			size_t x, y, z;
		} array;
	} of;
};

struct operation {
	struct operand src, dst;
	size_t width, height, depth;
	unsigned order, flags;
};

#define OPERAND_POINTER 1

_Static_assert(sizeof(struct operand) == 40 && sizeof(struct operation) == 112, "CUDA_MEMCPY3D_BATCH_OP");

void xm_record_copy(CUstream stream, unsigned flags, uint64_t dst, uint64_t src, size_t bytes, uint32_t where)
{
	struct xm_command c = {.kind = XM_COMMAND_COPY, .flags = where};
	struct xm_command_copy to = {dst, src, bytes, 1, 1, bytes, bytes, bytes, bytes};

	if (bytes && xm_record_place(&c, stream, flags))
		xm_record_add(&c, &to, sizeof to);
}

/* One end of a copy: where it begins. */
struct end {
	unsigned type;
	CUdeviceptr device;
	const void *host;
	size_t x, y, z, pitch, rows;
};

static uint64_t begin(const struct end *e, uint32_t *flags, uint32_t host, uint32_t array)
{
	uint64_t base = e->device;

	if (e->type == CU_MEMORYTYPE_ARRAY) {
		*flags |= array;
		return 0;
	}
	if (e->type == CU_MEMORYTYPE_HOST) {
		*flags |= host;
		base = (uintptr_t)e->host;
	}
	return base + (e->z * e->rows + e->y) * e->pitch + e->x;
}

static void shape(struct xm_command *c, struct xm_command_copy *to, const struct end *dst, const struct end *src, size_t width,
		  size_t height, size_t depth)
{
	*c = (struct xm_command){.kind = XM_COMMAND_COPY};
	to->width = width;
	to->height = height;
	to->depth = depth;
	to->dst = begin(dst, &c->flags, XM_COMMAND_DST_HOST, XM_COMMAND_DST_ARRAY);
	to->src = begin(src, &c->flags, XM_COMMAND_SRC_HOST, XM_COMMAND_SRC_ARRAY);
	to->dst_pitch = dst->pitch;
	to->dst_slice = dst->pitch * dst->rows;
	to->src_pitch = src->pitch;
	to->src_slice = src->pitch * src->rows;
}

static void add(CUstream stream, unsigned flags, struct xm_command *c, const struct xm_command_copy *to)
{
	if (to->width && to->height && to->depth && xm_record_place(c, stream, flags))
		xm_record_add(c, to, sizeof *to);
}

/* A pitch or height of 0 is that of the copy itself. */
#define OR(given, otherwise) ((given) ? (given) : (otherwise))

void xm_record_copy2d(CUstream stream, unsigned flags, const CUDA_MEMCPY2D *p)
{
	const struct end dst = {p->dstMemoryType, p->dstDevice, p->dstHost, p->dstXInBytes, p->dstY, 0, OR(p->dstPitch, p->WidthInBytes), p->Height};
	const struct end src = {p->srcMemoryType, p->srcDevice, p->srcHost, p->srcXInBytes, p->srcY, 0, OR(p->srcPitch, p->WidthInBytes), p->Height};
	struct xm_command c;
	struct xm_command_copy to;

	shape(&c, &to, &dst, &src, p->WidthInBytes, p->Height, 1);
	add(stream, flags, &c, &to);
}

/* Of CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER, which name these alike. */
#define ENDS(p)                                                                                                           \
	const struct end dst = {(p)->dstMemoryType, (p)->dstDevice, (p)->dstHost, (p)->dstXInBytes, (p)->dstY, (p)->dstZ, \
				OR((p)->dstPitch, (p)->WidthInBytes), OR((p)->dstHeight, (p)->Height)};                   \
	const struct end src = {(p)->srcMemoryType, (p)->srcDevice, (p)->srcHost, (p)->srcXInBytes, (p)->srcY, (p)->srcZ, \
				OR((p)->srcPitch, (p)->WidthInBytes), OR((p)->srcHeight, (p)->Height)}

void xm_copy3d_build(struct xm_command *c, struct xm_command_copy *to, const CUDA_MEMCPY3D *p)
{
	ENDS(p);

	shape(c, to, &dst, &src, p->WidthInBytes, p->Height, p->Depth);
}

void xm_record_copy3d(CUstream stream, unsigned flags, const CUDA_MEMCPY3D *p)
{
	struct xm_command c;
	struct xm_command_copy to;

	xm_copy3d_build(&c, &to, p);
	add(stream, flags, &c, &to);
}

void xm_record_copy_peer(CUstream stream, unsigned flags, const CUDA_MEMCPY3D_PEER *p)
{
	struct xm_command c;
	struct xm_command_copy to;
	ENDS(p);

	shape(&c, &to, &dst, &src, p->WidthInBytes, p->Height, p->Depth);
	add(stream, flags, &c, &to);
}

void xm_record_copies(CUstream stream, unsigned flags, const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		xm_record_copy(stream, flags, dsts[i], srcs[i], sizes[i], 0);
}

static struct end operand(const struct operand *o, const struct operation *op)
{
	struct end e = {.type = CU_MEMORYTYPE_ARRAY};

	if (o->type != OPERAND_POINTER)
		return e;
	e.type = CU_MEMORYTYPE_DEVICE; /* or the host's: unified addresses */
	e.device = o->of.pointer.at;
	e.pitch = OR(o->of.pointer.row, op->width);
	e.rows = OR(o->of.pointer.rows, op->height);
	return e;
}

void xm_record_copies3d(CUstream stream, unsigned flags, const void *ops, size_t n)
{
	for (const struct operation *op = ops; n; n--, op++) {
		const struct end dst = operand(&op->dst, op), src = operand(&op->src, op);
		struct xm_command c;
		struct xm_command_copy to;

		shape(&c, &to, &dst, &src, op->width, op->height, op->depth);
		add(stream, flags, &c, &to);
	}
}
