#include "daemon/main/certificate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/net/selfsign.h"
#include "lib/net/tls.h"
#include "lib/wire/supervisor_msg.h"

/* ---- a certificate of its own
 *
 * The node's own authority and the server's certificate (selfsign.h), as files in
 * the state folder:
 *
 * 	tls/authority.pem	its key and certificate, readable by cordond only
 * 	tls/ca.pem		its certificate, for clients that trust it
 * 	tls/server.pem		the server's key and certificate, readable by cordond only
 *
 * A key is in one file with its certificate and files are replaced whole, so that no crash leaves
 * two that do not belong together. */

#define LOCAL_CERT_SERVER "tls/server.pem"

struct certificate_text {
	char pem[SELFSIGN_PEM_MAX];
};

static void text_wipe(struct certificate_text *t)
{
	explicit_bzero(t, sizeof(*t));
}

#define OWN_TEXT __attribute__((cleanup(text_wipe))) struct certificate_text

/* The text of the file, "" if there is none, "?" if it is too long to be one that cordond wrote.
 * Other errors fail: a new authority would have to be made known to all clients.
 */
static int read_text(int dir, const char *name, struct certificate_text *ret, struct err *e)
{
	if (io_read_file(dir, name, ret->pem, sizeof(ret->pem), e) >= 0)
		return 0;
	if (e->code != ERR_LIMIT && e->sys != ENOENT)
		return -1;
	str_copy(ret->pem, e->code == ERR_LIMIT ? "?" : "");
	return 0;
}

static int write_text(int dir, const char *name, const struct certificate_text *t, mode_t mode,
		      struct err *e)
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
		     const struct certificate_text *before, const struct err *why)
{
	if (before->pem[0] == '\0')
		log_info("made a certificate", "file=%s domain=%s", name, domain);
	else
		log_write(level, "replaced a certificate", "file=%s domain=%s reason=%s", name,
			  domain, why->msg);
}

static int keep_authority(int dir, const char *domain, int64_t now, struct certificate_text *ret,
			  struct err *e)
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
static int keep_public(int dir, const struct certificate_text *authority, struct err *e)
{
	static const char name[] = "ca.pem";
	struct certificate_text current = { 0 }, wanted = { 0 };
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

static int keep_server(int dir, const struct certificate_text *authority, const char *domain,
		       int64_t now, int64_t *ret_renew_at, struct err *e)
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

/* Make missing, damaged, soon expiring files and those for another domain, and log it. Works in
 * confinement. On failure good files stay good. domain, now: as selfsign.h has them. *ret_renew_at:
 * when to call it again. */
static int local_cert_keep(int state_fd, const char *domain, int64_t now, int64_t *ret_renew_at,
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

/* ---- the certificate */

/* The clock may be set at any time, so expiry is checked often. */
#define LOOK_MS 10000
#define AGAIN_S 3600 /* after a failure */

static int64_t now_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec;
}

/* Both descriptors are copies in memory: only the supervisor may read the files. */
static struct tls *open_passed(const char *cert_name, const char *key_name, struct err *e)
{
	char cert[32], key[32];
	struct tls *tls;

	(void)snprintf(cert, sizeof(cert), "/proc/self/fd/%d", SERVE_FD_CERT);
	(void)snprintf(key, sizeof(key), "/proc/self/fd/%d", SERVE_FD_KEY);
	tls = tls_server_new(cert, key, e);
	if (tls == NULL)
		(void)err_wrap(e, "tls_cert %.80s, tls_key %.80s", cert_name, key_name);
	fd_close(SERVE_FD_KEY);
	return tls;
}

/* Only a warning: a proxy in front may have other certificates. */
static void warn_of_flaws(const struct certificate *c, const struct config *config)
{
	char host[CONFIG_DOMAIN_MAX + 8];
	const char *flaw;

	(void)snprintf(host, sizeof(host), "api.%s", c->domain);
	flaw = tls_server_flaw(c->tls, host);
	if (flaw != NULL)
		log_warn("clients will refuse the certificate", "tls_cert=%s host=%s error=%s",
			 config->tls_cert, host, flaw);
}

static void on_look(struct loop_timer *t)
{
	struct certificate *c = t->arg;
	int64_t now = now_s();
	struct err e;

	loop_timer_set(c->loop, t, clock_now_ns() + LOOK_MS * CLOCK_MS);
	if (now < c->renew_at)
		return;
	if (local_cert_keep(c->state_fd, c->domain, now, &c->renew_at, &e) == 0 &&
	    tls_server_renew(c->tls, c->file, c->file, &e) == 0)
		return;
	log_error("cannot renew the certificate", "file=%s error=%s", c->file, e.msg);
	c->renew_at = now + AGAIN_S;
}

static int open_local(struct certificate *c, const struct config *config, struct err *e)
{
	(void)snprintf(c->file, sizeof(c->file), "%s/" LOCAL_CERT_SERVER, config->state_dir);
	if (local_cert_keep(c->state_fd, c->domain, now_s(), &c->renew_at, e) < 0)
		return err_wrap(e, "tls_local");
	c->tls = tls_server_new(c->file, c->file, e);
	if (c->tls == NULL)
		return err_wrap(e, "tls_local: %s", c->file);
	c->timer = (struct loop_timer){ .on_expire = on_look, .arg = c };
	loop_timer_set(c->loop, &c->timer, clock_now_ns() + LOOK_MS * CLOCK_MS);
	return 0;
}

int certificate_open(struct certificate *c, struct loop *loop, int state_fd,
		     const struct config *config, struct err *e)
{
	*c = (struct certificate){ .loop = loop, .state_fd = state_fd };
	(void)snprintf(c->domain, sizeof(c->domain), "%.*s", (int)strcspn(config->domain, ":"),
		       config->domain);
	if (config->tls_local)
		return open_local(c, config, e);
	if (config->tls_cert[0] == '\0')
		return 0;
	c->tls = open_passed(config->tls_cert, config->tls_key, e);
	if (c->tls == NULL)
		return -1;
	warn_of_flaws(c, config);
	return 0;
}

int certificate_check(const char *cert_name, const char *key_name)
{
	struct err e = { 0 };
	struct tls *tls = open_passed(cert_name, key_name, &e);

	if (tls == NULL) {
		(void)fprintf(stderr, "%s\n", e.msg);
		return 1;
	}
	tls_free(tls);
	return 0;
}
