/* guest_install.c - see guest_install.h. Everything is made in a folder beside the final one, then
 * that folder is renamed. An interrupted installation leaves that folder, and the next one removes
 * it. */
#include "cell/kernel/guest_install.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "cell/kernel/cpio.h"
#include "cell/kernel/guest_package.h"
#include "cell/kernel/guest_tool.h"
#include "lib/base/err.h"
#include "lib/base/io.h"
#include "lib/base/own.h"
#include "lib/base/rmtree.h"
#include "lib/base/str.h"

#define WORK ".guest-new" /* beside the folder. has: deb, tree, out */
#define EXCHANGE 2	  /* RENAME_EXCHANGE, which musl does not have */

/* The kernel of a Linux package as QEMU boots it: the ELF file packed inside vmlinuz
 * (doc/shim-protocol.md says why: no unpacking in the guest, and the PVH entry). */
/* See guest_install.h. The format of a bzImage is the kernel's Documentation/arch/x86/boot.rst.
 * lz4(1) and zstd(1) unpack it: every Debian has their packages, and no library is linked for work
 * once per installation. */

#define SETUP_SECTORS 0x1f1
#define HEADER_MAGIC 0x202 /* "HdrS" */
#define HEADER_VERSION 0x206
#define PAYLOAD_OFFSET 0x248
#define PAYLOAD_LENGTH 0x24c
#define HEADER_END 0x250
#define VERSION_MIN 0x208
#define SIZE_BEHIND 4 /* the kernel's build appends the unpacked length */
#define XEN_PHYS32_ENTRY 18

/* A mapped file, or a part of one. */
struct bytes {
	const uint8_t *data;
	size_t len;
};

static uint32_t guest_install_image_read_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The file must have a whole header, so later reads of it stay inside. */
static int guest_install_image_map(int fd, struct bytes *ret, struct err *e)
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

static void guest_install_image_unmap(const struct bytes *b)
{
	(void)munmap((void *)(uintptr_t)b->data, b->len);
}

static bool guest_install_image_is_elf(const struct bytes *b)
{
	return b->len >= sizeof(Elf64_Ehdr) && memcmp(b->data, ELFMAG, SELFMAG) == 0 &&
	       b->data[EI_CLASS] == ELFCLASS64;
}

/* The packed kernel inside of a bzImage. */
static int guest_install_image_find_payload(const struct bytes *image, struct bytes *ret,
					    struct err *e)
{
	uint64_t sectors, from, len;

	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): guest_install_image_map() has
	 * worked */
	if (memcmp(image->data + HEADER_MAGIC, "HdrS", 4) != 0 ||
	    (image->data[HEADER_VERSION] | image->data[HEADER_VERSION + 1] << 8) < VERSION_MIN)
		return err_set(e, ERR_INVALID, "the kernel is neither a bzImage nor an ELF file");
	sectors = image->data[SETUP_SECTORS] == 0 ? 4 : image->data[SETUP_SECTORS];
	from = (sectors + 1) * 512 + guest_install_image_read_u32(image->data + PAYLOAD_OFFSET);
	len = guest_install_image_read_u32(image->data + PAYLOAD_LENGTH);
	if (from > image->len || len > image->len - from || len <= SIZE_BEHIND)
		return err_set(e, ERR_INVALID, "the bzImage is cut off");
	*ret = (struct bytes){ image->data + from, (size_t)len - SIZE_BEHIND };
	return 0;
}

/* By the first four bytes. NULL: another packing. */
static const char *guest_install_image_packer(const struct bytes *b)
{
	if (guest_install_image_read_u32(b->data) == 0x184c2102)
		return "lz4";
	return guest_install_image_read_u32(b->data) == 0xfd2fb528 ? "zstd" : NULL;
}

