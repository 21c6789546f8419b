/* A library that is linked to the driver and opened by a program that is not, as
 * an extension module of an interpreter is. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "../gen/cuda_prototypes.h"

/* Where its own reference to the driver leads. */
void *plugin_reference(void)
{
    return (void *)cuInit;
}

/* What it finds in its own scope. */
void *plugin_default(const char *name)
{
    void *volatile found = dlsym(RTLD_DEFAULT, name); /* no tail call: the scope is the caller's */

    return found;
}
