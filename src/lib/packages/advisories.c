/* advisories.c - see advisories.h. Bisection goes by bytes. For any place in the text, the
 * beginning of its line is found by looking back, at most LINE_MAX_BYTES. */
#include "lib/packages/advisories.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES (PACKAGE_NAME_MAX + PACKAGE_VERSION_MAX + ADVISORY_ID_MAX + 16)

/* The file comes from the operator's disk, but is checked like any other input. */
bool advisories_open(const void *bytes, size_t n, struct advisories *ret)
{
	const char *text = bytes, *end;
	char head[96];
	size_t len, magic = strlen(ADVISORIES_MAGIC);

	*ret = (struct advisories){ .text = "" };
	if (n < magic || memcmp(text, ADVISORIES_MAGIC, magic) != 0)
		return false;
	end = memchr(text, '\n', n < sizeof(head) ? n : sizeof(head));
	if (end == NULL || text[n - 1] != '\n')
		return false;
	len = (size_t)(end - text);
	memcpy(head, text, len);
	head[len] = '\0';
	/* NOLINTNEXTLINE(cert-err34-c): 19 digits fit */
	if (sscanf(head + magic, "%19" SCNu64 " %19" SCNu64, &ret->time_s, &ret->lines) != 2)
		return false;
	ret->text = end + 1;
	ret->n = n - len - 1;
	return true;
}

/* Find the beginning of the line at this place. */
static size_t line_start(const struct advisories *a, size_t at)
{
	size_t back = 0;

	while (at > 0 && a->text[at - 1] != '\n' && back++ < LINE_MAX_BYTES)
		at--;
	return at;
}

static size_t line_length(const struct advisories *a, size_t at)
{
	size_t left = a->n - at;
	const char *end = memchr(a->text + at, '\n', left < LINE_MAX_BYTES ? left : LINE_MAX_BYTES);

	return end == NULL ? (left < LINE_MAX_BYTES ? left : LINE_MAX_BYTES)
			   : (size_t)(end - a->text) - at;
}

/* Compare the beginning of a line with the key. */
static int advisories_compare(const struct advisories *a, size_t at, const char *key, size_t nkey)
{
	size_t n = line_length(a, at);
	int order = memcmp(a->text + at, key, n < nkey ? n : nkey);

	return order != 0 ? order : n < nkey ? -1 : 0;
}

/* Find the first line that does not sort before the key. */
static size_t lower_bound(const struct advisories *a, const char *key, size_t nkey)
{
	size_t low = 0, high = a->n;

	while (low < high) {
		size_t start = line_start(a, low + (high - low) / 2);

		if (start < low)
			start = low; /* the line is longer than any valid line */
		if (advisories_compare(a, start, key, nkey) < 0)
			low = start + line_length(a, start) + 1;
		else
			high = start;
	}
	return low;
}

/* The id is the text behind the last space of a line. */
static void copy_id(const struct advisories *a, size_t at, char ret[ADVISORY_ID_MAX])
{
	size_t n = line_length(a, at), len = 0, from = n;

	while (from > 0 && a->text[at + from - 1] != ' ')
		from--;
	for (; from < n && len + 1 < ADVISORY_ID_MAX; from++) {
		char c = a->text[at + from];

		ret[len++] = (char)(c > ' ' && c <= '~' ? c : '?');
	}
	ret[len] = '\0';
}

/* "*" as the version finds advisories for all versions. */
static bool advisories_look_up(const struct advisories *a, enum ecosystem eco, const char *name,
			       const char *version, char ret[ADVISORY_ID_MAX])
{
	char key[LINE_MAX_BYTES];
	int n = snprintf(key, sizeof(key), "%s %s %s%s", ecosystem_name(eco), name, version,
			 version[0] == '\0' ? "" : " ");
	size_t at = lower_bound(a, key, (size_t)n);

	if (n < 0 || (size_t)n >= sizeof(key) || at >= a->n ||
	    advisories_compare(a, at, key, (size_t)n) != 0)
		return false;
	copy_id(a, at, ret);
	return true;
}

bool advisories_find(const struct advisories *a, enum ecosystem eco, const char *name,
		     const char *version, char ret[ADVISORY_ID_MAX])
{
	if (name[0] == '\0' || a->n == 0)
		return false;
	if (advisories_look_up(a, eco, name, "*", ret))
		return true;
	return version != NULL && advisories_look_up(a, eco, name, version, ret);
}
