/* A second preload library, as profilers are: it wraps a libc function and finds
 * the next one by RTLD_NEXT. $SECOND_LOG=1 shows that it is in the way. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int puts(const char *text)
{
    int (*next)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "puts");
    int result;

    if (!next || next == puts)
        abort();
    result = next(text);
    if (getenv("SECOND_LOG"))
        fprintf(stderr, "second: puts\n");
    return result;
}
