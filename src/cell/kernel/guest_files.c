#include "cell/kernel/guest_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cell/kernel/cpio.h"
#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/own.h"

#define MANIFEST_MAX 1024
#define FILE_BYTES_MAX (256U << 20)
#define PAGE 4096

/* ---- the manifest */

/* The manifest's lines: each row is a name and the member of struct guest_manifest. */
static const struct {
	const char *name;
	size_t offset, cap;
} members[] = {
	{ "kernel", offsetof(struct guest_manifest, release), GUEST_RELEASE_MAX },
	{ "package", offsetof(struct guest_manifest, package), GUEST_PACKAGE_MAX },
	{ "vmlinux", offsetof(struct guest_manifest, vmlinux), GUEST_HEX },
	{ "modules", offsetof(struct guest_manifest, modules), GUEST_HEX },
};

/* The value of the line with this name. */
static int guest_files_read_member(const char *text, const char *name, char *ret_value, size_t cap,
				   struct err *e)
{
	size_t len = strlen(name), n;

	for (const char *line = text; *line != '\0'; line += n + (line[n] == '\n')) {
		n = strcspn(line, "\n");
		if (n <= len || strncmp(line, name, len) != 0 || line[len] != ' ')
			continue;
		if (n - len - 1 >= cap)
			break;
		(void)snprintf(ret_value, cap, "%.*s", (int)(n - len - 1), line + len + 1);
		return 0;
	}
	return err_set(e, ERR_INVALID, "guest kernel: its manifest has no proper line '%s'", name);
}

/* Other lines are passed over. A value that is too long is refused. */
int guest_manifest_read(int dir, struct guest_manifest *ret, struct err *e)
{
	char text[MANIFEST_MAX];

	if (faccessat(dir, "manifest", F_OK, 0) < 0)
		return err_set(
			e, ERR_NOT_FOUND,
			"no guest kernel is installed: `cordon level install microvm` does it");
	if (io_read_file(dir, "manifest", text, sizeof(text), e) < 0)
		return err_wrap(e, "guest kernel");
	for (size_t i = 0; i < COUNT(members); i++)
		if (guest_files_read_member(text, members[i].name, (char *)ret + members[i].offset,
					    members[i].cap, e) < 0)
			return -1;
	return 0;
}

/* The file is new, and on disk when this returns. */
int guest_manifest_write(int dir, const struct guest_manifest *m, struct err *e)
{
	OWN_FD fd = openat(dir, "manifest", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		return err_sys(e, "make the manifest");
	for (size_t i = 0; i < COUNT(members); i++)
		if (dprintf(fd, "%s %s\n", members[i].name, (const char *)m + members[i].offset) <
		    0)
			return err_sys(e, "write the manifest");
	return fsync(fd) < 0 ? err_sys(e, "write the manifest") : 0;
}

/* ---- the files */

int guest_files_open_dir(const char *state_dir, int *ret_fd, struct err *e)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%.200s/" GUEST_FOLDER, state_dir);
	*ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*ret_fd >= 0)
		return 0;
	if (errno == ENOENT)
		return err_set(
			e, ERR_NOT_FOUND,
			"no guest kernel is installed: `cordon level install microvm` does it");
	return err_sys(e, "open %s", path);
}

static void guest_files_as_hex(struct sha256 *s, char ret_hex[GUEST_HEX])
{
	uint8_t sum[SHA256_SIZE];

	sha256_end(s, sum);
	hex_encode(sum, sizeof(sum), ret_hex);
}

/* Copy a file from its start to another one (-1: nowhere) and hash it. */
static int guest_files_copy_hashed(int from, int to, char ret_hex[GUEST_HEX], struct err *e)
{
	static uint8_t piece[1 << 16];
	struct sha256 s;
	off_t at = 0;
	ssize_t n;

	sha256_init(&s);
	while ((n = pread(from, piece, sizeof(piece), at)) > 0) {
		sha256_add(&s, piece, (size_t)n);
		if (to >= 0 && io_write_all(to, piece, (size_t)n, e) < 0)
			return -1;
		at += n;
		if (at > FILE_BYTES_MAX)
			return err_set(e, ERR_LIMIT, "larger than %u bytes", FILE_BYTES_MAX);
	}
	if (n < 0)
		return err_sys(e, "read");
	guest_files_as_hex(&s, ret_hex);
	return 0;
}

