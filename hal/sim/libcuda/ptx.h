/* What the two readers of module texts share. A squeezed text has no comments,
 * and single blanks. */
#ifndef XM_SIM_PTX_H
#define XM_SIM_PTX_H

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static inline bool ptx_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static inline const char *ptx_skip(const char *t)
{
    while (*t == ' ')
        t++;
    return t;
}

static inline const char *ptx_name_end(const char *t)
{
    while (ptx_name_char(*t))
        t++;
    return t;
}

static inline bool ptx_word_at(const char *t, const char *word)
{
    size_t n = strlen(word);
    return !strncmp(t, word, n) && !ptx_name_char(t[n]);
}

/* Checks the body of an entry or function, which begins with a brace; head is
 * what stands before it, with the parameters. Behind the body; NULL: its
 * statements are not complete, a register is not declared, or a branch has no
 * target. */
const char *ptx_check_body(const char *head, const char *body);

#endif
