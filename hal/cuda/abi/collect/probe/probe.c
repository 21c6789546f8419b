/* Asks the real driver: what cuGetProcAddress returns, what errors and
 * attributes are called. Uses no vendor header; what it needs it declares.
 *
 * usage: probe KIND NAMES VERSIONS ERRORS   (files, one item a line)
 * KIND is early, answer, error, device or edge:N; each is a process of its own,
 * since some questions crash the driver, and that is an answer too.
 * Output: one line a fact, tab-separated, first column its kind. Addresses are
 * given relative to the load address of libcuda.so.1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATUS_UNTOUCHED 77
#define CRASHED (-11)

typedef int (*gpa2_fn)(const char *, void **, int, uint64_t, int *);
typedef int (*gpa1_fn)(const char *, void **, int, uint64_t);

static char *names[8192];
static int versions[512];
static int n_names, n_versions;
static uintptr_t base;
static void *lib;
static gpa2_fn gpa2;
static gpa1_fn gpa1;

static sigjmp_buf crash;

static void on_crash(int sig)
{
    (void)sig;
    siglongjmp(crash, 1);
}

/* The calls below return CRASHED when the driver faults in them. */
static int ask2(const char *name, void **p, int version, uint64_t flags, int *status)
{
    if (sigsetjmp(crash, 1))
        return CRASHED;
    return gpa2(name, p, version, flags, status);
}

static int ask1(const char *name, void **p, int version, uint64_t flags)
{
    if (sigsetjmp(crash, 1))
        return CRASHED;
    return gpa1(name, p, version, flags);
}

static int ask_text(const char *symbol, int e, const char **text)
{
    int (*f)(int, const char **) = (int (*)(int, const char **))dlsym(lib, symbol);

    if (sigsetjmp(crash, 1))
        return CRASHED;
    return f(e, text);
}

static int read_lines(const char *path, char **out, int max)
{
    FILE *f = fopen(path, "r");
    char line[512];
    int n = 0;

    if (!f) {
        perror(path);
        exit(1);
    }
    while (n < max && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0])
            out[n++] = strdup(line);
    }
    fclose(f);
    return n;
}

/* 0 stays 0: NULL. */
static unsigned long relative(void *p)
{
    return p ? (unsigned long)((uintptr_t)p - base) : 0;
}

/* For a reader: 1 is what no function is at, a pointer that was not written. */
static unsigned long shown(void *p)
{
    return p == (void *)base ? 1 : relative(p);
}

/* The ways in which the first version answers otherwise than the second, each
 * with a few examples. */
static struct { int r, r1, same_pointer; long count; } ways[64];
static int n_ways;

static void note_difference(const char *kind, const char *name, int version, uint64_t flags, int r, void *p, int r1,
                            void *q)
{
    int w = 0;

    while (w < n_ways && !(ways[w].r == r && ways[w].r1 == r1 && ways[w].same_pointer == (p == q)))
        w++;
    if (w == 64)
        return;
    if (w == n_ways) {
        n_ways++;
        ways[w].r = r;
        ways[w].r1 = r1;
        ways[w].same_pointer = p == q;
        ways[w].count = 0;
    }
    if (ways[w].count++ < 4)
        printf("%s-v1\t%s\t%d\t%lu\t%d\t0x%lx\t%d\t0x%lx\n", kind, name, version, (unsigned long)flags, r,
               shown(p), r1, shown(q));
}

static void ask_all(const char *kind)
{
    long differ = 0, asked = 0;

    for (int i = 0; i < n_names; i++) {
        for (uint64_t flags = 0; flags < 3; flags++) {
            unsigned long last_p = 0;
            int last_r = -1, last_s = -1;
            for (int v = 0; v < n_versions; v++) {
                void *volatile p = (void *)base, *volatile q = (void *)base;
                volatile int s = STATUS_UNTOUCHED;
                int r = ask2(names[i], (void **)&p, versions[v], flags, (int *)&s);
                int r1 = gpa1 ? ask1(names[i], (void **)&q, versions[v], flags) : r;
                asked++;
                if (gpa1 && (r1 != r || q != p)) {
                    differ++;
                    note_difference(kind, names[i], versions[v], flags, r, p, r1, q);
                }
                if (v == 0 || relative(p) != last_p || r != last_r || s != last_s)
                    printf("%s\t%s\t%lu\t%d\t0x%lx\t%d\t%d\n", kind, names[i], (unsigned long)flags, versions[v],
                           relative(p), r, s);
                last_p = relative(p);
                last_r = r;
                last_s = s;
            }
        }
    }
    printf("count\t%s\t%ld\t%ld\n", kind, asked, differ);
    for (int w = 0; w < n_ways; w++)
        printf("edge\tcuGetProcAddress and _v2 differ, %s\t%ld times: result %d and _v2 %d, pointer %s\n", kind,
               ways[w].count, ways[w].r1, ways[w].r, ways[w].same_pointer ? "the same" : "another");
}

static const struct edge {
    const char *what, *name;
    int version;
    uint64_t flags;
    int no_status, no_pointer;
} edges[] = {
    {"name NULL", NULL, 12000, 0, 0, 0},
    {"name empty", "", 12000, 0, 0, 0},
    {"pointer NULL", "cuInit", 12000, 0, 0, 1},
    {"status NULL", "cuInit", 12000, 0, 1, 0},
    {"unknown, status NULL", "cuNoSuchFunction", 12000, 0, 1, 0},
    {"unknown", "cuNoSuchFunction", 12000, 0, 0, 0},
    {"too old, status NULL", "cuMemAllocAsync", 2000, 0, 1, 0},
    {"too old", "cuMemAllocAsync", 2000, 0, 0, 0},
    {"version negative", "cuInit", -1, 0, 0, 0},
    {"version 0", "cuInit", 0, 0, 0, 0},
    {"version of the future", "cuInit", 99999, 0, 0, 0},
    {"flags 3", "cuMemcpy", 12000, 3, 0, 0},
    {"flags 4", "cuMemcpy", 12000, 4, 0, 0},
    {"flags 255", "cuMemcpy", 12000, 255, 0, 0},
    {"flags 1<<32", "cuMemcpy", 12000, 1ull << 32, 0, 0},
    {"wrong case", "cuinit", 12000, 0, 0, 0},
    {"trailing blank", "cuInit ", 12000, 0, 0, 0},
};

