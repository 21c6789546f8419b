/* Reads what the driver has to know of a module's text: the entries, and where
 * their parameters lie. It does not compile; what a kernel does is the device's
 * business, by name. */
#include "sim.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

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

static bool name_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%'; }

static const char *skip(const char *t)
{
    while (*t == ' ')
        t++;
    return t;
}

static bool word_at(const char *t, const char *word)
{
    size_t n = strlen(word);
    return !strncmp(t, word, n) && !name_char(t[n]);
}

/* Braces and parentheses nest, and the directives that every module begins with
 * are there. */
static bool plausible(const char *t)
{
    int braces = 0, parens = 0;

    for (const char *p = t; *p; p++) {
        braces += *p == '{' ? 1 : *p == '}' ? -1 : 0;
        parens += *p == '(' ? 1 : *p == ')' ? -1 : 0;
        if (braces < 0 || parens < 0)
            return false;
    }
    return !braces && !parens && strstr(t, ".target");
}

/* An instruction has a type or another suffix, but for these few. Precondition:
 * the text is squeezed; t is at the first word, behind labels and guards. */
static bool opcode_ok(const char *t, const char *end)
{
    static const char *const bare[] = {"ret", "exit", "trap", "brkpt", "bra", "call", "pmevent"};

    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (word_at(t, bare[i]))
            return true;
    while (t < end && name_char(*t))
        t++;
    return t < end && *t == '.';
}

/* Whether the statements of the body that follows look like instructions or
 * directives. What they mean is not looked at. */
static bool body_ok(const char *t)
{
    t += strcspn(t, "{;"); /* directives may stand before it; a declaration has none */
    for (int depth = 0; *t;) {
        t = skip(t);
        if (*t == '{' || *t == '}') {
            depth += *t++ == '{' ? 1 : -1;
            if (!depth)
                return true;
            continue;
        }
        const char *end = strchr(t, ';'), *label = t;
        if (!depth || !end)
            return true;
        while (name_char(*label))
            label++;
        if (label > t && *skip(label) == ':') {
            t = skip(label) + 1;
            continue;
        }
        if (*t == '@') /* a guard is one word */
            t = skip(t + strcspn(t, " ;"));
        if (*t != '.' && t != end && !opcode_ok(t, end))
            return false;
        t = end + 1;
    }
    return true;
}

static size_t type_size(const char *t)
{
    static const char kinds[] = "usfb";
    if (t[0] != '.' || !t[1] || !strchr(kinds, t[1]))
        return 0;
    char *end;
    unsigned long bits = strtoul(t + 2, &end, 10);
    if (end == t + 2 || name_char(*end))
        return 0;
    return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128 ? bits / 8 : 0;
}

/* One parameter, from behind ".param" up to its comma or parenthesis. */
static bool parse_param(const char *t, const char *end, size_t *size, size_t *align)
{
    *size = *align = 0;
    bool pointer = false;
    for (t = skip(t); t < end; t = skip(t)) {
        if (word_at(t, ".align")) {
            char *after;
            unsigned long n = strtoul(t + 6, &after, 10);
            if (!pointer)
                *align = n; /* behind .ptr it speaks of what is pointed to */
            t = after;
        } else if (*t == '.') {
            size_t n = type_size(t);
            pointer = pointer || word_at(t, ".ptr");
            if (n && !*size)
                *size = n;
            for (t++; name_char(*t);)
                t++;
        } else if (*t == '[') {
            *size *= strtoul(t + 1, NULL, 10);
            while (t < end && *t != ']')
                t++;
            t++;
        } else if (name_char(*t)) {
            if (*size && !*align)
                *align = *size;
            while (name_char(*t))
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

/* From behind ".entry". */
static bool parse_entry(const char *t, struct sim_ptx_entry *e)
{
    t = skip(t);
    const char *name = t;
    while (name_char(*t))
        t++;
    if (t == name || !(e->name = strndup(name, (size_t)(t - name))))
        return false;
    t = skip(t);
    if (*t != '(')
        return (*t == '{' || *t == ';' || *t == '.') && body_ok(t);
    t = skip(t + 1);
    while (*t && *t != ')') {
        const char *end = t + strcspn(t, ",)");
        size_t size, align;
        if (!word_at(t, ".param") || !parse_param(t + 6, end, &size, &align) || !add_param(e, size, align))
            return false;
        t = skip(*end == ',' ? end + 1 : end);
    }
    return *t == ')' && body_ok(t + 1);
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
    char *t = squeeze(text);
    int rc = CUDA_SUCCESS;

    *entries = NULL;
    *count = 0;
    if (!t)
        return CUDA_ERROR_INVALID_PTX;
    if (!word_at(skip(t), ".version"))
        rc = CUDA_ERROR_INVALID_IMAGE;
    else if (!plausible(t))
        rc = CUDA_ERROR_INVALID_PTX;
    for (char *p = t; !rc && (p = strstr(p, ".entry"));) {
        p += strlen(".entry");
        struct sim_ptx_entry *more = realloc(*entries, (*count + 1) * sizeof *more);
        if (!more) {
            rc = CUDA_ERROR_OUT_OF_MEMORY;
            break;
        }
        *entries = more;
        more[*count] = (struct sim_ptx_entry){0};
        if (!parse_entry(p, &more[(*count)++]))
            rc = CUDA_ERROR_INVALID_PTX;
    }
    free(t);
    if (rc) {
        sim_ptx_free(*entries, *count);
        *entries = NULL;
        *count = 0;
    }
    return rc;
}
