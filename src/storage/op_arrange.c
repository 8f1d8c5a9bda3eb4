/* op_arrange.c - makes the layer on top of an image that makes sessions of it as usable as those of
 * the host template: users, directories, names of hosts, the node's certificate authority, Cordon's
 * programs. For untrusted images, in a worker. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "storage/layer_make.h"
#include "storage/layer_tree.h"
#include "storage/member_make.h"
#include "storage/storage_jail.h"
#include "storage/user_text.h"

#define ARRANGE_LINK_MAX 16
#define ARRANGE_CERT_MAX 16384

/* The authority that programs shall trust, as cordon serve passes it: a line with the name by which
 * OpenSSL finds the certificate, then the certificate in PEM. */
struct arrange_authority {
	char link[ARRANGE_LINK_MAX]; /* "": there is none */
	char cert[ARRANGE_CERT_MAX];
};

#define ARRANGE_FILE_MAX (8U << 20)

/* The layer being made, and how ids are stored. All functions of the file get it. */
struct arranging {
	struct layer_tree *tree;
	const struct storage_ids *ids;
};

/* A file of the merged tree. Its attributes are kept when it is written again. */
struct arranged {
	bool exists; /* as a regular file */
	uint32_t uid, gid;
	mode_t mode;
	struct buf text; /* owned */
};

/* ---- files of an image, read from its layers and written into the layer above */

/* The attributes that a file of a lower layer has, as ids of the cell. */
static void arrange_take_attributes(const struct arranging *a, const struct stat *st,
				    struct arranged *ret)
{
	ret->exists = true;
	ret->mode = st->st_mode & 07777;
	ret->uid = a->ids->single ? 0 : st->st_uid - a->ids->shift;
	ret->gid = a->ids->single ? 0 : st->st_gid - a->ids->shift;
}

/* *ret_fd is -1 without an error if the name is missing or no regular file. */
static int arrange_open_it(struct arranging *a, const char *path, struct stat *ret_st, int *ret_fd,
			   struct err *e)
{
	struct layer_found f;
	const char *name;

	*ret_fd = -1;
	if (layer_tree_parent(a->tree, path, &name, e) < 0 ||
	    layer_tree_look(a->tree, name, &f, e) < 0)
		return -1;
	if (f.in_own && S_ISREG(f.own.st_mode)) {
		*ret_st = f.own;
		*ret_fd = openat(a->tree->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		return *ret_fd < 0 ? err_sys(e, "open %s", path) : 0;
	}
	if (f.in_own || !f.in_lower || !S_ISREG(f.lower.st_mode))
		return 0;
	*ret_st = f.lower;
	*ret_fd = layer_tree_open_lower(a->tree, name, &f, e);
	return *ret_fd < 0 ? -1 : 0;
}

/* Read it. A missing, irregular or too large file is empty, and gets this mode. To be released. */
static int arrange_read(struct arranging *a, const char *path, mode_t mode, struct arranged *ret,
			struct err *e)
{
	struct stat st = { 0 };
	int opened;
	ssize_t n;

	memset(ret, 0, sizeof(*ret));
	ret->mode = mode;
	buf_init(&ret->text, ARRANGE_FILE_MAX);
	if (arrange_open_it(a, path, &st, &opened, e) < 0)
		return -1;
	OWN_FD fd = opened;
	if (fd < 0)
		return 0;
	if (st.st_size > (off_t)ARRANGE_FILE_MAX)
		return err_set(e, ERR_INVALID, "/%s of the image is larger than 8 MiB", path);
	arrange_take_attributes(a, &st, ret);
	if (st.st_size == 0)
		return 0;
	if (buf_reserve(&ret->text, (size_t)st.st_size, e) == NULL)
		return -1;
	n = read(fd, ret->text.data, (size_t)st.st_size);
	if (n < 0)
		return err_sys(e, "read %s", path);
	buf_commit(&ret->text, (size_t)n);
	return 0;
}

static void arrange_release(struct arranged *f)
{
	buf_release(&f->text);
}

/* uid and gid are ids of cells. */
static int arrange_set_owner(const struct arranging *a, int fd, uint32_t uid, uint32_t gid)
{
	return a->ids->single ? 0 : fchown(fd, uid + a->ids->shift, gid + a->ids->shift);
}

/* Write it: in place of any entry with the name. */
static int arrange_write(struct arranging *a, const char *path, const struct arranged *f,
			 const void *text, size_t len, struct err *e)
{
	struct layer_found found;
	const char *name;

	if (layer_tree_parent(a->tree, path, &name, e) < 0 ||
	    layer_tree_look(a->tree, name, &found, e) < 0 ||
	    layer_tree_clear(a->tree, name, &found, e) < 0 || layer_tree_count(a->tree, len, e) < 0)
		return -1;
	OWN_FD fd = openat(a->tree->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			   0600);
	if (fd < 0)
		return member_fail(e, "make", path);
	if (io_write_all(fd, text, len, e) < 0)
		return err_wrap(e, "%s", path);
	if (arrange_set_owner(a, fd, f->uid, f->gid) < 0 || fchmod(fd, f->mode) < 0)
		return member_fail(e, "make", path);
	return 0;
}

/* A new file of root's. */
static int arrange_put(struct arranging *a, const char *path, mode_t mode, const char *text,
		       struct err *e)
{
	const struct arranged f = { .mode = mode };

