/* The UUIDs of the devices that it sees, a line each; "none" when cuInit says so. */
#include "host.h"

int main(void)
{
    unsigned char u[16];
    int n, rc = cuInit(0);

    if (rc) {
        puts(rc == 100 ? "none" : "?");
        WANT(cuDeviceGetCount(&n), 3);
        return 0;
    }
    CHECK(cuDeviceGetCount(&n));
    for (int d = 0; d < n; d++) {
        CHECK(cuDeviceGetUuid(u, d));
        for (int i = 0; i < 16; i++)
            printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
        puts("");
    }
    return 0;
}
