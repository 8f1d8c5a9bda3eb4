/* A pattern (up to the first NUL), then any bytes as a host, a path and a query: what is normal
 * once stays as it is, holds nothing that may not be there, and fits itself; a match ends. */
#include "fuzz.h"

#include "lib/policy/glob.h"
#include "lib/policy/host.h"
#include "lib/policy/path.h"

unsigned long fuzz_accepted;

static void check_host(const char *text, size_t n)
{
	char one[HOST_MAX], two[HOST_MAX];
	struct host_pattern p;

	if (host_normal(text, n, one) < 0)
		return;
	fuzz_accepted++;
	assert(strlen(one) > 0 &&
	       strspn(one, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(one));
	assert(strstr(one, "..") == NULL && one[0] != '.' && one[strlen(one) - 1] != '.');
	assert(host_normal(one, strlen(one), two) == 0 && strcmp(one, two) == 0);
	assert(host_pattern_read(one, &p) == 0 && host_pattern_fits(&p, one, strlen(one)));
}

static void check_path(struct http1_span raw)
{
	static char one[PATH_NORMAL_MAX], two[PATH_NORMAL_MAX];
	const char *why = NULL;
	int n = path_normal(raw, one, sizeof(one), &why), m;

	if (n < 0) {
		assert(why != NULL);
	} else {
		fuzz_accepted++;
		assert(strlen(one) == (size_t)n && one[0] == '/');
		assert(strstr(one, "/../") == NULL && strstr(one, "/./") == NULL);
		assert(strpbrk(one, "\\?# \"<>{}|^`") == NULL);
		m = path_normal((struct http1_span){ one, (size_t)n }, two, sizeof(two), &why);
		assert(m == n && strcmp(one, two) == 0);
		if (n <= GLOB_MAX && strchr(one, '*') == NULL)
			assert(path_fits(one, one));
		assert(path_fits("/**", one));
	}
	n = path_normal_query(raw, one, sizeof(one), &why);
	if (n >= 0) {
		m = path_normal_query((struct http1_span){ one, (size_t)n }, two, sizeof(two),
				      &why);
		assert(m == n && strcmp(one, two) == 0);
	}
}

/* The pattern again, in the plainest way there is, for texts that are short. */
static bool plainly(const char *pattern, const char *text, bool segments, bool begun)
{
	bool one = pattern[0] == '*' && pattern[1] != '*' && segments;

	if (*pattern == '\0')
		return *text == '\0';
	if (*pattern != '*')
		return *pattern == *text && plainly(pattern + 1, text + 1, segments, false);
	while (pattern[0] == '*' && pattern[1] == '*')
		pattern++;
	if (plainly(pattern + 1, text, segments, false) &&
	    !(one && !begun && pattern[-1] == '/' && (pattern[1] == '/' || pattern[1] == '\0')))
		return true;
	if (*text == '\0' || (one && *text == '/'))
		return false;
	/* The stars that were passed over are gone: go on as what they were. */
	return one ? plainly(pattern, text + 1, segments, true)
		   : plainly(pattern - (segments ? 1 : 0), text + 1, segments, true);
}

static void check_glob(const char *pattern, const char *text)
{
	size_t n = strlen(pattern), stars = 0;
	char padded[64] = "/";

	(void)glob_fits(pattern, text, strlen(text), true);
	(void)glob_fits(pattern, text, strlen(text), false);
	for (size_t i = 0; i < n; i++)
		stars += pattern[i] == '*';
	if (n == 0 || n > 40 || strlen(text) > 40 || stars > 5)
		return;
	/* Something stands in front, and no byte is one that texts never have. */
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)pattern[i] >= 128)
			return;
	memcpy(padded + 1, pattern, n + 1);
	{
		char *whole = malloc(strlen(text) + 2);

		assert(whole != NULL);
		whole[0] = '/';
		memcpy(whole + 1, text, strlen(text) + 1);
		assert(glob_fits(padded, whole, strlen(whole), true) ==
		       plainly(padded, whole, true, false));
		free(whole);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
	size_t n = end == NULL ? 0 : (size_t)(end - data);
	char *pattern = fuzz_text(data, n), *text, *bytes;

	data += n + (end != NULL);
	size -= n + (end != NULL);
	if (size > HTTP1_TARGET_MAX)
		size = HTTP1_TARGET_MAX;
	bytes = fuzz_copy(data, size);
	text = fuzz_text(data, size);
	check_host(bytes, size);
	check_path((struct http1_span){ bytes, size });
	check_glob(pattern, text);
	free(pattern);
	free(bytes);
	free(text);
	return 0;
}
