/* cache_admin.c - see cache_admin.h. */
#include "cache_admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "columns.h"
#include "member.h"
#include "resource_table.h"
#include "show_json.h"
#include "units.h"

#define CACHE_PATH "/v1/packages/cache"

static void print_stats(const json_t *s)
{
	char bytes[24], max[24];

	units_format_bytes(member_number(s, "bytes", 0), bytes, sizeof(bytes));
	units_format_bytes(member_number(s, "max_bytes", 0), max, sizeof(max));
	(void)printf("%s of %s bytes in %" PRIu64 " objects, %" PRIu64 " views; %" PRIu64
		     " hits, %" PRIu64 " misses, %" PRIu64 " evicted, %" PRIu64
		     " damaged since its start\n",
		     bytes, max, member_number(s, "objects", 0), member_number(s, "views", 0),
		     member_number(s, "hits", 0), member_number(s, "misses", 0),
		     member_number(s, "evicted", 0), member_number(s, "bad", 0));
}

static int run_list(const struct cache_admin_options *o, struct api_call *a, struct err *e)
{
	static const char *const heads[] = {
		"SCOPE", "REGISTRY", "PATH", "SIZE", "FETCHED", "USED"
	};
	static const char *const names[] = { "scope", "registry",   "path",
					     "size",  "fetched_at", "used_at" };
	static const struct resource_table entries = { CACHE_PATH "/entries", "entries", heads,
						       names, COUNT(heads) };
	OWN_JSON *stats = NULL;
	struct target t;

	if (resource_table_list(o->common, a, &entries, e) < 0)
		return -1;
	if (o->common->json)
		return 0;
	target_init(&t, CACHE_PATH);
	if (api_call_json(a, "GET", &t, NULL, &stats, e) < 0)
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
		(void)printf("%" PRIu64 " objects of %s bytes verified, %" PRIu64
			     " were damaged and are removed\n",
			     member_number(answer, "objects", 0), bytes,
			     member_number(answer, "damaged", 0));
	else
		(void)printf("%" PRIu64 " removed, %s bytes\n", member_number(answer, "removed", 0),
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
