/* records_run CASE, or nothing for the list: a program whose commands are recorded, and
 * that looks at the records. Prints nothing; exits 1 with a line when something is wrong. */
#define _GNU_SOURCE
#include <pthread.h>

#include "records.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* An entry of a given list of parameters. Its body does nothing with them. */
#define ENTRY(list) ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry xm_empty(" list ")\n{\nret;\n}\n"

static const char plain_text[] = ENTRY(".param .u64 a, .param .u32 n, .param .u64 b");
static const char struct_text[] = ENTRY(".param .u32 n, .param .align 16 .b8 s[48], .param .u8 c");
static const char empty_text[] = ENTRY("");
static const char map_text[] = ENTRY(".param .align 64 .b8 m[128], .param .u64 a");

static CUfunction load(const char *text, CUmodule *module)
{
    CUfunction f;
    CUmodule m;

    CHECK(cuModuleLoadData(&m, text));
    CHECK(cuModuleGetFunction(&f, m, "xm_empty"));
    if (module)
        *module = m;
    return f;
}

static struct xm_kernel kernel_of(const struct xm_command *c)
{
    struct xm_kernel k;

    TRUE(c->kernel != 0);
    WANT(commands->kernel(c->kernel, &k), 0);
    return k;
}

static uint64_t word(const void *p, size_t at)
{
    uint64_t w;

    memcpy(&w, (const char *)p + at, sizeof w);
    return w;
}

struct by_value {
    uint64_t ptr;
    uint32_t more[10];
};

/* ---- kernels ---- */

static void params(void)
{
    CUfunction f, g;
    uint64_t a = 0x1111222233334444, b = 0x5555666677778888;
    uint32_t n = 77;
    struct by_value s = {.ptr = 0xabcdef, .more = {1, 2, 3}};
    uint8_t c = 9;
    const struct xm_command *r;
    struct xm_kernel k;

    begin();
    f = load(plain_text, NULL);
    g = load(struct_text, NULL);
    WANT(commands->record(1), 0);
    CHECK(cuLaunchKernel(f, 3, 2, 1, 32, 4, 1, 100, stream, (void *[]){&a, &n, &b}, NULL));
    CHECK(cuLaunchKernel(g, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&n, &s, &c}, NULL));

    r = expect(XM_COMMAND_KERNEL);
    WANT(r->flags, 0);
    WANT(r->section, 0);
    WANT(r->sequence, 1);
    TRUE(r->grid[0] == 3 && r->grid[1] == 2 && r->grid[2] == 1 && r->block[0] == 32 && r->block[1] == 4 && r->block[2] == 1);
    WANT(r->shared, 100);
    WANT(r->payload, 24);
    TRUE(word(payload(r), 0) == a && word(payload(r), 8) == n && word(payload(r), 16) == b);
    k = kernel_of(r);
    TRUE(!strcmp(k.name, "xm_empty"));
    WANT(k.name_bytes, strlen("xm_empty"));
    WANT(k.flags, XM_KERNEL_LAYOUT);
    WANT(k.parameters, 3);
    WANT(k.parameter_bytes, 24);
    TRUE(k.parameter[1].offset == 8 && k.parameter[1].size == 4 && k.parameter[2].offset == 16);
    TRUE(k.code[0] || k.code[1]);

    r = expect(XM_COMMAND_KERNEL);
    WANT(r->sequence, 2);
    WANT(r->payload, 65);
    TRUE(!memcmp((const char *)payload(r) + 16, &s, sizeof s) && ((const uint8_t *)payload(r))[64] == 9);
    WANT(word(payload(r), 8), 0);
    expect_none();
}

/* The other ways of launching: one buffer, attributes, cooperative, per-thread streams. */
static void ways(void)
{
    CUfunction f, e;
    uint64_t a = 1, b = 2;
    uint32_t n = 3;
    struct {
        uint64_t a, n, b;
    } all = {4, 5, 6};
    size_t size = sizeof all;
    void *extra[] = {(void *)1, &all, (void *)2, &size, NULL};
    CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 2, .gridDimZ = 3, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .hStream = stream};
    const struct xm_command *r;
    uint32_t id;

    begin();
    config.hStream = stream;
    f = load(plain_text, NULL);
    e = load(empty_text, NULL);
    commands->record(1);
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
    CHECK(cuLaunchKernelEx(&config, f, (void *[]){&a, &n, &b}, NULL));
    CHECK(cuLaunchKernelEx(&config, f, NULL, extra));
    CHECK(cuLaunchCooperativeKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&a, &n, &b}));
    CHECK(cuLaunchKernel_ptsz(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&a, &n, &b}, NULL));
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&a, &n, &b}, NULL));
    CHECK(cuLaunchKernel(e, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));

    r = expect(XM_COMMAND_KERNEL);
    id = r->kernel;
    TRUE(r->payload == 24 && word(payload(r), 0) == 4 && word(payload(r), 16) == 6);
    r = expect(XM_COMMAND_KERNEL);
    TRUE(r->kernel == id && r->grid[2] == 3 && word(payload(r), 0) == 1 && word(payload(r), 16) == 2);
    r = expect(XM_COMMAND_KERNEL);
    TRUE(r->kernel == id && r->grid[1] == 2 && word(payload(r), 0) == 4);
    r = expect(XM_COMMAND_KERNEL);
    TRUE(r->kernel == id && word(payload(r), 0) == 1 && r->sequence == 4);
    r = expect(XM_COMMAND_KERNEL);
    TRUE(r->kernel == id && r->sequence == 1);
    r = expect(XM_COMMAND_KERNEL);
    TRUE(r->kernel == id && r->sequence == 1);
    r = expect(XM_COMMAND_KERNEL);
    TRUE(r->kernel != id && r->payload == 0 && r->flags == 0 && r->sequence == 5);
    expect_none();
}

