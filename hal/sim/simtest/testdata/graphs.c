/* Graphs: order along the edges, one submission a launch, as large as they like,
 * launched and changed from several threads. */
#include "graph.h"

#include <pthread.h>

static void *module, *increment, *fill;

static struct kernel_node node_of(void *f, void **args)
{
    return (struct kernel_node){f, {1, 1, 1}, {32, 1, 1}, 0, args, NULL, NULL, NULL};
}

/* Waits for a word that another branch writes: whatever the order in which the
 * branches were added. */
static void branches(void)
{
    uint32_t *w = words(4096);
    void *s;
    CHECK(cuStreamCreate(&s, 1));
    for (int waits_first = 0; waits_first < 2; waits_first++) {
        void *g, *x, *n[3];
        struct mem_op wait = {.operation = 1, .address = address_of(w), .value = 7, .flags = 1};
        struct mem_op write = {.operation = 2, .address = address_of(w), .value = 7};
        struct mem_op last = {.operation = 2, .address = address_of(w + 1), .value = 9};
        struct batch_node a = {NULL, 1, &wait, 0}, b = {NULL, 1, &write, 0}, c = {NULL, 1, &last, 0};
        memset(w, 0, 8);
        CHECK(cuGraphCreate(&g, 0));
        CHECK(cuGraphAddBatchMemOpNode(&n[0], g, NULL, 0, waits_first ? &a : &b));
        CHECK(cuGraphAddBatchMemOpNode(&n[1], g, NULL, 0, waits_first ? &b : &a));
        CHECK(cuGraphAddBatchMemOpNode(&n[2], g, n, 2, &c));
        CHECK(cuGraphInstantiateWithFlags(&x, g, 0));
        CHECK(cuGraphLaunch(x, s));
        CHECK(cuStreamSynchronize(s));
        TRUE(w[0] == 7 && w[1] == 9);
        CHECK(cuGraphExecDestroy(x));
        CHECK(cuGraphDestroy(g));
    }
}

/* More nodes than a ring has entries, all of one chain and then side by side. */
static void large(void)
{
    enum { NODES = 3000 };
    dptr p;
    uint32_t n = 1, got;
    void *s, *args[] = {&p, &n}, *g, *x, *before = NULL;
    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuMemAlloc_v2(&p, 4));
    CHECK(cuMemsetD8_v2(p, 0, 4));
    struct kernel_node k = node_of(increment, args);
    for (int chain = 0; chain < 2; chain++) {
        CHECK(cuGraphCreate(&g, 0));
        for (int i = 0; i < NODES; i++) {
            void *node;
            CHECK(cuGraphAddKernelNode_v2(&node, g, &before, chain && i ? 1 : 0, &k));
            before = node;
        }
        CHECK(cuGraphInstantiateWithFlags(&x, g, 0));
        CHECK(cuGraphDestroy(g));
        CHECK(cuGraphLaunch(x, s));
        CHECK(cuGraphLaunch(x, s));
        CHECK(cuGraphExecDestroy(x)); /* while it runs */
        CHECK(cuStreamSynchronize(s));
        CHECK(cuMemcpyDtoH_v2(&got, p, 4));
        TRUE(got == 2u * NODES * (unsigned)(chain + 1));
    }
    CHECK(cuMemFree_v2(p));
}

/* Nothing of another thread comes between the nodes of a launch. */
static uint32_t *shared_word, *copies;
static void *shared_stream;
static int stop;

static void *intrude(void *context)
{
    CHECK(cuCtxSetCurrent(context));
    for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_SEQ_CST); i++)
        CHECK(cuMemcpyDtoHAsync_v2(&copies[i % 512], address_of(shared_word), 4, shared_stream));
    return NULL;
}

