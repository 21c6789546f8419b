/* Copies and memsets of rows and boxes, between memory of every kind: every byte is
 * looked at, those beside the box as well. */
#include "host.h"

#include "../../libcuda/cu_memory.h"

int cuMemcpy2D_v2(const CUDA_MEMCPY2D *);
int cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *, void *);
int cuMemcpy3D_v2(const CUDA_MEMCPY3D *);
int cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *, void *);
int cuMemcpyBatchAsync_v2(dptr *, dptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, void *);
int cuMemcpyBatchAsync(dptr *, dptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, size_t *, void *);

enum kind { DEVICE, PAGEABLE, PINNED, MANAGED, KINDS };

/* A piece of memory of some kind, and how its bytes lie. */
struct end {
    enum kind kind;
    unsigned char *host; /* NULL: only the device reaches it */
    dptr device;
    size_t size, pitch, rows, x, y, z;
};

static void make(struct end *e, size_t size)
{
    e->size = size;
    e->host = NULL;
    if (e->kind == DEVICE)
        CHECK(cuMemAlloc_v2(&e->device, size));
    else if (e->kind == PAGEABLE)
        TRUE(e->host = malloc(size));
    else if (e->kind == PINNED)
        CHECK(cuMemAllocHost_v2((void **)&e->host, size));
    else
        CHECK(cuMemAllocManaged((dptr *)&e->host, size, 1));
    if (e->host)
        e->device = (dptr)(uintptr_t)e->host;
}

static void end(struct end *e)
{
    if (e->kind == DEVICE || e->kind == MANAGED)
        CHECK(cuMemFree_v2(e->device));
    else if (e->kind == PINNED)
        CHECK(cuMemFreeHost(e->host));
    else
        free(e->host);
}

static void set(struct end *e, const unsigned char *b)
{
    if (e->host)
        memcpy(e->host, b, e->size);
    else
        CHECK(cuMemcpyHtoD_v2(e->device, b, e->size));
    CHECK(cuCtxSynchronize());
}

static void get(const struct end *e, unsigned char *b)
{
    if (e->host)
        memcpy(b, e->host, e->size);
    else
        CHECK(cuMemcpyDtoH_v2(b, e->device, e->size));
}

static unsigned random_state = 1;

