/* serve_secrets.c - reads the keys that secrets are sealed with, with the rights of the supervisor,
 * and passes them to cordond by descriptor: from secrets_key_file, from the variable
 * CORDON_SECRETS_KEY, or, if neither is set, from a file in the state folder that is made at the
 * first start. That file still opens what it sealed when another key is set later. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base64.h"
#include "buf.h"
#include "io.h"
#include "rand.h"
#include "serve.h"

#define KEY_BYTES 32
#define KEYS_MAX 2048 /* bytes of a list, as in seal.h */
#define VARIABLE "CORDON_SECRETS_KEY="
#define OWN_FILE "secrets.key"

/* Checks that cordond could read it, so that a mistake is an error at the start. Names the line,
 * and nothing of its content. */
static int check(const char *name, const char *text, struct err *e)
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

static const char *variable(void)
{
	for (char **v = environ; *v != NULL; v++)
		if (strncmp(*v, VARIABLE, strlen(VARIABLE)) == 0)
			return *v + strlen(VARIABLE);
	return NULL;
}

/* What the operator has set; "": nothing. */
static int read_given(const struct serve *s, char ret[KEYS_MAX], struct err *e)
{
	const char *given = variable();

	ret[0] = '\0';
	if (s->config.secrets_key_file[0] != '\0') {
		if (io_read_file(AT_FDCWD, s->config.secrets_key_file, ret, KEYS_MAX, e) < 0)
			return err_wrap(e, "secrets_key_file");
		return check("secrets_key_file", ret, e);
	}
	if (given == NULL || *given == '\0')
		return 0;
	/* A key without an id is accepted, too. */
	if (snprintf(ret, KEYS_MAX, "%s%s\n", strchr(given, ':') == NULL ? "env:" : "", given) >=
	    KEYS_MAX)
		return err_set(e, ERR_LIMIT, "CORDON_SECRETS_KEY is too long");
	return check("CORDON_SECRETS_KEY", ret, e);
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
	return check(OWN_FILE, ret, e);
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
	/* A key that is in both lists, because it was copied, is written once. */
	if (done == 0 && (given[0] == '\0' || strstr(given, own) == NULL))
		done = io_write_all(s->secrets_fd, own, strlen(own), e);
	explicit_bzero(given, sizeof(given));
	explicit_bzero(own, sizeof(own));
	return done;
}