static void whole(void *context)
{
    pthread_t other;
    void *g, *x;
    shared_word = words(4096);
    copies = words(4096);
    CHECK(cuStreamCreate(&shared_stream, 1));
    CHECK(cuStreamBeginCapture_v2(shared_stream, RELAXED));
    for (unsigned i = 0; i < 40; i++)
        CHECK(cuStreamWriteValue32(shared_stream, address_of(shared_word), i == 39 ? 0 : i + 1, 0));
    CHECK(cuStreamEndCapture(shared_stream, &g));
    CHECK(cuGraphInstantiateWithFlags(&x, g, 0));
    TRUE(!pthread_create(&other, NULL, intrude, context));
    for (int round = 0; round < 150; round++) {
        CHECK(cuGraphLaunch(x, shared_stream));
        for (int i = 0; i < 512; i++)
            TRUE(__atomic_load_n(&copies[i], __ATOMIC_SEQ_CST) == 0);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    pthread_join(other, NULL);
    CHECK(cuStreamSynchronize(shared_stream));
    for (int i = 0; i < 512; i++)
        TRUE(copies[i] == 0);
}

/* One executable graph in the hands of several threads: every launch counts, and
 * every change is whole. */
enum { THREADS = 4, LAUNCHES = 100 };
static void *common, *common_node;
static dptr sums;

static void *hammer(void *context)
{
    void *s;
    uint32_t n = 1;
    dptr p = sums;
    void *args[] = {&p, &n};
    struct kernel_node k = node_of(increment, args);
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&s, 1));
    for (int i = 0; i < LAUNCHES; i++) {
        CHECK(cuGraphLaunch(common, s));
        if (i % 10 == 0)
            CHECK(cuGraphExecKernelNodeSetParams_v2(common, common_node, &k));
    }
    CHECK(cuStreamSynchronize(s));
    CHECK(cuStreamDestroy_v2(s));
    return NULL;
}

static void threads(void *context)
{
    pthread_t t[THREADS];
    uint32_t n = 1, got;
    void *g, *args[] = {&sums, &n};
    CHECK(cuMemAlloc_v2(&sums, 4));
    CHECK(cuMemsetD8_v2(sums, 0, 4));
    struct kernel_node k = node_of(increment, args);
    CHECK(cuGraphCreate(&g, 0));
    CHECK(cuGraphAddKernelNode_v2(&common_node, g, NULL, 0, &k));
    CHECK(cuGraphInstantiateWithFlags(&common, g, 0));
    for (int i = 0; i < THREADS; i++)
        TRUE(!pthread_create(&t[i], NULL, hammer, context));
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    CHECK(cuMemcpyDtoH_v2(&got, sums, 4));
    TRUE(got == THREADS * LAUNCHES);
}

/* Pageable memory is read and written when the graph runs. */
static void pageable(void)
{
    enum { N = 3000000 };
    unsigned char *in = malloc(N), *out = malloc(N);
    dptr p;
    void *s, *g, *x;
    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuMemAlloc_v2(&p, N));
    CHECK(cuStreamBeginCapture_v2(s, RELAXED));
    CHECK(cuMemcpyHtoDAsync_v2(p, in, N, s));
    CHECK(cuMemcpyDtoHAsync_v2(out, p, N, s));
    CHECK(cuStreamEndCapture(s, &g));
    CHECK(cuGraphInstantiateWithFlags(&x, g, 0));
    for (int round = 1; round < 4; round++) {
        for (int i = 0; i < N; i++)
            in[i] = (unsigned char)(i * round);
        memset(out, 0, N);
        CHECK(cuGraphLaunch(x, s));
        CHECK(cuStreamSynchronize(s));
        TRUE(!memcmp(in, out, N));
    }
    CHECK(cuMemFree_v2(p));
    free(in);
    free(out);
}

int main(void)
{
    void *context;
    module = begin();
    CHECK(cuCtxGetCurrent(&context));
    increment = kernel(module, "xm_increment");
    fill = kernel(module, "xm_fill");
    branches();
    large();
    whole(context);
    threads(context);
    pageable();
    puts("ok");
    return 0;
}