static uint32_t launched(CUfunction f)
{
    uint64_t a = 1, b = 2;
    uint32_t n = 3;
    const struct xm_command *r;

    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&a, &n, &b}, NULL));
    r = expect(XM_COMMAND_KERNEL);
    TRUE(r->flags == 0 && r->kernel);
    return r->kernel;
}

/* Which kernel: the same code is the same kernel however it was loaded, other code is another. */
static void kernels(void)
{
    static char other[sizeof plain_text + 16], large[600 * 1024], name[] = "/tmp/xm-records-XXXXXX";
    CUmodule m, m2;
    CUlibrary l;
    CUkernel k;
    CUfunction f, g;
    struct xm_kernel info;
    uint32_t id, id2;
    int fd;

    begin();
    f = load(plain_text, &m);
    commands->record(1);
    id = launched(f);
    WANT(launched(f), id);
    CHECK(cuModuleUnload(m));
    f = load(plain_text, &m);
    WANT(launched(f), id);

    snprintf(other, sizeof other, "%s// other\n", plain_text);
    g = load(other, &m2);
    id2 = launched(g);
    TRUE(id2 != id);
    CHECK(cuModuleUnload(m));
    CHECK(cuModuleUnload(m2));
    g = load(other, &m2); /* likely where the first one was */
    WANT(launched(g), id2);

    CHECK(cuLibraryLoadData(&l, plain_text, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&k, l, "xm_empty"));
    WANT(launched((CUfunction)(void *)k), id);
    CHECK(cuKernelGetFunction(&f, k));
    WANT(launched(f), id);
    CHECK(cuLibraryGetModule(&m, l));
    CHECK(cuModuleGetFunction(&f, m, "xm_empty"));
    WANT(launched(f), id);
    CHECK(cuLibraryUnload(l));

    TRUE((fd = mkstemp(name)) >= 0);
    TRUE(write(fd, plain_text, strlen(plain_text)) == (ssize_t)strlen(plain_text));
    close(fd);
    CHECK(cuModuleLoad(&m, name));
    CHECK(cuModuleGetFunction(&f, m, "xm_empty"));
    unlink(name);
    WANT(launched(f), id);

    memset(large, ' ', sizeof large - 1); /* read in pieces */
    memcpy(large, plain_text, strlen(plain_text));
    id2 = launched(load(large, NULL));
    TRUE(id2 != id);
    WANT(launched(load(large, NULL)), id2);
    WANT(commands->kernel(id2, &info), 0);
    TRUE(info.code[0] || info.code[1]);
    TRUE(commands->kernel(id2 + 1, &info) < 0 && commands->kernel(0, &info) < 0 && commands->kernel(UINT32_MAX, &info) < 0);
}

