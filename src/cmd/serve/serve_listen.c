/* serve_listen.c - the server's sockets: passed by the parent process (systemd's protocol:
 * LISTEN_FDS and LISTEN_PID, descriptors from 3 on), or made here. An upgrade uses the same
 * protocol. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cmd/serve/serve.h"
#include "lib/base/addr.h"
#include "lib/base/base64.h"
#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

/* ---- keys of secrets
 *
 * The supervisor reads the keys that seal secrets, with its rights, and passes them to cordond by
 * descriptor: from secrets_key_file, from the variable
 * CORDON_SECRETS_KEY, or, if neither is set, from a file in the state folder made at the first
 * start. That file still opens its sealed secrets when another key is set later. */

#define KEY_BYTES 32
#define KEYS_MAX 2048 /* bytes of a list, as in seal.h */
#define VARIABLE "CORDON_SECRETS_KEY="
#define OWN_FILE "secrets.key"

/* Check that cordond could read it, so that a mistake is an error at the start. Name the line,
 * and nothing of its content. */
static int serve_listen_check(const char *name, const char *text, struct err *e)
{
	unsigned number = 0, keys = 0;

	for (size_t n; *text != '\0'; text += n + (text[n] == '\n')) {
		const char *colon;
		uint8_t key[BASE64_BYTES(BASE64_LENGTH(KEY_BYTES))];
		size_t len;
		bool good;

		n = strcspn(text, "\n");
		for (len = n; len > 0 && (text[len - 1] == '\r' || text[len - 1] == ' '); len--)
			;
		number++;
		if (len == 0 || *text == '#')
			continue;
		colon = memchr(text, ':', len);
		good = colon != NULL && colon > text &&
		       len - (size_t)(colon + 1 - text) == (size_t)BASE64_LENGTH(KEY_BYTES) &&
		       base64_decode(colon + 1, (size_t)BASE64_LENGTH(KEY_BYTES), key) == KEY_BYTES;
		explicit_bzero(key, sizeof(key));
		if (!good)
			return err_set(e, ERR_INVALID,
				       "%s: line %u is not id:key, 32 bytes in base64", name,
				       number);
		keys++;
	}
	return keys > 0 ? 0 : err_set(e, ERR_INVALID, "%s: contains no key", name);
}

static const char *serve_secrets_variable(void)
{
	for (char **v = environ; *v != NULL; v++)
		if (strncmp(*v, VARIABLE, strlen(VARIABLE)) == 0)
			return *v + strlen(VARIABLE);
	return NULL;
}

/* Read the operator's keys. "": none. */
static int read_given(const struct serve *s, char ret[KEYS_MAX], struct err *e)
{
	const char *given = serve_secrets_variable();

	ret[0] = '\0';
	if (s->config.secrets_key_file[0] != '\0') {
		if (io_read_file(AT_FDCWD, s->config.secrets_key_file, ret, KEYS_MAX, e) < 0)
			return err_wrap(e, "secrets_key_file");
		return serve_listen_check("secrets_key_file", ret, e);
	}
	if (given == NULL || *given == '\0')
		return 0;
	/* A key without an id is accepted, too. */
	if (snprintf(ret, KEYS_MAX, "%s%s\n", strchr(given, ':') == NULL ? "env:" : "", given) >=
	    KEYS_MAX)
		return err_set(e, ERR_LIMIT, "CORDON_SECRETS_KEY is too long");
	return serve_listen_check("CORDON_SECRETS_KEY", ret, e);
}

static int make_own(int dir, char ret[KEYS_MAX], struct err *e)
{
	uint8_t key[KEY_BYTES];
	char text[BASE64_LENGTH(KEY_BYTES) + 1], id[RAND_ID_MAX];

	/* The folder is cordond's: nothing that it has put there is opened. */
	(void)unlinkat(dir, OWN_FILE ".new", 0);
	OWN_FD fd = openat(dir, OWN_FILE ".new",
			   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, "make " OWN_FILE);
	rand_bytes(key, sizeof(key));
	rand_id("k", id, sizeof(id));
	base64_encode(key, sizeof(key), text);
	(void)snprintf(ret, KEYS_MAX, "%s:%s\n", id, text);
	explicit_bzero(key, sizeof(key));
	explicit_bzero(text, sizeof(text));
	if (io_write_all(fd, ret, strlen(ret), e) < 0)
		return -1;
	if (fsync(fd) < 0 || renameat(dir, OWN_FILE ".new", dir, OWN_FILE) < 0 || fsync(dir) < 0)
		return err_sys(e, "write " OWN_FILE);
	return 0;
}