	return arrange_write(a, path, &f, text, strlen(text), e);
}

/* Does the name exist in the merged tree, as anything? */
static int arrange_exists(struct arranging *a, const char *path, bool *ret, struct err *e)
{
	struct layer_found f;
	const char *name;

	if (layer_tree_parent(a->tree, path, &name, e) < 0 ||
	    layer_tree_look(a->tree, name, &f, e) < 0)
		return -1;
	*ret = f.in_own ? !layer_tree_is_whiteout(&f.own) : f.in_lower;
	return 0;
}

/* only_new: an existing entry stays, of any kind. */
static int arrange_make_dir(struct arranging *a, const char *path, mode_t mode, uint32_t owner,
			    bool only_new, struct err *e)
{
	const struct stat *st;
	struct layer_found f;
	const char *name;

	if (layer_tree_parent(a->tree, path, &name, e) < 0 ||
	    layer_tree_look(a->tree, name, &f, e) < 0)
		return -1;
	st = f.in_own ? &f.own : &f.lower;
	if ((f.in_own || f.in_lower) && (only_new || S_ISDIR(st->st_mode)))
		return 0;
	if (layer_tree_mkdir(a->tree, name, &f, e) < 0)
		return -1;
	OWN_FD fd = openat(a->tree->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || arrange_set_owner(a, fd, owner, owner) < 0 || fchmod(fd, mode) < 0)
		return member_fail(e, "make directory", path);
	return 0;
}

/* Make a directory or link if nothing has the name. */
static int arrange_dir(struct arranging *a, const char *path, mode_t mode, uint32_t owner,
		       struct err *e)
{
	return arrange_make_dir(a, path, mode, owner, true, e);
}

/* As above, and another entry than a directory with the name is replaced. */
static int arrange_mount_point(struct arranging *a, const char *path, mode_t mode, struct err *e)
{
	return arrange_make_dir(a, path, mode, 0, false, e);
}

static int arrange_link(struct arranging *a, const char *path, const char *target, struct err *e)
{
	const char *name = strrchr(path, '/');
	bool exists;

	if (arrange_exists(a, path, &exists, e) < 0)
		return -1;
	if (exists)
		return 0;
	if (layer_tree_count(a->tree, 0, e) < 0)
		return -1;
	return symlinkat(target, a->tree->dir, name == NULL ? path : name + 1) < 0
		       ? member_fail(e, "make link", path)
		       : 0;
}

/* ---- the layer on top of an image
 *
 * Only files that sessions need are changed, and the image's own content is kept: lines of passwd
 * stay, a certificate is added behind the others. Files that say how a machine reaches others
 * (resolv.conf, hosts) are replaced, as every runtime of images does. Paths are resolved as in a
 * cell (layer_tree.h), so an image cannot make this write anywhere else. */

#define HOME "home/" USER_TEXT_USER
/* The host name of a cell is not in /etc/hosts: without !fqdn sudo warns of it each time. */
#define NOPASSWD "Defaults !fqdn\n" USER_TEXT_USER " ALL=(ALL:ALL) NOPASSWD: ALL\n"

/* An empty text means that there is no authority. A link with a slash would lead elsewhere. */
static int arrange_authority_read(const char *text, size_t len, struct arrange_authority *ret,
				  struct err *e)
{
	size_t n = strnlen(text, len);
	const char *newline = memchr(text, '\n', n);
	size_t link = newline == NULL ? 0 : (size_t)(newline - text);

