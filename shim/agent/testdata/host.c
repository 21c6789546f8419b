/* An agent that does nothing but keep what the preload library lends, for a test in
 * the same process that plays agent and daemon. */
#include <stddef.h>

#include "agent.h"

static const struct xm_host *_Atomic kept;

int xm_agent_start(const struct xm_host *host)
{
	kept = host;
	return 0;
}

/* NULL: not started yet. */
const struct xm_host *test_host(void)
{
	return kept;
}

/* Go reads these by offset. */
_Static_assert(offsetof(struct xm_host, attach) == 8 && offsetof(struct xm_host, memory) == 48, "struct xm_host");
_Static_assert(offsetof(struct xm_memory, list) == 8 && offsetof(struct xm_memory, driver) == 104 && offsetof(struct xm_memory, pool) == 112 &&
		       offsetof(struct xm_memory, forgo) == 128, "struct xm_memory");
_Static_assert(sizeof(struct xm_segment) == 56, "struct xm_segment");
