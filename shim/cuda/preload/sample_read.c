/* Whether a launch's parameters are there to be read before the driver was asked. It looks at
 * the shape of a launch first, and a program that had its error code from a launch whose
 * parameters were never read is to have it still. */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels.h"
#include "sample.h"

#define PAGE 4096u
#define NO_SUCH_HOW (-1)
#define SIGSET_BYTES 8u

/* The kernel reads a set of signals before it looks at what is to be done with it, which here is
 * nothing that there is: no signal is touched, and no right is needed. */
static bool word_is_there(uintptr_t at)
{
	at &= ~(uintptr_t)(SIGSET_BYTES - 1);
	return at && (syscall(SYS_rt_sigprocmask, NO_SUCH_HOW, at, NULL, SIGSET_BYTES) == 0 || errno != EFAULT);
}

static bool is_there(const void *from, size_t n)
{
	uintptr_t at = (uintptr_t)from, end;

	if (!n)
		return true;
	if (__builtin_add_overflow(at, n - 1, &end))
		return false;
	for (;;) {
		if (!word_is_there(at))
			return false;
		at = at | (PAGE - 1); /* the page's last */
		if (at >= end)
			return true;
		at++;
	}
}

/* One pointer a parameter. */
static bool each_is_there(const struct xm_known *k, void **params)
{
	if (!is_there(params, k->parameters * sizeof *params))
		return false;
	for (uint32_t i = 0; i < k->parameters; i++)
		if (params[i] && !is_there(params[i], k->parameter[i].size))
			return false;
	return true;
}

/* One buffer, in pairs of a key and what it says (record_launch.c). */
static bool buffer_is_there(void **extra)
{
	const void *from = NULL;
	size_t n = 0;

	for (unsigned i = 0; i < XM_EXTRA_PAIRS; i++, extra += 2) {
		if (!is_there(extra, sizeof *extra))
			return false;
		if (extra[0] == XM_EXTRA_END)
			break;
		if (!is_there(extra + 1, sizeof *extra))
			return false;
		if (extra[0] == XM_EXTRA_POINTER)
			from = extra[1];
		if (extra[0] == XM_EXTRA_SIZE) {
			if (extra[1] && !is_there(extra[1], sizeof n))
				return false;
			n = extra[1] ? *(const size_t *)extra[1] : 0;
		}
	}
	return !from || is_there(from, n < XM_COMMAND_PARAMETERS ? n : XM_COMMAND_PARAMETERS);
}

bool xm_sample_readable(const struct xm_launch *l, const struct xm_known *k)
{
	if (l->extra)
		return buffer_is_there(l->extra);
	return !l->params || each_is_there(k, l->params);
}
