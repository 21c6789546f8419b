/* An agent that takes the first launch it is offered, and is never heard of again. */
#include <pthread.h>
#include <stdlib.h>

#include "agent.h"

static void *listen_once(void *host)
{
	const struct xm_samples *s = ((const struct xm_host *)host)->samples;
	void *record = malloc(XM_COMMAND_MOST);
	struct xm_sample head;

	while (record && s->next(1000, &head, record) == 0)
		;
	free(record);
	return NULL;
}

__attribute__((visibility("default"))) int xm_agent_start(const struct xm_host *host)
{
	pthread_t t;

	return pthread_create(&t, NULL, listen_once, (void *)host) || pthread_detach(t) ? -1 : 0;
}
