#define _GNU_SOURCE
#include "raw.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "resolve.h"

typedef int ioctl_fn(int, unsigned long, void *);

/* The ioctl that the program would have without us: libc's, or that of a library
 * preloaded after us. It is looked for at the first call. */
static ioctl_fn *next;

static int syscall_ioctl(int fd, unsigned long request, void *arg)
{
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

__attribute__((cold, noinline)) static ioctl_fn *find_next(void)
{
	int was = errno;
	ioctl_fn *f = (ioctl_fn *)xm_next("ioctl");

	if (!f)
		f = syscall_ioctl;
	__atomic_store_n(&next, f, __ATOMIC_RELAXED);
	errno = was;
	return f;
}

int xm_ioctl_next(int fd, unsigned long request, void *arg)
{
	ioctl_fn *f = __atomic_load_n(&next, __ATOMIC_RELAXED);

	return (__builtin_expect(f != NULL, 1) ? f : find_next())(fd, request, arg);
}

int xm_rm_raw(int fd, unsigned long request, void *arg)
{
	ioctl_fn *simulated = __atomic_load_n(&xm_sim_ioctl, __ATOMIC_RELAXED);

	return simulated ? simulated(fd, request, arg) : xm_ioctl_next(fd, request, arg);
}

bool xm_rm_file(int fd, struct xm_rm_file *f)
{
	struct stat s;
	int was = errno;
	bool ok = syscall(SYS_fstat, fd, &s) == 0; /* the function of that name is of glibc 2.33 */

	errno = was;
	if (!ok)
		return false;
	*f = (struct xm_rm_file){.fd = fd, .device = s.st_rdev ? s.st_rdev : s.st_dev, .inode = s.st_ino};
	return S_ISCHR(s.st_mode) || __atomic_load_n(&xm_sim_ioctl, __ATOMIC_RELAXED);
}

bool xm_rm_file_is(const struct xm_rm_file *f)
{
	struct xm_rm_file now;

	return xm_rm_file(f->fd, &now) && now.device == f->device && now.inode == f->inode;
}
