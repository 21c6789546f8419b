/* No device: what a program sees on a machine without a GPU. */
#include "host.h"

int main(void)
{
    int n;
    WANT(cuInit(0), 100);
    WANT(cuDeviceGetCount(&n), 3);
    puts("ok");
    return 0;
}