	memset(ret, 0, sizeof(*ret));
	if (n == 0)
		return 0;
	if (link == 0 || link >= sizeof(ret->link) || memchr(text, '/', link) != NULL ||
	    n - link - 1 >= sizeof(ret->cert))
		return err_set(e, ERR_INVALID, "malformed authority");
	memcpy(ret->link, text, link);
	memcpy(ret->cert, newline + 1, n - link - 1);
	return 0;
}

/* ---- directories and files that every root directory has */

/* Mount points must be directories, so other entries there are replaced. All other entries of the
 * image stay. */
static int arrange_make_places(struct arranging *a, struct err *e)
{
	static const struct {
		const char *path;
		mode_t mode;
	} mounts[] = { { "proc", 0555 }, { "dev", 0755 }, { "sys", 0555 } },
	  dirs[] = { { "tmp", 01777 },	   { "run", 0755 },  { "etc", 0755 },
		     { "root", 0700 },	   { "home", 0755 }, { "var", 0755 },
		     { "var/tmp", 01777 }, { "usr", 0755 },  { "mnt", 0755 } };

	for (size_t i = 0; i < COUNT(mounts); i++)
		if (arrange_mount_point(a, mounts[i].path, mounts[i].mode, e) < 0)
			return -1;
	for (size_t i = 0; i < COUNT(dirs); i++)
		if (arrange_dir(a, dirs[i].path, dirs[i].mode, 0, e) < 0)
			return -1;
	if (arrange_link(a, "run/secrets", "/dev/shm/secrets", e) < 0 ||
	    arrange_link(a, "etc/mtab", "/proc/self/mounts", e) < 0)
		return -1;
	return arrange_link(a, "etc/machine-id", "/dev/machine-id", e);
}

/* The resolver's address is that of every cell's network. */
static int arrange_make_names(struct arranging *a, struct err *e)
{
	if (arrange_put(a, "etc/resolv.conf", 0644,
			"nameserver 198.18.0.1\noptions timeout:2 attempts:3\n", e) < 0 ||
	    arrange_put(a, "etc/hostname", 0644, "cordon\n", e) < 0)
		return -1;
	return arrange_put(a, "etc/hosts", 0644,
			   "127.0.0.1 localhost cordon\n"
			   "::1 localhost ip6-localhost ip6-loopback cordon\n",
			   e);
}

/* ---- users */

/* Write a text that a function of user_text.h has made. */
static int arrange_write_made(struct arranging *a, const char *path, const struct arranged *f,
			      struct buf *made, struct err *e)
{
	int result = buf_check(made, e);

