/* Initialisation, versions, error texts. */
#include "gen/answers.h"
#include "gen/stubs.h"
#include "sim.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FRESH, READY, FORKED };
static int state;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

/* A forked child has the parent's objects and no device: like the driver, it is
 * not initialised and cannot be. */
static void in_child(void)
{
    __atomic_store_n(&state, FORKED, __ATOMIC_RELEASE);
    sim_forget_connection();
}

EXPORT CUresult cuInit(unsigned flags)
{
    static bool watching;
    int rc = CUDA_SUCCESS;

    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    int now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    if (now == READY)
        return CUDA_SUCCESS;
    if (now == FORKED)
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&init_lock);
    if (state == FRESH) {
        rc = sim_connect();
        if (!rc && !watching)
            watching = pthread_atfork(NULL, NULL, in_child) == 0;
        if (!rc)
            __atomic_store_n(&state, READY, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&init_lock);
    return rc;
}

int sim_ready(void)
{
    if (sim_in_host_function())
        return CUDA_ERROR_NOT_PERMITTED;
    return __atomic_load_n(&state, __ATOMIC_ACQUIRE) == READY ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = SIM_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

static const struct sim_error *error_of(CUresult value)
{
    for (size_t i = 0; i < SIM_ERROR_COUNT; i++)
        if (sim_errors[i].value == value)
            return &sim_errors[i];
    return NULL;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **text)
{
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_error *e = error_of(error);
    *text = e ? e->name : NULL;
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_error *e = error_of(error);
    *text = e ? e->text : NULL;
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags, int *status)
{
    return sim_proc_address(symbol, function, version, flags, SIM_DRIVER_VERSION, status);
}

EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
    int status = 0;
    void *found = NULL;
    int rc = sim_proc_address(symbol, function ? &found : NULL, version, flags, SIM_DRIVER_VERSION, &status);
    if (rc || status)
        return rc ? rc : CUDA_ERROR_NOT_FOUND; /* and the pointer stays as it was */
    *function = found;
    return CUDA_SUCCESS;
}

/* One line for each name, of a call or a kernel: few, and never forgotten. */
int sim_unsupported(const char *symbol)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char *said[1024];
    static size_t n;
    bool fresh = true;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n && fresh; i++)
        fresh = strcmp(said[i], symbol) != 0;
    if (fresh && n < sizeof said / sizeof *said && (said[n] = strdup(symbol)))
        n++;
    pthread_mutex_unlock(&lock);
    if (fresh)
        fprintf(stderr, "xmsched sim: %s is not implemented by the simulated driver\n", symbol);
    return CUDA_ERROR_NOT_SUPPORTED;
}
