/* launchloop: times kernel launches as a program does that knows nothing of us.
 *
 * It is foreign on purpose: plain C, no header of ours or of CUDA, the driver found by
 * dlopen and dlsym. T threads launch on a stream each; a repetition is N launches a thread
 * followed by a synchronisation, timed from the common start to the last thread's end. The
 * number of launches is fixed before the clock starts, so no clock is read in the loop.
 *
 * One JSON object a line on stdout. Exit code 0 done, 1 the driver refused a call, 2 usage.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The few shapes of the driver interface that are used here. */
typedef int cu_result;
typedef int cu_device;
typedef struct cu_context_st *cu_context;
typedef struct cu_module_st *cu_module;
typedef struct cu_function_st *cu_function;
typedef struct cu_stream_st *cu_stream;
enum { STREAM_NON_BLOCKING = 1, MAX_THREADS = 256, MAX_COUNTS = 16, FIRST_LAUNCHES = 20, WARM_UP_LAUNCHES = 2000 };

static struct {
    cu_result (*init)(unsigned);
    cu_result (*device_get)(cu_device *, int);
    cu_result (*primary_retain)(cu_context *, cu_device);
    cu_result (*primary_release)(cu_device);
    cu_result (*set_current)(cu_context);
    cu_result (*module_load)(cu_module *, const void *);
    cu_result (*module_function)(cu_function *, cu_module, const char *);
    cu_result (*stream_create)(cu_stream *, unsigned);
    cu_result (*stream_synchronize)(cu_stream);
    cu_result (*stream_destroy)(cu_stream);
    cu_result (*launch)(cu_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cu_stream,
                        void **, void **);
} cu;

static struct options {
    const char *ptx;
    const char *kernel;
    uint64_t iterations; /* of xm_spin; unused by a kernel without parameters */
    int threads[MAX_COUNTS];
    int counts;
    uint64_t launches; /* a thread and repetition; 0: as many as fit rep_ms */
    uint64_t rep_ms;
    int reps;
    uint64_t sync_every; /* wait for the stream after this many launches; 0: only at the end */
    unsigned grid, block;
    int device;
    int init_only;
    int wait; /* for a line on stdin, once a context is there */
} opt = {.kernel = "xm_empty", .rep_ms = 100, .reps = 10, .grid = 1, .block = 32};

struct worker {
    pthread_t thread;
    pthread_barrier_t *start;
    cu_context context;
    cu_function function;
    uint64_t launches;
    uint64_t begin_ns, end_ns;
    const char *failed;
    cu_result code;
};

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int refused(const char *call, cu_result code) {
    printf("{\"event\":\"error\",\"call\":\"%s\",\"code\":%d}\n", call, code);
    fflush(stdout);
    return 1;
}

static int usage(const char *what) {
    fprintf(stderr,
            "launchloop: %s\n"
            "usage: launchloop --ptx FILE|- [--kernel xm_empty|xm_spin] [--iterations N] [--threads 1,2,8]\n"
            "                  [--launches N | --rep-ms 100] [--reps 10] [--sync-every K] [--grid 1] [--block 32]\n"
            "                  [--device 0] [--wait]\n"
            "       launchloop --init-only\n",
            what);
    return 2;
}

static int parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *out) {
    char *end;
    unsigned long long v;
    if (*text < '0' || *text > '9') return -1;
    v = strtoull(text, &end, 10);
    if (*end || v < low || v > high) return -1;
    *out = v;
    return 0;
}