/* The folder is cordond's, which may have put anything there: a link, a FIFO. */
static int read_plain(int dir, char ret[KEYS_MAX], struct err *e)
{
	OWN_FD fd = openat(dir, OWN_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "open " OWN_FILE);
	if (!S_ISREG(st.st_mode) || st.st_size >= KEYS_MAX)
		return err_set(e, ERR_INVALID, OWN_FILE ": not a file of keys");
	n = read(fd, ret, KEYS_MAX - 1);
	if (n < 0)
		return err_sys(e, "read " OWN_FILE);
	ret[n] = '\0';
	return 0;
}

static int read_own(const struct serve *s, bool make, char ret[KEYS_MAX], struct err *e)
{
	OWN_FD dir = open(s->config.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	ret[0] = '\0';
	if (dir < 0)
		return err_sys(e, "open %s", s->config.state_dir);
	if (faccessat(dir, OWN_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return make ? make_own(dir, ret, e) : 0;
	if (read_plain(dir, ret, e) < 0)
		return -1;
	return serve_listen_check(OWN_FILE, ret, e);
}

int serve_secrets_check(const struct serve *s, struct err *e)
{
	char given[KEYS_MAX];
	int checked = read_given(s, given, e);

	explicit_bzero(given, sizeof(given));
	return checked;
}

int serve_secrets(struct serve *s, struct err *e)
{
	char given[KEYS_MAX], own[KEYS_MAX];
	int done;

	s->secrets_fd = memfd_create("secrets", MFD_CLOEXEC);
	if (s->secrets_fd < 0)
		return err_sys(e, "memfd");
	done = read_given(s, given, e);
	if (done == 0)
		done = read_own(s, given[0] == '\0', own, e);
	if (done == 0)
		done = io_write_all(s->secrets_fd, given, strlen(given), e);
	/* A key copied into both lists is written once. */
	if (done == 0 && (given[0] == '\0' || strstr(given, own) == NULL))
		done = io_write_all(s->secrets_fd, own, strlen(own), e);
	explicit_bzero(given, sizeof(given));
	explicit_bzero(own, sizeof(own));
	return done;
}

/* ---- TLS
 *
 * The supervisor reads the operator's certificate and key with its rights, and passes them to
 * cordond by descriptor. `cordond --check-tls` checks them before any program is started, since
 * this program has no OpenSSL. So a wrong file is an error of cordon serve. */

#define PEM_MAX (1 << 20)

/* Make a copy in memory: only the supervisor may read the file, cordond gets its content. */
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
static void NORETURN exec_checker(const struct serve *s, const struct serve_precheck *q)
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
				    .on_child = exec_checker };

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

#define IN_USE_TRIES 300
#define IN_USE_MS 10

static const char *serve_listen_variable(const char *name)
{
	size_t n = strlen(name);

	for (char **v = environ; *v != NULL; v++)
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return *v + n + 1;
	return NULL;
}

static int serve_listen_add(struct serve *s, int fd, struct err *e)
{
	if (s->setup.nlisteners == SERVE_LISTENERS_MAX)
		return err_set(e, ERR_LIMIT, "listen: at most %d sockets", SERVE_LISTENERS_MAX);
	s->listeners[s->setup.nlisteners++] = fd;
	return 0;
}

/* Take one passed descriptor, moved away from the low numbers, which descriptors of cordond will
 * have. */
static int take_one(const struct serve *s, int fd, bool *ret_unix, int *ret_fd, struct err *e)
{
	struct addr a;

	if (addr_of_socket(fd, &a, e) < 0)
		return err_wrap(e, "passed descriptor %d", fd);
	*ret_unix = addr_is_unix(&a);
	if (!*ret_unix && !addr_is_loopback(&a) && !config_has_tls(&s->config) &&
	    !s->config.allow_remote_plain)
		return err_set(e, ERR_DENIED,
			       "passed descriptor %d listens beyond this machine and there is no "
			       "TLS",
			       fd);
	*ret_fd = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	if (*ret_fd < 0 || fcntl(*ret_fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		return err_sys(e, "passed descriptor %d", fd);
	fd_close(fd);
	return 0;
}

/* TCP sockets first, then Unix ones: only the first kind may have TLS. */
static int take_given(struct serve *s, unsigned long n, struct err *e)
{
	int fds[SERVE_LISTENERS_MAX] = { 0 };
	bool is_unix[SERVE_LISTENERS_MAX] = { 0 };

	if (n > SERVE_LISTENERS_MAX)
		return err_set(e, ERR_LIMIT, "listen: at most %d sockets", SERVE_LISTENERS_MAX);
	for (unsigned long i = 0; i < n; i++)
		if (take_one(s, 3 + (int)i, &is_unix[i], &fds[i], e) < 0)
			return -1;
	for (int kind = 0; kind < 2; kind++)
		for (unsigned long i = 0; i < n; i++) {
			if (is_unix[i] != (kind == 1))
				continue;
			if (serve_listen_add(s, fds[i], e) < 0)
				return -1;
			s->setup.tls_from += kind == 0;
		}
	return 0;
}

static int listen_at(struct serve *s, const char *text, mode_t mode, struct err *e)
{
	struct addr a;

	if (addr_parse(text, &a, e) < 0)
		return err_wrap(e, "listen");
	OWN_FD fd = addr_listen(&a, mode, e);
	/* This process holds the lock on the run folder, so the address may belong to an ending
	 * cordond whose supervisor was killed. */
	for (int tries = 0; fd < 0 && e->sys == EADDRINUSE && tries < IN_USE_TRIES; tries++) {
		(void)poll(NULL, 0, IN_USE_MS);
		fd = addr_listen(&a, mode, e);
	}
	if (fd < 0)
		return -1;
	int high = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	if (high < 0)
		return err_sys(e, "descriptors");
	return serve_listen_add(s, high, e);
}

/* Below localhost all names are this machine (RFC 6761), and a port chosen by the kernel is known
 * now. Certificates have no *.localhost, see config.c. A domain of the operator's gets the port
 * only where clients connect to this server itself: one without TLS has a proxy before it, with the
 * usual port. */
static int name_domain(struct serve *s, struct err *e)
{
	bool given = s->config.domain[0] != '\0';
	bool tls = s->config.tls_local || s->config.tls_cert[0] != '\0';
	char name[CONFIG_DOMAIN_MAX];
	struct addr a;

	str_copy(name, given		     ? s->config.domain
		       : s->config.tls_local ? "cordon.localhost"
					     : "localhost");
	str_copy(s->config.domain, name);
	if (s->setup.tls_from == 0 || strchr(name, ':') != NULL || (given && !tls))
		return 0;
	if (addr_of_socket(s->listeners[0], &a, e) < 0)
		return -1;
	if (given && addr_port(&a) == 443)
		return 0;
	if ((size_t)snprintf(s->config.domain, sizeof(s->config.domain), "%s:%u", name,
			     (unsigned)addr_port(&a)) >= sizeof(s->config.domain))
		return err_set(e, ERR_INVALID, "domain: too long with the port appended");
	return 0;
}

static int open_listeners(struct serve *s, struct err *e)
{
	const char *pid = serve_listen_variable("LISTEN_PID"),
		   *fds = serve_listen_variable("LISTEN_FDS");
	char path[CONFIG_PATH_MAX + 8];

	if (pid != NULL && fds != NULL && strtol(pid, NULL, 10) == (long)getpid() &&
	    strtoul(fds, NULL, 10) > 0)
		return take_given(s, strtoul(fds, NULL, 10), e);
	if (s->config.listen[0] != '\0') {
		if (listen_at(s, s->config.listen, 0, e) < 0)
			return -1;
		s->setup.tls_from = s->setup.nlisteners;
	}
	if (s->config.unix_socket[0] == '\0')
		return 0;
	(void)snprintf(path, sizeof(path), "unix:%s", s->config.unix_socket);
	/* Every user of the machine may connect, as to the port: access is by key. */
	return listen_at(s, path, 0666, e);
}

int serve_listen(struct serve *s, struct err *e)
{
	return open_listeners(s, e) < 0 ? -1 : name_domain(s, e);
}
