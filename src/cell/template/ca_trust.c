/* ca_trust.c - theory of operation
 *
 * Programs read certificates from one of three kinds of files: a directory with links named after
 * hashes (OpenSSL), a bundle of all in one file (most others), a key store (Java). Distributions
 * link these to each other, so paths are resolved as in a cell: with the template as root
 * directory. The files are copies that host.c made. Some are not writable even by their owner. */
#include "cell/template/ca_trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cell/template/keystore.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"

#define FILE_MAX (8U << 20)

static const char *const bundles[] = {
	"etc/ssl/certs/ca-certificates.crt",
	"etc/pki/tls/certs/ca-bundle.crt",
	"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
};

static const char *const keystores[] = {
	"etc/ssl/certs/java/cacerts",
	"etc/pki/java/cacerts",
	"etc/pki/ca-trust/extracted/java/cacerts",
};

/* A file of the template and its content. ca_trust_open_file() makes it writable,
 * ca_trust_restore_mode() restores its mode. */
struct trust_file {
	const char *path;
	int fd; /* owned. -1: there is none of that name */
	mode_t mode;
	char *bytes; /* owned, with a NUL behind them */
	size_t n;
};

static void ca_trust_file_release(struct trust_file *p)
{
	free(p->bytes);
	io_close_all(&p->fd, 1);
}
#define OWN_TRUST_FILE __attribute__((cleanup(ca_trust_file_release))) struct trust_file

/* A missing, irregular or too large file leaves fd at -1, without an error. The mode is 0600 while
 * the file is open. */
static int ca_trust_open_file(int root, struct trust_file *p, struct err *e)
{
	char self[32];
	struct stat st;
	ssize_t n;

	OWN_FD there = kernel_openat2(root, p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK,
				      RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	if (there < 0)
		return 0;
	if (fstat(there, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return 0;
	p->mode = st.st_mode & 07777;
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", (int)there);
	if (fchmod(there, 0600) < 0 || (p->fd = open(self, O_RDWR | O_CLOEXEC)) < 0)
		return err_sys(e, "open %s", p->path);
	p->bytes = malloc((size_t)st.st_size + 1);
	if (p->bytes == NULL || (n = pread(p->fd, p->bytes, (size_t)st.st_size, 0)) < 0)
		return err_sys(e, "read %s", p->path);
	p->bytes[n] = '\0';
	p->n = (size_t)n;
	return 0;
}

static int ca_trust_restore_mode(const struct trust_file *p, struct err *e)
{
	return fchmod(p->fd, p->mode) < 0 ? err_sys(e, "chmod %s", p->path) : 0;
}

/* The file is new. Cells may read it. */
static int ca_trust_make_file(int dir, const char *path, const char *text, struct err *e)
{
	OWN_FD fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return err_sys(e, "create %s", path);
	if (io_write_all(fd, text, strlen(text), e) < 0)
		return err_wrap(e, "%s", path);
	return fchmod(fd, 0644) < 0 ? err_sys(e, "chmod %s", path) : 0;
}

/* Another certificate may have the same hash: then the next number is used. */
static int ca_trust_make_link(int certs, const char *link, struct err *e)
{
	char name[NODE_CA_LINK_MAX];
	size_t last = strlen(link) - 1;

	memcpy(name, link, last + 2);
	for (int digit = 0; digit <= 9; digit++) {
		name[last] = (char)('0' + digit);
		if (symlinkat("cordon.pem", certs, name) == 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	return err_sys(e, "link %s", link);
}

/* Append the certificate, unless the bundle has it: two names may be the same file. */
static int ca_trust_add_to_bundle(int root, const char *path, const char *cert, struct err *e)
{
	OWN_TRUST_FILE p = { .path = path, .fd = -1 };

	if (ca_trust_open_file(root, &p, e) < 0)
		return -1;
	if (p.fd < 0)
		return 0;
	if (strstr(p.bytes, cert) == NULL) {
		if (lseek(p.fd, 0, SEEK_END) < 0)
			return err_sys(e, "append to %s", path);
		if ((p.n > 0 && p.bytes[p.n - 1] != '\n' && io_write_all(p.fd, "\n", 1, e) < 0) ||
		    io_write_all(p.fd, cert, strlen(cert), e) < 0)
			return err_wrap(e, "%s", path);
	}
	return ca_trust_restore_mode(&p, e);
}

/* Java's key stores are binary, so the whole file is written again. */
static int ca_trust_add_to_keystore(int root, const char *path, const char *cert, struct err *e)
{
	OWN_TRUST_FILE p = { .path = path, .fd = -1 };
	OWN_MEM uint8_t *made = NULL;
	struct err unusual = { 0 };
	size_t made_len = 0;

	if (ca_trust_open_file(root, &p, e) < 0)
		return -1;
	if (p.fd < 0)
		return 0;
	/* A key store of another format is not changed. */
	if (keystore_add((const uint8_t *)p.bytes, p.n, "cordon", cert, &made, &made_len,
			 &unusual) == 0 &&
	    io_write_all(p.fd, made, made_len, e) < 0)
		return err_wrap(e, "%s", path);
	return ca_trust_restore_mode(&p, e);
}

/* The link comes first, then the bundles, then the key stores. */
int ca_trust_add(int etc, const struct node_ca *a, struct err *e)
{
	static const char bundle[] = "ca-certificates.crt";
	struct stat st;

	OWN_FD root = openat(etc, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || (mkdirat(etc, "ssl", 0755) < 0 && errno != EEXIST) ||
	    (mkdirat(etc, "ssl/certs", 0755) < 0 && errno != EEXIST))
		return err_sys(e, "mkdir ssl/certs");
	OWN_FD certs = kernel_openat2(root, "etc/ssl/certs", O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				      RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	if (certs < 0)
		return err_sys(e, "open ssl/certs");
	if (ca_trust_make_file(certs, "cordon.pem", a->cert, e) < 0 ||
	    ca_trust_make_link(certs, a->link, e) < 0)
		return -1;
	if (fstatat(certs, bundle, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT &&
	    ca_trust_make_file(certs, bundle, a->cert, e) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(bundles); i++)
		if (ca_trust_add_to_bundle(root, bundles[i], a->cert, e) < 0)
			return -1;
	for (size_t i = 0; i < COUNT(keystores); i++)
		if (ca_trust_add_to_keystore(root, keystores[i], a->cert, e) < 0)
			return -1;
	return 0;
}
