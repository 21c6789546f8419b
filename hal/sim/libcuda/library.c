/* Libraries: code that is loaded for no context, and brought into each that uses
 * it. A kernel of a library stands for its function in the context of whoever
 * launches it. */
#include "library.h"
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before those of contexts and modules */

static void library_free(struct sim_library *l)
{
    for (unsigned i = 0; i < l->kernel_count; i++) {
        struct sim_kernel *k = l->kernels[i];
        if (!k)
            continue;
        free(k->entry.name);
        free(k->entry.offsets);
        free(k->entry.sizes);
        sim_object_free(k);
    }
    free(l->kernels);
    free(l->instances);
    free(l->image);
    sim_object_free(l);
}

static struct sim_kernel *kernel_new(struct sim_library *l, struct sim_ptx_entry *e)
{
    struct sim_kernel *k = sim_kernel_new();

    if (!k)
        return NULL;
    k->library = l;
    k->entry = *e;
    k->max_dynamic = -1;
    *e = (struct sim_ptx_entry){0};
    __atomic_store_n(&k->live, 1, __ATOMIC_RELEASE);
    return k;
}

/* What is wrong with the code shows when somebody wants something of it. */
static int load(CUlibrary *out, const char *image)
{
    struct sim_ptx_entry *entries = NULL;
    unsigned count = 0;

    int broken = sim_image_check(image);
    if (!broken)
        broken = sim_ptx_parse(image, &entries, &count);
    if (broken)
        count = 0;
    struct sim_library *l = sim_library_new();
    if (l) {
        __atomic_store_n(&l->live, 1, __ATOMIC_RELEASE);
        l->broken = broken;
        l->image = strdup(image);
        l->kernels = calloc(count ? count : 1, sizeof *l->kernels);
        l->kernel_count = l->kernels ? count : 0;
    }
    bool ok = l && l->image && l->kernels;
    for (unsigned i = 0; ok && i < count; i++)
        ok = (l->kernels[i] = kernel_new(l, &entries[i])) != NULL;
    if (!broken)
        sim_ptx_free(entries, count);
    if (ok) {
        *out = l;
        return CUDA_SUCCESS;
    }
    if (l)
        library_free(l);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

#define OPTIONS int *jit, void **jit_values, unsigned jits, int *options, void **values, unsigned n

static bool options_ok(OPTIONS) { return (!jits || (jit && jit_values)) && (!n || options) && (values || !n || options); }

EXPORT CUresult cuLibraryLoadData(CUlibrary *out, const void *code, OPTIONS)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out || !code || !options_ok(jit, jit_values, jits, options, values, n))
        return CUDA_ERROR_INVALID_VALUE;
    return load(out, code);
}

static char *read_file(FILE *f)
{
    size_t n = 0, size = 1 << 16;
    char *text = malloc(size + 1);

    while (text && !feof(f) && !ferror(f)) {
        n += fread(text + n, 1, size - n, f);
        if (n < size)
            continue;
        char *more = realloc(text, 2 * size + 1);
        if (!more)
            free(text);
        text = more;
        size *= 2;
    }
    if (text)
        memset(text + n, 0, n < 4 ? 4 - n : 1); /* room for four in any case */
    return text;
}

EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, OPTIONS)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out || !path || !options_ok(jit, jit_values, jits, options, values, n))
        return CUDA_ERROR_INVALID_VALUE;
    FILE *f = fopen(path, "re");
    if (!f)
        return CUDA_ERROR_FILE_NOT_FOUND;
    char *text = read_file(f);
    fclose(f);
    rc = text ? load(out, text) : CUDA_ERROR_OUT_OF_MEMORY;
    free(text);
    return rc;
}

EXPORT CUresult cuLibraryUnload(CUlibrary l)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    pthread_mutex_lock(&library_lock);
    bool ok = sim_is_library(l);
    if (ok) {
        for (size_t i = 0; i < l->instance_count; i++) {
            const struct sim_instance *in = &l->instances[i];
            if (!sim_ctx_is(in->ctx, in->ctx_id))
                continue; /* its modules went with it */
            sim_ctx_drain(in->ctx);
            sim_module_unload(in->module);
        }
        library_free(l);
    }
    pthread_mutex_unlock(&library_lock);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* The library's module in a context, brought there the first time. Precondition:
 * library_lock is held. */
static int module_in(struct sim_library *l, struct sim_ctx *c, struct sim_module **out)
{
    for (size_t i = 0; i < l->instance_count; i++)
        if (l->instances[i].ctx == c && l->instances[i].ctx_id == c->id) {
            *out = l->instances[i].module;
            return CUDA_SUCCESS;
        }
    struct sim_instance *p = realloc(l->instances, (l->instance_count + 1) * sizeof *p);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l->instances = p;
    int rc = sim_module_load(c, l->image, out);
    if (!rc)
        p[l->instance_count++] = (struct sim_instance){c, c->id, *out};
    return rc;
}

