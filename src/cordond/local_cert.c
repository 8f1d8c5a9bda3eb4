#include "local_cert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io.h"
#include "log.h"
#include "selfsign.h"

struct text {
	char pem[SELFSIGN_PEM_MAX];
};

static void text_wipe(struct text *t)
{
	explicit_bzero(t, sizeof(*t));
}

#define OWN_TEXT __attribute__((cleanup(text_wipe))) struct text

/* The text of the file, "" if there is none, "?" if it is too long to be one that cordond wrote.
 * Other errors fail: a new authority would have to be made known to all clients.
 */
static int read_text(int dir, const char *name, struct text *ret, struct err *e)
{
	if (io_read_file(dir, name, ret->pem, sizeof(ret->pem), e) >= 0)
		return 0;
	if (e->code != ERR_LIMIT && e->sys != ENOENT)
		return -1;
	(void)snprintf(ret->pem, sizeof(ret->pem), "%s", e->code == ERR_LIMIT ? "?" : "");
	return 0;
}

static int write_text(int dir, const char *name, const struct text *t, mode_t mode, struct err *e)
{
	char part[32];

	(void)snprintf(part, sizeof(part), "%s.new", name);
	if (unlinkat(dir, part, 0) < 0 && errno != ENOENT)
		return err_sys(e, "remove %s", part);
	OWN_FD fd = openat(dir, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, "make %s", part);
	if (io_write_all(fd, t->pem, strlen(t->pem), e) < 0)
		return err_wrap(e, "%s", part);
	if (fchmod(fd, mode) < 0 || fsync(fd) < 0 || renameat(dir, part, dir, name) < 0 ||
	    fsync(dir) < 0)
		return err_sys(e, "write %s", name);
	return 0;
}

/* A replacement logs why the former was not good. */
static void log_made(enum log_level level, const char *name, const char *domain,
		     const struct text *before, const struct err *why)
{
	if (before->pem[0] == '\0')
		log_info("made a certificate", "file=%s domain=%s", name, domain);
	else
		log_write(level, "replaced a certificate", "file=%s domain=%s reason=%s", name,
			  domain, why->msg);
}

static int keep_authority(int dir, const char *domain, int64_t now, struct text *ret, struct err *e)
{
	static const char name[] = "authority.pem";
	OWN_TEXT before = { 0 };
	struct err why;

	if (read_text(dir, name, &before, e) < 0)
		return -1;
	if (selfsign_check_ca(before.pem, domain, now, &why) == 0) {
		*ret = before;
		return 0;
	}
	if (selfsign_create_ca(domain, now, ret->pem, e) < 0 ||
	    write_text(dir, name, ret, 0600, e) < 0)
		return -1;
	/* Clients that trusted the former authority must trust this one. */
	log_made(LOG_LEVEL_WARN, "tls/authority.pem", domain, &before, &why);
	return 0;
}

/* The public copy, written again at every start. */
static int keep_public(int dir, const struct text *authority, struct err *e)
{
	static const char name[] = "ca.pem";
	struct text current = { 0 }, wanted = { 0 };
	struct stat st;

	if (selfsign_ca_cert(authority->pem, wanted.pem, e) < 0 ||
	    read_text(dir, name, &current, e) < 0)
		return -1;
	if (strcmp(current.pem, wanted.pem) == 0 &&
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	    (st.st_mode & 0777) == 0644)
		return 0;
	return write_text(dir, name, &wanted, 0644, e);
}

static int keep_server(int dir, const struct text *authority, const char *domain, int64_t now,
		       int64_t *ret_renew_at, struct err *e)
{
	static const char name[] = "server.pem";
	OWN_TEXT before = { 0 };
	OWN_TEXT made = { 0 };
	struct err why;

	if (read_text(dir, name, &before, e) < 0)
		return -1;
	if (selfsign_check_server(authority->pem, before.pem, domain, now, ret_renew_at, &why) == 0)
		return 0;
	if (selfsign_server(authority->pem, domain, now, made.pem, e) < 0 ||
	    selfsign_check_server(authority->pem, made.pem, domain, now, ret_renew_at, e) < 0 ||
	    write_text(dir, name, &made, 0600, e) < 0)
		return -1;
	log_made(LOG_LEVEL_INFO, LOCAL_CERT_SERVER, domain, &before, &why);
	return 0;
}

int local_cert_keep(int state_fd, const char *domain, int64_t now, int64_t *ret_renew_at,
		    struct err *e)
{
	OWN_TEXT authority = { 0 };

	if (mkdirat(state_fd, "tls", 0711) < 0 && errno != EEXIST)
		return err_sys(e, "make tls");
	OWN_FD dir = openat(state_fd, "tls", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir < 0 || fchmod(dir, 0711) < 0)
		return err_sys(e, "open tls");
	if (keep_authority(dir, domain, now, &authority, e) < 0 ||
	    keep_public(dir, &authority, e) < 0 ||
	    keep_server(dir, &authority, domain, now, ret_renew_at, e) < 0)
		return -1;
	return 0;
}
