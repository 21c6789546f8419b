/* Functions of the program in its streams: each in its place, on a thread that is
 * not the program's, as many as it likes. */
#include "graph.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define STREAMS 24
#define ROUNDS 200

static void *streams[STREAMS];
static uint32_t *cell; /* one a stream, set by the stream and read by its functions */
static unsigned seen[STREAMS];
static pthread_t program;
static int wrong;

struct step {
    unsigned stream, round;
};

/* The memset before it is over, the one behind it has not begun. */
static void check(void *data)
{
    const struct step *s = data;
    if (seen[s->stream]++ != s->round || __atomic_load_n(&cell[s->stream], __ATOMIC_SEQ_CST) != s->round + 1 ||
        pthread_equal(pthread_self(), program))
        __atomic_store_n(&wrong, 1, __ATOMIC_SEQ_CST);
}

static void check_status(void *stream, int status, void *data)
{
    const struct step *s = data;
    if (status || stream != streams[s->stream])
        __atomic_store_n(&wrong, 2, __ATOMIC_SEQ_CST);
    check(data);
}

static struct step steps[STREAMS][ROUNDS];

static void in_order(void)
{
    cell = words(4096);
    program = pthread_self();
    for (unsigned i = 0; i < STREAMS; i++)
        CHECK(cuStreamCreate(&streams[i], i & 1));
    for (unsigned r = 0; r < ROUNDS; r++)
        for (unsigned i = 0; i < STREAMS; i++) {
            steps[i][r] = (struct step){i, r};
            CHECK(cuMemsetD32Async(address_of(&cell[i]), r + 1, 1, streams[i]));
            if (r % 3)
                CHECK(cuLaunchHostFunc(streams[i], check, &steps[i][r]));
            else
                CHECK(cuStreamAddCallback(streams[i], check_status, &steps[i][r], 0));
        }
    CHECK(cuCtxSynchronize());
    for (unsigned i = 0; i < STREAMS; i++)
        TRUE(seen[i] == ROUNDS);
    TRUE(!wrong);
}

/* The driver is closed to a function that it calls. */
static int inside[4];

static void calls(void *data)
{
    dptr p;
    (void)data;
    inside[0] = cuStreamQuery(NULL);
    inside[1] = cuMemAlloc_v2(&p, 4096);
    inside[2] = cuMemsetD8_v2(address_of(cell), 0, 4);
    inside[3] = cuStreamSynchronize(streams[0]);
}

static void closed_inside(void)
{
    CHECK(cuLaunchHostFunc(streams[0], calls, NULL));
    CHECK(cuStreamSynchronize(streams[0]));
    for (int i = 0; i < 4; i++)
        TRUE(inside[i] == 800);
}

/* A signal of the program's is not taken by the driver's threads. */
static pthread_t taker;
static volatile sig_atomic_t taken;

static void note(int signal)
{
    (void)signal;
    taker = pthread_self();
    taken = 1;
}

static void signals(void)
{
    struct sigaction action = {.sa_handler = note};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 100; i++) {
        taken = 0;
        kill(getpid(), SIGUSR1);
        while (!taken)
            ;
        TRUE(pthread_equal(taker, program));
    }
}

/* A function behind a fault is not called; a callback is, and told. */
static int told = -1;

static void tell(void *stream, int status, void *data)
{
    (void)stream;
    (void)data;
    told = status;
}

static void never(void *data)
{
    (void)data;
    told = -2;
}

static void behind_a_fault(void *module)
{
    dptr nowhere = 0xdead0000;
    uint32_t value = 1, n = 8;
    uint32_t *gate = words(4096);
    void *args[] = {&nowhere, &value, &n};
    CHECK(cuStreamWaitValue32(streams[1], address_of(gate), 1, 1));
    CHECK(cuLaunchKernel(kernel(module, "xm_fill"), 1, 1, 1, 32, 1, 1, 0, streams[1], args, NULL));
    CHECK(cuStreamAddCallback(streams[1], tell, NULL, 0));
    CHECK(cuLaunchHostFunc(streams[1], never, NULL));
    __atomic_store_n(gate, 1, __ATOMIC_SEQ_CST);
    WANT(cuStreamSynchronize(streams[1]), 700);
    for (int i = 0; i < 2000 && told == -1; i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    TRUE(told == 700);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    TRUE(told == 700);
}

int main(void)
{
    void *module = begin();
    in_order();
    closed_inside();
    signals();
    behind_a_fault(module);
    puts("ok");
    return 0;
}
