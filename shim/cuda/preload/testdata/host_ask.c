/* Asks for driver functions in every way a program can, by commands on stdin:
 *
 *   open PATH [deepbind] [global]   dlopen; further lines use that handle
 *   dlsym NAME                      on the handle
 *   default NAME | next NAME | self NAME    RTLD_DEFAULT, RTLD_NEXT, dlopen(NULL)
 *   gpa2 NAME VERSION FLAGS | gpa1 NAME VERSION FLAGS
 *   call NAME                       dlsym, called with zeros: result and "called"
 *   plugin PATH [deepbind]          reference and default lookup of libplugin.so
 *   error NAME                      dlsym, then dlerror
 *   sleep MS
 *
 * An address is answered as "library symbol", or "-" for NULL. The handle is
 * that of libcuda.so.1 to begin with, opened RTLD_LOCAL at its first use. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/cuda_abi.h"

static void *handle;

static void *driver(void)
{
    if (!handle)
        handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return handle;
}

static void show(const char *what, void *address)
{
    Dl_info info = {0};
    const char *slash;

    if (!address) {
        printf("%s -\n", what);
        return;
    }
    if (!dladdr(address, &info) || !info.dli_fname) {
        printf("%s ? ?\n", what);
        return;
    }
    slash = strrchr(info.dli_fname, '/');
    printf("%s %s %s\n", what, slash ? slash + 1 : info.dli_fname,
           info.dli_sname && info.dli_saddr == address ? info.dli_sname : "?");
}

static void *need(void *handle, const char *name)
{
    void *p = dlsym(handle, name);

    if (!p) {
        printf("no %s\n", name);
        fflush(stdout);
        exit(1);
    }
    return p;
}

static void gpa(bool second, char **word)
{
    void *found = NULL;
    int version = atoi(word[2]), status = -1;
    unsigned long long flags = strtoull(word[3], NULL, 0);
    CUresult r;

    if (second)
        r = ((xm_pfn_cuGetProcAddress_v2)need(driver(), "cuGetProcAddress_v2"))(
            word[1], &found, version, flags, (CUdriverProcAddressQueryResult *)&status);
    else
        r = ((xm_pfn_cuGetProcAddress)need(driver(), "cuGetProcAddress"))(word[1], &found, version, flags);
    if (r != CUDA_SUCCESS)
        printf("error %d\n", (int)r);
    else
        show("ok", found);
}

typedef CUresult any_fn(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *);

static void call(const char *name)
{
    const char **called = dlsym(driver(), "fake_called");
    any_fn *f = (any_fn *)need(driver(), name);
    CUresult r = f(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

    printf("result %d %s\n", (int)r, called && *called ? *called : "-");
}

static void plugin(char **word, int n)
{
    void *lib = dlopen(word[1], RTLD_NOW | RTLD_LOCAL | (n > 2 ? RTLD_DEEPBIND : 0));

    if (!lib) {
        printf("%s\n", dlerror());
        return;
    }
    show("reference", ((void *(*)(void))need(lib, "plugin_reference"))());
    show("default", ((void *(*)(const char *))need(lib, "plugin_default"))("cuInit"));
}

static void one(char **word, int n)
{
    const char *verb = word[0];

    if (n < 2)
        return;
    if (strcmp(verb, "open") == 0) {
        handle = dlopen(word[1], RTLD_NOW | (n > 2 && strcmp(word[2], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL));
        puts(handle ? "opened" : "no library");
    } else if (strcmp(verb, "dlsym") == 0) {
        show("ok", dlsym(driver(), word[1]));
    } else if (strcmp(verb, "default") == 0) {
        show("ok", dlsym(RTLD_DEFAULT, word[1]));
    } else if (strcmp(verb, "next") == 0) {
        show("ok", dlsym(RTLD_NEXT, word[1]));
    } else if (strcmp(verb, "self") == 0) {
        show("ok", dlsym(dlopen(NULL, RTLD_NOW), word[1]));
    } else if (strcmp(verb, "error") == 0) {
        void *found = dlsym(handle ? handle : RTLD_DEFAULT, word[1]);
        const char *error = dlerror();
        printf("%s %s\n", found ? "found" : "absent", error ? "with an error" : "without an error");
    } else if (strcmp(verb, "gpa2") == 0 && n == 4) {
        gpa(true, word);
    } else if (strcmp(verb, "gpa1") == 0 && n == 4) {
        gpa(false, word);
    } else if (strcmp(verb, "call") == 0) {
        call(word[1]);
    } else if (strcmp(verb, "sleep") == 0) {
        usleep(1000 * (useconds_t)atoi(word[1]));
        puts("slept");
    } else if (strcmp(verb, "plugin") == 0) {
        plugin(word, n);
    } else {
        printf("what is %s?\n", verb);
    }
}

int main(void)
{
    char line[512];

    while (fgets(line, sizeof line, stdin)) {
        char *word[5], *rest = NULL;
        int n = 0;

        for (char *w = strtok_r(line, " \n", &rest); w && n < 5; w = strtok_r(NULL, " \n", &rest))
            word[n++] = w;
        if (n)
            one(word, n);
    }
    return 0;
}