static int parse_threads(char *list) {
    char *save = NULL;
    for (char *p = strtok_r(list, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
        uint64_t v;
        if (opt.counts == MAX_COUNTS || parse_number(p, 1, MAX_THREADS, &v)) return -1;
        opt.threads[opt.counts++] = (int)v;
    }
    return opt.counts ? 0 : -1;
}

static int parse(int argc, char **argv) {
    enum { PTX, KERNEL, ITERATIONS, THREADS, LAUNCHES, REP_MS, REPS, SYNC, GRID, BLOCK, DEVICE, INIT, WAIT };
    static const struct option known[] = {
        {"ptx", required_argument, NULL, PTX},           {"kernel", required_argument, NULL, KERNEL},
        {"iterations", required_argument, NULL, ITERATIONS}, {"threads", required_argument, NULL, THREADS},
        {"launches", required_argument, NULL, LAUNCHES}, {"rep-ms", required_argument, NULL, REP_MS},
        {"reps", required_argument, NULL, REPS},         {"sync-every", required_argument, NULL, SYNC},
        {"grid", required_argument, NULL, GRID},         {"block", required_argument, NULL, BLOCK},
        {"device", required_argument, NULL, DEVICE},     {"init-only", no_argument, NULL, INIT},
        {"wait", no_argument, NULL, WAIT},
        {NULL, 0, NULL, 0}};
    int o, which = 0;
    uint64_t v;
    while ((o = getopt_long(argc, argv, "", known, &which)) != -1) {
        int bad = 0;
        switch (o) {
        case PTX: opt.ptx = optarg; break;
        case KERNEL: opt.kernel = optarg; break;
        case THREADS: bad = parse_threads(optarg); break;
        case INIT: opt.init_only = 1; break;
        case WAIT: opt.wait = 1; break;
        case ITERATIONS: bad = parse_number(optarg, 0, UINT64_MAX, &opt.iterations); break;
        case LAUNCHES: bad = parse_number(optarg, 1, 1u << 30, &opt.launches); break;
        case REP_MS: bad = parse_number(optarg, 1, 60000, &opt.rep_ms); break;
        case SYNC: bad = parse_number(optarg, 0, 1u << 30, &opt.sync_every); break;
        case REPS: if (!(bad = parse_number(optarg, 1, 100000, &v))) opt.reps = (int)v; break;
        case GRID: if (!(bad = parse_number(optarg, 1, 65535, &v))) opt.grid = (unsigned)v; break;
        case BLOCK: if (!(bad = parse_number(optarg, 1, 1024, &v))) opt.block = (unsigned)v; break;
        case DEVICE: if (!(bad = parse_number(optarg, 0, 1023, &v))) opt.device = (int)v; break;
        default: return usage("unknown option");
        }
        if (bad) {
            char what[64];
            snprintf(what, sizeof what, "bad value of --%s", known[which].name);
            return usage(what);
        }
    }
    if (optind != argc) return usage("unexpected argument");
    if (!opt.init_only && !opt.ptx) return usage("--ptx is missing");
    if (!opt.counts) opt.threads[opt.counts++] = 1;
    return 0;
}

static int resolve(void) {
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {
        {"cuInit", &cu.init},
        {"cuDeviceGet", &cu.device_get},
        {"cuDevicePrimaryCtxRetain", &cu.primary_retain},
        {"cuDevicePrimaryCtxRelease_v2", &cu.primary_release},
        {"cuCtxSetCurrent", &cu.set_current},
        {"cuModuleLoadData", &cu.module_load},
        {"cuModuleGetFunction", &cu.module_function},
        {"cuStreamCreate", &cu.stream_create},
        {"cuStreamSynchronize", &cu.stream_synchronize},
        {"cuStreamDestroy_v2", &cu.stream_destroy},
        {"cuLaunchKernel", &cu.launch},
    };
    if (!lib) {
        fprintf(stderr, "launchloop: %s\n", dlerror());
        return refused("dlopen", -1);
    }
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        void *f = dlsym(lib, wanted[i].name);
        if (!f) return refused(wanted[i].name, -1);
        memcpy(wanted[i].slot, &f, sizeof f);
    }
    return 0;
}

/* Reads a whole file ("-": stdin) and ends it with a NUL, as the driver wants text. */
static char *read_all(const char *path) {
    FILE *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    size_t used = 0, size = 1 << 16;
    char *text = f ? malloc(size) : NULL;
    while (text) {
        size_t got = fread(text + used, 1, size - used - 1, f);
        char *grown;
        used += got;
        if (!got) break;
        if (used + 1 < size) continue;
        if (!(grown = realloc(text, size *= 2))) free(text);
        text = grown;
    }
    if (text && ferror(f)) {
        free(text);
        text = NULL;
    }
    if (f && f != stdin) fclose(f);
    if (text) text[used] = 0;
    return text;
}

static void *work(void *arg) {
    struct worker *w = arg;
    cu_stream stream = NULL;
    uint64_t out = 0, iterations = opt.iterations, until_sync = opt.sync_every;
    void *params[] = {&out, &iterations};

    w->failed = "cuCtxSetCurrent";
    if ((w->code = cu.set_current(w->context)) == 0) {
        w->failed = "cuStreamCreate";
        w->code = cu.stream_create(&stream, STREAM_NON_BLOCKING);
    }
    pthread_barrier_wait(w->start);
    w->begin_ns = now_ns();
    if (w->code) return NULL;
    w->failed = "cuLaunchKernel";
    for (uint64_t i = 0; i < w->launches && !w->code; i++) {
        w->code = cu.launch(w->function, opt.grid, 1, 1, opt.block, 1, 1, 0, stream, params, NULL);
        if (until_sync && --until_sync == 0) {
            until_sync = opt.sync_every;
            if (!w->code) w->code = cu.stream_synchronize(stream);
        }
    }
    if (!w->code) {
        w->failed = "cuStreamSynchronize";
        w->code = cu.stream_synchronize(stream);
    }
    w->end_ns = now_ns();
    cu.stream_destroy(stream);
    return NULL;
}