/* Recording that begins in the middle finds what was there before; off it records nothing. */
static void toggled(void)
{
    uint64_t a = 1, b = 2;
    uint32_t n = 3;
    void *args[] = {&a, &n, &b};
    CUlibrary l;
    CUkernel k;
    CUfunction f;
    CUdeviceptr p;
    uint8_t buf[4096];
    const struct xm_command *r = (const void *)buf;
    const struct xm_command_range *range = (const void *)(r + 1);
    struct xm_kernel info;
    int need;

    begin();
    CHECK(cuLibraryLoadData(&l, plain_text, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&k, l, "xm_empty"));
    f = load(plain_text, NULL);
    CHECK(cuMemAlloc_v2(&p, MIB));
    for (int i = 0; i < 70; i++)
        CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    expect_none();

    WANT(commands->record(1), 0);
    WANT(commands->record(1), 1);
    need = commands->ranges(NULL, 0);
    WANT(need, sizeof *r + sizeof *range);
    WANT(commands->ranges(buf, sizeof buf), need);
    TRUE(r->kind == XM_COMMAND_ALLOC && range->address == p && range->bytes == MIB);
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    CHECK(cuLaunchKernel((CUfunction)(void *)k, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    WANT(commands->record(0), 1);
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    r = expect(XM_COMMAND_KERNEL);
    WANT(r->sequence, 71);
    info = kernel_of(r);
    TRUE(info.code[0] || info.code[1]);
    WANT(expect(XM_COMMAND_KERNEL)->kernel, r->kernel);
    expect_none();
    WANT(commands->record(0), 0);
    WANT(commands->dropped(), 0);
    TRUE(commands->take(buf, sizeof buf) < 0); /* too small */
}

/* ---- copies, fills, ranges ---- */

static const struct xm_command_copy *expect_copy(uint32_t flags, uint64_t dst, uint64_t src, uint64_t width, uint64_t height, uint64_t depth)
{
    const struct xm_command *r = expect(XM_COMMAND_COPY);
    const struct xm_command_copy *c = payload(r);

    WANT(r->flags, flags);
    WANT(r->payload, sizeof *c);
    WANT(c->dst, dst);
    WANT(c->src, src);
    TRUE(c->width == width && c->height == height && c->depth == depth);
    return c;
}

static void copies(void)
{
    static char host[4 * 64 * KIB];
    const struct xm_command_copy *c;
    CUdeviceptr p, q, dsts[3], srcs[3];
    size_t sizes[3] = {10, 20, 30}, fail;
    const uint64_t h = (uintptr_t)host;
    CUDA_MEMCPY2D two = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host, .srcPitch = 256, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstPitch = 512, .dstXInBytes = 8, .dstY = 2, .WidthInBytes = 100, .Height = 5};
    CUDA_MEMCPY3D three = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcPitch = 128, .srcHeight = 16, .srcZ = 1,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE, .WidthInBytes = 64, .Height = 8, .Depth = 3};
    CUmemcpyAttributes attributes = {.srcAccessOrder = 1};
    size_t which = 0;

    begin();
    CHECK(cuMemAlloc_v2(&p, MIB));
    CHECK(cuMemAlloc_v2(&q, MIB));
    commands->record(1);
    CHECK(cuMemcpyHtoD_v2(p, host, KIB));
    CHECK(cuMemcpyHtoDAsync_v2(p + 1, host + 1, KIB, stream));
    CHECK(cuMemcpyDtoH_v2(host, p, 2 * KIB));
    CHECK(cuMemcpyDtoHAsync_v2(host, p, 3 * KIB, stream));
    CHECK(cuMemcpyDtoD_v2(q, p, 4 * KIB));
    CHECK(cuMemcpyDtoDAsync_v2(q, p, 5 * KIB, stream));
    CHECK(cuMemcpy(q, p, 6 * KIB));
    CHECK(cuMemcpyAsync(q, p, 7 * KIB, stream));
    expect_copy(XM_COMMAND_SRC_HOST, p, h, KIB, 1, 1);
    expect_copy(XM_COMMAND_SRC_HOST, p + 1, h + 1, KIB, 1, 1);
    expect_copy(XM_COMMAND_DST_HOST, h, p, 2 * KIB, 1, 1);
    expect_copy(XM_COMMAND_DST_HOST, h, p, 3 * KIB, 1, 1);
    for (unsigned i = 4; i < 8; i++)
        expect_copy(0, q, p, i * KIB, 1, 1);

    two.dstDevice = p;
    CHECK(cuMemcpy2D_v2(&two));
    CHECK(cuMemcpy2DAsync_v2(&two, stream));
    for (unsigned i = 0; i < 2; i++) {
        c = expect_copy(XM_COMMAND_SRC_HOST, p + 2 * 512 + 8, h, 100, 5, 1);
        TRUE(c->dst_pitch == 512 && c->src_pitch == 256);
    }
    three.srcDevice = p;
    three.dstDevice = q;
    CHECK(cuMemcpy3D_v2(&three));
    CHECK(cuMemcpy3DAsync_v2(&three, stream));
    for (unsigned i = 0; i < 2; i++) {
        c = expect_copy(0, q, p + 16 * 128, 64, 8, 3);
        TRUE(c->dst_pitch == 64 && c->dst_slice == 64 * 8 && c->src_pitch == 128 && c->src_slice == 128 * 16);
    }
    for (unsigned i = 0; i < 3; i++) {
        dsts[i] = q + i * KIB;
        srcs[i] = p + i * KIB;
    }
    CHECK(cuMemcpyBatchAsync(dsts, srcs, sizes, 3, &attributes, &which, 1, &fail, stream));
    for (unsigned i = 0; i < 3; i++)
        expect_copy(0, dsts[i], srcs[i], sizes[i], 1, 1);
    TRUE(cuMemcpyHtoD_v2(1, host, KIB) != CUDA_SUCCESS);
    expect_none();
}

/* CUDA_MEMCPY3D_BATCH_OP (CUDA 13.0), of addresses. */
struct operand {
    unsigned type, pad;
    uint64_t address, row, rows, place;
};

struct operation {
    struct operand src, dst;
    uint64_t width, height, depth;
    unsigned order, flags;
};

