/* node_ca.c - theory of operation
 *
 * A process with the key can present itself as any server to any cell of this node, and to no other
 * program. So the file and its directory belong to one user and only that user can read them. Other
 * code gets the certificate only. The file is written under another name and linked into place: it
 * is complete or missing, and if two processes make one at the same time, the first is kept. */
#include "cell/template/node_ca.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "cell/template/cache_dir.h"
#include "lib/base/io.h"

static const char name[] = "authority.pem";

/* Eight hexadecimal digits and ".0", as OpenSSL names certificates. */
static bool node_ca_is_link(const char *s, size_t n)
{
	return n == 10 && strspn(s, "0123456789abcdef") == 8 && memcmp(s + 8, ".0", 2) == 0;
}

/* Copies of the text are wiped, since the key is in them. */
int node_ca_read(const char *text, size_t len, struct node_ca *ret, struct err *e)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----\n";
	static const char end[] = "-----END CERTIFICATE-----\n";
	char copy[NODE_CA_TEXT_MAX];
	const char *from, *to;
	size_t line;

	if (len >= sizeof(copy) || memchr(text, '\0', len) != NULL)
		return err_set(e, ERR_INVALID, "authority: too long (%zu bytes), or it has a NUL",
			       len);
	memcpy(copy, text, len);
	copy[len] = '\0';
	line = strcspn(copy, "\n");
	from = strstr(copy, begin);
	to = from == NULL ? NULL : strstr(from, end);
	if (to == NULL || strstr(from + 1, begin) != NULL || strncmp(copy, "# ", 2) != 0 ||
	    !node_ca_is_link(copy + 2, line - 2)) {
		explicit_bzero(copy, sizeof(copy));
		return err_set(e, ERR_INVALID,
			       "authority: malformed: must have a name line and one certificate");
	}
	*ret = (struct node_ca){ .fd = -1 };
	memcpy(ret->link, copy + 2, line - 2);
	memcpy(ret->cert, from, (size_t)(to - from) + strlen(end));
	explicit_bzero(copy, sizeof(copy));
	return 0;
}

int node_ca_open(struct node_ca *ret, struct err *e)
{
	char text[NODE_CA_TEXT_MAX];
	size_t got = 0;
	struct stat st;
	ssize_t n;
	int found = -1, result;

	if (cache_dir_open(&found, e) < 0)
		return -1;
	OWN_FD cache = found;
	OWN_FD fd = openat(cache, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, "%s does not exist yet", name);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "open %s", name);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
		return err_set(e, ERR_DENIED, "%s: not a file that only its owner can read", name);
	while (got < sizeof(text) && (n = read(fd, text + got, sizeof(text) - got)) > 0)
		got += (size_t)n;
	result = node_ca_read(text, got, ret, e);
	explicit_bzero(text, sizeof(text));
	if (result < 0)
		return err_wrap(e, "%s", name);
	ret->fd = TAKE_FD(fd);
	return 0;
}

void node_ca_release(struct node_ca *a)
{
	io_close_all(&a->fd, 1);
}

int node_ca_save(const char *text, size_t len, struct err *e)
{
	struct node_ca is;
	char temporary[32];
	uint64_t random = 0;
	int found = -1, result = 0;

	if (node_ca_read(text, len, &is, e) < 0 || cache_dir_open(&found, e) < 0)
		return -1;
	OWN_FD cache = found;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return err_sys(e, "getrandom");
	(void)snprintf(temporary, sizeof(temporary), ".authority-%016llx",
		       (unsigned long long)random);
	OWN_FD fd = openat(cache, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "create %s", name);
	if (io_write_all(fd, text, len, e) < 0)
		result = err_wrap(e, "%s", name);
	else if (fsync(fd) < 0 || (linkat(cache, temporary, cache, name, 0) < 0 && errno != EEXIST))
		result = err_sys(e, "write %s", name);
	(void)unlinkat(cache, temporary, 0);
	return result;
}
