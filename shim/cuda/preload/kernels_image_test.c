/* Images of code: nothing behind what an image is known to have is read, and what is the
 * same has the same hash. */
#define _GNU_SOURCE
#include "kernels_image.c"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "kernels_image_test: %s\n", what);
	exit(1);
}

#define ROOM (1u << 20)

/* The same bytes at the end of memory: who reads behind them ends the test. */
static uint8_t *at_the_end(const void *bytes, size_t n)
{
	uint8_t *p = mmap(NULL, ROOM + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(p != MAP_FAILED && n <= ROOM && !mprotect(p + ROOM, 4096, PROT_NONE), "memory");
	memcpy(p + ROOM - n, bytes, n);
	return p + ROOM - n;
}

static bool known(struct xm_code c)
{
	return c.hash[0] || c.hash[1];
}

static bool same(struct xm_code a, struct xm_code b)
{
	return !memcmp(&a, &b, sizeof a);
}

static struct xm_code of(const void *bytes, size_t n)
{
	return xm_code_of_image(at_the_end(bytes, n));
}

static uint8_t image[ROOM];

static size_t fatbin(size_t body)
{
	struct fatbin f = {FATBIN_MAGIC, 1, sizeof f, body};

	memcpy(image, &f, sizeof f);
	for (size_t i = 0; i < body; i++)
		image[sizeof f + i] = (uint8_t)(i * 7 + i / 251);
	return sizeof f + body;
}

static size_t elf(size_t body)
{
	Elf64_Ehdr e = {.e_shoff = sizeof e + body, .e_shnum = 3, .e_shentsize = 64, .e_phoff = sizeof e, .e_phnum = 1, .e_phentsize = 56};

	memcpy(e.e_ident, ELFMAG, 4);
	e.e_ident[EI_CLASS] = ELFCLASS64;
	memcpy(image, &e, sizeof e);
	memset(image + sizeof e, 5, body + 3 * 64);
	return sizeof e + body + 3 * 64;
}

static void changes(size_t n, size_t at, bool noticed, const char *what)
{
	struct xm_code before = of(image, n), after;

	image[at] ^= 1;
	after = of(image, n);
	image[at] ^= 1;
	check(known(before) && known(after) && same(before, after) != noticed, what);
}

int main(void)
{
	static const char text[] = ".version 8.0\n";
	struct wrapper w = {WRAPPER_MAGIC, 1, NULL, NULL};
	struct xm_code a, b;
	char name[] = "/tmp/xm-image-XXXXXX";
	size_t n;
	int fd;

	check(known(of(text, sizeof text)), "text");
	check(!same(of(text, sizeof text), of(text + 1, sizeof text - 1)), "another text");
	check(!known(of("", 1)) && !known(of("BC\xc0\xde", 5)) && !known(xm_code_of_image(NULL)), "what is not known");

	n = fatbin(1000);
	changes(n, n - 1, true, "the last byte of a fat binary");
	w.data = at_the_end(image, n);
	check(same(xm_code_of_image(&w), of(image, n)), "what a wrapper holds");
	w.data = NULL;
	check(!known(xm_code_of_image(&w)), "an empty wrapper");
	n = fatbin(600 * 1024);
	changes(n, 20, true, "the beginning of a large one");
	changes(n, n - 1, true, "its end");
	a = of(image, n);
	check(!same(a, of(image, fatbin(600 * 1024 - 16))), "its size");
	n = fatbin(0);
	check(known(of(image, n)), "a fat binary of nothing");

	n = elf(500);
	changes(n, n - 1, true, "the last byte of an object");
	((Elf64_Ehdr *)(void *)image)->e_shoff = MOST;
	((Elf64_Ehdr *)(void *)image)->e_phoff = 0;
	check(!known(of(image, n)), "an object without an end");
	image[EI_CLASS] = ELFCLASS32;
	check(!known(of(image, EI_NIDENT)), "an object of 32 bits");

	n = fatbin(300 * 1024);
	b = of(image, n);
	fd = mkstemp(name);
	check(fd >= 0 && write(fd, image, n) == (ssize_t)n && !close(fd), "a file");
	check(same(xm_code_of_file(name), b), "a file is as its image");
	check(!truncate(name, 0) && !known(xm_code_of_file(name)), "an empty file");
	unlink(name);
	errno = 77;
	check(!known(xm_code_of_file(name)) && !known(xm_code_of_file("/")) && !known(xm_code_of_file(NULL)) && errno == 77, "no file");
	return 0;
}