static const char *pointer_text(void **pp)
{
    return !pp ? "not asked" : *pp == (void *)base ? "untouched" : *pp ? "set" : "NULL";
}

static void ask_edge(const struct edge *e)
{
    void *volatile p = (void *)base;
    volatile int status = STATUS_UNTOUCHED;
    void **pp = e->no_pointer ? NULL : (void **)&p;
    int r = ask2(e->name, pp, e->version, e->flags, e->no_status ? NULL : (int *)&status);

    printf("edge\tcuGetProcAddress_v2(%s)\tresult %d, pointer %s, status %s%d\n", e->what, r, pointer_text(pp),
           status == STATUS_UNTOUCHED ? "untouched " : "", status == STATUS_UNTOUCHED ? 0 : status);
    fflush(stdout);
    p = (void *)base;
    if (!gpa1)
        return;
    r = ask1(e->name, pp, e->version, e->flags);
    printf("edge\tcuGetProcAddress(%s)\tresult %d, pointer %s\n", e->what, r, pointer_text(pp));
}

static void errors(const char *path)
{
    char *lines[1024];
    int n = read_lines(path, lines, 1024);

    for (int i = 0; i < n; i++) {
        const char *volatile a = "(untouched)", *volatile b = "(untouched)";
        int e = atoi(lines[i]);
        int ra = ask_text("cuGetErrorName", e, (const char **)&a);
        int rb = ask_text("cuGetErrorString", e, (const char **)&b);
        if (ra == 0 && rb == 0)
            printf("error\t%d\t%s\t%s\n", e, a ? a : "(null)", b ? b : "(null)");
        else
            printf("edge\tcuGetErrorName(%d)\tresult %d, text %s; cuGetErrorString result %d, text %s\n", e, ra,
                   a ? a : "NULL", rb, b ? b : "NULL");
    }
    printf("edge\tcuGetErrorName(0, NULL)\tresult %d\n", ask_text("cuGetErrorName", 0, NULL));
    printf("edge\tcuGetErrorString(0, NULL)\tresult %d\n", ask_text("cuGetErrorString", 0, NULL));
}

static int init(unsigned flags)
{
    return ((int (*)(unsigned))dlsym(lib, "cuInit"))(flags);
}

static void device(void)
{
    int (*version)(int *) = (int (*)(int *))dlsym(lib, "cuDriverGetVersion");
    int (*get)(int *, int) = (int (*)(int *, int))dlsym(lib, "cuDeviceGet");
    int (*name)(char *, int, int) = (int (*)(char *, int, int))dlsym(lib, "cuDeviceGetName");
    int (*attribute)(int *, int, int) = (int (*)(int *, int, int))dlsym(lib, "cuDeviceGetAttribute");
    char text[256] = "";
    int dev = -1, v = -1;

    printf("edge\tcuDriverGetVersion before cuInit\tresult %d\n", version(&v));
    printf("version\t%d\n", v);
    printf("edge\tcuInit(1)\tresult %d\n", init(1));
    printf("edge\tcuInit(0)\tresult %d\n", init(0));
    if (get(&dev, 0) || name(text, sizeof text, dev))
        return;
    printf("device\t%s\n", text);
    for (int a = 0; a <= 256; a++) {
        int value = 0;
        int r = attribute(&value, a, dev);
        printf("attribute\t%d\t%d\t%d\n", a, r, value);
    }
}

int main(int argc, char **argv)
{
    char *lines[512];
    struct link_map *map = NULL;
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_NODEFER};

    if (argc != 5)
        return 2;
    n_names = read_lines(argv[2], names, 8192);
    n_versions = read_lines(argv[3], lines, 512);
    for (int i = 0; i < n_versions; i++)
        versions[i] = atoi(lines[i]);

    lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib || dlinfo(lib, RTLD_DI_LINKMAP, &map)) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    base = map->l_addr;
    gpa2 = (gpa2_fn)dlsym(lib, "cuGetProcAddress_v2");
    gpa1 = (gpa1_fn)dlsym(lib, "cuGetProcAddress");
    if (!gpa2) {
        fprintf(stderr, "no cuGetProcAddress_v2\n");
        return 1;
    }
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    alarm(60);
    if (!strcmp(argv[1], "early")) { /* before cuInit: a runtime resolves everything first */
        printf("library\t%s\n", map->l_name);
        ask_all("early");
    } else if (!strcmp(argv[1], "answer")) {
        if (init(0))
            return 1;
        ask_all("answer");
    } else if (!strcmp(argv[1], "error")) {
        errors(argv[4]);
    } else if (!strcmp(argv[1], "device")) {
        device();
    } else if (!strncmp(argv[1], "edge:", 5)) {
        size_t i = (size_t)atoi(argv[1] + 5);
        if (i >= sizeof edges / sizeof *edges)
            return 3; /* no more */
        ask_edge(&edges[i]);
    } else {
        return 2;
    }
    fflush(stdout);
    return ferror(stdout) ? 1 : 0;
}
