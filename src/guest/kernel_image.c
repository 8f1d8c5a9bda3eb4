/* kernel_image.c - see kernel_image.h. The format of a bzImage is the kernel's
 * Documentation/arch/x86/boot.rst; unpacking is left to lz4(1) and zstd(1), which are packages of
 * every Debian, so that no library is linked for what happens once per installation. */
#include "kernel_image.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "guest_tool.h"
#include "io.h"

#define SETUP_SECTORS 0x1f1
#define HEADER_MAGIC 0x202 /* "HdrS" */
#define HEADER_VERSION 0x206
#define PAYLOAD_OFFSET 0x248
#define PAYLOAD_LENGTH 0x24c
#define HEADER_END 0x250
#define VERSION_MIN 0x208
#define SIZE_BEHIND 4 /* the kernel's build appends the unpacked length */
#define XEN_PHYS32_ENTRY 18

struct bytes {
	const uint8_t *data;
	size_t len;
};

static uint32_t read_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int map(int fd, struct bytes *ret, struct err *e)
{
	struct stat st;
	void *at;

	if (fstat(fd, &st) < 0 || st.st_size < HEADER_END)
		return err_set(e, ERR_INVALID, "the kernel is no kernel: too short");
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return err_sys(e, "map the kernel");
	*ret = (struct bytes){ at, (size_t)st.st_size };
	return 0;
}

static void unmap(const struct bytes *b)
{
	(void)munmap((void *)(uintptr_t)b->data, b->len);
}

static bool is_elf(const struct bytes *b)
{
	return b->len >= sizeof(Elf64_Ehdr) && memcmp(b->data, ELFMAG, SELFMAG) == 0 &&
	       b->data[EI_CLASS] == ELFCLASS64;
}

/* The packed kernel inside of a bzImage. */
static int find_payload(const struct bytes *image, struct bytes *ret, struct err *e)
{
	uint64_t sectors, from, len;

	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): map() has worked */
	if (memcmp(image->data + HEADER_MAGIC, "HdrS", 4) != 0 ||
	    (image->data[HEADER_VERSION] | image->data[HEADER_VERSION + 1] << 8) < VERSION_MIN)
		return err_set(e, ERR_INVALID, "the kernel is neither a bzImage nor an ELF file");
	sectors = image->data[SETUP_SECTORS] == 0 ? 4 : image->data[SETUP_SECTORS];
	from = (sectors + 1) * 512 + read_u32(image->data + PAYLOAD_OFFSET);
	len = read_u32(image->data + PAYLOAD_LENGTH);
	if (from > image->len || len > image->len - from || len <= SIZE_BEHIND)
		return err_set(e, ERR_INVALID, "the bzImage is cut off");
	*ret = (struct bytes){ image->data + from, (size_t)len - SIZE_BEHIND };
	return 0;
}

static const char *packer(const struct bytes *b)
{
	if (read_u32(b->data) == 0x184c2102)
		return "lz4";
	return read_u32(b->data) == 0xfd2fb528 ? "zstd" : NULL;
}

static int unpack(const struct bytes *packed, int out, struct err *e)
{
	const char *argv[] = { packer(packed), "-dc", NULL };
	OWN_FD in = memfd_create("packed", MFD_CLOEXEC);
	const struct guest_tool t = { .argv = argv, .dir = -1, .in = in, .out = out };

	if (argv[0] == NULL)
		return err_set(e, ERR_UNSUPPORTED,
			       "the kernel is packed with neither LZ4 nor zstd");
	if (in < 0)
		return err_sys(e, "unpack the kernel");
	if (io_write_all(in, packed->data, packed->len, e) < 0)
		return -1;
	(void)lseek(in, 0, SEEK_SET);
	return guest_tool_run(&t, e);
}

/* One note; returns where the next one begins. */
static size_t look_at_note(const uint8_t *note, size_t len, bool *ret_found)
{
	Elf64_Nhdr head;

	memcpy(&head, note, sizeof(head));
	if (head.n_type == XEN_PHYS32_ENTRY && head.n_namesz == 4 && len >= sizeof(head) + 4 &&
	    memcmp(note + sizeof(head), "Xen", 4) == 0)
		*ret_found = true;
	return sizeof(head) + (((size_t)head.n_namesz + 3) & ~(size_t)3) +
	       (((size_t)head.n_descsz + 3) & ~(size_t)3);
}

static bool segment_has_entry(const struct bytes *b, const Elf64_Phdr *segment)
{
	bool found = false;

	if (segment->p_type != PT_NOTE || segment->p_offset > b->len ||
	    segment->p_filesz > b->len - segment->p_offset)
		return false;
	for (size_t at = 0; !found && at + sizeof(Elf64_Nhdr) <= segment->p_filesz;)
		at += look_at_note(b->data + segment->p_offset + at, segment->p_filesz - at,
				   &found);
	return found;
}

/* QEMU finds the PVH entry by a note of the ELF file. */
static bool has_pvh_entry(const struct bytes *b)
{
	Elf64_Ehdr head;

	memcpy(&head, b->data, sizeof(head));
	for (unsigned i = 0; i < head.e_phnum; i++) {
		size_t at = (size_t)head.e_phoff + i * sizeof(Elf64_Phdr);
		Elf64_Phdr segment;

		if (head.e_phoff > b->len || at + sizeof(segment) > b->len)
			return false;
		memcpy(&segment, b->data + at, sizeof(segment));
		if (segment_has_entry(b, &segment))
			return true;
	}
	return false;
}

static int write_image(const struct bytes *image, int out, struct err *e)
{
	struct bytes packed = { 0 };

	if (is_elf(image))
		return io_write_all(out, image->data, image->len, e);
	return find_payload(image, &packed, e) < 0 ? -1 : unpack(&packed, out, e);
}

int kernel_image_unpack(int vmlinuz, int out, struct err *e)
{
	struct bytes image = { 0 }, plain = { 0 };
	int result;

	if (map(vmlinuz, &image, e) < 0)
		return -1;
	result = write_image(&image, out, e);
	unmap(&image);
	if (result < 0 || map(out, &plain, e) < 0)
		return -1;
	if (!is_elf(&plain) || !has_pvh_entry(&plain))
		result = err_set(
			e, ERR_UNSUPPORTED,
			"the kernel has no PVH entry (CONFIG_PVH), by which QEMU starts it");
	unmap(&plain);
	return result;
}
