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
		       offsetof(struct xm_memory, flight) == 136, "struct xm_memory");
_Static_assert(sizeof(struct xm_segment) == 56, "struct xm_segment");
_Static_assert(offsetof(struct xm_host, commands) == 56, "struct xm_host");
_Static_assert(offsetof(struct xm_commands, record) == 8 && offsetof(struct xm_commands, ranges) == 48, "struct xm_commands");

/* And decodes these. */
_Static_assert(sizeof(struct xm_command) == 72 && offsetof(struct xm_command, kernel) == 12 && offsetof(struct xm_command, ns) == 24 &&
		       offsetof(struct xm_command, block) == 44 && offsetof(struct xm_command, payload) == 60 &&
		       offsetof(struct xm_command, maps) == 68, "struct xm_command");
_Static_assert(sizeof(struct xm_command_map) == 96 && offsetof(struct xm_command_map, strides) == 48 &&
		       offsetof(struct xm_command_map, element) == 92, "struct xm_command_map");
_Static_assert(sizeof(struct xm_command_copy) == 72 && sizeof(struct xm_command_fill) == 32 && sizeof(struct xm_command_range) == 24 &&
		       sizeof(struct xm_command_graph) == 16, "payloads");
_Static_assert(sizeof(struct xm_kernel) == 32 + 1024 + 8 * 128 && offsetof(struct xm_kernel, name) == 32, "struct xm_kernel");
