/* Memory that moves has no part in the tests of admission. */
#include "../../memory_ready.h"

int xm_memory_ready(uint32_t section)
{
	(void)section;
	return 0;
}

void xm_memory_opened(uint32_t section)
{
	(void)section;
}

void xm_memory_announce(void)
{
}
