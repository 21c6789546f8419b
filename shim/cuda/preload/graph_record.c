#include "graph_record.h"
#include <errno.h>
#include "record.h"
int xm_graph_nodes(uint64_t id, void *buf, uint32_t bytes, uint64_t *version){(void)id;(void)buf;(void)bytes;(void)version;return -ENOENT;}
void xm_record_graph(CUstream stream, unsigned flags, CUgraphExec exec)
{
	struct xm_command c = {.kind = XM_COMMAND_GRAPH, .flags = XM_COMMAND_UNKNOWN};
	struct xm_command_graph g = {0};
	(void)exec;
	if (xm_record_place(&c, stream, flags))
		xm_record_add(&c, &g, sizeof g);
}
