/*
 * A program with memory of a pool, which can be moved, and of kinds that cannot: unified, and mapped
 * by itself. It says "pinned", and frees it all at SIGUSR1; "free", and ends at the next.
 *
 *   pins MIB-OF-POOL MIB-UNIFIED MIB-MAPPED
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

/* What of the driver's interface is used here alone. */
struct location {
	int type, id;
};
struct properties {
	int type, handles;
	struct location location;
	void *security;
	unsigned char flags[32];
};
struct access {
	struct location location;
	int flags;
};
int cuMemAllocAsync(dptr *out, size_t bytes, void *stream);
int cuMemFreeAsync(dptr at, void *stream);
int cuMemAllocManaged(dptr *out, size_t bytes, unsigned flags);
int cuMemCreate(dptr *handle, size_t bytes, const struct properties *p, unsigned long long flags);
int cuMemRelease(dptr handle);
int cuMemAddressReserve(dptr *at, size_t bytes, size_t alignment, dptr hint, unsigned long long flags);
int cuMemMap(dptr at, size_t bytes, size_t offset, dptr handle, unsigned long long flags);
int cuMemSetAccess(dptr at, size_t bytes, const struct access *a, size_t n);
int cuMemUnmap(dptr at, size_t bytes);

int main(int argc, char **argv)
{
	struct properties p = {1, 0, {1, 0}, NULL, {0}}; /* pinned, on device 0 */
	struct access a = {{1, 0}, 3};
	size_t pool, unified, mapped;
	void *context, *stream;
	dptr plain, from_pool, shared, handle, at;
	int device, signal;
	sigset_t set;

	if (argc != 4)
		return 2;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pool = (size_t)atoi(argv[1]) << 20;
	unified = (size_t)atoi(argv[2]) << 20;
	mapped = (size_t)atoi(argv[3]) << 20;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, 1));
	CHECK(cuMemAlloc_v2(&plain, 32 << 20));
	CHECK(cuMemAllocAsync(&from_pool, pool, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemAllocManaged(&shared, unified, 1));
	CHECK(cuMemCreate(&handle, mapped, &p, 0));
	CHECK(cuMemAddressReserve(&at, mapped, 0, 0, 0));
	CHECK(cuMemMap(at, mapped, 0, handle, 0));
	CHECK(cuMemSetAccess(at, mapped, &a, 1));
	printf("pinned\n");
	fflush(stdout);
	sigwait(&set, &signal);
	CHECK(cuMemFreeAsync(from_pool, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemFree_v2(shared));
	CHECK(cuMemRelease(handle)); /* its mapping keeps it */
	CHECK(cuMemUnmap(at, mapped));
	printf("free\n");
	fflush(stdout);
	sigwait(&set, &signal);
	return 0;
}