static size_t below(size_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static void noise(unsigned char *b, size_t n)
{
    unsigned seed = (unsigned)below(1 << 20);
    for (size_t i = 0; i < n; i++)
        b[i] = (unsigned char)((i * 2654435761u + seed) >> 13);
}

static unsigned memory_type(const struct end *e)
{
    if (e->kind == PAGEABLE)
        return CU_MEMORYTYPE_HOST;
    return below(2) ? CU_MEMORYTYPE_UNIFIED : e->kind == DEVICE ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

static CUDA_MEMCPY3D describe(const struct end *to, const struct end *from, size_t width, size_t height, size_t depth)
{
    return (CUDA_MEMCPY3D){
        .srcXInBytes = from->x, .srcY = from->y, .srcZ = from->z, .srcMemoryType = memory_type(from), .srcHost = from->host,
        .srcDevice = from->device, .srcPitch = from->pitch, .srcHeight = from->rows,
        .dstXInBytes = to->x, .dstY = to->y, .dstZ = to->z, .dstMemoryType = memory_type(to), .dstHost = to->host,
        .dstDevice = to->device, .dstPitch = to->pitch, .dstHeight = to->rows,
        .WidthInBytes = width, .Height = height, .Depth = depth,
    };
}

/* Where row y of layer z of an end begins. */
static size_t at(const struct end *e, size_t y, size_t z)
{
    return ((e->z + z) * e->rows + e->y + y) * e->pitch + e->x;
}

/* One copy of a box at random places in ends with random rows. */
static void box(struct end *to, struct end *from, size_t width, size_t height, size_t depth, void *stream)
{
    struct end *ends[] = {to, from};
    unsigned char *old[2], *got;

    for (int i = 0; i < 2; i++) {
        struct end *e = ends[i];
        int tight = below(4) == 0;
        e->x = tight ? 0 : below(50);
        e->y = tight ? 0 : below(4);
        e->z = tight ? 0 : below(3);
        e->pitch = e->x + width + (tight ? 0 : below(70));
        e->rows = e->y + height + (tight ? 0 : below(5));
        make(e, (e->z + depth) * e->rows * e->pitch);
        TRUE(old[i] = malloc(e->size));
        noise(old[i], e->size);
        set(e, old[i]);
    }
    CUDA_MEMCPY3D d = describe(to, from, width, height, depth);
    CHECK(stream ? cuMemcpy3DAsync_v2(&d, stream) : cuMemcpy3D_v2(&d));
    if (from->kind == PAGEABLE)
        noise(from->host, from->size); /* it has been read */
    if (stream && to->kind != PAGEABLE)
        CHECK(cuStreamSynchronize(stream));
    TRUE(got = malloc(to->size));
    get(to, got);
    for (size_t z = 0; z < depth; z++)
        for (size_t y = 0; y < height; y++)
            memcpy(old[0] + at(to, y, z), old[1] + at(from, y, z), width);
    TRUE(!memcmp(got, old[0], to->size));
    for (int i = 0; i < 2; i++) {
        end(ends[i]);
        free(old[i]);
    }
    free(got);
}

static void boxes(void *stream)
{
    for (int round = 0; round < 3; round++)
        for (int to = 0; to < KINDS; to++)
            for (int from = 0; from < KINDS; from++) {
                struct end a = {.kind = (enum kind)to}, b = {.kind = (enum kind)from};
                box(&a, &b, 1 + below(300), 1 + below(40), 1 + below(5), below(2) ? stream : NULL);
            }
    /* Rows that are longer than a piece of staging memory, and many short ones. */
    static const size_t shapes[][3] = {{(3 << 19) + 7, 3, 1}, {1 << 20, 2, 2}, {3, 200000, 1}, {700001, 1, 3}, {5, 1, 3000}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int k = 0; k < KINDS; k++) {
            struct end a = {.kind = DEVICE}, b = {.kind = (enum kind)k};
            box(&a, &b, shapes[i][0], shapes[i][1], shapes[i][2], below(2) ? stream : NULL);
            box(&b, &a, shapes[i][0], shapes[i][1], shapes[i][2], below(2) ? stream : NULL);
        }
}

static void pitched(void *stream)
{
    enum { W = 700, H = 90 };
    dptr p;
    size_t pitch;
    unsigned char *b = malloc(W * H), *back = calloc(W, H);

    noise(b, W * H);
    CHECK(cuMemAllocPitch_v2(&p, &pitch, W, H, 4));
    TRUE(pitch >= W && pitch % 512 == 0);
    CUDA_MEMCPY2D d = {
        .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = b, .srcPitch = W,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = p, .dstPitch = pitch, .WidthInBytes = W, .Height = H,
    };
    CHECK(cuMemcpy2DAsync_v2(&d, stream));
    CHECK(cuMemsetD2D32Async(p + 100, pitch, 0x01010101u, 10, H, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemsetD2D8_v2(p + 200, pitch, 7, 3, H));
    CUDA_MEMCPY2D out = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = p, .srcPitch = pitch,
        .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = back, .dstPitch = W, .WidthInBytes = W, .Height = H,
    };
    CHECK(cuMemcpy2D_v2(&out));
    for (int y = 0; y < H; y++) {
        memset(b + y * W + 100, 1, 40);
        memset(b + y * W + 200, 7, 3);
    }
    TRUE(!memcmp(b, back, W * H));
    CHECK(cuMemFree_v2(p));
    free(b);
    free(back);
}

/* All of a batch, in its order; or nothing, when one of it is wrong. */
static void batches(void *stream)
{
    enum { N = 100000 };
    dptr a, b;
    unsigned char *page = malloc(N), *back = malloc(N), *pinned;
    CHECK(cuMemAlloc_v2(&a, N));
    CHECK(cuMemAlloc_v2(&b, N));
    CHECK(cuMemAllocHost_v2((void **)&pinned, N));
    noise(page, N);
    for (int order = 1; order <= 3; order++) {
        dptr to[] = {a, b, (dptr)(uintptr_t)pinned, (dptr)(uintptr_t)back};
        dptr from[] = {(dptr)(uintptr_t)page, a, b, (dptr)(uintptr_t)pinned};
        size_t sizes[] = {N, N, N, N}, first[] = {0};
        CUmemcpyAttributes how = {.srcAccessOrder = order};
        memset(back, 0, N);
        memset(pinned, 0, N);
        CHECK(cuMemcpyBatchAsync_v2(to, from, sizes, 4, &how, first, 1, stream));
        CHECK(cuStreamSynchronize(stream));
        TRUE(!memcmp(back, page, N));
        size_t failed = 9;
        from[2] = b + 1; /* beyond its end */
        memset(pinned, 0, N);
        WANT(cuMemcpyBatchAsync(to, from, sizes, 4, &how, first, 1, &failed, stream), 1);
        CHECK(cuStreamSynchronize(stream));
        TRUE(failed == 2 && pinned[0] == 0 && pinned[N - 1] == 0);
    }
    CHECK(cuMemFree_v2(a));
    CHECK(cuMemFree_v2(b));
    CHECK(cuMemFreeHost(pinned));
    free(page);
    free(back);
}

int main(void)
{
    void *stream;
    begin();
    CHECK(cuStreamCreate(&stream, 1));
    boxes(stream);
    pitched(stream);
    batches(stream);
    puts("ok");
    return 0;
}
