#include "front/e2b/base/condition.h"

#include <string.h>
#include <time.h>

/* The one form of RFC 9110 that servers may write. Older forms are not read. */
#define DATE "%a, %d %b %Y %H:%M:%S GMT"

/* The buffer has room for years up to 9999. */
bool condition_write_date(int64_t seconds, char ret[CONDITION_DATE_MAX])
{
	time_t t = (time_t)seconds;
	struct tm tm;

	return gmtime_r(&t, &tm) != NULL && tm.tm_year < 9999 - 1900 &&
	       strftime(ret, CONDITION_DATE_MAX, DATE, &tm) > 0;
}

bool condition_read_date(struct http1_span text, int64_t *ret_seconds)
{
	char copy[CONDITION_DATE_MAX], again[CONDITION_DATE_MAX];
	struct tm tm = { 0 };
	const char *end;

	if (text.n == 0 || text.n >= sizeof(copy))
		return false;
	memcpy(copy, text.p, text.n);
	copy[text.n] = '\0';
	end = strptime(copy, DATE, &tm);
	if (end == NULL || *end != '\0')
		return false;
	*ret_seconds = (int64_t)timegm(&tm);
	/* strptime(3) accepts more than the format in which this server writes times. */
	return condition_write_date(*ret_seconds, again) && strcmp(again, copy) == 0;
}

/* ret may be NULL: only the presence counts. */
static bool condition_header(const struct http1_request *q, const char *name,
			     struct http1_span *ret)
{
	return http1_find(q->headers, q->headers_n, name, ret) > 0;
}

bool condition_given(const struct http1_request *q)
{
	static const char *const names[] = { "if-match", "if-none-match", "if-modified-since",
					     "if-unmodified-since", "if-range" };

	for (size_t i = 0; i < COUNT(names); i++)
		if (condition_header(q, names[i], NULL))
			return true;
	return false;
}

/* Files have no entity tags here, so only "*" matches. The order is that of RFC 9110, 13.2.2:
 * If-Match, else If-Unmodified-Since, then If-None-Match, else If-Modified-Since. A malformed date
 * is no condition. */
enum condition condition_check(const struct http1_request *q, int64_t changed_s, bool *ret_whole)
{
	struct http1_span v;
	int64_t then;

	*ret_whole = condition_header(q, "if-range", &v) &&
		     (!condition_read_date(v, &then) || then != changed_s);
	if (condition_header(q, "if-match", &v)) {
		if (!http1_span_is(v, "*"))
			return CONDITION_FAILED;
	} else if (condition_header(q, "if-unmodified-since", &v) &&
		   condition_read_date(v, &then) && changed_s > then) {
		return CONDITION_FAILED;
	}
	if (condition_header(q, "if-none-match", &v))
		return http1_span_is(v, "*") ? CONDITION_UNCHANGED : CONDITION_SEND;
	if (condition_header(q, "if-modified-since", &v) && condition_read_date(v, &then) &&
	    changed_s <= then)
		return CONDITION_UNCHANGED;
	return CONDITION_SEND;
}

/* "gzip;q=0.5": the coding, and whether its weight is nothing. A weight of nothing consists of
 * zeros and a dot: "q=0.000". */
static struct http1_span read_item(struct http1_span item, bool *ret_never)
{
	size_t n = 0;

	while (item.n > 0 && (*item.p == ' ' || *item.p == '\t')) {
		item.p++;
		item.n--;
	}
	while (n < item.n && item.p[n] != ';' && item.p[n] != ' ' && item.p[n] != '\t')
		n++;
	*ret_never = false;
	for (size_t i = n; i + 2 < item.n; i++)
		if ((item.p[i] == 'q' || item.p[i] == 'Q') && item.p[i + 1] == '=') {
			i += 2;
			*ret_never = true;
			for (; i < item.n && item.p[i] != ';' && item.p[i] != ' '; i++)
				if (item.p[i] != '0' && item.p[i] != '.')
					*ret_never = false;
		}
	item.n = n;
	return item;
}

/* The file is sent as it is unless the client excludes identity by name, or by "*" without naming
 * it. */
bool condition_takes_identity(const struct http1_request *q)
{
	bool named = false, takes = true, rest = true;

	for (size_t i = 0; i < q->headers_n; i++) {
		struct http1_span left = q->headers[i].value;

		if (!http1_span_is_nocase(q->headers[i].name, "accept-encoding"))
			continue;
		while (left.n > 0) {
			const char *comma = memchr(left.p, ',', left.n);
			size_t n = comma == NULL ? left.n : (size_t)(comma - left.p);
			bool never;
			struct http1_span coding =
				read_item((struct http1_span){ left.p, n }, &never);

			if (http1_span_is_nocase(coding, "identity")) {
				named = true;
				takes = !never;
			} else if (http1_span_is(coding, "*")) {
				rest = !never;
			}
			left.p += n + (comma != NULL);
			left.n -= n + (comma != NULL);
		}
	}
	return named ? takes : rest;
}
