#include "capture_search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mask.h"
#include "storage_msg.h"
#include "tar_head.h"

#define FILE_MAX (4U << 20)
#define SHOWN_MAX 110 /* bytes of a path */

struct capture_search {
	struct mask *mask;
	struct mask_work work;
	char at[STORAGE_HOST_MAX][STORAGE_PLACE_MAX + 1];
};

static void on_bytes(void *arg, const void *bytes, size_t n)
{
	struct capture_search *s = arg;

	mask_work_count(s->mask, &s->work, bytes, n);
}

/* The next text of the file. False: there is no whole one. */
static bool next_text(const char **at, const char *end, const char **ret, size_t *ret_len)
{
	uint32_t n;

	if ((size_t)(end - *at) < sizeof(n))
		return false;
	memcpy(&n, *at, sizeof(n));
	if ((size_t)(end - *at) - sizeof(n) < n)
		return false;
	*ret = *at + sizeof(n);
	*ret_len = n;
	*at += sizeof(n) + n;
	return true;
}

static int read_texts(struct capture_search *s, const char *at, const char *end, struct err *e)
{
	static const char *values[MASK_VALUES_MAX];
	static size_t lens[MASK_VALUES_MAX];
	const char *text;
	size_t n = 0, len;

	for (unsigned i = 0; i < STORAGE_HOST_MAX; i++) {
		if (!next_text(&at, end, &text, &len) || len >= sizeof(s->at[i]))
			return err_set(e, ERR_INVALID, "the file of values: malformed places");
		memcpy(s->at[i], text, len);
	}
	while (at < end) {
		if (n == MASK_VALUES_MAX || !next_text(&at, end, &values[n], &lens[n]))
			return err_set(e, ERR_INVALID, "the file of values: malformed");
		n++;
	}
	s->mask = mask_new(values, lens, n, NULL, 0, e);
	return s->mask == NULL ? -1 : 0;
}

static int read_file(struct capture_search *s, int fd, struct err *e)
{
	struct stat st;
	size_t got = 0;
	int result = -1;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "the file of values");
	if (st.st_size <= 0 || st.st_size > FILE_MAX)
		return err_set(e, ERR_INVALID, "the file of values has %lld bytes",
			       (long long)st.st_size);
	OWN_MEM char *bytes = malloc((size_t)st.st_size);
	if (bytes == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	while (got < (size_t)st.st_size) {
		ssize_t n = pread(fd, bytes + got, (size_t)st.st_size - got, (off_t)got);

		if (n <= 0)
			break;
		got += (size_t)n;
	}
	if (got < (size_t)st.st_size)
		result = err_set(e, ERR_SYSTEM, "the file of values cannot be read");
	else
		result = read_texts(s, bytes, bytes + got, e);
	explicit_bzero(bytes, (size_t)st.st_size);
	return result;
}

struct capture_search *capture_search_new(int fd, struct stream_in *in, struct err *e)
{
	struct capture_search *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		(void)err_set(e, ERR_SYSTEM, "out of memory");
		return NULL;
	}
	if (read_file(s, fd, e) < 0) {
		capture_search_free(s);
		return NULL;
	}
	stream_in_set_watch(in, on_bytes, s);
	return s;
}

void capture_search_free(struct capture_search *s)
{
	if (s == NULL)
		return;
	mask_work_release(&s->work);
	mask_free(s->mask);
	free(s);
}

/* "1/bin/x" is /usr/bin/x if place 1 is /usr. */
static const char *place_of(const struct capture_search *s, const char **path)
{
	char *end;
	unsigned long place = strtoul(*path, &end, 10);

	if (end == *path || *end != '/' || place >= STORAGE_HOST_MAX)
		return "";
	*path = end;
	return s->at[place];
}

int capture_search_check(const struct capture_search *s, const char *path, struct err *e)
{
	static char shown[STORAGE_PLACE_MAX + TAR_HEAD_PATH_MAX + 2];
	const char *place;

	if (s == NULL || s->work.places == 0)
		return 0;
	place = place_of(s, &path);
	/* Masked whole, then cut: a value that is cut is not found. */
	(void)snprintf(shown, sizeof(shown), "%s%s", place, path);
	(void)mask_text(s->mask, NULL, (uint8_t *)shown, strlen(shown));
	shown[SHOWN_MAX] = '\0';
	return err_set_reason(e, REASON_SECRETS_IN_FILES,
			      "%s has a value of the session's secrets, which other sessions "
			      "would get: remove it there, or set captured_secrets to allow",
			      shown);
}
