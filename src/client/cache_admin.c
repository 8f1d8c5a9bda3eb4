/* cache_admin.c - see cache_admin.h. */
#include "cache_admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "member.h"
#include "own.h"
#include "show_json.h"
#include "units.h"

#define CACHE_PATH "/v1/packages/cache"
#define ENTRIES_MAX 10000

static void print_stats(const json_t *s)
{
	char bytes[24], max[24];

	units_format_bytes(member_number(s, "bytes", 0), bytes, sizeof(bytes));
	units_format_bytes(member_number(s, "max_bytes", 0), max, sizeof(max));
	(void)printf("%s of %s in %" PRIu64 " objects, %" PRIu64 " views; %" PRIu64
		     " hits, %" PRIu64 " misses, %" PRIu64 " evicted, %" PRIu64
		     " damaged since its start\n",
		     bytes, max, member_number(s, "objects", 0), member_number(s, "views", 0),
		     member_number(s, "hits", 0), member_number(s, "misses", 0),
		     member_number(s, "evicted", 0), member_number(s, "bad", 0));
}

static const char *const heads[] = {
	"SCOPE", "ECOSYSTEM", "HOST", "SIZE", "FETCHED", "USED", "WHAT"
};

static int compare(const void *one, const void *other)
{
	static const char *const by[] = { "scope", "registry", "path" };
	const json_t *a = *(const json_t *const *)one, *b = *(const json_t *const *)other;
	int order = 0;

	for (size_t i = 0; i < COUNT(by) && order == 0; i++)
		order = strcmp(member_text(a, by[i], ""), member_text(b, by[i], ""));
	return order;
}

/* The host of a URL, without the usual port; its path follows. */
static size_t host_of(const char *url, const char **ret_host, const char **ret_path)
{
	const char *host = strstr(url, "://");
	size_t n;

	*ret_host = host == NULL ? url : host + 3;
	n = strcspn(*ret_host, "/ ");
	*ret_path = *ret_host + n;
	return n > 4 && memcmp(*ret_host + n - 4, ":443", 4) == 0 ? n - 4 : n;
}

/* A view is a document, with a path below its registry ("npm https://registry.example:443/"), or a
 * file, with its URL and its digest. */
struct what {
	const char *host, *path;
	size_t nhost, npath;
};

static struct what what_of(const char *registry, const char *path)
{
	const char *url = strchr(registry, ' ');
	struct what w = { 0 };

	w.nhost = host_of(path[0] == '/' ? (url == NULL ? "" : url + 1) : path, &w.host, &w.path);
	if (path[0] == '/')
		w.path = path;
	w.npath = strcspn(w.path, " ");
	return w;
}

/* "2026-11-16T15:24:33Z" to the minute. */
static void add_time(struct columns *t, const char *text)
{
	columns_add(t, "%.10s %.5s", text, strlen(text) > 16 ? text + 11 : "");
}

static void add_entry(struct columns *t, const json_t *entry)
{
	const char *fetched = member_text(entry, "fetched_at", "-");
	const char *used = member_text(entry, "used_at", "-");
	const char *registry = member_text(entry, "registry", "?");
	struct what w = what_of(registry, member_text(entry, "path", "?"));
	char size[24];

	units_format_bytes(member_number(entry, "size", 0), size, sizeof(size));
	columns_add(t, "%s", member_text(entry, "scope", "?"));
	columns_add(t, "%.*s", (int)strcspn(registry, " "), registry);
	columns_add(t, "%.*s", (int)w.nhost, w.host);
	columns_add(t, "%s", size);
	add_time(t, fetched);
	add_time(t, strcmp(used, fetched) < 0 ? fetched : used); /* it is kept to the hour */
	columns_add(t, "%.*s", (int)w.npath, w.path);
}

static int print_entries(const json_t *list, struct err *e)
{
	size_t n = json_array_size(list);
	OWN_MEM const json_t **sorted = malloc((n + 1) * sizeof(const json_t *));
	OWN_COLUMNS t;

	columns_init(&t, heads, COUNT(heads));
	if (sorted == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		sorted[i] = json_array_get(list, i);
	qsort(sorted, n, sizeof(json_t *), compare);
	for (size_t i = 0; i < n; i++)
		add_entry(&t, sorted[i]);
	columns_print(&t, SIZE_MAX, 0, stdout);
	return 0;
}

static int run_list(const struct cache_admin_options *o, struct api_call *a, struct err *e)
{
	OWN_JSON *list = NULL, *whole = NULL, *stats = NULL;
	struct target t;

	target_init(&t, CACHE_PATH "/entries");
	if (api_call_pages(a, &t, "entries", NULL, ENTRIES_MAX, &list, e) < 0)
		return -1;
	if (o->common->json) {
		whole = json_pack("{s:O}", "entries", list);
		if (whole == NULL)
			return err_set(e, ERR_SYSTEM, "out of memory");
		show_json(whole, true, stdout);
		return 0;
	}
	target_init(&t, CACHE_PATH);
	if (print_entries(list, e) < 0 || api_call_json(a, "GET", &t, NULL, &stats, e) < 0)
		return -1;
	print_stats(stats);
	return 0;
}

static int run_order(const struct cache_admin_options *o, struct api_call *a, const char *order,
		     struct err *e)
{
	OWN_JSON *answer = NULL;
	struct target t;
	char bytes[24];

	target_init(&t, CACHE_PATH);
	target_part(&t, order);
	if (strcmp(order, "gc") == 0) {
		(void)snprintf(bytes, sizeof(bytes), "%" PRIu64, o->to_bytes);
		target_query(&t, "bytes", bytes);
	}
	if (api_call_json(a, "POST", &t, NULL, &answer, e) < 0)
		return -1;
	if (o->common->json) {
		show_json(answer, true, stdout);
		return 0;
	}
	units_format_bytes(member_number(answer, "bytes", 0), bytes, sizeof(bytes));
	if (strcmp(order, "verify") == 0)
		(void)printf("%" PRIu64 " objects, %s, verified; %" PRIu64
			     " were damaged and are removed\n",
			     member_number(answer, "objects", 0), bytes,
			     member_number(answer, "damaged", 0));
	else
		(void)printf("%" PRIu64 " removed, %s\n", member_number(answer, "removed", 0),
			     bytes);
	return 0;
}

static int run_word(const struct cache_admin_options *o, struct api_call *a, const char *word,
		    const char *file, struct err *e)
{
	if (strcmp(word, "ls") == 0)
		return run_list(o, a, e);
	if (strcmp(word, "warm") == 0)
		return package_warm(a, &o->warm, file, e);
	return run_order(o, a, word, e);
}

int cache_admin_run(const struct verb *v, const struct cache_admin_options *o,
		    const char *const *words, size_t n)
{
	static const char *const known[] = { "ls", "gc", "verify", "warm" };
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	bool ok = false;

	for (size_t i = 0; n > 0 && i < COUNT(known); i++)
		ok = ok || strcmp(words[0], known[i]) == 0;
	if (!ok || n != (strcmp(words[0], "warm") == 0 ? 2U : 1U))
		return args_wrong(v,
				  "expected: cordon packages cache ls | gc | verify | warm FILE");
	if (strcmp(words[0], "gc") == 0 && o->to_bytes == CACHE_ADMIN_NO_SIZE)
		return args_wrong(v, "cache gc: --to SIZE says how much may stay");
	if (api_call_open(&a, o->common, API_CALL_ANSWER_MS, &e) < 0 ||
	    run_word(o, &a, words[0], words[1], &e) < 0)
		return args_fail(&e);
	return ARGS_OK;
}
