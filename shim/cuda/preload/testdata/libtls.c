/* A library with much thread-local storage of the static kind, as some runtimes
 * have: the stacks of all threads have to hold it too. */
#define KIB(n) ((n) << 10)

static _Thread_local char room[KIB(1536)] __attribute__((tls_model("initial-exec")));

char *tls_room(void)
{
    return room;
}
