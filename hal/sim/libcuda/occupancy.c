/* How many blocks a multiprocessor holds. The limits are an H200's; the kernels'
 * registers limit nothing (32 for each of 2048 threads). */
#include "cu_graph.h"
#include "launch.h"

#define THREADS 2048u  /* of a multiprocessor, as are the next */
#define BLOCKS 32u
#define SHARED (228u * 1024u)
#define RESERVED 1024u /* of shared memory, for each block */
#define WARP 32u

unsigned sim_blocks_resident(unsigned threads, size_t dynamic)
{
    unsigned n = THREADS / ((threads + WARP - 1) / WARP * WARP);
    size_t by_shared = SHARED / (dynamic + RESERVED);

    if (n > BLOCKS)
        n = BLOCKS;
    return by_shared < n ? (unsigned)by_shared : n;
}

/* out: where the answer goes, asked for first. */
static int check(const void *out, CUfunction f, const struct sim_function **found)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);

    if (rc)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *found = sim_function_of(f, c, &rc);
    return *found ? CUDA_SUCCESS : rc;
}

static int active(int *blocks, CUfunction f, int threads, size_t dynamic, unsigned flags)
{
    const struct sim_function *known;
    int rc = check(blocks, f, &known);
    if (rc)
        return rc;
    if (threads <= 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = threads > 1024 || dynamic > (size_t)known->max_dynamic ? 0 : (int)sim_blocks_resident((unsigned)threads, dynamic);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int threads, size_t dynamic)
{
    return active(blocks, f, threads, dynamic, 0);
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction f, int threads, size_t dynamic, unsigned flags)
{
    return active(blocks, f, threads, dynamic, flags);
}

/* The largest block of those that keep the most threads on a multiprocessor. */
static int potential(int *grid, int *block, CUfunction f, size_t (*shared_of)(int), size_t dynamic, int limit, unsigned flags)
{
    const struct sim_function *known;
    unsigned best = 0, best_blocks = 0, most = limit > 0 && limit < 1024 ? (unsigned)limit : 1024;

    int rc = check(grid, f, &known);
    if (rc)
        return rc;
    if (!block || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned threads = most; threads; threads = (threads - 1) / WARP * WARP) {
        unsigned n = sim_blocks_resident(threads, shared_of ? shared_of((int)threads) : dynamic);
        if (n * threads > best * best_blocks) {
            best = threads;
            best_blocks = n;
        }
    }
    *grid = (int)(best_blocks * SIM_MULTIPROCESSORS);
    *block = (int)best;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction f, size_t (*shared_of)(int), size_t dynamic, int limit)
{
    return potential(grid, block, f, shared_of, dynamic, limit, 0);
}

EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction f, size_t (*shared_of)(int), size_t dynamic, int limit, unsigned flags)
{
    return potential(grid, block, f, shared_of, dynamic, limit, flags);
}

EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction f, int blocks, int threads)
{
    const struct sim_function *known;
    int rc = check(bytes, f, &known);
    if (rc)
        return rc;
    if (blocks <= 0 || threads <= 0 || threads > 1024 || (unsigned)blocks > sim_blocks_resident((unsigned)threads, 0))
        return CUDA_ERROR_INVALID_VALUE;
    size_t n = SHARED / (unsigned)blocks / 128 * 128, most = (size_t)known->max_dynamic;
    *bytes = n < most ? n : most;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction f, const CUlaunchConfig *config)
{
    const struct sim_function *known;
    int rc = check(size, f, &known);
    if (rc)
        return rc;
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t n = (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ;
    if (!n || n > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    *size = 8; /* what every kernel may have */
    return CUDA_SUCCESS;
}
