/* Level 3 has no part in the tests of admission. */
#include "../../channels.h"

void xm_channels_start(void)
{
}

void xm_channels_kick(void)
{
}
