/* serve_tls.c - reads the operator's certificate and key with the rights of the supervisor, and
 * passes them to cordond by descriptor. Before anything is started, `cordond --check-tls` checks
 * them, since this program has no OpenSSL: a wrong file is an error of cordon serve. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "io.h"
#include "log.h"
#include "serve.h"

#define PEM_MAX (1 << 20)

/* Makes a copy in memory: only the supervisor may read the file, cordond gets its content. */
static int load_pem(const char *name, const char *path, int *ret_fd, struct err *e)
{
	OWN_FD file = open(path, O_RDONLY | O_CLOEXEC);
	OWN_FD copy = memfd_create(name, MFD_CLOEXEC);
	char bytes[4096];
	size_t total = 0;
	ssize_t n;

	if (file < 0 || copy < 0)
		return err_sys(e, "%s: open %s", name, path);
	while ((n = read(file, bytes, sizeof(bytes))) > 0) {
		total += (size_t)n;
		if (total > PEM_MAX)
			return err_set(e, ERR_LIMIT, "%s: %s is too large", name, path);
		if (io_write_all(copy, bytes, (size_t)n, e) < 0)
			return -1;
	}
	if (n < 0)
		return err_sys(e, "%s: read %s", name, path);
	*ret_fd = TAKE_FD(copy);
	return 0;
}

/* In the child: places the two files where cordond expects them. */
static void NORETURN become_checker(const struct serve *s, const struct serve_precheck *q)
{
	char name[] = "cordond", verb[] = "--check-tls";
	char cert[CONFIG_PATH_MAX], key[CONFIG_PATH_MAX];
	char *argv[] = { name, verb, cert, key, NULL };
	int from[] = { s->cert_fd, s->key_fd, q->program, q->stderr_fd };
	const int to[] = { SERVE_FD_CERT, SERVE_FD_KEY, SERVE_FD_LISTEN, STDERR_FILENO };

	memcpy(cert, s->config.tls_cert, sizeof(cert));
	memcpy(key, s->config.tls_key, sizeof(key));
	for (size_t i = 0; i < COUNT(from); i++)
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 200);
	for (size_t i = 0; i < COUNT(from); i++)
		if (dup3(from[i], to[i], to[i] == SERVE_FD_LISTEN ? O_CLOEXEC : 0) < 0)
			_exit(126);
	serve_precheck_exec(q, SERVE_FD_LISTEN, argv);
}

int serve_tls(struct serve *s, struct err *e)
{
	struct serve_precheck q = { .name = "cordond",
				    .what = "cordond --check-tls",
				    .become = become_checker };

	s->cert_fd = s->key_fd = -1;
	if (s->config.tls_cert[0] == '\0')
		return 0;
	if (load_pem("tls_cert", s->config.tls_cert, &s->cert_fd, e) < 0 ||
	    load_pem("tls_key", s->config.tls_key, &s->key_fd, e) < 0)
		return -1;
	return serve_precheck_run(s, &q, e);
}

/* Clients cannot verify a certificate that the server makes until they trust its authority. */
void serve_tls_log(const struct serve *s)
{
	char url[CONFIG_DOMAIN_MAX + 16], file[CONFIG_PATH_MAX + 16];

	if (!s->config.tls_local)
		return;
	(void)snprintf(url, sizeof(url), "https://api.%s", s->config.domain);
	(void)snprintf(file, sizeof(file), "%s/tls/ca.pem", s->config.state_dir);
	log_info("clients must trust the authority of this server: name its file to them in "
		 "NODE_EXTRA_CA_CERTS (node) or SSL_CERT_FILE (most others)",
		 "url=%s file=%s", url, file);
}