/* Batches of layers, and copies from one context to another. */
static void more_copies(void)
{
    struct operation ops[2] = {{.src = {.type = 1, .row = 128, .rows = 10}, .dst = {.type = 1}, .width = 64, .height = 8, .depth = 2, .order = 1}};
    CUDA_MEMCPY3D_PEER peer = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcPitch = 128, .srcHeight = 16, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                               .WidthInBytes = 64, .Height = 8, .Depth = 3};
    const struct xm_command_copy *c;
    CUdeviceptr p, q;

    begin();
    CHECK(cuMemAlloc_v2(&p, MIB));
    CHECK(cuMemAlloc_v2(&q, MIB));
    commands->record(1);
    ops[1] = ops[0];
    for (unsigned i = 0; i < 2; i++) {
        ops[i].src.address = p + i * KIB;
        ops[i].dst.address = q + i * KIB;
    }
    CHECK(cuMemcpy3DBatchAsync_v2(2, (void *)ops, 0, stream));
    for (unsigned i = 0; i < 2; i++) {
        c = expect_copy(0, q + i * KIB, p + i * KIB, 64, 8, 2);
        TRUE(c->src_pitch == 128 && c->src_slice == 1280 && c->dst_pitch == 64 && c->dst_slice == 512);
    }
    CHECK(cuMemcpyPeer(q, ctx, p, ctx, KIB));
    CHECK(cuMemcpyPeerAsync(q, ctx, p, ctx, 2 * KIB, stream));
    expect_copy(0, q, p, KIB, 1, 1);
    expect_copy(0, q, p, 2 * KIB, 1, 1);
    peer.srcDevice = p;
    peer.dstDevice = q;
    peer.srcContext = peer.dstContext = ctx;
    CHECK(cuMemcpy3DPeer(&peer));
    c = expect_copy(0, q, p, 64, 8, 3);
    TRUE(c->src_slice == 128 * 16 && c->dst_slice == 512);
    expect_none();
}

static void expect_fill(uint64_t dst, uint64_t width, uint64_t height, uint64_t pitch)
{
    const struct xm_command *r = expect(XM_COMMAND_FILL);
    const struct xm_command_fill *f = payload(r);

    WANT(r->flags, 0);
    TRUE(f->dst == dst && f->width == width && f->height == height && f->pitch == pitch);
}

