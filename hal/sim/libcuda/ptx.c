/* Reads what the driver has to know of a module's text: the entries, and where
 * their parameters lie. It does not compile; what a kernel does is the device's
 * business, by name. */
#include "ptx.h"
#include "sim.h"

#include <stdlib.h>

/* What the recorded driver compiles: PTX 9.0, up to sm_90. */
#define PTX_MAJOR 9u
#define PTX_MINOR 0u
#define PTX_TARGET 90u

#define MAX_PARAMS 1024u
#define MAX_PARAM_BYTES 32764u /* of all parameters of an entry, since CUDA 12.1 */

/* The text without comments and with single blanks; NULL when a comment does not
 * end or memory is out. */
static char *squeeze(const char *t)
{
    char *out = malloc(strlen(t) + 1), *o = out;

    while (out && *t) {
        if (t[0] == '/' && t[1] == '/') {
            while (*t && *t != '\n')
                t++;
        } else if (t[0] == '/' && t[1] == '*') {
            const char *end = strstr(t + 2, "*/");
            if (!end) {
                free(out);
                return NULL;
            }
            t = end + 2;
            *o++ = ' ';
        } else if (isspace((unsigned char)*t)) {
            if (o > out && o[-1] != ' ')
                *o++ = ' ';
            t++;
        } else {
            *o++ = *t++;
        }
    }
    if (out)
        *o = 0;
    return out;
}

static size_t type_size(const char *t)
{
    static const char kinds[] = "usfb";
    if (t[0] != '.' || !t[1] || !strchr(kinds, t[1]))
        return 0;
    char *end;
    unsigned long bits = strtoul(t + 2, &end, 10);
    if (end == t + 2 || ptx_name_char(*end))
        return 0;
    return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128 ? bits / 8 : 0;
}

/* One parameter, from behind ".param" up to its comma or parenthesis. */
static bool parse_param(const char *t, const char *end, size_t *size, size_t *align)
{
    *size = *align = 0;
    bool pointer = false;
    for (t = ptx_skip(t); t < end; t = ptx_skip(t)) {
        if (ptx_word_at(t, ".align")) {
            char *after;
            unsigned long n = strtoul(t + 6, &after, 10);
            if (!pointer)
                *align = n; /* behind .ptr it speaks of what is pointed to */
            t = after;
        } else if (*t == '.') {
            size_t n = type_size(t);
            pointer = pointer || ptx_word_at(t, ".ptr");
            if (n && !*size)
                *size = n;
            for (t++; ptx_name_char(*t);)
                t++;
        } else if (*t == '[') {
            *size *= strtoul(t + 1, NULL, 10);
            while (t < end && *t != ']')
                t++;
            t++;
        } else if (ptx_name_char(*t)) {
            if (*size && !*align)
                *align = *size;
            while (ptx_name_char(*t))
                t++;
        } else {
            return false;
        }
    }
    return *size && *align && !(*align & (*align - 1)) && *size <= MAX_PARAM_BYTES;
}

static bool add_param(struct sim_ptx_entry *e, size_t size, size_t align)
{
    size_t at = (e->arg_bytes + align - 1) & ~(align - 1);

    if (e->params == MAX_PARAMS || at + size > MAX_PARAM_BYTES)
        return false;
    size_t *offsets = realloc(e->offsets, (e->params + 1) * sizeof *offsets);
    if (offsets)
        e->offsets = offsets;
    size_t *sizes = realloc(e->sizes, (e->params + 1) * sizeof *sizes);
    if (sizes)
        e->sizes = sizes;
    if (!offsets || !sizes)
        return false;
    offsets[e->params] = at;
    sizes[e->params++] = size;
    e->arg_bytes = at + size;
    return true;
}

/* From behind ".entry", up to behind its body; NULL when it is no entry. */
static const char *parse_entry(const char *t, struct sim_ptx_entry *e)
{
    t = ptx_skip(t);
    const char *name = t;
    while (ptx_name_char(*t))
        t++;
    if (t == name || !(e->name = strndup(name, (size_t)(t - name))))
        return NULL;
    const char *head = t = ptx_skip(t);
    if (*t == '(') {
        t = ptx_skip(t + 1);
        while (*t && *t != ')') {
            const char *end = t + strcspn(t, ",)");
            size_t size, align;
            if (!ptx_word_at(t, ".param") || !parse_param(t + 6, end, &size, &align) || !add_param(e, size, align))
                return NULL;
            t = ptx_skip(*end == ',' ? end + 1 : end);
        }
        if (*t++ != ')')
            return NULL;
    }
    t = ptx_skip(t);
    if (*t == '.') /* directives of performance stand before the body */
        t += strcspn(t, "{};");
    return *t == '{' ? ptx_check_body(head, t) : NULL;
}

/* ---- the module ---- */

struct module_text {
    struct sim_ptx_entry *entries;
    unsigned count;
    bool target;
    int rc; /* why a directive was refused */
};

static const char *refuse(struct module_text *m, int rc)
{
    m->rc = rc;
    return NULL;
}

