#include "certificate.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "local_cert.h"
#include "log.h"
#include "supervisor_msg.h"
#include "tls.h"

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
