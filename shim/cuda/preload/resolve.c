#define _GNU_SOURCE
#include "resolve.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#include "hooks_table.h"
#include "nvml.h"
#include "uncovered.h"

#define DRIVER "libcuda.so.1"
#define DRIVER_PREFIX "libcuda.so"
#define NVML "nvmlDeviceGetMemoryInfo" /* and its versions */

/* Slots of the address table: a power of two, at least twice the hooks. */
#define SLOTS 1024

typedef void *dlsym_fn(void *, const char *);

/* On the way through dlsym: a sanitizer's runtime calls it before it is ready
 * for code that it checks. */
#define EARLY __attribute__((no_sanitize("address", "undefined")))

struct xm_real xm_real;
void *xm_driver[XM_HOOKS];
int (*xm_sim_ioctl)(int, unsigned long, void *);

static dlsym_fn *libc_dlsym;
static const void *driver_base; /* where the driver is loaded; set last (release) */
static uint16_t by_address[SLOTS]; /* hook number + 1, open addressing by xm_driver[] */

_Static_assert(2 * XM_HOOKS <= SLOTS, "the address table is too small");

static EARLY __attribute__((cold, noinline)) dlsym_fn *find_libc_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    dlsym_fn *f = NULL;

    for (size_t i = 0; !f && i < sizeof versions / sizeof *versions; i++)
        f = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    __atomic_store_n(&libc_dlsym, f, __ATOMIC_RELAXED);
    return f;
}

static EARLY inline dlsym_fn *real_dlsym(void)
{
    dlsym_fn *f = __atomic_load_n(&libc_dlsym, __ATOMIC_RELAXED);

    return __builtin_expect(f != NULL, 1) ? f : find_libc_dlsym();
}

static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

bool xm_in_driver(const void *address)
{
    const void *base = __atomic_load_n(&driver_base, __ATOMIC_ACQUIRE);
    Dl_info info;

    if (!address || !dladdr(address, &info) || !info.dli_fname)
        return false;
    /* By name too: it may call us before we have found it, or be loaded twice. */
    return (base && info.dli_fbase == base) ||
           strncmp(file_of(info.dli_fname), DRIVER_PREFIX, sizeof DRIVER_PREFIX - 1) == 0;
}

static bool in_this_library(const void *address)
{
    Dl_info info, own;

    return dladdr(address, &info) && dladdr((const void *)&xm_hook_count, &own) && info.dli_fbase == own.dli_fbase;
}

static size_t slot_of(const void *address)
{
    uint64_t x = (uint64_t)(uintptr_t)address;

    return (size_t)(x * 0x9e3779b97f4a7c15ull >> 54) % SLOTS;
}

static void remember_address(const void *address, int hook)
{
    size_t i = slot_of(address);
    uint16_t mine = (uint16_t)(hook + 1), there = 0;

    for (;; i = (i + 1) % SLOTS, there = 0) {
        if (__atomic_compare_exchange_n(&by_address[i], &there, mine, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE) ||
            there == mine)
            return;
    }
}

static int hook_at(const void *address)
{
    for (size_t i = slot_of(address);; i = (i + 1) % SLOTS) {
        uint16_t there = __atomic_load_n(&by_address[i], __ATOMIC_ACQUIRE);

        if (there == 0)
            return -1;
        if (xm_driver[there - 1] == address)
            return there - 1;
    }
}

static void fill_real(dlsym_fn *find, void *lib)
{
#define FILL(name) __atomic_store_n((void **)&xm_real.name, find(lib, #name), __ATOMIC_RELAXED);
    XM_REAL_LIST(FILL)
#undef FILL
    __atomic_store_n((void **)&xm_sim_ioctl, find(lib, "xm_sim_ioctl"), __ATOMIC_RELAXED);
}

EARLY void *xm_next(const char *name)
{
    dlsym_fn *find = real_dlsym();
    void *found = find ? find(RTLD_NEXT, name) : NULL;

    return found;
}

void *xm_driver_symbol(const char *name)
{
    dlsym_fn *find = real_dlsym();
    void *lib = find ? dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *found = lib ? find(lib, name) : NULL;

    (void)dlerror();
    return found;
}

bool xm_resolve(void)
{
    dlsym_fn *find;
    void *lib, *first = NULL;
    Dl_info info;

    if (__atomic_load_n(&driver_base, __ATOMIC_ACQUIRE))
        return true;
    find = real_dlsym();
    lib = find ? dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!lib)
        return false;
    /* Before glibc 2.34 threads are a library of their own, which the driver
     * brings along; where nobody else did we have to see it too. */
    (void)dlopen("libpthread.so.0", RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    for (int i = 0; i < XM_HOOKS; i++) {
        void *f = find(lib, xm_hooks[i].name);

        /* A library that only depends on us would give our own hooks back. */
        if (!f || f == xm_hooks[i].function)
            continue;
        __atomic_store_n(&xm_driver[i], f, __ATOMIC_RELAXED);
        remember_address(f, i);
        first = first ? first : f;
    }
    fill_real(find, lib);
    (void)dlerror(); /* what this driver lacks is no error of the program's */
    if (!first || !dladdr(first, &info))
        return false;
    __atomic_store_n(&driver_base, info.dli_fbase, __ATOMIC_RELEASE);
    return true;
}