static const char *version(const char *t, struct module_text *m)
{
    char *end;
    unsigned long major = strtoul(t, &end, 10);
    if (*end != '.')
        return refuse(m, CUDA_ERROR_INVALID_PTX);
    unsigned long minor = strtoul(end + 1, &end, 10);
    if (major > PTX_MAJOR || (major == PTX_MAJOR && minor > PTX_MINOR))
        return refuse(m, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    return end;
}

static const char *target(const char *t, struct module_text *m)
{
    t = ptx_skip(t);
    if (strncmp(t, "sm_", 3))
        return refuse(m, CUDA_ERROR_INVALID_PTX);
    unsigned long sm = strtoul(t + 3, NULL, 10);
    if (!sm || sm > PTX_TARGET)
        return refuse(m, CUDA_ERROR_INVALID_PTX);
    m->target = true;
    for (;;) { /* options follow, with commas */
        while (ptx_name_char(*t))
            t++;
        t = ptx_skip(t);
        if (*t != ',')
            return t;
        t = ptx_skip(t + 1);
    }
}

static const char *entry(const char *t, struct module_text *m)
{
    struct sim_ptx_entry *more = realloc(m->entries, (m->count + 1) * sizeof *more);
    if (!more)
        return refuse(m, CUDA_ERROR_OUT_OF_MEMORY);
    m->entries = more;
    struct sim_ptx_entry *e = &more[m->count++];
    *e = (struct sim_ptx_entry){0};
    t = parse_entry(t, e);
    for (unsigned i = 0; t && i + 1 < m->count; i++)
        if (!strcmp(more[i].name, e->name))
            t = NULL;
    return t ? t : refuse(m, CUDA_ERROR_INVALID_PTX);
}

static const char *function(const char *t, struct module_text *m)
{
    const char *head = t;
    t += strcspn(t, "{;}");
    const char *end = *t == ';' ? t + 1 : *t == '{' ? ptx_check_body(head, t) : NULL;
    return end ? end : refuse(m, CUDA_ERROR_INVALID_PTX);
}

static const char *variable(const char *t, struct module_text *m)
{
    const char *end = strchr(t, ';');
    return end ? end + 1 : refuse(m, CUDA_ERROR_INVALID_PTX);
}

static const char *number(const char *t, struct module_text *m)
{
    char *end;
    (void)strtoul(t, &end, 10);
    return end != t ? end : refuse(m, CUDA_ERROR_INVALID_PTX);
}

/* .file N "name" and two more numbers; .section name { ... } */
static const char *debug(const char *t, struct module_text *m)
{
    const char *next = t + strcspn(t, "\"{");
    const char *end = *next ? strchr(next + 1, *next == '"' ? '"' : '}') : NULL;
    if (!end)
        return refuse(m, CUDA_ERROR_INVALID_PTX);
    for (t = ptx_skip(end + 1); *t == ',';)
        t = ptx_skip(t + 1 + strspn(t + 1, " 0123456789"));
    return t;
}

static const char *linkage(const char *t, struct module_text *m)
{
    (void)m;
    return t;
}

static const struct {
    const char *name;
    const char *(*read)(const char *, struct module_text *);
} directives[] = {
    {".version", version},   {".target", target},     {".address_size", number}, {".entry", entry},
    {".func", function},     {".visible", linkage},   {".extern", linkage},      {".weak", linkage},
    {".common", linkage},    {".global", variable},   {".const", variable},      {".shared", variable},
    {".local", variable},    {".tex", variable},      {".alias", variable},      {".pragma", variable},
    {".file", debug},        {".section", debug},
};

static const char *directive(const char *t, struct module_text *m)
{
    for (size_t i = 0; i < sizeof directives / sizeof *directives; i++)
        if (ptx_word_at(t, directives[i].name))
            return directives[i].read(t + strlen(directives[i].name), m);
    return refuse(m, CUDA_ERROR_INVALID_PTX);
}

void sim_ptx_free(struct sim_ptx_entry *entries, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        free(entries[i].name);
        free(entries[i].offsets);
        free(entries[i].sizes);
    }
    free(entries);
}

int sim_ptx_parse(const char *text, struct sim_ptx_entry **entries, unsigned *count)
{
    struct module_text m = {0};
    char *t = squeeze(text);

    *entries = NULL;
    *count = 0;
    if (!t)
        return CUDA_ERROR_INVALID_PTX;
    const char *p = ptx_skip(t);
    if (!ptx_word_at(p, ".version"))
        m.rc = CUDA_ERROR_INVALID_IMAGE;
    while (!m.rc && *p) {
        p = directive(p, &m);
        p = p ? ptx_skip(p) : "";
    }
    if (!m.rc && !m.target)
        m.rc = CUDA_ERROR_INVALID_PTX;
    free(t);
    if (m.rc) {
        sim_ptx_free(m.entries, m.count);
        return m.rc;
    }
    *entries = m.entries;
    *count = m.count;
    return CUDA_SUCCESS;
}
