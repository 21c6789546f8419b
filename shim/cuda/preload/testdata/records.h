/* What the programs that look at records have in common: the driver's beginning, the
 * library's table of commands, and reading what it gives. */
#ifndef XM_RECORDS_H
#define XM_RECORDS_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "gen/cuda_prototypes.h"
#include "want.h"

#define RECORDS_BYTES (1u << 20)

static const struct xm_commands *commands;
static CUcontext ctx;
static CUstream stream;

static uint8_t records[RECORDS_BYTES] __attribute__((aligned(8)));
static uint32_t records_end, records_at;

static void find_commands(void)
{
    const struct xm_commands *(*get)(void);
    char path[4096];
    void *reader;

    snprintf(path, sizeof path, "%s/libxagent.so", getenv("XMSCHED_LIB"));
    TRUE(reader = dlopen(path, RTLD_NOW));
    *(void **)&get = dlsym(reader, "reader_commands");
    TRUE(get != NULL);
    SOON((commands = get()) != NULL);
    WANT(commands->version, XM_COMMANDS_VERSION);
    WANT(commands->size, sizeof *commands);
}

static inline void begin(void)
{
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&ctx, 0));
    CHECK(cuCtxSetCurrent(ctx));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    find_commands();
}

/* Takes all there is, after what was looked at already. */
static inline void take(void)
{
    int n;

    memmove(records, records + records_at, records_end - records_at);
    records_end -= records_at;
    records_at = 0;
    while (RECORDS_BYTES - records_end >= XM_COMMAND_MOST &&
           (n = commands->take(records + records_end, RECORDS_BYTES - records_end)) > 0)
        records_end += (uint32_t)n;
}

/* The next record; NULL: there is none. */
static inline const struct xm_command *next(void)
{
    const struct xm_command *c;

    if (records_at == records_end)
        take();
    if (records_at == records_end)
        return NULL;
    c = (const void *)(records + records_at);
    TRUE(c->bytes >= sizeof *c && c->bytes % 8 == 0 && c->bytes <= records_end - records_at);
    TRUE(c->payload <= c->bytes - sizeof *c);
    TRUE(c->kind >= XM_COMMAND_KERNEL && c->kind <= XM_COMMAND_OTHER);
    records_at += c->bytes;
    return c;
}

static inline const void *payload(const struct xm_command *c)
{
    return c + 1;
}

/* The next record, which is of that kind. */
static inline const struct xm_command *expect(uint32_t kind)
{
    const struct xm_command *c = next();

    TRUE(c != NULL);
    WANT(c->kind, kind);
    return c;
}

static inline void expect_none(void)
{
    TRUE(next() == NULL);
}

static inline void forget(void)
{
    while (next())
        ;
}

#endif
