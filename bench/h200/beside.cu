// What moving memory takes from a kernel that reads device memory at full speed: a child
// process copies, maps and reads, one kind of it after the other, while the parent reads
// 8 GiB again and again. For beside.sh.
#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

enum { NOTHING, COPY_IN, COPY_OUT, MAKE, READ_ALL, READ_BATCH, CREATE, MAP, KINDS };

static const char *const names[KINDS] = {
	"nothing", "copies in, 128 MiB", "copies out, 128 MiB", "128 MiB created, mapped, unmapped, released",
	"8 GiB read by a kernel", "128 MiB read by a kernel", "128 MiB created, released", "128 MiB mapped, unmapped",
};

struct shared {
	volatile int kind; // KINDS: end
	volatile int ready;
	volatile long events;
};

static const size_t batch = (size_t)128 << 20, piece = (size_t)32 << 20, whole = (size_t)8 << 30;

__global__ void read_all(const uint4 *from, size_t n, unsigned *to)
{
	unsigned sum = 0;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
		uint4 v = from[i];

		sum ^= v.x ^ v.y ^ v.z ^ v.w;
	}
	if (sum == 0x12345)
		*to = sum;
}

struct pieces {
	CUmemAllocationProp prop;
	CUmemAccessDesc access;
	CUdeviceptr at;
	CUmemGenericAllocationHandle handles[4];
};

static void create(struct pieces *p)
{
	for (int i = 0; i < 4; i++)
		CHECK(cuMemCreate(&p->handles[i], piece, &p->prop, 0));
}

static void release(struct pieces *p)
{
	for (int i = 0; i < 4; i++)
		CHECK(cuMemRelease(p->handles[i]));
}

static void map_and_unmap(struct pieces *p)
{
	for (int i = 0; i < 4; i++)
		CHECK(cuMemMap(p->at + (size_t)i * piece, piece, 0, p->handles[i], 0));
	CHECK(cuMemSetAccess(p->at, batch, &p->access, 1));
	CHECK(cuMemUnmap(p->at, batch));
}

static void disturb(struct shared *s)
{
	struct pieces kept = {}, made;
	cudaStream_t stream;
	void *host;
	char *device, *large;
	unsigned *word;

	CHECK(cudaSetDevice(0));
	CHECK(cudaFree(0));
	CHECK(cudaMallocHost(&host, batch));
	CHECK(cudaMalloc(&device, batch));
	CHECK(cudaMalloc(&large, whole));
	CHECK(cudaMalloc(&word, sizeof *word));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	kept.prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	kept.prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	kept.access.location = kept.prop.location;
	kept.access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CHECK(cuMemAddressReserve(&kept.at, batch, 0, 0, 0));
	made = kept;
	create(&kept);
	s->ready = 1;
	for (int kind; (kind = s->kind) != KINDS;) {
		switch (kind) {
		case NOTHING:
			usleep(1000);
			continue;
		case COPY_IN:
			CHECK(cudaMemcpyAsync(device, host, batch, cudaMemcpyHostToDevice, stream));
			break;
		case COPY_OUT:
			CHECK(cudaMemcpyAsync(host, device, batch, cudaMemcpyDeviceToHost, stream));
			break;
		case MAKE:
			create(&made);
			map_and_unmap(&made);
			release(&made);
			break;
		case READ_ALL:
			read_all<<<2112, 512, 0, stream>>>((uint4 *)large, whole / 16, word);
			break;
		case READ_BATCH:
			read_all<<<1056, 256, 0, stream>>>((uint4 *)large, batch / 16, word);
			break;
		case CREATE:
			create(&made);
			release(&made);
			break;
		case MAP:
			map_and_unmap(&kept);
			break;
		}
		CHECK(cudaStreamSynchronize(stream));
		s->events++;
		if (kind >= MAKE)
			usleep(kind == READ_ALL ? 100000 : 1500);
	}
	exit(0);
}

int main(void)
{
	struct shared *s = (struct shared *)mmap(0, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child = fork();
	cudaStream_t stream;
	char *large;
	unsigned *word;
	double alone = 0;
	int status = 0;

	if (!child)
		disturb(s);
	CHECK(cudaSetDevice(0));
	CHECK(cudaMalloc(&large, whole));
	CHECK(cudaMalloc(&word, sizeof *word));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	while (!s->ready && waitpid(child, &status, WNOHANG) == 0)
		usleep(1000);
	for (int kind = NOTHING; kind < KINDS && s->ready; kind++) {
		double began, took, rate;
		long events;
		int n = 0;

		s->kind = kind;
		usleep(50000);
		events = s->events;
		for (began = now(); now() - began < 0.6; n += 8) {
			for (int k = 0; k < 8; k++)
				read_all<<<2112, 512, 0, stream>>>((uint4 *)large, whole / 16, word);
			CHECK(cudaStreamSynchronize(stream));
		}
		took = now() - began;
		events = s->events - events;
		rate = n * (double)whole / took / 1e9;
		alone = kind == NOTHING ? rate : alone;
		printf("%-45s %6.0f GB/s, %5.2f %% lost; %5.0f a second, %5.0f us lost to each\n", names[kind], rate,
		       100 * (1 - rate / alone), (double)events / took, events ? 1e6 * (1 - rate / alone) * took / (double)events : 0.0);
	}
	s->kind = KINDS;
	waitpid(child, &status, 0);
	return status != 0;
}
