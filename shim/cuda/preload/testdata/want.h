/* What the host programs of the tests check with. A program that finds something
 * wrong says where and ends without its handlers: the device may be in any state. */
#ifndef XM_WANT_H
#define XM_WANT_H

#include <stdio.h>
#include <unistd.h>

#define TRUE(x)                                                               \
    do {                                                                      \
        if (!(x)) {                                                           \
            fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #x);      \
            _exit(1);                                                         \
        }                                                                     \
    } while (0)
#define WANT(call, want)                                                                                \
    do {                                                                                                \
        long long got_ = (long long)(call), want_ = (long long)(want);                                  \
        if (got_ != want_) {                                                                            \
            fprintf(stderr, "%s:%d: %s = %lld, want %lld\n", __FILE__, __LINE__, #call, got_, want_);  \
            _exit(1);                                                                                   \
        }                                                                                               \
    } while (0)
#define CHECK(call) WANT(call, CUDA_SUCCESS)
/* Within ten seconds. */
#define SOON(x)                                    \
    do {                                           \
        for (int i_ = 0; !(x) && i_ < 10000; i_++) \
            usleep(1000);                          \
        TRUE(x);                                   \
    } while (0)

#endif
