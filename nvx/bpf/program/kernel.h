/*
 * What of the kernel's interface for bpf programs this program uses: helpers by
 * their numbers (uapi/linux/bpf.h; they never change), kinds of maps, and the
 * fields of kernel structures that are found by their names in the running
 * kernel's type information when the program is loaded.
 */
#ifndef KERNEL_H
#define KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

static void *(*const map_lookup)(const void *map, const void *key) = (void *)1;
static long (*const map_update)(const void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(const void *map, const void *key) = (void *)3;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static u64 (*const get_current_pid_tgid)(void) = (void *)14;
static long (*const get_current_comm)(void *buf, u32 size) = (void *)16;
static u64 (*const get_current_task)(void) = (void *)35;
static long (*const probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const ringbuf_output)(const void *map, const void *data, u64 size, u64 flags) = (void *)130;
static u64 (*const get_attach_cookie)(const void *ctx) = (void *)174;

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_HASH = 5, MAP_LRU_HASH = 9, MAP_RINGBUF = 27 };
enum { UPDATE_ANY = 0, UPDATE_NEW = 1 };
enum { NO_PREALLOC = 1 };

/* A map's description is a variable whose type says everything. */
#define MAP_NUMBER(field, n) int(*field)[n]
#define MAP_TYPE(field, t) t *field

/* The registers of the program that was stopped, by their place in the context. */
#if defined(__TARGET_ARCH_x86)
#define RESULT 80
#define STACK_POINTER 152
#elif defined(__TARGET_ARCH_arm64)
#define RESULT 0
#define STACK_POINTER 248
#else
#error no registers are known for this machine
#endif

#define REGISTER(ctx, at) (*(const u64 *)((const char *)(ctx) + (at)))

#define BY_NAME __attribute__((preserve_access_index))

struct ns_common {
	u32 inum;
} BY_NAME;

struct pid_namespace {
	struct ns_common ns;
} BY_NAME;

struct upid {
	int nr;
	struct pid_namespace *ns;
} BY_NAME;

struct pid {
	u32 level;
	struct upid numbers[1];
} BY_NAME;

struct task_struct {
	struct task_struct *group_leader;
	struct pid *thread_pid;
} BY_NAME;

enum { FIELD_OFFSET = 0, TYPE_SIZE = 1 }; /* what clang's builtins are asked for */

#endif
