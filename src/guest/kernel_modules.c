/* kernel_modules.c - see kernel_modules.h. The package has no modules.dep (the machine makes it
 * when the package is installed), so the dependencies are read from the modules themselves. */
#include "kernel_modules.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "guest_tool.h"
#include "io.h"
#include "own.h"

/* What a guest needs: its devices, its root, the redirect of connections, and the socket table that
 * says which program made one. A module that is built into the kernel is not needed. */
static const char *const wanted[] = {
	"virtio_mmio", "virtio_console", "virtio_blk",	   "erofs",	     "overlay",
	"nf_tables",   "nft_tproxy",	 "nf_tproxy_ipv4", "nf_tproxy_ipv6", "tcp_diag",
};

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
static void module_name(const char *file, char *ret_name, size_t cap)
{
	size_t n = strcspn(file, ".");

	(void)snprintf(ret_name, cap, "%.*s", (int)n, file);
	for (char *p = ret_name; (p = strchr(p, '-')) != NULL;)
		*p = '_';
}

static bool is_module_file(const char *file, const char *name)
{
	const char *dot = strchr(file, '.');
	char found[NAME_MAX_LEN];

	if (dot == NULL || strncmp(dot, ".ko", 3) != 0)
		return false;
	module_name(file, found, sizeof(found));
	return strcmp(found, name) == 0;
}

/* Finds the module's file below a folder; its path is relative to that folder. */
static bool find_file(int at, const char *name, unsigned depth, char *ret_path, size_t cap)
{
	OWN_FD again = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	bool found = false;

	if (d == NULL)
		return false;
	(void)TAKE_FD(again);
	for (struct dirent *entry; !found && (entry = readdir(d)) != NULL;) {
		char below[PATH_MAX_LEN];

		if (entry->d_type == DT_REG && is_module_file(entry->d_name, name)) {
			(void)snprintf(ret_path, cap, "%s", entry->d_name);
			found = true;
		} else if (entry->d_type == DT_DIR && entry->d_name[0] != '.' && depth > 0) {
			OWN_FD sub = openat(at, entry->d_name,
					    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			found = sub >= 0 && find_file(sub, name, depth - 1, below, sizeof(below));
			/* one that does not fit cannot be opened, and is an error then */
			if (found && snprintf(ret_path, cap, "%s/%s", entry->d_name, below) < 0)
				found = false;
		}
	}
	(void)closedir(d);
	return found;
}

/* Reads a whole descriptor from its start. */
static int slurp(int fd, size_t max, uint8_t **ret_data, size_t *ret_len, struct err *e)
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

static const char *packer(const char *path)
{
	const char *end = strrchr(path, '.');

	if (end == NULL || strcmp(end, ".ko") == 0)
		return NULL;
	return strcmp(end, ".zst") == 0 ? "zstd" : "xz";
}

static int read_module(int folder, const char *path, struct module *m, struct err *e)
{
	OWN_FD file = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	const char *argv[] = { packer(path), "-dc", NULL };

	if (file < 0)
		return err_sys(e, "open %s", path);
	if (argv[0] == NULL)
		return slurp(file, MODULE_BYTES, &m->data, &m->len, e);
	OWN_FD plain = memfd_create("module", MFD_CLOEXEC);
	const struct guest_tool t = { .argv = argv, .dir = -1, .in = file, .out = plain };
	if (plain < 0)
		return err_sys(e, "unpack %s", path);
	return guest_tool_run(&t, e) < 0 ? -1 : slurp(plain, MODULE_BYTES, &m->data, &m->len, e);
}

/* The list of names behind "depends=" in the module's own description, or "". */
static const char *depends_of(const struct module *m)
{
	static const char key[] = "\0depends=";
	const uint8_t *at = memmem(m->data, m->len, key, sizeof(key) - 1);

	return at == NULL ? "" : (const char *)at + sizeof(key) - 1;
}

static bool is_known(const struct modules *s, const char *name)
{
	char file[NAME_MAX_LEN];

	for (unsigned i = 0; i < s->n; i++)
		if (strcmp(s->list[i].name, name) == 0)
			return true;
	for (const char *line = s->builtin; line != NULL && *line != '\0';) {
		const char *end = strchrnul(line, '\n'),
			   *slash = memrchr(line, '/', (size_t)(end - line));

		if (slash != NULL) {
			module_name(slash + 1, file, sizeof(file));
			if (strcmp(file, name) == 0)
				return true;
		}
		line = *end == '\0' ? NULL : end + 1;
	}
	return false;
}

static int add_module(struct modules *s, const char *name, unsigned depth, struct err *e);

static int add_depends(struct modules *s, const char *names, unsigned depth, struct err *e)
{
	char one[NAME_MAX_LEN];

	for (size_t n; *names != '\0'; names += n + (names[n] == ',')) {
		n = strcspn(names, ",");
		(void)snprintf(one, sizeof(one), "%.*s", (int)n, names);
		for (char *p = one; (p = strchr(p, '-')) != NULL;)
			*p = '_';
		if (add_module(s, one, depth, e) < 0)
			return -1;
	}
	return 0;
}

static int add_module(struct modules *s, const char *name, unsigned depth, struct err *e)
{
	char path[PATH_MAX_LEN];
	struct module m = { .len = 0 };

	if (is_known(s, name))
		return 0;
	if (!find_file(s->folder, name, FOLDER_DEPTH, path, sizeof(path)))
		return err_set(e, ERR_NOT_FOUND, "the kernel has no module %s", name);
	if (depth == 0)
		return err_set(e, ERR_LIMIT, "the modules depend on each other in a circle");
	if (read_module(s->folder, path, &m, e) < 0)
		return err_wrap(e, "module %s", name);
	(void)snprintf(m.name, sizeof(m.name), "%s", name);
	if (add_depends(s, depends_of(&m), depth - 1, e) < 0 || s->n == MODULES_MAX) {
		free(m.data);
		return s->n == MODULES_MAX ? err_set(e, ERR_LIMIT, "too many modules") : -1;
	}
	s->list[s->n++] = m;
	return 0;
}

static int write_all(const struct modules *s, struct cpio *c, struct err *e)
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
static int open_folder(int tree, const char *release, struct err *e)
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

int kernel_modules_add(int tree, const char *release, struct cpio *c, struct err *e)
{
	OWN_FD folder = open_folder(tree, release, e);
	OWN_FD builtin = openat(folder, "modules.builtin", O_RDONLY | O_CLOEXEC);
	struct modules s = { .folder = folder };
	uint8_t *text = NULL;
	size_t len;
	int result = 0;

	if (folder < 0)
		return -1;
	if (builtin < 0 || slurp(builtin, BUILTIN_MAX, &text, &len, e) < 0)
		return err_set(e, ERR_INVALID,
			       "the kernel package has no list of built-in modules");
	s.builtin = (char *)text;
	for (size_t i = 0; result == 0 && i < COUNT(wanted); i++)
		result = add_module(&s, wanted[i], FOLDER_DEPTH, e);
	if (result == 0)
		result = write_all(&s, c, e);
	for (unsigned i = 0; i < s.n; i++)
		free(s.list[i].data);
	free(s.builtin);
	return result;
}