static void fills(void)
{
    CUstreamBatchMemOpParams ops[3];
    CUdeviceptr p;

    begin();
    CHECK(cuMemAlloc_v2(&p, MIB));
    memset(ops, 0, sizeof ops);
    ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[0].writeValue.address = p + 128;
    ops[0].writeValue.value = 1;
    ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    ops[1].waitValue.address = p + 128;
    ops[1].waitValue.value = 1;
    ops[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    ops[2].writeValue.address = p + 256;
    commands->record(1);
    CHECK(cuMemsetD8_v2(p, 1, 100));
    CHECK(cuMemsetD16Async(p, 1, 100, stream));
    CHECK(cuMemsetD32_v2(p, 1, 100));
    CHECK(cuMemsetD2D8_v2(p, 256, 1, 100, 3));
    CHECK(cuMemsetD2D16Async(p, 256, 1, 100, 4, stream));
    CHECK(cuMemsetD2D32_v2(p, 512, 1, 100, 5));
    CHECK(cuStreamWriteValue32_v2(stream, p + 64, 1, 0));
    CHECK(cuStreamBatchMemOp_v2(stream, 3, ops, 0));
    expect_fill(p, 100, 1, 100);
    expect_fill(p, 200, 1, 200);
    expect_fill(p, 400, 1, 400);
    expect_fill(p, 100, 3, 256);
    expect_fill(p, 200, 4, 256);
    expect_fill(p, 400, 5, 512);
    expect_fill(p + 64, 4, 1, 4);
    expect_fill(p + 128, 4, 1, 4);
    expect_fill(p + 256, 8, 1, 8);
    expect_none();
}

static void expect_range(uint32_t kind, uint32_t flags, uint64_t address, uint64_t bytes)
{
    const struct xm_command *r = expect(kind);
    const struct xm_command_range *range = payload(r);

    WANT(r->flags, flags);
    WANT(r->section, 0);
    WANT(range->address, address);
    WANT(range->bytes, bytes);
}

static void ranges(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p, pool, managed, pitched, own;
    size_t pitch;
    static uint8_t none[4096];

    begin();
    commands->record(1);
    CHECK(cuMemAlloc_v2(&p, 1000));
    CHECK(cuMemAllocAsync(&pool, 2000, stream));
    CHECK(cuMemAllocManaged(&managed, 3000, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemAllocPitch_v2(&pitched, &pitch, 100, 10, 4));
    CHECK(cuMemPrefetchAsync(managed, 3000, 0, stream));
    CHECK(cuMemAddressReserve(&own, 4 * MIB, 0, 0, 0));
    CHECK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    CHECK(cuMemMap(own, 2 * MIB, 0, handle, 0));
    CHECK(cuMemMap(own + 2 * MIB, 2 * MIB, 0, handle, 0));
    CHECK(cuMemFreeAsync(pool, stream));
    CHECK(cuMemUnmap(own, 4 * MIB));
    CHECK(cuMemFree_v2(p));
    TRUE(cuMemFree_v2(p) != CUDA_SUCCESS);
    CHECK(cuMemFree_v2(managed));
    CHECK(cuMemFree_v2(pitched));
    expect_range(XM_COMMAND_ALLOC, 0, p, 1000);
    expect_range(XM_COMMAND_ALLOC, XM_COMMAND_POOL, pool, 2000);
    expect_range(XM_COMMAND_ALLOC, XM_COMMAND_UNIFIED, managed, 3000);
    expect_range(XM_COMMAND_ALLOC, 0, pitched, 10 * pitch);
    expect_range(XM_COMMAND_PREFETCH, 0, managed, 3000);
    expect_range(XM_COMMAND_ALLOC, XM_COMMAND_MAPPED, own, 2 * MIB);
    expect_range(XM_COMMAND_ALLOC, XM_COMMAND_MAPPED, own + 2 * MIB, 2 * MIB);
    expect_range(XM_COMMAND_FREE, XM_COMMAND_POOL, pool, 2000);
    expect_range(XM_COMMAND_FREE, XM_COMMAND_MAPPED, own, 2 * MIB);
    expect_range(XM_COMMAND_FREE, XM_COMMAND_MAPPED, own + 2 * MIB, 2 * MIB);
    expect_range(XM_COMMAND_FREE, 0, p, 1000);
    expect_range(XM_COMMAND_FREE, XM_COMMAND_UNIFIED, managed, 3000);
    expect_range(XM_COMMAND_FREE, 0, pitched, 10 * pitch);
    expect_none();
    WANT(commands->ranges(none, sizeof none), 0);

    CHECK(cuMemAlloc_v2(&p, 1000)); /* the context takes it along */
    expect_range(XM_COMMAND_ALLOC, 0, p, 1000);
    CHECK(cuDevicePrimaryCtxReset_v2(0));
    expect_range(XM_COMMAND_FREE, 0, p, 1000);
    WANT(commands->ranges(none, sizeof none), 0);
}

/* ---- tensor maps ---- */

static void maps(void)
{
    struct {
        uint8_t bytes[128];
    } m __attribute__((aligned(64))), k __attribute__((aligned(64)));
    cuuint64_t dims[3] = {64, 32, 8}, strides[2] = {256, 8192};
    cuuint32_t box[3] = {16, 16, 2}, ones[3] = {1, 1, 1};
    CUdeviceptr p;
    CUfunction f;
    uint64_t a = 5;
    const struct xm_command *r;
    const struct xm_command_map *map;

    begin();
    f = load(map_text, NULL);
    CHECK(cuMemAlloc_v2(&p, MIB));
    CHECK(cuTensorMapEncodeTiled((void *)&m, 7, 3, (void *)p, dims, strides, box, ones, 0, 0, 0, 0));
    commands->record(1);
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&m, &a}, NULL));
    r = expect(XM_COMMAND_KERNEL);
    WANT(r->maps, 1);
    WANT(r->payload, 136 + sizeof *map);
    TRUE(!memcmp(payload(r), &m, sizeof m) && word(payload(r), 128) == a);
    map = (const void *)((const char *)payload(r) + 136);
    TRUE(map->address == p && map->rank == 3 && map->type == 7 && map->element == 32 && map->offset == 0);
    TRUE(map->dims[0] == 64 && map->dims[2] == 8 && map->dims[3] == 0 && map->strides[1] == 8192);

    k = m;
    CHECK(cuTensorMapReplaceAddress((void *)&k, (void *)(p + 4096)));
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&k, &a}, NULL));
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&m, &a}, NULL));
    for (unsigned i = 0; i < 2; i++) {
        r = expect(XM_COMMAND_KERNEL);
        WANT(r->maps, 1);
        map = (const void *)((const char *)payload(r) + 136);
        TRUE(map->address == (i ? p : p + 4096) && map->rank == 3 && map->strides[1] == 8192);
    }
    expect_none();
    TRUE(cuTensorMapEncodeTiled((void *)&m, 7, 9, (void *)p, dims, strides, box, ones, 0, 0, 0, 0) != CUDA_SUCCESS);
}

/* ---- graphs ---- */

static uint8_t node_records[1 << 16] __attribute__((aligned(8)));

/* The graph of the next record, and its nodes: how many of the kind there are, and the last of them. */
static uint64_t expect_graph(uint64_t *version)
{
    const struct xm_command *r = expect(XM_COMMAND_GRAPH);
    const struct xm_command_graph *g = payload(r);

    WANT(r->flags, 0);
    TRUE(g->id != 0);
    *version = g->version;
    return g->id;
}