static int guest_install_image_run_unpacker(const struct bytes *packed, int out, struct err *e)
{
	const char *argv[] = { guest_install_image_packer(packed), "-dc", NULL };
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

/* One note. Return where the next one begins. */
static size_t guest_install_image_look_at_note(const uint8_t *note, size_t len, bool *ret_found)
{
	Elf64_Nhdr head;

	memcpy(&head, note, sizeof(head));
	if (head.n_type == XEN_PHYS32_ENTRY && head.n_namesz == 4 && len >= sizeof(head) + 4 &&
	    memcmp(note + sizeof(head), "Xen", 4) == 0)
		*ret_found = true;
	return sizeof(head) + (((size_t)head.n_namesz + 3) & ~(size_t)3) +
	       (((size_t)head.n_descsz + 3) & ~(size_t)3);
}

/* Offsets come from the file, so each is checked against its length. */
static bool guest_install_image_segment_has_entry(const struct bytes *b, const Elf64_Phdr *segment)
{
	bool found = false;

	if (segment->p_type != PT_NOTE || segment->p_offset > b->len ||
	    segment->p_filesz > b->len - segment->p_offset)
		return false;
	for (size_t at = 0; !found && at + sizeof(Elf64_Nhdr) <= segment->p_filesz;)
		at += guest_install_image_look_at_note(b->data + segment->p_offset + at,
						       segment->p_filesz - at, &found);
	return found;
}

/* QEMU finds the PVH entry by a note of the ELF file. */
static bool guest_install_image_has_pvh_entry(const struct bytes *b)
{
	Elf64_Ehdr head;

	memcpy(&head, b->data, sizeof(head));
	for (unsigned i = 0; i < head.e_phnum; i++) {
		size_t at = (size_t)head.e_phoff + i * sizeof(Elf64_Phdr);
		Elf64_Phdr segment;

		if (head.e_phoff > b->len || at + sizeof(segment) > b->len)
			return false;
		memcpy(&segment, b->data + at, sizeof(segment));
		if (guest_install_image_segment_has_entry(b, &segment))
			return true;
	}
	return false;
}

/* An ELF file is copied as it is. */
static int guest_install_image_write_image(const struct bytes *image, int out, struct err *e)
{
	struct bytes packed = { 0 };

	if (guest_install_image_is_elf(image))
		return io_write_all(out, image->data, image->len, e);
	return guest_install_image_find_payload(image, &packed, e) < 0
		       ? -1
		       : guest_install_image_run_unpacker(&packed, out, e);
}

/* Read vmlinuz (a bzImage, or an ELF file already) and write the ELF file. Fail for a packing other
 * than LZ4 and zstd, and for a kernel without the PVH entry. */
static int guest_install_image_unpack(int vmlinuz, int out, struct err *e)
{
	struct bytes image = { 0 }, plain = { 0 };
	int result;

	if (guest_install_image_map(vmlinuz, &image, e) < 0)
		return -1;
	result = guest_install_image_write_image(&image, out, e);
	guest_install_image_unmap(&image);
	if (result < 0 || guest_install_image_map(out, &plain, e) < 0)
		return -1;
	if (!guest_install_image_is_elf(&plain) || !guest_install_image_has_pvh_entry(&plain))
		result = err_set(
			e, ERR_UNSUPPORTED,
			"the kernel has no PVH entry (CONFIG_PVH), by which QEMU starts it");
	guest_install_image_unmap(&plain);
	return result;
}

/* The modules that a guest needs, out of an unpacked kernel package, into an
 * initramfs: unpacked, unchanged (their signatures stay valid), each after those that it depends
 * on.
 */
/* See guest_install.h. The package has no modules.dep (the machine makes it
 * when the package is installed), so the dependencies are read from the modules themselves. */

/* The modules that a guest needs: for its devices, its root, the redirect of connections, and the
 * socket table, which says which program made one. A module built into the kernel is not needed. */
static const char *const wanted[] = {
	"virtio_mmio", "virtio_console", "virtio_blk",	   "erofs",	     "overlay",
	"nf_tables",   "nft_tproxy",	 "nf_tproxy_ipv4", "nf_tproxy_ipv6", "tcp_diag",
};

/* They copy refused datagrams for the record. A kernel may lack them. */
static const char *const useful[] = { "nft_socket", "nft_limit", "nft_dup_ipv4", "nft_dup_ipv6" };

#define NAME_MAX_LEN 64
#define PATH_MAX_LEN 256
#define MODULES_MAX 64 /* wanted ones, and those that they depend on */
#define MODULE_BYTES (16U << 20)
#define FOLDER_DEPTH 12
#define BUILTIN_MAX (1U << 20)

struct module {
	char name[NAME_MAX_LEN];
	uint8_t *data; /* owned */
	size_t len;
};

struct modules {
	int folder;    /* lib/modules/RELEASE */
	char *builtin; /* owned: modules.builtin */
	struct module list[MODULES_MAX];
	unsigned n;
};

/* Modules are named with '_', their files with either. */
static void guest_install_module_name(const char *file, char *ret_name, size_t cap)
{
	size_t n = strcspn(file, ".");

	(void)snprintf(ret_name, cap, "%.*s", (int)n, file);
	for (char *p = ret_name; (p = strchr(p, '-')) != NULL;)
		*p = '_';
}

/* "NAME.ko", with a packing behind it or not. */
static bool guest_install_modules_is_module_file(const char *file, const char *name)
{
	const char *dot = strchr(file, '.');
	char found[NAME_MAX_LEN];

	if (dot == NULL || strncmp(dot, ".ko", 3) != 0)
		return false;
	guest_install_module_name(file, found, sizeof(found));
	return strcmp(found, name) == 0;
}

/* Find the module's file below a folder. Its path is relative to that folder. */
static bool guest_install_modules_find_file(int at, const char *name, unsigned depth,
					    char *ret_path, size_t cap)
{
	OWN_FD again = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	bool found = false;

	if (d == NULL)
		return false;
	(void)TAKE_FD(again);
	for (struct dirent *entry; !found && (entry = readdir(d)) != NULL;) {
		char below[PATH_MAX_LEN];

		if (entry->d_type == DT_REG &&
		    guest_install_modules_is_module_file(entry->d_name, name)) {
			str_copy_to(ret_path, cap, entry->d_name);
			found = true;
		} else if (entry->d_type == DT_DIR && entry->d_name[0] != '.' && depth > 0) {
			OWN_FD sub = openat(at, entry->d_name,
					    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			found = sub >= 0 && guest_install_modules_find_file(sub, name, depth - 1,
									    below, sizeof(below));
			/* one that does not fit cannot be opened, and is an error then */
			if (found && snprintf(ret_path, cap, "%s/%s", entry->d_name, below) < 0)
				found = false;
		}
	}
	(void)closedir(d);
	return found;
}

/* Read a whole descriptor from its start. */
static int guest_install_modules_slurp(int fd, size_t max, uint8_t **ret_data, size_t *ret_len,
				       struct err *e)
{
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "stat");
	if ((uint64_t)st.st_size > max)
		return err_set(e, ERR_LIMIT, "larger than %zu bytes", max);
	*ret_data = malloc((size_t)st.st_size + 1);
	if (*ret_data == NULL)
		return err_sys(e, "allocate");
	n = pread(fd, *ret_data, (size_t)st.st_size, 0);
	if (n != st.st_size) {
		free(*ret_data);
		return err_set(e, ERR_SYSTEM, "cut off");
	}
	(*ret_data)[n] = '\0';
	*ret_len = (size_t)n;
	return 0;
}

/* NULL: the module is not packed. */
static const char *guest_install_modules_packer(const char *path)
{
	const char *end = strrchr(path, '.');

	if (end == NULL || strcmp(end, ".ko") == 0)
		return NULL;
	return strcmp(end, ".zst") == 0 ? "zstd" : "xz";
}

static int guest_install_modules_read_module(int folder, const char *path, struct module *m,
					     struct err *e)
{
	OWN_FD file = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	const char *argv[] = { guest_install_modules_packer(path), "-dc", NULL };

	if (file < 0)
		return err_sys(e, "open %s", path);
	if (argv[0] == NULL)
		return guest_install_modules_slurp(file, MODULE_BYTES, &m->data, &m->len, e);
	OWN_FD plain = memfd_create("module", MFD_CLOEXEC);
	const struct guest_tool t = { .argv = argv, .dir = -1, .in = file, .out = plain };
	if (plain < 0)
		return err_sys(e, "unpack %s", path);
	return guest_tool_run(&t, e) < 0
		       ? -1
		       : guest_install_modules_slurp(plain, MODULE_BYTES, &m->data, &m->len, e);
}

/* The list of names behind "depends=" in the module's own description, or "". */
static const char *guest_install_modules_depends_of(const struct module *m)
{
	static const char key[] = "\0depends=";
	const uint8_t *at = memmem(m->data, m->len, key, sizeof(key) - 1);

	return at == NULL ? "" : (const char *)at + sizeof(key) - 1;
}

/* True if the module is in the list already, or built into the kernel. */
static bool guest_install_modules_is_known(const struct modules *s, const char *name)
{
	char file[NAME_MAX_LEN];

	for (unsigned i = 0; i < s->n; i++)
		if (strcmp(s->list[i].name, name) == 0)
			return true;
	for (const char *line = s->builtin; line != NULL && *line != '\0';) {
		const char *end = strchrnul(line, '\n'),
			   *slash = memrchr(line, '/', (size_t)(end - line));

		if (slash != NULL) {
			guest_install_module_name(slash + 1, file, sizeof(file));
			if (strcmp(file, name) == 0)
				return true;
		}
		line = *end == '\0' ? NULL : end + 1;
	}
	return false;
}

static int guest_install_modules_add_module(struct modules *s, const char *name, unsigned depth,
					    struct err *e);

static int guest_install_modules_add_depends(struct modules *s, const char *names, unsigned depth,
					     struct err *e)
{
	char one[NAME_MAX_LEN];

	for (size_t n; *names != '\0'; names += n + (names[n] == ',')) {
		n = strcspn(names, ",");
		(void)snprintf(one, sizeof(one), "%.*s", (int)n, names);
		for (char *p = one; (p = strchr(p, '-')) != NULL;)
			*p = '_';
		if (guest_install_modules_add_module(s, one, depth, e) < 0)
			return -1;
	}
	return 0;
}

/* A module comes after those that it depends on. depth bounds the recursion, so a circle ends. */
static int guest_install_modules_add_module(struct modules *s, const char *name, unsigned depth,
					    struct err *e)
{
	char path[PATH_MAX_LEN];
	struct module m = { .len = 0 };

	if (guest_install_modules_is_known(s, name))
		return 0;
	if (!guest_install_modules_find_file(s->folder, name, FOLDER_DEPTH, path, sizeof(path)))
		return err_set(e, ERR_NOT_FOUND, "the kernel has no module %s", name);
	if (depth == 0)
		return err_set(e, ERR_LIMIT, "the modules depend on each other in a circle");
	if (guest_install_modules_read_module(s->folder, path, &m, e) < 0)
		return err_wrap(e, "module %s", name);
	str_copy(m.name, name);
	if (guest_install_modules_add_depends(s, guest_install_modules_depends_of(&m), depth - 1,
					      e) < 0 ||
	    s->n == MODULES_MAX) {
		free(m.data);
		return s->n == MODULES_MAX ? err_set(e, ERR_LIMIT, "too many modules") : -1;
	}
	s->list[s->n++] = m;
	return 0;
}

/* The number in front of the name is the order of loading. */
static int guest_install_modules_write_all(const struct modules *s, struct cpio *c, struct err *e)
{
	char name[NAME_MAX_LEN + 24];

	if (cpio_add(c, "modules", S_IFDIR | 0755, NULL, 0, e) < 0)
		return -1;
	for (unsigned i = 0; i < s->n; i++) {
		(void)snprintf(name, sizeof(name), "modules/%02u-%s.ko", i, s->list[i].name);
		if (cpio_add(c, name, S_IFREG | 0644, s->list[i].data, s->list[i].len, e) < 0)
			return -1;
	}
	return 0;
}

/* Newer packages have everything below /usr. */
static int guest_install_modules_open_folder(int tree, const char *release, struct err *e)
{
	char path[PATH_MAX_LEN];
	int fd = -1;

	for (unsigned i = 0; fd < 0 && i < 2; i++) {
		(void)snprintf(path, sizeof(path), "%slib/modules/%s", i == 0 ? "usr/" : "",
			       release);
		fd = openat(tree, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	return fd < 0 ? err_sys(e, "open %s", path) : fd;
}

/* tree: the unpacked package. Add modules/NUMBER-NAME.ko in the order in which to load them. */
static int guest_install_modules_add(int tree, const char *release, struct cpio *c, struct err *e)
{
	OWN_FD folder = guest_install_modules_open_folder(tree, release, e);
	OWN_FD builtin = openat(folder, "modules.builtin", O_RDONLY | O_CLOEXEC);
	struct modules s = { .folder = folder };
	uint8_t *text = NULL;
	size_t len;
	int result = 0;

	if (folder < 0)
		return -1;
	if (builtin < 0 || guest_install_modules_slurp(builtin, BUILTIN_MAX, &text, &len, e) < 0)
		return err_set(e, ERR_INVALID,
			       "the kernel package has no list of built-in modules");
	s.builtin = (char *)text;
	for (size_t i = 0; result == 0 && i < COUNT(wanted); i++)
		result = guest_install_modules_add_module(&s, wanted[i], FOLDER_DEPTH, e);
	for (size_t i = 0; result == 0 && i < COUNT(useful); i++) {
		result = guest_install_modules_add_module(&s, useful[i], FOLDER_DEPTH, e);
		if (result < 0 && e->code == ERR_NOT_FOUND)
			result = 0;
	}
	if (result == 0)
		result = guest_install_modules_write_all(&s, c, e);
	for (unsigned i = 0; i < s.n; i++)
		free(s.list[i].data);
	free(s.builtin);
	return result;
}

/* ---- the package */

/* apt compares the package with its signed lists. */
static int guest_install_download(int folder, struct err *e)
{
	char package[GUEST_PACKAGE_MAX];
	/* as root, which may write to the folder, apt's own user may not */
	const char *argv[] = { "apt-get",  "-qq",   "-o", "APT::Sandbox::User=",
			       "download", package, NULL };
	const struct guest_tool t = { .argv = argv, .dir = folder, .in = -1, .out = -1 };

	if (guest_package_find(package, e) < 0)
		return -1;
	return guest_tool_run(&t, e) < 0 ? err_wrap(e, "download %s", package) : 0;
}

/* The name of the first entry that begins like this. */
static int guest_install_find_entry(int dir, const char *prefix, char *ret_name, size_t cap,
				    struct err *e)
{
	OWN_FD again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	bool found = false;

	if (d == NULL)
		return err_sys(e, "list");
	(void)TAKE_FD(again);
	for (struct dirent *entry; !found && (entry = readdir(d)) != NULL;) {
		found = entry->d_name[0] != '.' &&
			strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
		if (found)
			str_copy_to(ret_name, cap, entry->d_name);
	}
	(void)closedir(d);
	return found ? 0 : err_set(e, ERR_INVALID, "the package has no %s*", prefix);
}

/* Files only: no script of the package is run. */
static int guest_install_unpack(int work, const char *deb, int deb_dir, struct err *e)
{
	char tree[64];
	const char *argv[] = { "dpkg-deb", "-x", deb, tree, NULL };
	const struct guest_tool t = { .argv = argv, .dir = deb_dir, .in = -1, .out = -1 };

	(void)snprintf(tree, sizeof(tree), "/proc/%d/fd/%d/tree", (int)getpid(), work);
	return guest_tool_run(&t, e) < 0 ? err_wrap(e, "unpack the package") : 0;
}

/* Download the package unless it is given, unpack it to `tree`, and note its name. */
static int guest_install_get_package(int work, const char *deb, struct guest_manifest *m,
				     struct err *e)
{
	char path[PATH_MAX];
	const char *slash;

	if (mkdirat(work, "deb", 0700) < 0 || mkdirat(work, "tree", 0700) < 0)
		return err_sys(e, "make folders");
	OWN_FD folder = openat(work, "deb", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return err_sys(e, "open the folder");
	if (deb == NULL &&
	    (guest_install_download(folder, e) < 0 ||
	     guest_install_find_entry(folder, "linux-image-", path, sizeof(path), e) < 0))
		return -1;
	if (deb != NULL && realpath(deb, path) == NULL)
		return err_sys(e, "%s", deb);
	slash = strrchr(path, '/');
	(void)snprintf(m->package, sizeof(m->package), "%.127s", slash == NULL ? path : slash + 1);
	return guest_install_unpack(work, path, folder, e);
}

/* ---- the initramfs of the modules */

/* The file is on disk, and its hash is for the manifest. */
static int guest_install_finish(int fd, const char *name, char ret_hex[GUEST_HEX], struct err *e)
{
	if (guest_files_hash(fd, ret_hex, e) < 0)
		return err_wrap(e, "%s", name);
	return fsync(fd) < 0 ? err_sys(e, "write %s", name) : 0;
}

/* The release in the name of the file is that of the modules' folder. */
static int guest_install_make_kernel(int tree, int out, struct guest_manifest *m, struct err *e)
{
	char name[GUEST_RELEASE_MAX + 16];

	OWN_FD boot = openat(tree, "boot", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (boot < 0)
		return err_set(e, ERR_INVALID, "the package has no folder /boot: is it a kernel?");
	if (guest_install_find_entry(boot, "vmlinuz-", name, sizeof(name), e) < 0)
		return -1;
	(void)snprintf(m->release, sizeof(m->release), "%.63s", name + sizeof("vmlinuz-") - 1);
	OWN_FD packed = openat(boot, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	OWN_FD plain = openat(out, "vmlinux", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (packed < 0 || plain < 0)
		return err_sys(e, "open the kernel");
	if (guest_install_image_unpack(packed, plain, e) < 0)
		return -1;
	return guest_install_finish(plain, "vmlinux", m->vmlinux, e);
}

static int guest_install_make_modules(int tree, int out, struct guest_manifest *m, struct err *e)
{
	OWN_FD fd = openat(out, "modules", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	struct cpio c = { .fd = fd };

	if (fd < 0)
		return err_sys(e, "make modules");
	if (guest_install_modules_add(tree, m->release, &c, e) < 0 || cpio_end(&c, e) < 0)
		return -1;
	return guest_install_finish(fd, "modules", m->modules, e);
}

static int guest_install_make_files(int work, struct guest_manifest *m, struct err *e)
{
	if (mkdirat(work, "out", 0755) < 0)
		return err_sys(e, "make folders");
	OWN_FD tree = openat(work, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN_FD out = openat(work, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tree < 0 || out < 0)
		return err_sys(e, "open folders");
	if (guest_install_make_kernel(tree, out, m, e) < 0 ||
	    guest_install_make_modules(tree, out, m, e) < 0 || guest_manifest_write(out, m, e) < 0)
		return -1;
	return fsync(out) < 0 ? err_sys(e, "write the folder") : 0;
}

/* ---- the folder */

/* An earlier installation may have been killed: its folder is removed. One that runs has a lock. */
static int guest_install_open_work(int state, int *ret_fd, struct err *e)
{
	for (unsigned round = 0; round < 2; round++) {
		if (mkdirat(state, WORK, 0700) == 0)
			round = 1;
		else if (errno != EEXIST)
			return err_sys(e, "make " WORK);
		OWN_FD fd = openat(state, WORK, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
			return err_set(e, ERR_CONFLICT, "another installation is running");
		if (round == 1) {
			*ret_fd = TAKE_FD(fd);
			return 0;
		}
		rmtree(state, WORK);
	}
	return err_set(e, ERR_CONFLICT, "another installation is running");
}

/* The old folder, if there is one, takes the new one's place and is removed with the rest. */
static int guest_install_put_in_place(int state, int work, struct err *e)
{
	if (syscall(SYS_renameat2, work, "out", state, GUEST_FOLDER, EXCHANGE) < 0 &&
	    (errno != ENOENT || renameat(work, "out", state, GUEST_FOLDER) < 0))
		return err_sys(e, "rename to " GUEST_FOLDER);
	return fsync(state) < 0 ? err_sys(e, "write the state directory") : 0;
}

/* The work folder is removed in any case. Its lock keeps a second installation out. */
int guest_install(const char *state_dir, const char *deb, struct guest_manifest *ret, struct err *e)
{
	struct guest_manifest m = { .release = "" };
	int work = -1, result;

	if (mkdir(state_dir, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "make %s", state_dir);
	OWN_FD state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (state < 0)
		return err_sys(e, "open %s", state_dir);
	if (guest_install_open_work(state, &work, e) < 0)
		return -1;
	OWN_FD held = work;
	result = guest_install_get_package(held, deb, &m, e);
	if (result == 0)
		result = guest_install_make_files(held, &m, e);
	if (result == 0)
		result = guest_install_put_in_place(state, held, e);
	rmtree(state, WORK);
	if (result == 0)
		*ret = m;
	return result;
}