	if (result == 0)
		result = arrange_write(a, path, f, buf_text(made), made->len, e);
	buf_release(made);
	return result;
}

/* Write the whole new text of a file to ret. One for each format of user_text.h. */
typedef void edit_fn(const char *old, size_t len, struct buf *ret);

/* shadow and gshadow: if must is false, only if there is one. */
static int arrange_edit(struct arranging *a, const char *path, mode_t mode, bool must,
			edit_fn *change, struct err *e)
{
	struct buf made = BUF_INIT(ARRANGE_FILE_MAX);
	struct arranged f;
	int result = arrange_read(a, path, mode, &f, e);

	if (result == 0 && (f.exists || must)) {
		change(buf_text(&f.text), f.text.len, &made);
		result = arrange_write_made(a, path, &f, &made, e);
	}
	arrange_release(&f);
	return result;
}

/* The first one that the image has. *ret is the last of the list if there is none. */
static int arrange_find_shell(struct arranging *a, const char **ret, struct err *e)
{
	static const char *const shells[] = { "/bin/bash", "/usr/bin/bash", "/bin/sh" };
	bool exists = false;

	for (size_t i = 0; i < COUNT(shells) && !exists; i++) {
		if (arrange_exists(a, shells[i] + 1, &exists, e) < 0)
			return -1;
		*ret = shells[i];
	}
	return 0;
}

/* old: the texts of passwd and group. shadow is made if there is none, gshadow is not. */
static int arrange_write_users(struct arranging *a, const struct arranged *passwd,
			       const struct arranged *group, const struct user_text *u,
			       const char *const old[2], struct err *e)
{
	struct buf made = BUF_INIT(ARRANGE_FILE_MAX);

	user_text_passwd(old[0], passwd->text.len, u, &made);
	if (arrange_write_made(a, "etc/passwd", passwd, &made, e) < 0)
		return -1;
	user_text_group(old[1], group->text.len, u, &made);
	if (arrange_write_made(a, "etc/group", group, &made, e) < 0)
		return -1;
	if (arrange_edit(a, "etc/shadow", 0600, true, user_text_shadow, e) < 0)
		return -1;
	return arrange_edit(a, "etc/gshadow", 0600, false, user_text_gshadow, e);
}

/* Files of /etc/skel read by starting shells. */
static int arrange_fill_home(struct arranging *a, const struct user_text *u, struct err *e)
{
	static const char *const names[] = { ".bashrc", ".profile", ".bash_logout", ".bash_profile",
					     ".zshrc" };
	char from[64], to[64];

	if (arrange_dir(a, HOME, 0755, u->uid, e) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(names); i++) {
		struct arranged f;
		bool exists;
		int result;

		(void)snprintf(from, sizeof(from), "etc/skel/%s", names[i]);
		(void)snprintf(to, sizeof(to), HOME "/%s", names[i]);
		result = arrange_read(a, from, 0644, &f, e);
		if (result == 0)
			result = arrange_exists(a, to, &exists, e);
		if (result == 0 && f.exists && !exists) {
			f.uid = u->uid;
			f.gid = u->gid;
			result = arrange_write(a, to, &f, buf_text(&f.text), f.text.len, e);
		}
		arrange_release(&f);
		if (result < 0)
			return -1;
	}
	return 0;
}

/* user_text.h works on texts up to this size. */
static int arrange_check_size(const char *name, const struct arranged *f, struct err *e)
{
	if (f->text.len <= USER_TEXT_MAX)
		return 0;
	return err_set(e, ERR_INVALID, "/%s of the image is larger than 1 MiB", name);
}

/* Read passwd and group, choose the ids of "user", and write all files with them. */
static int arrange_make_users(struct arranging *a, struct err *e)
{
	struct user_text u = { .home = "/" HOME, .shell = "/bin/sh" };
	struct arranged passwd, group = { 0 };
	int result = arrange_read(a, "etc/passwd", 0644, &passwd, e);

	if (result == 0)
		result = arrange_read(a, "etc/group", 0644, &group, e);
	if (result == 0)
		result = arrange_check_size("etc/passwd", &passwd, e);
	if (result == 0)
		result = arrange_check_size("etc/group", &group, e);
	if (result == 0)
		result = arrange_find_shell(a, &u.shell, e);
	if (result == 0) {
		const char *const old[2] = { buf_text(&passwd.text), buf_text(&group.text) };

		user_text_choose(old[0], passwd.text.len, old[1], group.text.len, &u);
		result = arrange_write_users(a, &passwd, &group, &u, old, e);
	}
	arrange_release(&passwd);
	arrange_release(&group);
	return result < 0 ? -1 : arrange_fill_home(a, &u, e);
}

/* sudo without a password, where there is sudo. */
static int arrange_make_sudo(struct arranging *a, struct err *e)
{
	struct buf made = BUF_INIT(ARRANGE_FILE_MAX);
	struct arranged f;
	bool exists;
	int result;

	if (arrange_exists(a, "usr/bin/sudo", &exists, e) < 0)
		return -1;
	if (!exists)
		return 0;
	result = arrange_read(a, "etc/sudoers", 0440, &f, e);
	if (result == 0 && strstr(buf_text(&f.text), "includedir /etc/sudoers.d") != NULL) {
		result = arrange_put(a, "etc/sudoers.d/cordon", 0440, NOPASSWD, e);
	} else if (result == 0) {
		buf_put(&made, buf_text(&f.text), f.text.len);
		buf_put_text(&made, "\nroot ALL=(ALL:ALL) NOPASSWD: ALL\n" NOPASSWD);
		result = arrange_write_made(a, "etc/sudoers", &f, &made, e);
	}
	arrange_release(&f);
	return result;
}

/* ---- certificates */

/* must: the bundle is made if there is none. */
static int arrange_add_to_bundle(struct arranging *a, const char *path, const char *cert, bool must,
				 struct err *e)
{
	struct buf made = BUF_INIT((size_t)2 * ARRANGE_FILE_MAX);
	struct arranged f;
	int result = arrange_read(a, path, 0644, &f, e);

