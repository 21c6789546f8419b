/* Which process it is, as those call it who look. */
#ifndef WHO_H
#define WHO_H

#define DEPTH 8 /* of nested pid namespaces; the kernel allows 32 */

/*
 * The process's number in the namespace of the observer: the kernel's own, where
 * that is the first one. 0: it has none there, which means that it cannot be
 * seen from there either.
 */
INLINE u32 here(u32 pid)
{
	struct task_struct *task = (void *)get_current_task(), *leader;
	struct pid *numbers;
	struct pid_namespace *ns;
	const char *row;
	u32 level = 0, inum = 0, nr = 0;

	if (!namespace)
		return pid;
	if (probe_read_kernel(&leader, sizeof(leader), &task->group_leader) || probe_read_kernel(&numbers, sizeof(numbers), &leader->thread_pid) ||
	    probe_read_kernel(&level, sizeof(level), &numbers->level))
		return 0;
	row = (const char *)&numbers->numbers;
	for (int i = 0; i < DEPTH; i++) {
		const struct upid *one = (const void *)row;

		if ((u32)i > level)
			break;
		if (!probe_read_kernel(&ns, sizeof(ns), &one->ns) && !probe_read_kernel(&inum, sizeof(inum), &ns->ns.inum) && inum == namespace &&
		    !probe_read_kernel(&nr, sizeof(nr), &one->nr))
			return nr;
		row += __builtin_preserve_type_info(*(struct upid *)0, TYPE_SIZE);
	}
	return 0;
}

#endif