static unsigned nodes(uint64_t id, uint64_t version, uint32_t kind, const struct xm_command **last)
{
    uint64_t now = 99;
    int bytes = commands->graph(id, node_records, sizeof node_records, &now);
    unsigned n = 0;

    TRUE(bytes >= 0 && (size_t)bytes <= sizeof node_records);
    WANT(commands->graph(id, NULL, 0, NULL), bytes);
    WANT(now, version);
    for (int at = 0; at < bytes;) {
        const struct xm_command *r = (const void *)(node_records + at);

        TRUE(r->queue == XM_COMMAND_NO_QUEUE && r->sequence == 0 && r->bytes >= sizeof *r + r->payload);
        at += (int)r->bytes;
        if (r->kind == kind) {
            n++;
            *last = r;
        }
    }
    return n;
}

static CUgraphNode add_kernel(CUgraph g, CUfunction f, void **args)
{
    CUDA_KERNEL_NODE_PARAMS p = {.func = f, .gridDimX = 7, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .kernelParams = args};
    CUgraphNode node;

    CHECK(cuGraphAddKernelNode_v2(&node, g, NULL, 0, &p));
    return node;
}

struct made {
    CUgraph graph, child;
    CUgraphNode kernel, copy, fill, inner;
    CUgraphExec exec;
};

static CUdeviceptr at[2];

/* A kernel, a copy, a fill, and a graph with a kernel. */
static struct made make(CUfunction f, uint64_t a)
{
    uint64_t b = 2;
    uint32_t n = 3;
    void *args[] = {&a, &n, &b};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = at[0], .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = at[1],
                          .WidthInBytes = 100, .Height = 1, .Depth = 1};
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = at[1], .value = 1, .elementSize = 4, .width = 10, .height = 1};
    struct made m;
    CUgraphNode holder;

    CHECK(cuGraphCreate(&m.graph, 0));
    CHECK(cuGraphCreate(&m.child, 0));
    m.kernel = add_kernel(m.graph, f, args);
    CHECK(cuGraphAddMemcpyNode(&m.copy, m.graph, NULL, 0, &copy, ctx));
    CHECK(cuGraphAddMemsetNode(&m.fill, m.graph, NULL, 0, &fill, ctx));
    (void)add_kernel(m.child, f, args);
    CHECK(cuGraphAddChildGraphNode(&holder, m.graph, NULL, 0, m.child));
    CHECK(cuGraphInstantiateWithFlags(&m.exec, m.graph, 0));
    return m;
}

static void graphs(void)
{
    CUfunction f;
    uint64_t a = 11, b = 2, id, version;
    uint32_t n = 3;
    void *args[] = {&a, &n, &b};
    const struct xm_command *r;
    struct made m, other;
    CUDA_KERNEL_NODE_PARAMS p = {.gridDimX = 5, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .kernelParams = args};
    CUDA_MEMSET_NODE_PARAMS fill = {.value = 1, .elementSize = 2, .width = 10, .height = 3, .pitch = 64};
    uint64_t info[8]; /* CUgraphExecUpdateResultInfo */

    begin();
    f = load(plain_text, NULL);
    CHECK(cuMemAlloc_v2(&at[0], MIB));
    CHECK(cuMemAlloc_v2(&at[1], MIB));
    commands->record(1);
    m = make(f, 10);
    CHECK(cuGraphLaunch(m.exec, stream));
    id = expect_graph(&version);
    WANT(version, 0);
    WANT(nodes(id, 0, XM_COMMAND_KERNEL, &r), 2);
    TRUE(r->payload == 24 && word(payload(r), 0) == 10 && r->grid[0] == 7 && r->kernel);
    WANT(nodes(id, 0, XM_COMMAND_COPY, &r), 1);
    TRUE(((const struct xm_command_copy *)payload(r))->dst == at[1] && ((const struct xm_command_copy *)payload(r))->width == 100);
    WANT(nodes(id, 0, XM_COMMAND_FILL, &r), 1);
    TRUE(((const struct xm_command_fill *)payload(r))->width == 40);
    WANT(nodes(id, 0, XM_COMMAND_OTHER, &r), 0);

    p.func = f;
    CHECK(cuGraphExecKernelNodeSetParams_v2(m.exec, m.kernel, &p));
    fill.dst = at[0];
    CHECK(cuGraphExecMemsetNodeSetParams(m.exec, m.fill, &fill, ctx));
    CHECK(cuGraphLaunch(m.exec, stream));
    WANT(expect_graph(&version), id);
    WANT(version, 2);
    TRUE(nodes(id, 2, XM_COMMAND_KERNEL, &r) == 2);
    r = (const void *)node_records; /* the first node's */
    TRUE(r->kind == XM_COMMAND_KERNEL && r->grid[0] == 5 && word(payload(r), 0) == 11);
    TRUE(nodes(id, 2, XM_COMMAND_FILL, &r) == 1 && ((const struct xm_command_fill *)payload(r))->height == 3);

    other = make(f, 77);
    CHECK(cuGraphExecUpdate_v2(m.exec, other.graph, (void *)info));
    CHECK(cuGraphLaunch(m.exec, stream));
    WANT(expect_graph(&version), id);
    WANT(version, 3);
    WANT(nodes(id, 3, XM_COMMAND_KERNEL, &r), 2);
    WANT(word(payload(r), 0), 77);
    TRUE(((const struct xm_command *)(const void *)node_records)->grid[0] == 7);
    TRUE(nodes(id, 3, XM_COMMAND_FILL, &r) == 1 && ((const struct xm_command_fill *)payload(r))->width == 40);
    WANT(nodes(id, 3, XM_COMMAND_OTHER, &r), 0);
    CHECK(cuGraphNodeSetEnabled(m.exec, m.kernel, 0));
    (void)nodes(id, 4, XM_COMMAND_KERNEL, &r);
    WANT(((const struct xm_command *)(const void *)node_records)->flags, XM_COMMAND_DISABLED);

    CHECK(cuGraphExecDestroy(m.exec));
    WANT(nodes(id, 4, XM_COMMAND_KERNEL, &r), 2); /* somebody may have its launch's record still to read */
    TRUE(commands->graph(id + 1000, NULL, 0, NULL) < 0);
}

