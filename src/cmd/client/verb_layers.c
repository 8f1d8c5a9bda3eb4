/* verb_layers.c - cordon layers and cordon gc: the contents of the storage folder, and the removal
 * of unused layers. For the operator. */
#include <inttypes.h>
#include <stdio.h>

#include "cmd/client/member.h"
#include "cmd/client/resource_table.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"
#include "lib/base/units.h"

/* The answer comes after the removal, which takes long for large layers. */
#define GC_MS 660000

struct layers_fields {
	struct args_common common;
};

static const struct option options[] = {
	ARGS_COMMON(struct layers_fields),
};

/* The columns of `layers` and the members behind them, in the same order. */
static const char *const heads[] = { "ID",    "TENANT",	 "KIND",     "SIZE",   "FILES", "USES",
				     "STATE", "CREATED", "TEMPLATE", "KERNEL", "STALE" };
static const char *const names[] = {
	"id",	      "tenant",		 "kind",	  "bytes", "entries", "uses", "state",
	"created_at", "origin.template", "origin.kernel", "stale"
};
static const struct resource_table layers = { "/v1/layers", "layers", heads, names, COUNT(heads) };

/* All pages in one table. The server lists layers of all tenants, so the key must be the
 * operator's. */
static int layers_run(int argc, char **argv)
{
	static struct layers_fields f;
	static struct args_words words;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	int code = api_call_begin(&verb_layers, argc, argv, &f, &words, 0, 0, API_CALL_ANSWER_MS,
				  &a, &e);

	if (code != ARGS_GO)
		return code;
	if (resource_table_list(&f.common, &a, &layers, &e) < 0)
		return args_refused(&verb_layers, &e);
	return ARGS_OK;
}

const struct verb verb_layers = {
	.name = "layers",
	.usage = "[options]",
	.summary = "Lists what snapshots, templates and stopped sessions have on disk.",
	.text = "Images that guests of level microvm start from have the template that they were "
		"made "
		"for, and\n"
		"the guest's kernel; with --json all of what they were made of (origin). STALE "
		"says "
		"what has\n"
		"changed since: kernel (cordon guest install), agent (an upgrade of Cordon), "
		"engine "
		"(QEMU),\n"
		"machine (its programs) or template. For the operator.\n",
	.examples = "cordon layers\n",
	.options = options,
	.noptions = COUNT(options),
	.run = layers_run,
};

static void print_removed(const json_t *answer)
{
	char bytes[24];

	units_format_bytes(member_number(answer, "bytes", 0), bytes, sizeof(bytes));
	(void)printf("%" PRIu64 " layers of %s bytes and %" PRIu64 " orphans removed\n",
		     member_number(answer, "layers", 0), bytes,
		     member_number(answer, "orphans", 0));
}

/* The numbers of `cordon gc`. */
static int run_gc(int argc, char **argv)
{
	static struct layers_fields f;
	static struct args_words words;
	OWN_JSON *answer = NULL;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	struct target t;
	int code = api_call_begin(&verb_gc, argc, argv, &f, &words, 0, 0, GC_MS, &a, &e);

	if (code != ARGS_GO)
		return code;
	target_init(&t, "/v1/gc");
	if (api_call_json(&a, "POST", &t, NULL, &answer, &e) < 0)
		return args_refused(&verb_gc, &e);
	if (f.common.json)
		show_json(answer, true, stdout);
	else
		print_removed(answer);
	return ARGS_OK;
}

const struct verb verb_gc = {
	.name = "gc",
	.usage = "[options]",
	.summary = "Removes layers that nothing uses, at once.",
	.text = "The server does this by itself. Orphans are directories without a record, which a "
		"server\n"
		"that was killed may leave. For the operator.\n",
	.examples = "cordon gc\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run_gc,
};
