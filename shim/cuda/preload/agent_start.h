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

/*
 * The program is ending: wait_news says so, and none of our threads asks the
 * driver anything any more.
 */
void xm_agent_leaving(void);

/* Has xm_agent_leaving called at exit, before the driver tears itself down. The
 * driver is initialised. Any number of times. */
void xm_agent_watch_exit(void);

/* News for the agent: an uncovered name was seen. Cheap, any thread. */
void xm_agent_news(void);

/* One warning line on the program's stderr, once a code: 1 to 31 are ours, 32 to 63 the agent's. */
#define XM_WARN_IPC 4
#define XM_WARN_LEARNING 5
#define XM_WARN_LEARNT 6
void xm_warn_once(int code, const char *text) __attribute__((visibility("hidden")));

#endif