/* Made while nothing was recorded: read at the first launch, when that can be. What is captured is
 * recorded when it is launched. */
static void graphs_late(void)
{
    CUfunction f;
    uint64_t a = 1, b = 2, id, version;
    uint32_t n = 3;
    void *args[] = {&a, &n, &b};
    const struct xm_command *r;
    struct made kept, gone, changed;
    CUDA_KERNEL_NODE_PARAMS p = {.gridDimX = 5, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1, .kernelParams = args};
    CUgraph captured;
    CUgraphExec exec;
    CUdeviceptr pool;

    begin();
    f = load(plain_text, NULL);
    CHECK(cuMemAlloc_v2(&at[0], MIB));
    CHECK(cuMemAlloc_v2(&at[1], MIB));
    kept = make(f, 1);
    gone = make(f, 2);
    changed = make(f, 3);
    p.func = f;
    CHECK(cuGraphDestroy(gone.graph));
    CHECK(cuGraphExecKernelNodeSetParams_v2(changed.exec, changed.kernel, &p));
    commands->record(1);
    CHECK(cuGraphLaunch(kept.exec, stream));
    CHECK(cuGraphLaunch(gone.exec, stream));
    CHECK(cuGraphLaunch(changed.exec, stream));
    id = expect_graph(&version);
    WANT(nodes(id, version, XM_COMMAND_KERNEL, &r), 2);
    for (unsigned i = 0; i < 2; i++) {
        r = expect(XM_COMMAND_GRAPH);
        TRUE(r->flags == XM_COMMAND_UNKNOWN && ((const struct xm_command_graph *)payload(r))->id == 0);
    }

    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    CHECK(cuMemsetD8Async(at[0], 1, 100, stream));
    CHECK(cuStreamEndCapture(stream, &captured));
    expect_none();
    CHECK(cuGraphInstantiateWithFlags(&exec, captured, 0));
    CHECK(cuGraphLaunch(exec, stream));
    id = expect_graph(&version);
    WANT(nodes(id, version, XM_COMMAND_KERNEL, &r), 1);
    WANT(nodes(id, version, XM_COMMAND_FILL, &r), 1);
    expect_none();
    CHECK(cuMemAllocAsync(&pool, MIB, stream));
    expect_range(XM_COMMAND_ALLOC, XM_COMMAND_POOL, pool, MIB);
}

/* ---- several threads, and a ring that nobody empties ---- */

enum { THREADS = 4, LAUNCHES = 3000 };

struct worker {
    pthread_t id;
    uint64_t number;
    CUfunction f;
    uint64_t seen;
};

static struct worker workers[THREADS];
static _Atomic int working;

static void *work(void *arg)
{
    struct worker *w = arg;
    CUstream mine;
    CUdeviceptr p;

    CHECK(cuCtxSetCurrent(ctx));
    CHECK(cuStreamCreate(&mine, CU_STREAM_NON_BLOCKING));
    for (uint64_t i = 1; i <= LAUNCHES; i++) {
        uint64_t b = ~i;
        uint32_t n = (uint32_t)(w->number << 16 | i);

        CHECK(cuLaunchKernel(w->f, (unsigned)w->number, 1, 1, 1, 1, 1, 0, mine, (void *[]){&i, &n, &b}, NULL));
        if (i % 64 == 0) {
            CHECK(cuMemAllocAsync(&p, 512, mine));
            CHECK(cuMemFreeAsync(p, mine));
        }
        if (i % 256 == 0)
            CHECK(cuStreamSynchronize(mine));
        while (i % 64 == 0 && __atomic_load_n(&w->seen, __ATOMIC_RELAXED) + 512 < i)
            usleep(100); /* a reader that has no processor drops nothing */
    }
    CHECK(cuStreamDestroy_v2(mine));
    working--;
    return NULL;
}