	if (result == 0 && (f.exists || must)) {
		buf_put(&made, buf_text(&f.text), f.text.len);
		if (f.text.len > 0 && f.text.data[f.text.len - 1] != '\n')
			buf_put_text(&made, "\n");
		buf_put_text(&made, cert);
		result = arrange_write_made(a, path, &f, &made, e);
	}
	arrange_release(&f);
	return result;
}

/* Known bundles get the certificate added. OpenSSL finds it by the link, and update-ca-certificates
 * by the first file. */
static int arrange_make_trust(struct arranging *a, const struct arrange_authority *authority,
			      struct err *e)
{
	static const char debian[] = "etc/ssl/certs/ca-certificates.crt";
	static const char *const bundles[] = {
		debian,
		"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"etc/pki/tls/certs/ca-bundle.crt",
		"etc/ssl/ca-bundle.pem",
		"etc/ssl/cert.pem",
	};
	char link[64];
	bool exists;

	if (authority->link[0] == '\0')
		return 0;
	if (arrange_put(a, "usr/local/share/ca-certificates/cordon.crt", 0644, authority->cert, e) <
		    0 ||
	    arrange_put(a, "etc/ssl/certs/cordon.pem", 0644, authority->cert, e) < 0)
		return -1;
	(void)snprintf(link, sizeof(link), "etc/ssl/certs/%s", authority->link);
	if (arrange_link(a, link, "cordon.pem", e) < 0 || arrange_exists(a, debian, &exists, e) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(bundles); i++)
		if (arrange_add_to_bundle(a, bundles[i], authority->cert, i == 0 && !exists, e) < 0)
			return -1;
	return 0;
}

/* Fill the tree. It is empty and has the image's layers below it. */
static int op_arrange_arrange(struct layer_tree *t, const struct storage_ids *ids,
			      const struct arrange_authority *au, struct err *e)
{
	struct arranging a = { t, ids };

	if (arrange_make_places(&a, e) < 0 || arrange_make_names(&a, e) < 0 ||
	    arrange_make_users(&a, e) < 0 || arrange_make_sudo(&a, e) < 0 ||
	    arrange_make_trust(&a, au, e) < 0)
		return err_wrap(e, "arrange the image");
	return 0;
}

/* ---- Cordon's programs for cells (the code interpreter, its kernels), as cells of the host
 * template have them (cell/template/cell_programs.h) */

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
#define TOP "opt/cordon"
#define DEPTH_MAX 5U
#define PATH_CAP 512

static int arrange_add_dir(struct arranging *a, int from, const char *path, unsigned depth,
			   struct err *e);

/* The content was written by Cordon, so it is read without a check. Owners become root. */
static int arrange_add_file(struct arranging *a, int dir, const char *name, const char *path,
			    const struct stat *st, struct err *e)
{
	const struct arranged f = { .mode = st->st_mode & 0755 };
	struct buf b = BUF_INIT(ARRANGE_FILE_MAX);
	OWN_FD fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int result = fd < 0 ? err_sys(e, "open %s", path) : 0;
	ssize_t n = 1;

	while (result == 0 && n > 0) {
		uint8_t *room = buf_reserve(&b, 65536, e);

		n = room == NULL ? -1 : read(fd, room, 65536);
		if (room == NULL)
			result = -1;
		else if (n < 0)
			result = err_sys(e, "read %s", path);
		else
			buf_commit(&b, (size_t)n);
	}
	if (result == 0)
		result = arrange_write(a, path, &f, buf_text(&b), b.len, e);
	buf_release(&b);
	return result;
}

/* Links and entries below DEPTH_MAX levels are left out. */
static int arrange_add_entry(struct arranging *a, int dir, const char *name, const char *path,
			     unsigned depth, struct err *e)
{
	struct stat st;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "stat %s", path);
	if (S_ISREG(st.st_mode))
		return arrange_add_file(a, dir, name, path, &st, e);
	if (!S_ISDIR(st.st_mode) || depth == 0)
		return 0; /* a link to a program of the machine */
	OWN_FD below = openat(dir, name, DIR_FLAGS | O_CLOEXEC);
	return below < 0 ? err_sys(e, "open %s", path)
			 : arrange_add_dir(a, below, path, depth - 1, e);
}

