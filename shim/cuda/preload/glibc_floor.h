/* Included before every source: binds libc functions that got a new version in a
 * newer glibc to the oldest one, so that the library loads from glibc 2.17 on.
 * A name belongs here when the test of the versions finds it. */
#ifndef XM_GLIBC_FLOOR_H
#define XM_GLIBC_FLOOR_H

#if defined(__x86_64__)
#define XM_OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define XM_OLDEST "GLIBC_2.17"
#else
#error "the preload library is built for x86_64 and aarch64"
#endif

#define XM_OLD(name) __asm__(".symver " #name "," #name "@" XM_OLDEST)

XM_OLD(dlopen);
XM_OLD(dlvsym);
XM_OLD(dladdr);
XM_OLD(dlerror);
XM_OLD(dlclose);
XM_OLD(memcpy);
XM_OLD(pthread_create);
XM_OLD(pthread_detach);
XM_OLD(pthread_join);
XM_OLD(pthread_once);
XM_OLD(pthread_key_create);
XM_OLD(pthread_setspecific);
XM_OLD(pthread_getspecific);
XM_OLD(pthread_sigmask);
XM_OLD(pthread_attr_getstacksize);
XM_OLD(pthread_attr_setstacksize);
XM_OLD(pthread_mutex_trylock);

#if defined(__x86_64__)
__asm__(".symver dladdr1,dladdr1@GLIBC_2.3.3");
__asm__(".symver pthread_setname_np,pthread_setname_np@GLIBC_2.12");
#else
XM_OLD(dladdr1);
XM_OLD(pthread_setname_np);
#endif

#endif