static void check_launch(const struct xm_command *r)
{
    struct worker *w;
    uint64_t i = word(payload(r), 0);

    TRUE(r->grid[0] >= 1 && r->grid[0] <= THREADS && r->payload == 24);
    w = &workers[r->grid[0] - 1];
    WANT(i, w->seen + 1);
    WANT(word(payload(r), 8), w->number << 16 | i);
    WANT(word(payload(r), 16), ~i);
    __atomic_store_n(&w->seen, i, __ATOMIC_RELAXED);
}

/* Every record arrives once, whole, and in its thread's order; nothing is freed before it is made. */
static void threads(void)
{
    CUfunction f;
    const struct xm_command *r;
    uint64_t launches = 0, made = 0, freed = 0;

    begin();
    f = load(plain_text, NULL);
    commands->record(1);
    working = THREADS;
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].number = i + 1;
        workers[i].f = f;
        WANT(pthread_create(&workers[i].id, NULL, work, &workers[i]), 0);
    }
    for (;;) {
        bool ended = !working;

        while ((r = next())) {
            if (r->kind == XM_COMMAND_KERNEL) {
                check_launch(r);
                launches++;
            }
            made += r->kind == XM_COMMAND_ALLOC;
            freed += r->kind == XM_COMMAND_FREE;
            TRUE(freed <= made);
        }
        if (ended)
            break;
        usleep(500);
    }
    for (unsigned i = 0; i < THREADS; i++)
        WANT(pthread_join(workers[i].id, NULL), 0);
    WANT(launches, THREADS * LAUNCHES);
    WANT(commands->dropped(), 0);
    WANT(made, THREADS * (LAUNCHES / 64));
    WANT(freed, made);
}

/* Threads load, launch and unload at once, so that handles are given anew all the time: each
 * record names the code that was launched. */
enum { LOADERS = 3, LOADS = 40 };

static char texts[LOADERS][sizeof plain_text + 32];

static void *reload(void *arg)
{
    uint64_t mine = (uintptr_t)arg, b = 0;
    uint32_t n = 0;
    CUstream own;

    CHECK(cuCtxSetCurrent(ctx));
    CHECK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < LOADS; i++) {
        CUmodule m;
        CUfunction f = load(texts[mine], &m);

        CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, own, (void *[]){&mine, &n, &b}, NULL));
        CHECK(cuStreamSynchronize(own));
        CHECK(cuModuleUnload(m));
    }
    return NULL;
}

static void reloads(void)
{
    pthread_t loaders[LOADERS];
    struct xm_kernel k, first[LOADERS];
    const struct xm_command *r;
    unsigned seen[LOADERS] = {0};
    uint32_t ids[LOADERS];

    begin();
    commands->record(1);
    for (unsigned i = 0; i < LOADERS; i++) {
        snprintf(texts[i], sizeof texts[i], "%s// %u\n", plain_text, i);
        WANT(pthread_create(&loaders[i], NULL, reload, (void *)(uintptr_t)i), 0);
    }
    for (unsigned i = 0; i < LOADERS; i++)
        WANT(pthread_join(loaders[i], NULL), 0);
    while ((r = next())) {
        uint64_t who = word(payload(r), 0);

        k = kernel_of(r);
        TRUE(who < LOADERS);
        if (!seen[who]++) {
            first[who] = k;
            ids[who] = r->kernel;
        }
        WANT(r->kernel, ids[who]);
        TRUE(!memcmp(k.code, first[who].code, sizeof k.code));
    }
    for (unsigned i = 0; i < LOADERS; i++)
        WANT(seen[i], LOADS);
    TRUE(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
}

/* What nobody takes is dropped and counted; what there was room for is whole. */
static void full(void)
{
    enum { MANY = 6000 };
    CUfunction f;
    const struct xm_command *r;
    uint64_t seen = 0, b = 2, last;
    uint32_t n = 3;

    begin();
    f = load(plain_text, NULL);
    commands->record(1);
    for (uint64_t i = 1; i <= MANY; i++)
        CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&i, &n, &b}, NULL));
    while ((r = next())) {
        WANT(word(payload(r), 0), seen + 1);
        seen++;
    }
    TRUE(seen > 1000 && seen < MANY);
    WANT(seen + commands->dropped(), MANY);
    last = commands->dropped();
    for (uint64_t i = 1; i <= 100; i++)
        CHECK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&i, &n, &b}, NULL));
    for (seen = 0; (r = next()); seen++)
        WANT(word(payload(r), 0), seen + 1);
    WANT(seen, 100);
    WANT(commands->dropped(), last);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"params", params},
    {"ways", ways},
    {"kernels", kernels},
    {"reloads", reloads},
    {"toggled", toggled},
    {"copies", copies},
    {"more_copies", more_copies},
    {"fills", fills},
    {"ranges", ranges},
    {"maps", maps},
    {"graphs", graphs},
    {"graphs_late", graphs_late},
    {"threads", threads},
    {"full", full},
};

int main(int argc, char **argv)
{
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc < 2)
            puts(cases[i].name);
        else if (!strcmp(argv[1], cases[i].name)) {
            cases[i].run();
            return 0;
        }
    }
    return argc < 2 ? 0 : 2;
}