int guest_files_hash(int fd, char ret_hex[GUEST_HEX], struct err *e)
{
	return guest_files_copy_hashed(fd, -1, ret_hex, e);
}

/* Append a file of the folder, whose hash must be this one. */
static int guest_files_append_checked(int dir, const char *name, const char *hash, int to,
				      struct err *e)
{
	OWN_FD from = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char found[GUEST_HEX];

	if (from < 0)
		return err_sys(e, "guest kernel: open %s", name);
	if (guest_files_copy_hashed(from, to, found, e) < 0)
		return err_wrap(e, "guest kernel: %s", name);
	if (strcmp(found, hash) != 0)
		return err_set(e, ERR_INVALID,
			       "guest kernel: %s is damaged: `cordon guest install` makes it anew",
			       name);
	return 0;
}

/* Zeros up to a whole page. QEMU puts the initramfs at the end of the memory, when the firmware has
 * placed the ACPI tables in the last page: it must not reach into that one. */
static int guest_files_fill_page(int fd, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || ftruncate(fd, (st.st_size + PAGE - 1) / PAGE * PAGE) < 0)
		return err_sys(e, "guest kernel: fill a page");
	return 0;
}

/* A sealed file is safe to hand to guests: no process can change it any more. */
static int guest_files_seal(int fd, struct err *e)
{
	int all = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	return fcntl(fd, F_ADD_SEALS, all) < 0 ? err_sys(e, "guest kernel: seal") : 0;
}

/* The kernel opens /dev/console as standard input and output of the first program. */
static int guest_files_put_init(int init, int to, struct err *e)
{
	struct cpio c = { .fd = to };
	struct stat st;
	void *program;
	int result;

	if (fstat(init, &st) < 0)
		return err_sys(e, "cordon-init");
	program = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, init, 0);
	if (program == MAP_FAILED)
		return err_sys(e, "map cordon-init");
	result = cpio_add(&c, "dev", S_IFDIR | 0755, NULL, 0, e) < 0 ||
				 cpio_add_device(&c, "dev/console", S_IFCHR | 0600, 5, 1, e) < 0 ||
				 cpio_add(&c, "init", S_IFREG | 0755, program, (size_t)st.st_size,
					  e) < 0 ||
				 cpio_end(&c, e) < 0
			 ? -1
			 : 0;
	(void)munmap(program, (size_t)st.st_size);
	return result;
}

/* The hashes with their NULs, so three texts have one reading. */
static void guest_files_make_key(const struct guest_manifest *m, const char *init_hash,
				 char ret[GUEST_HEX])
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, m->vmlinux, sizeof(m->vmlinux));
	sha256_add(&s, m->modules, sizeof(m->modules));
	sha256_add(&s, init_hash, GUEST_HEX);
	guest_files_as_hex(&s, ret);
}

/* The manifest's hashes are compared during the copy. A replaced file cannot come in between. */
int guest_files_load(int dir, int init, struct guest_files *ret, struct err *e)
{
	struct guest_files f = { .kernel = -1 };

	if (guest_manifest_read(dir, &f.manifest, e) < 0 || guest_files_hash(init, f.agent, e) < 0)
		return -1;
	OWN_FD kernel = memfd_create("vmlinux", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	OWN_FD initramfs = memfd_create("initramfs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (kernel < 0 || initramfs < 0)
		return err_sys(e, "guest kernel");
	if (guest_files_append_checked(dir, "vmlinux", f.manifest.vmlinux, kernel, e) < 0 ||
	    guest_files_put_init(init, initramfs, e) < 0 ||
	    guest_files_append_checked(dir, "modules", f.manifest.modules, initramfs, e) < 0 ||
	    guest_files_fill_page(initramfs, e) < 0 || guest_files_seal(kernel, e) < 0 ||
	    guest_files_seal(initramfs, e) < 0)
		return -1;
	guest_files_make_key(&f.manifest, f.agent, f.key);
	f.kernel = TAKE_FD(kernel);
	f.initramfs = TAKE_FD(initramfs);
	*ret = f;
	return 0;
}

void guest_files_release(struct guest_files *f)
{
	fd_close(f->kernel);
	fd_close(f->initramfs);
	f->kernel = f->initramfs = -1;
}