int xm_hook_find(const char *name)
{
    int low = 0, high = XM_HOOKS - 1;

    while (low <= high) {
        int middle = (low + high) / 2;
        int order = strcmp(name, xm_hooks[middle].name);

        if (order == 0)
            return middle;
        if (order < 0)
            high = middle - 1;
        else
            low = middle + 1;
    }
    return -1;
}

void *xm_hooked(void *found, const char *name)
{
    int hook;

    if (!found || !xm_resolve())
        return found;
    hook = name ? xm_hook_find(name) : -1;
    if (hook < 0 || xm_driver[hook] != found)
        hook = hook_at(found);
    if (hook >= 0)
        return xm_hooks[hook].function;
    xm_passed(name);
    return found;
}

static CUresult no_driver(void)
{
    return CUDA_ERROR_NO_DEVICE;
}

static CUresult no_function(void)
{
    return CUDA_ERROR_NOT_FOUND;
}

void *xm_driver_missing(int hook)
{
    void *f;

    if (!xm_resolve())
        return (void *)no_driver;
    f = __atomic_load_n(&xm_driver[hook], __ATOMIC_RELAXED);
    return f ? f : (void *)no_function;
}

/* dlsym(RTLD_DEFAULT, …) as it would be answered without us: what comes after us
 * in the global scope, else what the caller's own library brought with it. */
static void *default_lookup(dlsym_fn *find, const char *name, const void *caller)
{
    struct link_map *map = NULL;
    Dl_info info;
    void *found = find(RTLD_NEXT, name);

    if (found || !dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return found;
    return find(map, name);
}

/* A name that we hook was asked for. It is answered with our hook only where the
 * driver's own function would have been the answer. */
static __attribute__((noinline)) void *lookup(void *handle, const char *name, const void *caller)
{
    dlsym_fn *find = real_dlsym();
    void *found, *answer;

    if (xm_in_driver(caller))
        return find(handle, name);
    found = handle == RTLD_DEFAULT ? default_lookup(find, name, caller) : find(handle, name);
    /* The scope of the program itself (dlopen(NULL)) begins with us. */
    if (found && in_this_library(found))
        found = find(RTLD_NEXT, name);
    if (!found)
        return NULL; /* dlerror is the loader's */
    answer = xm_hooked(found, name);
    (void)dlerror();
    return answer;
}

/* Whether a name that we hook is to be answered by lookup. What comes next after
 * the caller only the loader knows, and where there is a driver it is right, be
 * it the driver's or ours; but where there is none, ours must not be found. */
static __attribute__((noinline)) bool is_ours_to_answer(void *handle, const char *name)
{
    void *driver;

    if (xm_hook_find(name) < 0)
        return false;
    if (handle != RTLD_NEXT)
        return true;
    driver = dlopen(DRIVER, RTLD_NOW | RTLD_NOLOAD);
    return driver == NULL || dlclose(driver) != 0;
}

/* NVML's functions about memory: see nvml.h. Where it would have been found is not changed. */
static __attribute__((noinline)) void *lookup_nvml(void *handle, const char *name, const void *caller)
{
    dlsym_fn *find = real_dlsym();

    return xm_nvml_hooked(handle == RTLD_DEFAULT ? default_lookup(find, name, caller) : find(handle, name), name);
}

/* Both ways out are tail calls, so that the loader sees our caller's return
 * address: RTLD_NEXT and RTLD_DEFAULT are relative to it. check.sh looks for the
 * jump. */
XM_EXPORT EARLY void *dlsym(void *restrict handle, const char *restrict name)
{
    dlsym_fn *find = real_dlsym();
    const char *asked = name;

    __asm__("" : "+r"(asked)); /* declared never NULL, but it is the program's */
    if (__builtin_expect(asked && asked[0] == 'c' && asked[1] == 'u', 0) && is_ours_to_answer(handle, asked))
        return lookup(handle, name, __builtin_return_address(0));
    if (__builtin_expect(asked && asked[0] == 'n' && strncmp(asked, NVML, sizeof NVML - 1) == 0 && handle != RTLD_NEXT, 0))
        return lookup_nvml(handle, name, __builtin_return_address(0));
    return find(handle, name);
}
