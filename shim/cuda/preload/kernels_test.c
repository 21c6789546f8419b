/* Which kernel a handle stands for, over a driver of the test's own; with threads, also under
 * ThreadSanitizer (records.mk). */
#include "kernels.c"
#include "kernels_code.c"

#include <stdio.h>
#include <stdlib.h>

#define WANT(x)                                                                    \
	do {                                                                       \
		if (!(x)) {                                                        \
			fprintf(stderr, "kernels_test:%d: not %s\n", __LINE__, #x); \
			exit(1);                                                   \
		}                                                                  \
	} while (0)

/* ---- the driver: a handle is an address of one of these ------------------------------ */

struct thing {
	const char *name;
	bool kernel; /* a kernel of `owner`, a library; else a function of it, a module */
	const void *owner;
	uint32_t parameters;
};

struct xm_real xm_real;
static _Atomic unsigned asked;

static CUresult thing_name(const char **name, const struct thing *t, bool kernel)
{
	asked++;
	if (t->kernel != kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	*name = t->name;
	return CUDA_SUCCESS;
}

static CUresult function_name(const char **name, CUfunction f) { return thing_name(name, (const void *)f, false); }
static CUresult kernel_name(const char **name, CUkernel k) { return thing_name(name, (const void *)k, true); }

static CUresult thing_parameter(const struct thing *t, size_t i, size_t *offset, size_t *size)
{
	if (i >= t->parameters)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = 8 * i;
	*size = 8;
	return CUDA_SUCCESS;
}

static CUresult function_parameter(CUfunction f, size_t i, size_t *o, size_t *s) { return thing_parameter((const void *)f, i, o, s); }
static CUresult kernel_parameter(CUkernel k, size_t i, size_t *o, size_t *s) { return thing_parameter((const void *)k, i, o, s); }

static CUresult function_module(CUmodule *m, CUfunction f)
{
	*m = (CUmodule)(uintptr_t)((const struct thing *)(const void *)f)->owner;
	return CUDA_SUCCESS;
}

static CUresult kernel_library(CUlibrary *l, CUkernel k)
{
	*l = (CUlibrary)(uintptr_t)((const struct thing *)(const void *)k)->owner;
	return CUDA_SUCCESS;
}

/* ---- the rest of the library -------------------------------------------------------------- */

static struct xm_thread thread;
static struct xm_thread *me = &thread;

struct xm_thread *xm_enter(void) { return me; }
void xm_leave(struct xm_thread *t) { (void)t; }
void *xm_keep(size_t bytes) { return calloc(1, bytes); }
struct xm_quiet xm_quiet_begin(void) { return (struct xm_quiet){0}; }
void xm_quiet_end(struct xm_quiet q) { (void)q; }

/* ---- cases ---------------------------------------------------------------------------------- */

static char modules[4], libraries[2]; /* their addresses are the handles */

static CUmodule module(unsigned i) { return (CUmodule)(void *)&modules[i]; }
static CUlibrary library(unsigned i) { return (CUlibrary)(void *)&libraries[i]; }
static struct xm_code code(uint64_t n) { return (struct xm_code){{n, ~n}}; }
static uint32_t id_of(const struct thing *t)
{
	const struct xm_known *k = xm_kernel_known((CUfunction)(uintptr_t)t);

	return k ? k->id : 0;
}

static void ids_and_handles(void)
{
	struct thing a = {"a", false, module(0), 2}, same_code = {"a", false, module(1), 2}, other_code = {"a", false, module(2), 2};
	struct thing of_library = {"a", true, library(0), 2}, its_function = {"a", false, module(3), 2};
	uint32_t id;
	unsigned before;

	xm_code_module(module(0), code(1));
	xm_code_module(module(1), code(1));
	xm_code_module(module(2), code(2));
	xm_code_library(library(0), code(1));
	id = id_of(&a);
	WANT(id && id_of(&same_code) == id && id_of(&other_code) != id);
	before = asked;
	WANT(id_of(&a) == id && asked == before); /* a handle is asked about once */
	WANT(id_of(&of_library) == id);           /* not said to be a kernel: the driver refuses it as a function */
	xm_code_instance(module(3), library(0));
	WANT(id_of(&its_function) == id);

	/* The module goes, and its handles with it; they are given anew for something else. */
	WANT(xm_code_goes(module(0)).hash[0] == 1);
	a.name = "b";
	WANT(id_of(&a) && id_of(&a) != id);
	WANT(xm_kernel_known((CUfunction)(void *)&a)->code[0] == 0); /* what nobody saw being loaded */
	WANT(id_of(&same_code) == id);
	xm_code_goes(library(0));
	of_library.name = its_function.name = "c";
	WANT(id_of(&of_library) != id && id_of(&its_function) != id);
	same_code.name = "d";
	WANT(id_of(&same_code) == id); /* not noticed: its module still stands */
	xm_code_context_ended(NULL);
	WANT(id_of(&same_code) != id);

	me = NULL; /* a handler that interrupted us: only what is known */
	WANT(id_of(&same_code) != 0 && id_of(&other_code) == 0 && xm_kernel_known(NULL) == NULL);
	me = &thread;
}

static void kernels_are_not_asked_as_functions(void)
{
	static struct thing k = {"kernel", true, &libraries[1], 1};
	unsigned before;

	xm_code_library(library(1), code(7));
	xm_code_kernel((CUkernel)(void *)&k, library(1));
	before = asked;
	WANT(id_of(&k) && asked == before + 1);
	WANT(xm_kernel_known((CUfunction)(void *)&k)->code[0] == 7);
}

static void descriptions(void)
{
	static char name[3000], other[3000];
	struct thing many = {"many", false, module(0), 200}, none = {"none", false, module(0), 0}, exact = {"exact", false, module(0), XM_KERNEL_PARAMETERS};
	struct thing long1 = {name, false, module(0), 1}, long2 = {other, false, module(0), 1};
	struct xm_kernel k;

	WANT(!xm_kernel_info(id_of(&many), &k) && k.flags == (XM_KERNEL_LAYOUT | XM_KERNEL_MORE) && k.parameters == XM_KERNEL_PARAMETERS);
	WANT(!xm_kernel_info(id_of(&exact), &k) && k.flags == XM_KERNEL_LAYOUT && k.parameter_bytes == 8 * XM_KERNEL_PARAMETERS);
	WANT(!xm_kernel_info(id_of(&none), &k) && k.flags == XM_KERNEL_LAYOUT && k.parameters == 0 && !strcmp(k.name, "none"));
	memset(name, 'x', sizeof name - 1);
	memset(other, 'x', sizeof other - 1);
	other[sizeof other - 2] = 'y';
	WANT(!xm_kernel_info(id_of(&long1), &k) && k.name_bytes == XM_KERNEL_NAME - 1 && k.name[XM_KERNEL_NAME - 18] == '#' && !k.name[XM_KERNEL_NAME - 1]);
	WANT(id_of(&long1) != id_of(&long2));
	xm_real.cuFuncGetParamInfo = NULL; /* a driver before CUDA 12.4 */
	WANT(!xm_kernel_info(id_of(&(struct thing){"old", false, module(0), 1}), &k) && !(k.flags & XM_KERNEL_LAYOUT));
	xm_real.cuFuncGetParamInfo = function_parameter;
	WANT(xm_kernel_info(0, &k) < 0 && xm_kernel_info(IDS, &k) < 0);
}

/* More handles than there are places: they are asked about again, and never mistaken. */
static void many_handles(void)
{
	enum { MANY = 3 * SLOTS };
	static struct thing things[MANY];
	static char names[64][8];
	uint32_t ids_by_name[64] = {0};

	for (unsigned i = 0; i < MANY; i++) {
		snprintf(names[i % 64], sizeof names[0], "n%u", i % 64);
		things[i] = (struct thing){names[i % 64], false, module(1), 1};
	}
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < MANY; i++) {
			uint32_t id = id_of(&things[i]);

			WANT(id && (!ids_by_name[i % 64] || ids_by_name[i % 64] == id));
			ids_by_name[i % 64] = id;
		}
}

enum { THREADS = 3, HANDLES = 64, ROUNDS = 300 };
static struct thing shared[HANDLES];
static uint32_t expected[HANDLES];

static void *look(void *arg)
{
	for (unsigned r = 0; r < ROUNDS; r++)
		for (unsigned i = 0; i < HANDLES; i++)
			WANT(id_of(&shared[i]) == expected[i]);
	return arg;
}

static void *forget(void *arg)
{
	for (unsigned r = 0; r < ROUNDS; r++) {
		pthread_mutex_lock(&xm_code_lock);
		if (r % 3)
			xm_kernels_drop(&modules[2]);
		else
			xm_kernels_drop_all();
		pthread_mutex_unlock(&xm_code_lock);
	}
	return arg;
}

static void threads(void)
{
	static char names[HANDLES][8];
	pthread_t t[THREADS + 1];

	for (unsigned i = 0; i < HANDLES; i++) {
		snprintf(names[i], sizeof names[0], "t%u", i);
		shared[i] = (struct thing){names[i], false, i % 2 ? &modules[2] : &modules[1], 2};
		expected[i] = id_of(&shared[i]);
	}
	for (unsigned i = 0; i < THREADS; i++)
		WANT(!pthread_create(&t[i], NULL, look, NULL));
	WANT(!pthread_create(&t[THREADS], NULL, forget, NULL));
	for (unsigned i = 0; i <= THREADS; i++)
		WANT(!pthread_join(t[i], NULL));
}

int main(void)
{
	xm_real.cuFuncGetName = function_name;
	xm_real.cuFuncGetModule = function_module;
	xm_real.cuFuncGetParamInfo = function_parameter;
	xm_real.cuKernelGetName = kernel_name;
	xm_real.cuKernelGetLibrary = kernel_library;
	xm_real.cuKernelGetParamInfo = kernel_parameter;
	ids_and_handles();
	kernels_are_not_asked_as_functions();
	descriptions();
	threads();
#ifndef __SANITIZE_THREAD__ /* of one thread, and long */
	many_handles();
#endif
	return 0;
}
