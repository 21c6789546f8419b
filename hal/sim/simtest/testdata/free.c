/* Prints the device's free bytes, its own context counted. */
#include "host.h"

int main(void)
{
    size_t n, total;
    begin();
    CHECK(cuMemGetInfo_v2(&n, &total));
    printf("%zu\n", n);
    return 0;
}