static struct sim_function *named(const struct sim_module *m, const char *name)
{
    for (unsigned i = 0; i < m->functions; i++)
        if (!strcmp(m->function[i]->name, name))
            return m->function[i];
    return NULL;
}

struct sim_function *sim_function_of(CUfunction handle, struct sim_ctx *c, int *rc)
{
    struct sim_kernel *k = (struct sim_kernel *)(void *)handle;
    struct sim_module *m;
    struct sim_function *f = NULL;

    if (sim_is_function(handle))
        return handle;
    *rc = CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&library_lock);
    if (sim_is_kernel(k) && !(*rc = module_in(k->library, c, &m))) {
        f = named(m, k->entry.name);
        if (f && k->max_dynamic >= 0)
            f->max_dynamic = k->max_dynamic;
    }
    pthread_mutex_unlock(&library_lock);
    return f;
}

/* ---- questions ---- */

/* out: where the answer goes, asked for first. */
static int check(const void *out, CUlibrary l)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_is_library(l) ? l->broken : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary l, const char *name)
{
    int rc = check(out, l);
    if (rc)
        return rc;
    if (!name || !*name)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < l->kernel_count; i++)
        if (!strcmp(l->kernels[i]->entry.name, name)) {
            *out = l->kernels[i];
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary l)
{
    int rc = check(count, l);
    if (rc)
        return rc;
    *count = l->kernel_count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned n, CUlibrary l)
{
    int rc = check(kernels, l);
    if (rc)
        return rc;
    for (unsigned i = 0; i < n && i < l->kernel_count; i++)
        kernels[i] = l->kernels[i];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLibraryGetModule(CUmodule *out, CUlibrary l)
{
    struct sim_ctx *c;
    struct sim_module *m = NULL;

    int rc = check(out, l);
    if (!rc)
        rc = sim_current(&c);
    if (rc)
        return rc;
    pthread_mutex_lock(&library_lock);
    rc = module_in(l, c, &m);
    pthread_mutex_unlock(&library_lock);
    if (!rc)
        *out = m;
    return rc;
}

static int check_kernel(const void *out, CUkernel k)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_is_kernel(k) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuKernelGetFunction(CUfunction *out, CUkernel k)
{
    struct sim_ctx *c;

    int rc = check_kernel(out, k);
    if (!rc)
        rc = sim_current(&c);
    if (rc)
        return rc;
    struct sim_function *f = sim_function_of((CUfunction)(void *)k, c, &rc);
    if (!f)
        return rc;
    *out = f;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel k)
{
    int rc = check_kernel(out, k);
    if (rc)
        return rc;
    *out = k->library;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelGetName(const char **name, CUkernel k)
{
    int rc = check_kernel(name, k);
    if (rc)
        return rc;
    *name = k->entry.name;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelGetParamInfo(CUkernel k, size_t index, size_t *offset, size_t *size)
{
    struct sim_ctx *c;

    int rc = check_kernel(offset, k);
    if (!rc)
        rc = sim_current(&c); /* the code is brought to one to be asked */
    if (rc)
        return rc;
    if (index >= k->entry.params)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = k->entry.offsets[index];
    if (size)
        *size = k->entry.sizes[index];
    return CUDA_SUCCESS;
}

/* Attributes of a kernel are those of a function without a context. */
static struct sim_function standing_for(const struct sim_kernel *k)
{
    return (struct sim_function){.max_dynamic = k->max_dynamic < 0 ? SIM_SHARED_DEFAULT : k->max_dynamic, .carveout = -1};
}

EXPORT CUresult cuKernelGetAttribute(int *value, int attribute, CUkernel k, CUdevice device)
{
    int rc = check_kernel(value, k);
    if (rc)
        return rc;
    if (!sim_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    const struct sim_function f = standing_for(k);
    return sim_function_get(&f, attribute, value);
}

EXPORT CUresult cuKernelSetAttribute(int attribute, int value, CUkernel k, CUdevice device)
{
    int rc = check_kernel(k, k);
    if (rc)
        return rc;
    if (!sim_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    struct sim_function f = standing_for(k);
    rc = sim_function_set(&f, attribute, value);
    if (rc || f.max_dynamic == standing_for(k).max_dynamic)
        return rc;
    pthread_mutex_lock(&library_lock);
    k->max_dynamic = value;
    for (size_t i = 0; i < k->library->instance_count; i++) {
        const struct sim_instance *in = &k->library->instances[i];
        struct sim_function *there = sim_ctx_is(in->ctx, in->ctx_id) ? named(in->module, k->entry.name) : NULL;
        if (there)
            there->max_dynamic = value;
    }
    pthread_mutex_unlock(&library_lock);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuKernelSetCacheConfig(CUkernel k, unsigned config, CUdevice device)
{
    int rc = check_kernel(k, k);
    if (rc)
        return rc;
    if (!sim_device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return config <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
