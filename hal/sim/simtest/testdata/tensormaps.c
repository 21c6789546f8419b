/* Descriptors of tensors: what is made of what, and what is refused. */
#include "../../libcuda/tensormap.h"
#include "host.h"

int cuTensorMapEncodeTiled(void *, unsigned, unsigned, void *, const uint64_t *, const uint64_t *, const unsigned *, const unsigned *, unsigned,
                           unsigned, unsigned, unsigned);
int cuTensorMapEncodeIm2col(void *, unsigned, unsigned, void *, const uint64_t *, const uint64_t *, const int *, const int *, unsigned, unsigned,
                            const unsigned *, unsigned, unsigned, unsigned, unsigned);
int cuTensorMapEncodeIm2colWide(void *, unsigned, unsigned, void *, const uint64_t *, const uint64_t *, int, int, unsigned, unsigned,
                                const unsigned *, unsigned, unsigned, unsigned, unsigned, unsigned);
int cuTensorMapReplaceAddress(void *, void *);

enum { OK = 0, INVALID = 1 };

static _Alignas(64) struct sim_tensormap map;
static const uint64_t dims[5] = {64, 32, 16, 8, 4}, strides[4] = {256, 8192, 131072, 1048576};
static const unsigned box[5] = {16, 8, 4, 2, 1}, ones[5] = {1, 1, 1, 1, 1};
static const int lower[3] = {-1, -2, -3}, upper[3] = {1, 2, 3};
static void *const address = (void *)0x7f0000001000;

#define TILED(map, type, rank, address, dims, strides, box, steps) \
    cuTensorMapEncodeTiled(map, type, rank, address, dims, strides, box, steps, 0, 0, 0, 0)

static void tiled(void)
{
    uint64_t none[5] = {64, 0, 16}, odd[4] = {24, 8192};
    unsigned wide[5] = {16, 257, 1}, nothing[5] = {1, 0, 1};

    WANT(TILED(&map, 7, 5, address, dims, strides, box, ones), OK);
    TRUE(map.magic == SIM_TENSOR_MAGIC);
    TRUE(map.kind == SIM_TENSOR_TILED && map.type == 7 && map.rank == 5 && map.address == (uintptr_t)address);
    TRUE(map.dims[4] == 4 && map.strides[3] == 1048576 && map.box[0] == 16 && map.element_strides[4] == 1);
    WANT(TILED(&map, 0, 1, address, dims, NULL, box, ones), OK); /* a row needs no strides */
    TRUE(map.dims[1] == 0 && map.strides[0] == 0 && map.box[1] == 0);
    WANT(TILED(NULL, 7, 2, address, dims, strides, box, ones), INVALID);
    WANT(TILED((char *)&map + 16, 7, 2, address, dims, strides, box, ones), INVALID);
    WANT(TILED(&map, 16, 2, address, dims, strides, box, ones), INVALID);
    WANT(TILED(&map, 7, 0, address, dims, strides, box, ones), INVALID);
    WANT(TILED(&map, 7, 6, address, dims, strides, box, ones), INVALID);
    WANT(TILED(&map, 7, 2, NULL, dims, strides, box, ones), INVALID);
    WANT(TILED(&map, 7, 2, (char *)address + 8, dims, strides, box, ones), INVALID);
    WANT(TILED(&map, 7, 3, address, none, strides, box, ones), INVALID);
    WANT(TILED(&map, 7, 3, address, dims, odd, box, ones), INVALID);
    WANT(TILED(&map, 7, 3, address, dims, NULL, box, ones), INVALID);
    WANT(TILED(&map, 7, 3, address, dims, strides, wide, ones), INVALID);
    WANT(TILED(&map, 7, 3, address, dims, strides, NULL, ones), INVALID);
    WANT(TILED(&map, 7, 3, address, dims, strides, box, nothing), INVALID);
    WANT(cuTensorMapEncodeTiled(&map, 7, 2, address, dims, strides, box, ones, 1, 0, 0, 0), INVALID); /* interleaved: of 3 at least */
    WANT(cuTensorMapEncodeTiled(&map, 7, 3, (char *)address + 16, dims, strides, box, ones, 2, 0, 0, 0), INVALID);
    WANT(cuTensorMapEncodeTiled(&map, 7, 3, address, dims, strides, box, ones, 0, 7, 0, 0), INVALID);
}

static void columns(void)
{
    WANT(cuTensorMapEncodeIm2col(&map, 6, 4, address, dims, strides, lower, upper, 64, 128, ones, 0, 0, 0, 0), OK);
    TRUE(map.kind == SIM_TENSOR_IM2COL && map.corners[0] == -1 && map.corners[1] == -2 && map.corners[3] == 1 && map.box[1] == 128);
    WANT(cuTensorMapEncodeIm2col(&map, 6, 2, address, dims, strides, lower, upper, 64, 128, ones, 0, 0, 0, 0), INVALID);
    WANT(cuTensorMapEncodeIm2col(&map, 6, 4, address, dims, strides, NULL, upper, 64, 128, ones, 0, 0, 0, 0), INVALID);
    WANT(cuTensorMapEncodeIm2col(&map, 6, 4, address, dims, strides, lower, upper, 0, 128, ones, 0, 0, 0, 0), INVALID);
    WANT(cuTensorMapEncodeIm2colWide(&map, 6, 4, address, dims, strides, -1, 1, 64, 128, ones, 0, 1, 0, 0, 0), OK);
    TRUE(map.kind == SIM_TENSOR_IM2COL_WIDE && map.mode == 1 && map.corners[0] == -1 && map.corners[3] == 1);
    WANT(cuTensorMapEncodeIm2colWide(&map, 6, 4, address, dims, strides, -1, 1, 64, 128, ones, 0, 2, 0, 0, 0), INVALID);
}

static void replaced(void)
{
    WANT(TILED(&map, 7, 2, address, dims, strides, box, ones), OK);
    WANT(cuTensorMapReplaceAddress(&map, (char *)address + 4096), OK);
    TRUE(map.address == (uintptr_t)address + 4096 && map.dims[1] == 32);
    WANT(cuTensorMapReplaceAddress(&map, (char *)address + 4), INVALID);
    WANT(cuTensorMapReplaceAddress(&map, NULL), INVALID);
    map.magic = 0;
    WANT(cuTensorMapReplaceAddress(&map, address), INVALID);
}

int main(void)
{
    WANT(TILED(&map, 7, 2, address, dims, strides, box, ones), 3); /* not initialised */
    CHECK(cuInit(0));
    tiled();
    columns();
    replaced();
    puts("ok");
    return 0;
}
