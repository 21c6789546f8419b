/* Modules and functions. */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_module **list; /* all that are loaded */
static size_t listed, room;

static bool remember(struct sim_module *m)
{
    bool ok = true;

    pthread_mutex_lock(&list_lock);
    if (listed == room) {
        size_t more = room ? 2 * room : 16;
        struct sim_module **p = realloc(list, more * sizeof *p);
        ok = p != NULL;
        if (ok) {
            list = p;
            room = more;
        }
    }
    if (ok)
        list[listed++] = m;
    pthread_mutex_unlock(&list_lock);
    return ok;
}

static bool forget(struct sim_module *m)
{
    bool found = false;

    pthread_mutex_lock(&list_lock);
    for (size_t i = 0; i < listed && !found; i++)
        if (list[i] == m) {
            list[i] = list[--listed];
            found = true;
        }
    pthread_mutex_unlock(&list_lock);
    return found;
}

static void destroy(struct sim_module *m)
{
    for (unsigned i = 0; i < m->functions; i++) {
        struct sim_function *f = m->function[i];
        if (!f)
            continue;
        free(f->name);
        free(f->offsets);
        free(f->sizes);
        sim_object_free(f);
    }
    free(m->function);
    sim_object_free(m);
}

/* Moves an entry into a function; the device is asked once for its kernel. */
static struct sim_function *function_new(struct sim_module *m, struct sim_ptx_entry *e)
{
    struct sim_function *f = sim_function_new();
    struct sim_request q = {.op = SIM_KERNEL};
    struct sim_reply r;

    if (!f)
        return NULL;
    f->module = m;
    f->name = e->name;
    f->params = e->params;
    f->offsets = e->offsets;
    f->sizes = e->sizes;
    f->arg_bytes = e->arg_bytes;
    *e = (struct sim_ptx_entry){0};
    f->max_dynamic = SIM_SHARED_DEFAULT;
    f->carveout = -1;
    f->kernel = -1;
    if (strlen(f->name) < sizeof q.text) {
        memcpy(q.text, f->name, strlen(f->name) + 1);
        if (!sim_call(&q, -1, &r, NULL))
            f->kernel = (int64_t)r.a;
    }
    __atomic_store_n(&f->live, 1, __ATOMIC_RELEASE);
    return f;
}

/* Byte by byte: a text may end before the fourth. */
static bool begins(const char *image, const char *magic)
{
    for (int i = 0; i < 4; i++)
        if (image[i] != magic[i])
            return false;
    return true;
}

int sim_image_check(const char *image)
{
    bool code = begins(image, "\x7f" "ELF") || begins(image, "\x50\xed\x55\xba") || begins(image, "\xb1\x43\x62\x46");
    return code ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_SUCCESS; /* for a machine that we are not */
}

/* The driver waits for all that is in the context. */
int sim_module_load(struct sim_ctx *c, const char *image, CUmodule *out)
{
    struct sim_ptx_entry *entries;
    unsigned count;

    int rc = sim_image_check(image);
    if (!rc)
        rc = sim_ptx_parse(image, &entries, &count);
    if (rc)
        return rc;
    rc = sim_ctx_drain(c);
    if (rc) {
        sim_ptx_free(entries, count);
        return rc;
    }
    struct sim_module *m = sim_module_new();
    if (m) {
        m->ctx = c;
        m->ctx_id = c->id;
        m->function = calloc(count ? count : 1, sizeof *m->function);
        m->functions = m->function ? count : 0;
        __atomic_store_n(&m->live, 1, __ATOMIC_RELEASE);
    }
    bool ok = m && m->function;
    for (unsigned i = 0; ok && i < count; i++)
        ok = (m->function[i] = function_new(m, &entries[i])) != NULL;
    sim_ptx_free(entries, count);
    if (ok && remember(m)) {
        *out = m;
        return CUDA_SUCCESS;
    }
    if (m)
        destroy(m);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_module_unload(struct sim_module *m)
{
    if (forget(m))
        destroy(m);
}

static int load(CUmodule *out, const char *image)
{
    struct sim_ctx *c;

    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!out || !image)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_module_load(c, image, out);
}

EXPORT CUresult cuModuleLoadData(CUmodule *out, const void *image) { return load(out, image); }
EXPORT CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image) { return load(out, image); }

EXPORT CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, int *options, void **values)
{
    if (n && (!options || !values))
        return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
    return load(out, image); /* the options are for a compiler that is not there */
}

EXPORT CUresult cuModuleLoad(CUmodule *out, const char *path)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!out || !path)
        return CUDA_ERROR_INVALID_VALUE;
    FILE *f = fopen(path, "re");
    if (!f)
        return CUDA_ERROR_FILE_NOT_FOUND;
    size_t n = 0, size = 1 << 16;
    char *text = malloc(size + 1);
    while (text && !feof(f) && !ferror(f)) {
        n += fread(text + n, 1, size - n, f);
        if (n == size) {
            char *more = realloc(text, 2 * size + 1);
            if (!more)
                free(text);
            text = more;
            size *= 2;
        }
    }
    fclose(f);
    if (!text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    text[n] = 0;
    rc = n < 4 ? CUDA_ERROR_INVALID_IMAGE : load(out, text);
    free(text);
    return rc;
}

EXPORT CUresult cuModuleUnload(CUmodule m)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!sim_is_module(m))
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_ctx *owner = m->ctx;
    rc = sim_capture_unsafe();
    if (!rc)
        rc = sim_ctx_is(owner, m->ctx_id) ? sim_ctx_drain(owner) : CUDA_SUCCESS;
    if (rc)
        return rc;
    if (!forget(m))
        return CUDA_ERROR_INVALID_HANDLE;
    destroy(m);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name)
{
    struct sim_ctx *c;
    int rc = sim_current(&c);
    if (rc)
        return rc;
    if (!sim_is_module(m))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !name || !*name)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < m->functions; i++)
        if (!strcmp(m->function[i]->name, name)) {
            if (!__atomic_exchange_n(&m->function[i]->taken, true, __ATOMIC_RELAXED) && sim_ctx_is(m->ctx, m->ctx_id))
                sim_ctx_barrier(m->ctx);
            *out = m->function[i];
            return CUDA_SUCCESS;
        }
    *out = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule m)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_is_module(m))
        return CUDA_ERROR_INVALID_HANDLE;
    *count = m->functions;
    return CUDA_SUCCESS;
}

/* The mode is eager: a module is ready when its load returns. */
EXPORT CUresult cuModuleGetLoadingMode(int *mode)
{
    int rc = sim_ready();
    if (rc)
        return rc;
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = 1;
    return CUDA_SUCCESS;
}

void sim_module_context_gone(struct sim_ctx *c)
{
    for (;;) {
        struct sim_module *m = NULL;
        pthread_mutex_lock(&list_lock);
        for (size_t i = 0; i < listed && !m; i++)
            if (list[i]->ctx == c && list[i]->ctx_id == c->id)
                m = list[i];
        pthread_mutex_unlock(&list_lock);
        if (!m || !forget(m))
            return;
        destroy(m);
    }
}
