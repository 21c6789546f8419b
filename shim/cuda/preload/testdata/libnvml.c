/* A management library of two devices, of which the second has the UUID that the test gives. */
#include <stdio.h>
#include <string.h>

struct info {
    unsigned long long total, free, used;
};

struct info_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

static char second[96] = "GPU-00000000-0000-0000-0000-000000000000";

void fake_nvml_uuid(const char *uuid)
{
    snprintf(second, sizeof second, "%s", uuid);
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length)
{
    snprintf(uuid, length, "%s", device ? second : "GPU-ffffffff-0000-0000-0000-000000000000");
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, struct info *i)
{
    (void)device;
    *i = (struct info){1000ull << 20, 10ull << 20, 990ull << 20};
    return 0;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, struct info_v2 *i)
{
    (void)device;
    i->total = 1000ull << 20;
    i->reserved = 5;
    i->free = 10ull << 20;
    i->used = 990ull << 20;
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = 2;
    return 0;
}