/* `from` stays open: the listing has a descriptor of its own. */
static int arrange_add_dir(struct arranging *a, int from, const char *path, unsigned depth,
			   struct err *e)
{
	OWN_FD again = openat(from, ".", DIR_FLAGS | O_CLOEXEC);
	DIR *d = again < 0 ? NULL : fdopendir(again);
	int result = 0;

	if (d == NULL)
		return err_sys(e, "list %s", path);
	(void)TAKE_FD(again);
	if (arrange_dir(a, path, 0755, 0, e) < 0)
		result = -1;
	for (struct dirent *entry; result == 0 && (entry = readdir(d)) != NULL;) {
		char below[PATH_CAP];

		(void)snprintf(below, sizeof(below), "%s/%s", path, entry->d_name);
		result = arrange_add_entry(a, from, entry->d_name, below, depth, e);
	}
	(void)closedir(d);
	return result;
}

/* from: /opt/cordon of the host template, written by Cordon. An image in which the names are
 * something else than directories goes without them. */
static int arrange_programs(struct arranging *a, int from, struct err *e)
{
	if (arrange_add_dir(a, from, TOP, DEPTH_MAX, e) == 0 || e->code == ERR_INVALID)
		return 0;
	return err_wrap(e, "programs for cells");
}

#define BYTES_MAX (64U << 20)
#define ENTRIES_MAX 10000U

static struct arrange_authority authority; /* read at the start */

int op_arrange_setup(int fd, struct err *e)
{
	static char text[ARRANGE_CERT_MAX + ARRANGE_LINK_MAX];
	ssize_t n = pread(fd, text, sizeof(text), 0);

	if (n < 0)
		return errno == EBADF ? 0 : err_sys(e, "read the authority");
	return arrange_authority_read(text, (size_t)n, &authority, e);
}

/* In the worker, and before: the request, and where programs for cells are. */
struct arranged_image {
	struct storage_arrange r;
	int programs; /* owned. -1: there are none */
};

/* ---- the operation */

/* Runs in the worker. The authority was read at the program's start. */
static int arrange_work(void *arg, int top, const int *lower, struct storage_reply *reply,
			struct err *e)
{
	const struct arranged_image *image = arg;
	const struct storage_arrange *r = &image->r;
	const struct storage_ids ids = storage_jail_ids();
	static struct layer_tree tree; /* large */
	int roots[STORAGE_STACK_MAX];
	int root = layer_make_root(top, lower, r->nlower, roots, e);

	if (root < 0 || layer_tree_init(&tree, root, roots, r->nlower, e) < 0)
		return -1;
	tree.count.bytes_max = BYTES_MAX;
	tree.count.entries_max = ENTRIES_MAX;
	if (op_arrange_arrange(&tree, &ids, &authority, e) < 0)
		return -1;
	if (image->programs >= 0 &&
	    arrange_programs(&(struct arranging){ &tree, &ids }, image->programs, e) < 0)
		return -1;
	reply->bytes = tree.count.bytes;
	reply->entries = tree.count.entries;
	return 0;
}

/* The programs' directory is opened before the worker, which could not open it. */
int op_arrange(struct storage_run *run, struct err *e)
{
	struct arranged_image image = { .r = run->r->arrange, .programs = -1 };
	const struct layer_make m = { .id = image.r.layer,
				      .lower = (const char(*)[STORAGE_ID_MAX])image.r.lower,
				      .nlower = image.r.nlower,
				      .read = &image.programs,
				      .nread = 1,
				      .work = arrange_work,
				      .arg = &image };
	char path[sizeof(STORAGE_JAIL_HOST) + STORAGE_ID_MAX + 16];
	int result;

	/* The host template has them at the same place. */
	(void)snprintf(path, sizeof(path), STORAGE_JAIL_HOST "0/%s/opt/cordon", image.r.host);
	image.programs = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	result = layer_make(run, &m, e);
	fd_close(image.programs);
	return result;
}