/* One repetition: 0 and its wall time, or 1 after printing what was refused. */
static int repeat(cu_context context, cu_function function, int threads, uint64_t launches, uint64_t *wall_ns) {
    static struct worker workers[MAX_THREADS];
    pthread_barrier_t start;
    uint64_t first = UINT64_MAX, last = 0;
    int made = 0;
    pthread_barrier_init(&start, NULL, (unsigned)threads + 1);
    for (; made < threads; made++) {
        workers[made] = (struct worker){
            .start = &start, .context = context, .function = function, .launches = launches};
        if (pthread_create(&workers[made].thread, NULL, work, &workers[made])) {
            fprintf(stderr, "launchloop: cannot start thread %d\n", made);
            exit(1); /* the others wait at the barrier for ever */
        }
    }
    pthread_barrier_wait(&start);
    for (int i = 0; i < threads; i++) pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&start);
    for (int i = 0; i < threads; i++) {
        if (workers[i].code) return refused(workers[i].failed, workers[i].code);
        if (workers[i].begin_ns < first) first = workers[i].begin_ns; /* this thread may sleep on */
        if (workers[i].end_ns > last) last = workers[i].end_ns;
    }
    *wall_ns = last > first ? last - first : 1;
    return 0;
}

/* How many launches a thread fit a repetition, when n took wall_ns. */
static uint64_t fit(uint64_t wall_ns, uint64_t n) {
    uint64_t each = wall_ns / n;
    return opt.rep_ms * 1000000u / (each ? each : 1) + 1;
}

static int measure(cu_context context, cu_function function, int threads) {
    uint64_t launches = opt.launches, fitting, wall;
    if (repeat(context, function, threads, FIRST_LAUNCHES, &wall)) return 1;
    fitting = fit(wall, FIRST_LAUNCHES);
    /* Of long kernels a repetition's worth is warm-up enough. */
    if (fitting > WARM_UP_LAUNCHES / (uint64_t)threads + 1) fitting = WARM_UP_LAUNCHES / (uint64_t)threads + 1;
    if (repeat(context, function, threads, fitting, &wall)) return 1;
    if (!launches) launches = fit(wall, fitting);
    for (int r = 0; r < opt.reps; r++) {
        if (repeat(context, function, threads, launches, &wall)) return 1;
        printf("{\"event\":\"launches\",\"threads\":%d,\"rep\":%d,\"launches\":%" PRIu64 ",\"wall_ns\":%" PRIu64
               ",\"ns_per_launch\":%.2f}\n",
               threads, r, launches * (uint64_t)threads, wall,
               (double)wall / ((double)launches * (double)threads));
        fflush(stdout);
    }
    return 0;
}

static int launch_all(void) {
    cu_device device;
    cu_context context;
    cu_module module;
    cu_function function;
    cu_result r;
    char *text = read_all(opt.ptx);
    if (!text) {
        fprintf(stderr, "launchloop: cannot read %s\n", opt.ptx);
        return 2;
    }
    if ((r = cu.device_get(&device, opt.device))) return refused("cuDeviceGet", r);
    if ((r = cu.primary_retain(&context, device))) return refused("cuDevicePrimaryCtxRetain", r);
    if ((r = cu.set_current(context))) return refused("cuCtxSetCurrent", r);
    if ((r = cu.module_load(&module, text))) return refused("cuModuleLoadData", r);
    free(text);
    if ((r = cu.module_function(&function, module, opt.kernel))) return refused("cuModuleGetFunction", r);
    if (opt.wait) {
        printf("{\"event\":\"ready\"}\n");
        fflush(stdout);
        if (getchar() == EOF) return 0; /* not wanted any more */
    }
    for (int i = 0; i < opt.counts; i++)
        if (measure(context, function, opt.threads[i])) return 1;
    if ((r = cu.primary_release(device))) return refused("cuDevicePrimaryCtxRelease_v2", r);
    return 0;
}

int main(int argc, char **argv) {
    uint64_t begin, initialised;
    cu_result r;
    int rc = parse(argc, argv);
    if (rc) return rc;
    if ((rc = resolve())) return rc;
    begin = now_ns();
    if ((r = cu.init(0))) return refused("cuInit", r);
    initialised = now_ns();
    printf("{\"event\":\"init\",\"init_ns\":%" PRIu64 "}\n", initialised - begin);
    fflush(stdout);
    if (!opt.init_only && (rc = launch_all())) return rc;
    printf("{\"event\":\"done\"}\n");
    return 0;
}
