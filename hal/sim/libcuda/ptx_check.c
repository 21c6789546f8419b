/* Refuses the bodies that a compiler refuses for their form: statements that do
 * not end, registers and labels that are nowhere. It knows no instruction: of a
 * statement it looks at the first word, and at names. */
#include "ptx.h"

#include <stdlib.h>

/* ---- pieces ---- */

/* The semicolon that ends a statement, NULL when a brace closes before, or the
 * text ends. A statement may hold braces of its own. */
static const char *statement_end(const char *t)
{
    int depth = 0;

    for (; *t && depth >= 0; t++) {
        if (*t == ';' && !depth)
            return t;
        depth += *t == '{' ? 1 : *t == '}' ? -1 : 0;
    }
    return NULL;
}

static const char *numbers(const char *t)
{
    for (t = ptx_skip(t); isdigit((unsigned char)*t); t = ptx_skip(t))
        t = ptx_name_end(t);
    return t;
}

/* Behind a .loc, which no semicolon ends:
 * file line column[, function_name label[+offset], inlined_at file line column] */
static const char *after_loc(const char *t)
{
    t = numbers(t);
    while (*t == ',') {
        t = ptx_skip(t + 1);
        t = ptx_skip(ptx_name_end(t)); /* function_name, inlined_at */
        if (!isdigit((unsigned char)*t))
            t = ptx_skip(ptx_name_end(t));
        if (*t == '+')
            t = ptx_skip(t + 1);
        t = numbers(t);
    }
    return t;
}

/* ---- the names of a body ---- */

struct names {
    struct name {
        const char *text;
        size_t length;
        unsigned long count; /* of name0, name1, …; 0: of the name alone */
    } *list;
    size_t used;
    bool failed;
};

static void add(struct names *n, const char *text, size_t length, unsigned long count)
{
    struct name *list = n->failed ? NULL : realloc(n->list, (n->used + 1) * sizeof *list);

    if (!list) {
        n->failed = true;
        return;
    }
    n->list = list;
    list[n->used++] = (struct name){text, length, count};
}

static bool is(const struct name *n, const char *text, size_t length)
{
    if (length < n->length || memcmp(n->text, text, n->length))
        return false;
    if (!n->count)
        return length == n->length;
    if (length == n->length || length > n->length + 9)
        return false;
    char *end;
    unsigned long index = strtoul(text + n->length, &end, 10);
    return end == text + length && isdigit((unsigned char)text[n->length]) && index < n->count;
}

static bool has(const struct names *n, const char *text, size_t length)
{
    for (size_t i = n->used; i-- > 0;)
        if (is(&n->list[i], text, length))
            return true;
    return false;
}

/* Registers that need no declaration, by how they begin. */
static bool special(const char *text, size_t length)
{
    static const char *const known[] = {
        "%tid", "%ntid", "%laneid", "%warpid", "%nwarpid", "%ctaid", "%nctaid", "%smid", "%nsmid", "%gridid",
        "%is_explicit_cluster", "%cluster", "%nclusterid", "%lanemask_", "%clock", "%pm", "%envreg", "%globaltimer",
        "%reserved_smem_offset_", "%total_smem_size", "%aggr_smem_size", "%dynamic_smem_size", "%current_graph_exec",
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i]);
        if (length >= n && !memcmp(text, known[i], n))
            return true;
    }
    return false;
}

/* Takes every name with a percent sign in a declaration, and in .reg every name. */
static void declare(struct names *n, const char *t, const char *end)
{
    bool all = ptx_word_at(t, ".reg");

    while (t < end) {
        const char *name = t + (*t == '.'); /* a directive's or a type's own word is none */
        t = ptx_name_end(name);
        if (t > name && name[-1] != '.' && (*name == '%' || (all && !isdigit((unsigned char)*name)))) {
            const char *range = ptx_skip(t);
            add(n, name, (size_t)(t - name), *range == '<' ? strtoul(range + 1, NULL, 10) : 0);
        }
        if (t == name)
            t++;
    }
}

static bool registers_ok(const struct names *n, const char *t, const char *end)
{
    while (t < end) {
        const char *name = t;
        t = ptx_name_end(t);
        if (t == name)
            t++;
        else if (*name == '%' && !has(n, name, (size_t)(t - name)) && !special(name, (size_t)(t - name)))
            return false;
    }
    return true;
}

/* ---- the body ---- */

/* An instruction has a type or another suffix, but for these few. */
static bool opcode_ok(const char *t, const char *end)
{
    static const char *const bare[] = {"ret", "exit", "trap", "brkpt", "bra", "call", "pmevent"};

    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (ptx_word_at(t, bare[i])) {
            t += strlen(bare[i]);
            return i > 2 || *t == '.' || ptx_skip(t) == end; /* the first three stand alone */
        }
    t = ptx_name_end(t);
    return t < end && *t == '.';
}

/* The target of a branch is the last word of its statement. */
static bool branch_ok(const struct names *labels, const char *t, const char *end)
{
    if (!ptx_word_at(t, "bra"))
        return true;
    while (end > t && end[-1] == ' ')
        end--;
    const char *name = end;
    while (name > t && ptx_name_char(name[-1]))
        name--;
    return name < end && has(labels, name, (size_t)(end - name));
}

/* Walks the statements of a body, from its brace to behind the one that closes
 * it; NULL when it is none. The first walk takes the declarations, the second,
 * with check, looks whether they suffice. */
static const char *walk(const char *t, struct names *registers, struct names *labels, bool check)
{
    for (int depth = 0;;) {
        t = ptx_skip(t);
        if (*t == '{' || *t == '}') {
            depth += *t++ == '{' ? 1 : -1;
            if (!depth)
                return t;
            continue;
        }
        const char *word = ptx_name_end(t);
        if (word > t && *ptx_skip(word) == ':') {
            if (!check)
                add(labels, t, (size_t)(word - t), 0);
            t = ptx_skip(word) + 1;
            continue;
        }
        if (ptx_word_at(t, ".loc")) {
            t = after_loc(t + strlen(".loc"));
            continue;
        }
        const char *end = statement_end(t);
        if (!end)
            return NULL;
        if (*t == '.' && !check)
            declare(registers, t, end);
        if (*t != '.' && check && !registers_ok(registers, t, end))
            return NULL;
        if (*t == '@') /* a guard is one word */
            t = ptx_skip(t + strcspn(t, " ;"));
        if (*t != '.' && t != end && (!opcode_ok(t, end) || (check && !branch_ok(labels, t, end))))
            return NULL;
        t = end + 1;
    }
}

const char *ptx_check_body(const char *head, const char *body)
{
    struct names registers = {0}, labels = {0};

    declare(&registers, head, body);
    const char *end = walk(body, &registers, &labels, false);
    if (end)
        end = walk(body, &registers, &labels, true);
    if (registers.failed || labels.failed)
        end = NULL;
    free(registers.list);
    free(labels.list);
    return end;
}
