/* The descriptors of tensors that kernels load by: made on the host, without a
 * device. */
#include "sim.h"
#include "tensormap.h"

#include <string.h>

enum { INTERLEAVE_NONE, INTERLEAVE_16B, INTERLEAVE_32B };

#define TYPES 16u
#define SWIZZLES 7u
#define PROMOTIONS 4u
#define FILLS 2u
#define BOX_MOST 256u
#define STRIDE_MOST 8u
#define DIM_MOST ((uint64_t)1 << 32)
#define PITCH_MOST ((uint64_t)1 << 40)

/* What all of the calls have in common. */
struct tensor {
    unsigned type, rank;
    const void *address;
    const cuuint64_t *dims, *strides;
    const cuuint32_t *element_strides;
    unsigned interleave, swizzle, promotion, fill;
};

static bool aligned(uint64_t n, uint64_t to) { return n % to == 0; }

static bool kinds_ok(const struct tensor *t)
{
    return t->type < TYPES && t->interleave <= INTERLEAVE_32B && t->swizzle < SWIZZLES && t->promotion < PROMOTIONS && t->fill < FILLS;
}

static bool shape_ok(const struct tensor *t, unsigned least)
{
    uint64_t unit = t->interleave == INTERLEAVE_32B ? 32 : 16;

    if (t->rank < least || t->rank > SIM_TENSOR_RANK || (t->interleave && t->rank < 3))
        return false;
    if (!t->dims || (t->rank > 1 && !t->strides) || !t->element_strides)
        return false;
    if (!t->address || !aligned((uintptr_t)t->address, unit))
        return false;
    for (unsigned i = 0; i < t->rank; i++)
        if (!t->dims[i] || t->dims[i] > DIM_MOST || !t->element_strides[i] || t->element_strides[i] > STRIDE_MOST)
            return false;
    for (unsigned i = 0; i + 1 < t->rank; i++)
        if (!aligned(t->strides[i], unit) || t->strides[i] >= PITCH_MOST)
            return false;
    return true;
}

static int begin(void *map, const struct tensor *t, unsigned least, struct sim_tensormap *m, unsigned kind)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!map || !aligned((uintptr_t)map, 64) || !kinds_ok(t) || !shape_ok(t, least))
        return CUDA_ERROR_INVALID_VALUE;
    *m = (struct sim_tensormap){.magic = SIM_TENSOR_MAGIC, .kind = (uint8_t)kind, .type = (uint8_t)t->type, .rank = (uint8_t)t->rank};
    m->interleave = (uint8_t)t->interleave;
    m->swizzle = (uint8_t)t->swizzle;
    m->promotion = (uint8_t)t->promotion;
    m->fill = (uint8_t)t->fill;
    m->address = (uintptr_t)t->address;
    memcpy(m->dims, t->dims, t->rank * sizeof *t->dims);
    if (t->rank > 1)
        memcpy(m->strides, t->strides, (t->rank - 1) * sizeof *t->strides);
    for (unsigned i = 0; i < t->rank; i++)
        m->element_strides[i] = (uint8_t)t->element_strides[i];
    return CUDA_SUCCESS;
}

#define TENSOR unsigned type, cuuint32_t rank, void *address, const cuuint64_t *dims, const cuuint64_t *strides
#define SETTINGS unsigned swizzle, unsigned promotion, unsigned fill
#define GIVEN {type, rank, address, dims, strides, element_strides, interleave, swizzle, promotion, fill}

EXPORT CUresult cuTensorMapEncodeTiled(void *map, TENSOR, const cuuint32_t *box, const cuuint32_t *element_strides, unsigned interleave, SETTINGS)
{
    const struct tensor t = GIVEN;
    struct sim_tensormap m;

    int rc = begin(map, &t, 1, &m, SIM_TENSOR_TILED);
    if (rc)
        return rc;
    if (!box)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < rank; i++) {
        if (!box[i] || box[i] > BOX_MOST)
            return CUDA_ERROR_INVALID_VALUE;
        m.box[i] = (uint16_t)box[i];
    }
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}

static bool pixels_ok(unsigned channels, unsigned pixels) { return channels && channels <= BOX_MOST && pixels && pixels <= 1024; }

EXPORT CUresult cuTensorMapEncodeIm2col(void *map, TENSOR, const int *lower, const int *upper, cuuint32_t channels, cuuint32_t pixels,
                                        const cuuint32_t *element_strides, unsigned interleave, SETTINGS)
{
    const struct tensor t = GIVEN;
    struct sim_tensormap m;

    int rc = begin(map, &t, 3, &m, SIM_TENSOR_IM2COL);
    if (rc)
        return rc;
    if (!lower || !upper || !pixels_ok(channels, pixels))
        return CUDA_ERROR_INVALID_VALUE;
    m.box[0] = (uint16_t)channels;
    m.box[1] = (uint16_t)pixels;
    for (unsigned i = 0; i + 2 < rank; i++) {
        m.corners[i] = (int16_t)lower[i];
        m.corners[3 + i] = (int16_t)upper[i];
    }
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuTensorMapEncodeIm2colWide(void *map, TENSOR, int lower, int upper, cuuint32_t channels, cuuint32_t pixels,
                                            const cuuint32_t *element_strides, unsigned interleave, unsigned mode, SETTINGS)
{
    const struct tensor t = GIVEN;
    struct sim_tensormap m;

    int rc = begin(map, &t, 3, &m, SIM_TENSOR_IM2COL_WIDE);
    if (rc)
        return rc;
    if (mode > 1 || !pixels_ok(channels, pixels))
        return CUDA_ERROR_INVALID_VALUE;
    m.mode = (uint8_t)mode;
    m.box[0] = (uint16_t)channels;
    m.box[1] = (uint16_t)pixels;
    m.corners[0] = (int16_t)lower;
    m.corners[3] = (int16_t)upper;
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuTensorMapReplaceAddress(void *map, void *address)
{
    struct sim_tensormap m;

    int rc = sim_ready();
    if (rc)
        return rc;
    if (!map || !aligned((uintptr_t)map, 64))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&m, map, sizeof m);
    if (m.magic != SIM_TENSOR_MAGIC || !address || !aligned((uintptr_t)address, m.interleave == INTERLEAVE_32B ? 32 : 16))
        return CUDA_ERROR_INVALID_VALUE;
    m.address = (uintptr_t)address;
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}
