/* Images of code: how long one is, as far as its header says so, and its hash. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels.h"
#include "record_hash.h"

/* Larger images are read in pieces: a library's code may have a gigabyte, most of
 * which nobody ever loads from disk. */
#define WHOLE (256u << 10)
#define PIECES 64u
#define PIECE 4096u
#define MOST ((uint64_t)4 << 30)

/* The beginnings of a fat binary, and of what the compiler puts before one (CUDA 13.0, fatbinary_section.h). */
#define FATBIN_MAGIC 0xba55ed50u
#define WRAPPER_MAGIC 0x466243b1u

struct fatbin {
	uint32_t magic;
	uint16_t version, header;
	uint64_t bytes; /* after the header */
};

struct wrapper {
	uint32_t magic, version;
	const void *data, *more;
};

static uint64_t table_end(uint64_t offset, uint64_t n, uint64_t each)
{
	return offset && offset < MOST ? offset + n * each : 0;
}

/* What the headers lie in; their tables come last in what the vendor's tools make. */
static uint64_t elf_bytes(const void *image)
{
	uint64_t sections, segments;
	Elf64_Ehdr e;

	memcpy(&e, image, sizeof e.e_ident);
	if (e.e_ident[EI_CLASS] != ELFCLASS64)
		return 0;
	memcpy(&e, image, sizeof e);
	sections = table_end(e.e_shoff, e.e_shnum, e.e_shentsize);
	segments = table_end(e.e_phoff, e.e_phnum, e.e_phentsize);
	return sections > segments ? sections : segments;
}

/* Text of a virtual machine's code ends in NUL. Byte by byte: it may end before the next. */
static uint64_t text_bytes(const char *p)
{
	if (!(*p == '/' || *p == '.' || *p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		return 0;
	return strnlen(p, MOST);
}

static bool begins(const uint8_t *image, const void *magic)
{
	for (unsigned i = 0; i < 4; i++)
		if (image[i] != ((const uint8_t *)magic)[i])
			return false;
	return true;
}

/* 0: not known. */
static uint64_t image_bytes(const void *image)
{
	static const uint32_t fatbin = FATBIN_MAGIC;
	struct fatbin f;

	if (begins(image, ELFMAG))
		return elf_bytes(image);
	if (!begins(image, &fatbin))
		return text_bytes(image);
	memcpy(&f, image, sizeof f);
	return f.bytes < MOST ? f.header + f.bytes : 0;
}

/* Where the i-th piece of so many bytes begins: the first and the last are the ends. */
static uint64_t piece_at(uint64_t bytes, unsigned i)
{
	return i == PIECES - 1 ? bytes - PIECE : (bytes - PIECE) / (PIECES - 1) * i;
}

struct xm_code xm_code_of_image(const void *image)
{
	static const uint32_t magic = WRAPPER_MAGIC;
	struct xm_code code = {{0, 0}};
	struct xm_hash h;
	uint64_t bytes;

	if (image && begins(image, &magic)) {
		struct wrapper w;

		memcpy(&w, image, sizeof w);
		image = w.data;
	}
	bytes = image ? image_bytes(image) : 0;
	if (!bytes)
		return code;
	h = xm_hash_begin(bytes);
	if (bytes <= WHOLE)
		xm_hash_add(&h, image, bytes);
	for (unsigned i = 0; bytes > WHOLE && i < PIECES; i++)
		xm_hash_add(&h, (const char *)image + piece_at(bytes, i), PIECE);
	xm_hash_end(&h, code.hash);
	return code;
}

/* No wrappers of the C library: some are points at which a thread is cancelled. */
static bool read_at(int fd, void *into, size_t bytes, uint64_t at)
{
	return syscall(SYS_pread64, fd, into, bytes, at) == (long)bytes;
}

static bool file_hash(int fd, uint64_t bytes, struct xm_hash *h)
{
	char piece[PIECE];

	*h = xm_hash_begin(bytes);
	if (bytes > WHOLE) {
		for (unsigned i = 0; i < PIECES; i++) {
			if (!read_at(fd, piece, PIECE, piece_at(bytes, i)))
				return false;
			xm_hash_add(h, piece, PIECE);
		}
		return true;
	}
	for (uint64_t at = 0; at < bytes; at += PIECE) {
		size_t n = bytes - at < PIECE ? bytes - at : PIECE;

		if (!read_at(fd, piece, n, at))
			return false;
		xm_hash_add(h, piece, n);
	}
	return true;
}

/* The same as that of the image, when nothing follows it in the file. */
struct xm_code xm_code_of_file(const char *path)
{
	struct xm_code code = {{0, 0}};
	int was = errno, fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	struct xm_hash h;
	long bytes;

	if (fd >= 0) {
		bytes = syscall(SYS_lseek, fd, 0, SEEK_END);
		if (bytes > 0 && (uint64_t)bytes < MOST && file_hash(fd, (uint64_t)bytes, &h))
			xm_hash_end(&h, code.hash);
		syscall(SYS_close, fd);
	}
	errno = was;
	return code;
}
