/* An agent that only says that it was started, and of what it gets news: lines
 * "pid starttime", one a start, and "uncovered NAME", in the file
 * $FAKE_AGENT_LOG. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../agent.h"

/* The process's start time in ticks: field 22 of /proc/self/stat. */
static unsigned long long start_time(void)
{
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    char *p;

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p, NULL, 10) : 0;
}

static void append(const char *line)
{
    const char *path = getenv("FAKE_AGENT_LOG");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;

    if (fd < 0)
        return;
    if (write(fd, line, strlen(line)) < 0)
        perror(path);
    close(fd);
}

static void *listen(void *arg)
{
    const struct xm_host *host = arg;
    char names[4096], line[128];
    int told = 0;

    for (;;) {
        int news = host->wait_news(-1), n;

        if (news & XM_NEWS_LEAVING)
            return NULL;
        n = host->uncovered(names, sizeof names - 1);
        names[n] = 0;
        for (char *rest = names + told, *name; (name = strsep(&rest, "\n")) && *name;) {
            snprintf(line, sizeof line, "uncovered %s\n", name);
            append(line);
        }
        told = n;
    }
}

int xm_agent_start(const struct xm_host *host)
{
    char line[96];
    pthread_t thread;

    snprintf(line, sizeof line, "%d %llu\n", (int)getpid(), start_time());
    append(line);
    return pthread_create(&thread, NULL, listen, (void *)host) == 0 && pthread_detach(thread) == 0 ? 0 : -1;
}
