/* The reader of module texts: layouts, and texts that it must refuse. Then many
 * damaged copies of a good one, for the sanitizers to look at. */
#include "host.h"

static const char good[] =
    "/* a comment with .entry no( in it */\n"
    ".version 7.0 // and { one more\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".extern .shared .align 16 .b8 pool[];\n"
    ".func (.param .b32 r) helper(.param .b32 x) { ret; }\n"
    ".visible .entry layout(\n"
    "  .param .u8 a,\n"
    "  .param .align 8 .b8 s[20],\n"
    "  .param .u64 .ptr .global .align 4 p,\n"
    "  .param .f32 f, .param .b8 t[3],\n"
    "  .param .align 64 .b8 map[128]\n"
    ")\n"
    ".maxntid 128, 1, 1\n"
    "{\n"
    "  .reg .pred %p<2>; .reg .b32 %r<9>; .reg .f32 %f<5>;\n"
    "  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%r1];\n"
    "  { .reg .b32 %x; mov.u32 %x, %tid.x; }\n"
    "again: @!%p1 bra again;\n"
    "  @%p1 ret;\n"
    "  call (%r1), helper, (%r2);\n"
    "  .loc 1 2 3\n"
    "  exit;\n"
    "}\n"
    ".entry bare { trap; }\n";

static const struct {
    size_t offset, size;
} want[] = {{0, 1}, {8, 20}, {32, 8}, {40, 4}, {44, 3}, {64, 128}};

static const struct {
    const char *text;
    int code;
} refused[] = {
    {"", 200},
    {"garbage", 200},
    {"/* not closed .version 7.0", 218},
    {".version 7.0\n", 218},
    {".version 7.0\n.target sm_70\n}", 218},
    {".version 7.0\n.target sm_70\n.entry f(.param .u64 a { ret; }", 218},
    {".version 7.0\n.target sm_70\n.entry f(.param .u64) { ret; }", 218},
    {".version 7.0\n.target sm_70\n.entry f(.param .x64 a) { ret; }", 218},
    {".version 7.0\n.target sm_70\n.entry f(.param .align 3 .b8 a[4]) { ret; }", 218},
    {".version 7.0\n.target sm_70\n.entry f(.param .b8 a[99999]) { ret; }", 218},
    {".version 7.0\n.target sm_70\n.entry f() { nonsense; }", 218},
    {".version 7.0\n.target sm_70\n.entry f() { @%p1 nonsense; }", 218},
};

static void damage(const char *text, size_t n, unsigned rounds)
{
    static const char splice[] = "(){}[];:@,./*\"\\ \n.entry.param.align.b8%0";
    char *copy = malloc(n + 1);
    unsigned seed = 1;

    for (unsigned i = 0; i < rounds; i++) {
        void *module;
        memcpy(copy, text, n + 1);
        for (int k = 0; k < 1 + (int)(i % 4); k++) {
            seed = seed * 1103515245u + 12345u;
            copy[seed / 7 % n] = splice[seed / 65536 % (sizeof splice - 1)];
        }
        if (i % 5 == 0)
            copy[seed / 3 % n] = 0;
        if (!cuModuleLoadData(&module, copy))
            CHECK(cuModuleUnload(module));
    }
    free(copy);
}

int main(void)
{
    void *module, *f, *unused = begin();
    size_t offset, size;

    (void)unused;
    CHECK(cuModuleLoadData(&module, good));
    f = kernel(module, "layout");
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        CHECK(cuFuncGetParamInfo(f, i, &offset, &size));
        TRUE(offset == want[i].offset && size == want[i].size);
    }
    WANT(cuFuncGetParamInfo(f, sizeof want / sizeof *want, &offset, &size), 1);
    f = kernel(module, "bare");
    WANT(cuFuncGetParamInfo(f, 0, &offset, &size), 1);
    WANT(cuModuleGetFunction(&f, module, "no"), 500);
    WANT(cuModuleGetFunction(&f, module, "helper"), 500);
    WANT(cuLaunchKernel(kernel(module, "bare"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 801);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        int rc = cuModuleLoadData(&module, refused[i].text);
        if (rc != refused[i].code) {
            fprintf(stderr, "text %zu: %d, want %d\n", i, rc, refused[i].code);
            return 1;
        }
    }
    damage(good, sizeof good - 1, 20000);
    puts("ok");
    return 0;
}
