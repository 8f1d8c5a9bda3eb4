/* arrange.c - theory of operation
 *
 * Only what sessions need is changed, and what the image has of it is kept: lines of passwd stay,
 * a certificate is added behind the others. Files that say how a machine reaches others
 * (resolv.conf, hosts) are replaced, as every runtime of images does. Paths are resolved as in a
 * cell (layer_tree.h), so an image cannot make this write anywhere else. */
#include "arrange.h"

#include <stdio.h>
#include <string.h>

#include "arrange_file.h"
#include "user_text.h"

#define HOME "home/" USER_TEXT_USER
/* The host name of a cell is not in /etc/hosts: without !fqdn sudo warns of it each time. */
#define NOPASSWD "Defaults !fqdn\n" USER_TEXT_USER " ALL=(ALL:ALL) NOPASSWD: ALL\n"

int arrange_authority_read(const char *text, size_t len, struct arrange_authority *ret,
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

static int make_places(struct arranging *a, struct err *e)
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

static int make_names(struct arranging *a, struct err *e)
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

/* Writes a text that a function of user_text.h has made. */
static int write_made(struct arranging *a, const char *path, const struct arranged *f,
		      struct buf *made, struct err *e)
{
	int result = buf_check(made, e);

	if (result == 0)
		result = arrange_write(a, path, f, buf_text(made), made->len, e);
	buf_release(made);
	return result;
}

typedef void edit_fn(const char *old, size_t len, struct buf *ret);

/* shadow and gshadow: if must is false, only if there is one. */
static int edit(struct arranging *a, const char *path, mode_t mode, bool must, edit_fn *change,
		struct err *e)
{
	struct buf made = BUF_INIT(ARRANGE_FILE_MAX);
	struct arranged f;
	int result = arrange_read(a, path, mode, &f, e);

	if (result == 0 && (f.exists || must)) {
		change(buf_text(&f.text), f.text.len, &made);
		result = write_made(a, path, &f, &made, e);
	}
	arrange_release(&f);
	return result;
}

static int find_shell(struct arranging *a, const char **ret, struct err *e)
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

static int write_users(struct arranging *a, const struct arranged *passwd,
		       const struct arranged *group, const struct user_text *u,
		       const char *const old[2], struct err *e)
{
	struct buf made = BUF_INIT(ARRANGE_FILE_MAX);

	user_text_passwd(old[0], passwd->text.len, u, &made);
	if (write_made(a, "etc/passwd", passwd, &made, e) < 0)
		return -1;
	user_text_group(old[1], group->text.len, u, &made);
	if (write_made(a, "etc/group", group, &made, e) < 0)
		return -1;
	if (edit(a, "etc/shadow", 0600, true, user_text_shadow, e) < 0)
		return -1;
	return edit(a, "etc/gshadow", 0600, false, user_text_gshadow, e);
}

/* Files of /etc/skel that are shells' beginnings. */
static int fill_home(struct arranging *a, const struct user_text *u, struct err *e)
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

static int check_size(const char *name, const struct arranged *f, struct err *e)
{
	if (f->text.len <= USER_TEXT_MAX)
		return 0;
	return err_set(e, ERR_INVALID, "/%s of the image is larger than 1 MiB", name);
}

static int make_users(struct arranging *a, struct err *e)
{
	struct user_text u = { .home = "/" HOME, .shell = "/bin/sh" };
	struct arranged passwd, group = { 0 };
	int result = arrange_read(a, "etc/passwd", 0644, &passwd, e);

	if (result == 0)
		result = arrange_read(a, "etc/group", 0644, &group, e);
	if (result == 0)
		result = check_size("etc/passwd", &passwd, e);
	if (result == 0)
		result = check_size("etc/group", &group, e);
	if (result == 0)
		result = find_shell(a, &u.shell, e);
	if (result == 0) {
		const char *const old[2] = { buf_text(&passwd.text), buf_text(&group.text) };

		user_text_choose(old[0], passwd.text.len, old[1], group.text.len, &u);
		result = write_users(a, &passwd, &group, &u, old, e);
	}
	arrange_release(&passwd);
	arrange_release(&group);
	return result < 0 ? -1 : fill_home(a, &u, e);
}

/* sudo without a password, where there is sudo. */
static int make_sudo(struct arranging *a, struct err *e)
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
		result = write_made(a, "etc/sudoers", &f, &made, e);
	}
	arrange_release(&f);
	return result;
}

/* ---- certificates */

/* must: the bundle is made if there is none. */
static int add_to_bundle(struct arranging *a, const char *path, const char *cert, bool must,
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
		result = write_made(a, path, &f, &made, e);
	}
	arrange_release(&f);
	return result;
}

static int make_trust(struct arranging *a, const struct arrange_authority *authority, struct err *e)
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
		if (add_to_bundle(a, bundles[i], authority->cert, i == 0 && !exists, e) < 0)
			return -1;
	return 0;
}

int arrange(struct layer_tree *t, const struct storage_ids *ids, const struct arrange_authority *au,
	    struct err *e)
{
	struct arranging a = { t, ids };

	if (make_places(&a, e) < 0 || make_names(&a, e) < 0 || make_users(&a, e) < 0 ||
	    make_sudo(&a, e) < 0 || make_trust(&a, au, e) < 0)
		return err_wrap(e, "arrange the image");
	return 0;
}
