/*
 * Starting the agent: one detached thread, all signals blocked, nobody waits.
 */
#ifndef XMSCHED_AGENT_START_H
#define XMSCHED_AGENT_START_H

/*
 * At the first cuInit, on the program's thread. Starts the agent's thread once
 * a process and returns at once; what goes wrong is one warning line and a
 * program that runs unscheduled.
 */
void xm_agent_spawn(void);

/* The program is ending (from an atexit or destructor): wait_news says so. */
void xm_agent_leaving(void);

/* News for the agent: an uncovered name was seen. Cheap, any thread. */
void xm_agent_news(void);

#endif
