/*
 * Tensor maps. A program gets 128 bytes that it passes on to kernels and does not look into; what
 * stands in them the vendor does not say, and here it is ours. What is checked are the bounds that the vendor
 * documents (CUDA 13.0, cuTensorMapEncodeTiled and its like); no device was asked.
 */
#ifndef XM_SIM_TENSORMAP_H
#define XM_SIM_TENSORMAP_H

#include <stdint.h>

#define SIM_TENSOR_RANK 5u
#define SIM_TENSOR_MAGIC 0x50414d58u /* "XMAP" */

enum { SIM_TENSOR_TILED = 1, SIM_TENSOR_IM2COL, SIM_TENSOR_IM2COL_WIDE };

struct sim_tensormap {
    uint32_t magic;
    uint8_t kind, type, rank, interleave, swizzle, promotion, fill, mode;
    uint8_t element_strides[SIM_TENSOR_RANK], pad[7];
    uint64_t address;
    uint64_t dims[SIM_TENSOR_RANK];        /* elements */
    uint64_t strides[SIM_TENSOR_RANK - 1]; /* bytes, of dimension 1 on */
    uint16_t box[SIM_TENSOR_RANK];         /* elements; of im2col: channels, pixels */
    int16_t corners[6];                    /* of im2col: lower, then upper */
    uint8_t rest[2];
};

_Static_assert(sizeof(struct sim_tensormap) == 128, "CUtensorMap");

#endif
