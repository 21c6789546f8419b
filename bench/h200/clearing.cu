// What giving device memory back takes from copies: one process copies to the device and
// one from it, and further ones make, map, unmap and give back 128 MiB at a time, as often as
// a mover at 50 GB/s does. In the end, what it takes to hand a handle to another process
// instead. For clearing.sh.
#include <cuda.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

static const size_t piece = (size_t)32 << 20, batch = (size_t)128 << 20, whole = (size_t)2 << 30;
static const double span = 1.0, every = 0.0026; // seconds: of a measurement; 128 MiB at 50 GB/s

enum { IN = 1, OUT = 2 };
enum { NOTHING, GIVES_BACK, MAPS, ALL };

static struct shared {
	volatile int ready, go;
	double in, out, changed[2];
} *s;

static CUmemAccessDesc access_of_device;

static void open_device(void)
{
	CUdevice device;
	CUcontext context;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	access_of_device.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access_of_device.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

static CUmemGenericAllocationHandle make(CUmemLocationType where)
{
	CUmemAllocationProp prop;
	CUmemGenericAllocationHandle handle;

	memset(&prop, 0, sizeof prop);
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = where;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	CHECK(cuMemCreate(&handle, piece, &prop, 0));
	return handle;
}

static CUdeviceptr reserve(size_t n)
{
	CUdeviceptr at;

	CHECK(cuMemAddressReserve(&at, n, 0, 0, 0));
	return at;
}

static void map(CUdeviceptr at, const CUmemGenericAllocationHandle *handles, size_t n)
{
	for (size_t i = 0; i < n; i++)
		CHECK(cuMemMap(at + i * piece, piece, 0, handles[i], 0));
	CHECK(cuMemSetAccess(at, n * piece, &access_of_device, 1));
}

static CUdeviceptr memory(CUmemLocationType where)
{
	CUdeviceptr at = reserve(whole);
	CUmemGenericAllocationHandle handles[64];

	for (size_t i = 0; i < whole / piece; i++)
		handles[i] = make(where);
	map(at, handles, whole / piece);
	return at;
}

static double begin(void)
{
	__sync_fetch_and_add(&s->ready, 1);
	while (!s->go)
		usleep(100);
	return now();
}

static void copies(int way)
{
	CUdeviceptr device, host;
	CUstream stream;
	CUevent events[4];
	double began;
	size_t done = 0;

	open_device();
	device = memory(CU_MEM_LOCATION_TYPE_DEVICE);
	host = memory(CU_MEM_LOCATION_TYPE_HOST_NUMA);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 4; i++)
		CHECK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
	began = begin();
	for (int n = 0; now() - began < span; n++, done += batch) {
		size_t at = (size_t)n * batch % whole;

		CHECK(cuEventSynchronize(events[n % 4]));
		for (size_t k = at; k < at + batch; k += piece)
			CHECK(cuMemcpyAsync(way == IN ? device + k : host + k, way == IN ? host + k : device + k, piece, stream));
		CHECK(cuEventRecord(events[n % 4], stream));
	}
	CHECK(cuStreamSynchronize(stream));
	*(way == IN ? &s->in : &s->out) = (double)done / (now() - began) / 1e9;
	exit(0);
}

static void changes(int kind, double *rate)
{
	CUmemGenericAllocationHandle handles[4];
	CUdeviceptr at;
	double began, next;
	int n = 0;

	open_device();
	at = reserve(batch);
	for (int i = 0; kind == MAPS && i < 4; i++)
		handles[i] = make(CU_MEM_LOCATION_TYPE_DEVICE);
	began = next = begin();
	for (; now() - began < span; n++) {
		for (int i = 0; kind != MAPS && i < 4; i++)
			handles[i] = make(CU_MEM_LOCATION_TYPE_DEVICE);
		if (kind != GIVES_BACK) {
			map(at, handles, 4);
			CHECK(cuMemUnmap(at, batch));
		}
		for (int i = 0; kind != MAPS && i < 4; i++)
			CHECK(cuMemRelease(handles[i]));
		next += every;
		if (next > now())
			usleep((useconds_t)((next - now()) * 1e6));
		else
			next = now();
	}
	*rate = n * (double)batch / (now() - began) / 1e9;
	exit(0);
}

static void measure(const char *name, int ways, int kind, int changers)
{
	int children = 0;
	double patience;

	memset(s, 0, sizeof *s);
	fflush(stdout);
	for (int way = IN; way <= OUT; way++)
		if (ways & way && ++children && !fork())
			copies(way);
	for (int i = 0; i < changers; i++)
		if (++children && !fork())
			changes(kind, &s->changed[i]);
	for (patience = now() + 20; s->ready < children && now() < patience;)
		usleep(1000);
	s->go = 1;
	while (wait(0) > 0)
		;
	printf("%-45s in %4.1f, out %4.1f GB/s; %4.1f and %4.1f GB/s changed\n", name, s->in, s->out, s->changed[0], s->changed[1]);
}

static void hands_over(void)
{
	enum { EXPORT, IMPORT, CLOSE, MAP, UNMAP, RELEASE, STEPS };
	static const char *const names[STEPS] = {"export", "import", "close", "map", "unmap", "release"};
	const int rounds = 200;
	double took[STEPS] = {0};
	CUmemGenericAllocationHandle handle, other;
	CUdeviceptr at;

	open_device();
	handle = make(CU_MEM_LOCATION_TYPE_DEVICE);
	at = reserve(piece);
	for (int i = 0; i < rounds; i++) {
		double t[STEPS + 1];
		int fd;

		t[0] = now();
		CHECK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		t[1] = now();
		CHECK(cuMemImportFromShareableHandle(&other, (void *)(size_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
		t[2] = now();
		CHECK(close(fd));
		t[3] = now();
		map(at, &other, 1);
		t[4] = now();
		CHECK(cuMemUnmap(at, piece));
		t[5] = now();
		CHECK(cuMemRelease(other));
		t[6] = now();
		for (int k = 0; k < STEPS; k++)
			took[k] += t[k + 1] - t[k];
	}
	printf("32 MiB handed over, us:");
	for (int k = 0; k < STEPS; k++)
		printf(" %s %.0f", names[k], took[k] / rounds * 1e6);
	printf("\n");
}

int main(void)
{
	s = (struct shared *)mmap(0, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		return 1;
	measure("in alone", IN, NOTHING, 0);
	measure("in, another makes and gives back", IN, GIVES_BACK, 1);
	measure("both ways", IN | OUT, NOTHING, 0);
	measure("both ways, another makes and gives back", IN | OUT, GIVES_BACK, 1);
	measure("both ways, another maps and unmaps", IN | OUT, MAPS, 1);
	measure("both ways, another does all of that", IN | OUT, ALL, 1);
	measure("both ways, two others do all of that", IN | OUT, ALL, 2);
	hands_over();
	return 0;
}
