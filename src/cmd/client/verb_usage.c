/* verb_usage.c - cordon usage: the resources that sessions used, as a table, as CSV or as JSON, and
 * their cost by the operator's prices.
 *
 * The server keeps amounts only. This file reads prices from a JSON file, adds a cost to each row
 * and to the sum, and prints all of them in one of three forms. Sessions come in pages, so their
 * sum is computed here. */
#include <stdio.h>
#include <string.h>

#include "cmd/client/api_call.h"
#include "cmd/client/member.h"
#include "cmd/client/resource_table.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"

#define USAGE_HOURS_DEFAULT 24
#define HOUR_MS 3600000
#define USAGE_MAX_MS (31ULL * 24 * HOUR_MS)
#define SESSIONS_MAX 1000000 /* rows */
#define GIB 1073741824.0

/* The options of the command line. */
struct usage_fields {
	struct args_common common;
	uint64_t since_ms;
	const char *by, *key, *prices;
	bool csv;
};

/* clang-format off */
static const struct option options[] = {
	{ "since", "TIME", OPTION_TIME, offsetof(struct usage_fields, since_ms), 1, USAGE_MAX_MS,
	  "how far back to count, such as 7d (default 24h, at most 31d); whole hours" },
	{ "by", "WHAT", OPTION_TEXT, offsetof(struct usage_fields, by), 0, 0,
	  "label (default), session, or tenant (the operator sees all of them)", .values = "label session tenant" },
	{ "key", "NAME", OPTION_TEXT, offsetof(struct usage_fields, key), 0, 0,
	  "with --by label: the member of the metadata of sessions (default: label)" },
	{ "prices", "FILE", OPTION_JSON, offsetof(struct usage_fields, prices), 0, 0,
	  "adds what it costs: a JSON file with prices (below)" },
	{ "csv", NULL, OPTION_FLAG, offsetof(struct usage_fields, csv), 0, 0,
	  "prints comma-separated values" },
	ARGS_COMMON(struct usage_fields),
};
/* clang-format on */

/* ---- prices
 *
 * A price is an amount of money for a unit. The table ties each price to the member of a row
 * that it multiplies. */

/* A member of the file, its member in a row, and how many units one price is for. */
static const struct price {
	const char *name, *member;
	double unit;
} known[] = {
	{ "session", "sessions", 1 },
	{ "cpu_second", "cpu_seconds", 1 },
	{ "memory_gib_second", "memory_gib_seconds", 1 },
	{ "disk_gib_second", "disk_gib_seconds", 1 },
	{ "network_gib_in", "network_bytes_in", GIB },
	{ "network_gib_out", "network_bytes_out", GIB },
	{ "model_million_in", "model_tokens_in", 1e6 },
	{ "model_million_out", "model_tokens_out", 1e6 },
};

/* of[] has the place of known[]. A price that is not given is 0. */
struct prices {
	bool given;
	char currency[16];
	double of[COUNT(known)];
};

/* The comparison refuses NaN as well. The bound keeps sums exact enough for six digits. */
static int take_price(struct prices *p, const char *name, const json_t *value, struct err *e)
{
	for (size_t i = 0; i < COUNT(known); i++) {
		if (strcmp(known[i].name, name) != 0)
			continue;
		p->of[i] = json_number_value(value);
		if (!json_is_number(value) || !(p->of[i] >= 0) || p->of[i] > 1e9)
			return err_set(e, ERR_INVALID, "--prices: %s: must be a number from 0 on",
				       name);
		return 0;
	}
	return err_set(e, ERR_INVALID,
		       "--prices: %.40s: unknown member; those known are currency, session, "
		       "cpu_second, memory_gib_second, disk_gib_second, network_gib_in, "
		       "network_gib_out, model_million_in, model_million_out",
		       name);
}

/* An unknown member is an error: a misspelt price would be a free resource. */
static int read_prices(const char *file, struct prices *ret, struct err *e)
{
	OWN_JSON *root = NULL;
	const char *name;
	json_t *value;
	json_error_t why;

	*ret = (struct prices){ .given = file != NULL };
	if (file == NULL)
		return 0;
	root = strcmp(file, "-") == 0 ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &why)
				      : json_load_file(file, JSON_REJECT_DUPLICATES, &why);
	if (!json_is_object(root))
		return err_set(e, ERR_INVALID, "--prices: %.120s: %s", file,
			       root == NULL ? why.text : "must be a JSON object");
	json_object_foreach(root, name, value)
	{
		if (strcmp(name, "currency") != 0) {
			if (take_price(ret, name, value, e) < 0)
				return -1;
			continue;
		}
		if (!json_is_string(value) || json_string_length(value) >= sizeof(ret->currency))
			return err_set(e, ERR_INVALID,
				       "--prices: currency: must be a text of at most 15 bytes");
		(void)snprintf(ret->currency, sizeof(ret->currency), "%s",
			       json_string_value(value));
	}
	return 0;
}

/* Missing amounts cost nothing. */
static double cost_of(const struct prices *p, const json_t *row)
{
	double sum = 0;

	for (size_t i = 0; i < COUNT(known); i++)
		sum += json_number_value(json_object_get(row, known[i].member)) / known[i].unit *
		       p->of[i];
	return sum;
}

/* Six digits after the point, as text: a double would show its rounding. */
static void add_cost(const struct prices *p, json_t *row)
{
	char text[64];

	if (!p->given)
		return;
	(void)snprintf(text, sizeof(text), "%.6f", cost_of(p, row));
	(void)json_object_set_new(row, "cost", json_string(text));
	if (p->currency[0] != '\0')
		(void)json_object_set_new(row, "currency", json_string(p->currency));
}

/* ---- rows
 *
 * The table of ways has the word of --by, the list in the answer, the member that names a row,
 * and its head. */

enum by { BY_LABEL, BY_SESSION, BY_TENANT };

static const struct {
	const char *word, *list, *name, *head;
} ways[] = {
	[BY_LABEL] = { "label", "labels", "label", "LABEL" },
	[BY_SESSION] = { "session", "usage", "session_id", "SESSION" },
	[BY_TENANT] = { "tenant", "tenants", "name", "TENANT" },
};

static const char *const names[] = { "sessions",	 "cpu_seconds",	     "memory_gib_seconds",
				     "disk_gib_seconds", "network_bytes_in", "network_bytes_out",
				     "model_tokens_in",	 "model_tokens_out", "cost",
				     "currency" };
static const char *const heads[] = { "SESSIONS", "CPU S",     "MEMORY GIB S", "DISK GIB S",
				     "BYTES IN", "BYTES OUT", "TOKENS IN",    "TOKENS OUT",
				     "COST",	 "CURRENCY" };
#define AMOUNTS 8 /* columns before the cost */

/* The cost has a column only with prices, the currency only if it was given. */
static size_t count_columns(const struct prices *p)
{
	return AMOUNTS + (!p->given ? 0U : p->currency[0] == '\0' ? 1U : 2U);
}

/* The sum of rows that came without one. Counts and bytes stay whole numbers, the seconds are
 * fractions. The order of names[] tells which. */
static json_t *total_of(const json_t *rows)
{
	json_t *total = json_object();

	for (size_t k = 0; k < AMOUNTS; k++) {
		bool whole = k == 0 || k >= 4;
		double sum = 0;

		for (size_t i = 0; i < json_array_size(rows); i++)
			sum += json_number_value(
				json_object_get(json_array_get(rows, i), names[k]));
		(void)json_object_set_new(total, names[k],
					  whole ? json_integer((json_int_t)sum) : json_real(sum));
	}
	return total;
}

/* The sum is the last row. Rows are copied, because the caller owns them. */
static void print_table(enum by by, const struct prices *p, const json_t *rows, const json_t *total)
{
	const char *all_heads[AMOUNTS + 3] = { ways[by].head },
					*all_names[AMOUNTS + 3] = { ways[by].name };
	OWN_JSON *shown = json_copy((json_t *)(uintptr_t)rows);
	OWN_JSON *last = json_copy((json_t *)(uintptr_t)total);
	size_t n = count_columns(p);

	for (size_t i = 0; i < n; i++) {
		all_heads[i + 1] = heads[i];
		all_names[i + 1] = names[i];
	}
	(void)json_object_set_new(last, ways[by].name, json_string("(all)"));
	(void)json_array_append(shown, last);
	resource_table_print(all_heads, all_names, n + 1, shown);
}

/* A field as RFC 4180 writes it. Labels are of anyone's choice, and a spreadsheet computes what
 * begins like a formula: such a text gets an apostrophe in front. */
static void print_field(const char *text)
{
	(void)putchar('"');
	if (text[0] != '\0' && strchr("=+-@\t\r", text[0]) != NULL)
		(void)putchar('\'');
	for (; *text != '\0'; text++) {
		if (*text == '"')
			(void)putchar('"');
		(void)putchar((unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text);
	}
	(void)putchar('"');
}

/* The cost is text already. Fractions have three digits. */
static void print_number(const json_t *value)
{
	if (json_is_string(value))
		show_text(json_string_value(value), stdout);
	else if (json_is_integer(value))
		(void)printf("%lld", (long long)json_integer_value(value));
	else
		(void)printf("%.3f", json_number_value(value));
}

/* Line ends as in RFC 4180. There is no row for the sum, because a spreadsheet makes its own. */
static void print_csv(enum by by, const struct prices *p, const json_t *rows)
{
	size_t n = count_columns(p);

	(void)fputs(ways[by].name, stdout);
	for (size_t i = 0; i < n; i++)
		(void)printf(",%s", names[i]);
	(void)fputs("\r\n", stdout);
	for (size_t i = 0; i < json_array_size(rows); i++) {
		const json_t *row = json_array_get(rows, i);

		print_field(member_text(row, ways[by].name, ""));
		for (size_t k = 0; k < n; k++) {
			(void)putchar(',');
			if (strcmp(names[k], "currency") == 0)
				print_field(p->currency);
			else
				print_number(json_object_get(row, names[k]));
		}
		(void)fputs("\r\n", stdout);
	}
}

/* The answer with the list and its sum. The server counts whole hours, so it may begin earlier
 * than asked. An answer of another form is an error, not an empty table. */
static int usage_fetch(struct api_call *a, const struct usage_fields *f, enum by by, json_t **ret,
		       struct err *e)
{
	uint64_t now = (uint64_t)show_now_ms();
	OWN_JSON *rows = NULL;
	struct target t;

	target_init(&t, "/v1/usage");
	target_query_number(&t, "from", (now - f->since_ms) / 1000);
	target_query_number(&t, "to", now / 1000);
	if (by != BY_LABEL)
		target_query(&t, "by", ways[by].word);
	target_query(&t, "key", f->key);
	if (by == BY_SESSION) {
		target_query_number(&t, "limit", 1000);
		if (api_call_pages(a, &t, ways[by].list, NULL, SESSIONS_MAX, &rows, e) < 0)
			return -1;
		*ret = json_pack("{s:O, s:o}", ways[by].list, rows, "total", total_of(rows));
	} else if (api_call_json(a, "GET", &t, NULL, ret, e) < 0) {
		return -1;
	}
	return json_is_array(json_object_get(*ret, ways[by].list)) &&
			       json_is_object(json_object_get(*ret, "total"))
		       ? 0
		       : err_set(e, ERR_SYSTEM, "the server sent an answer without usage");
}

/* Prices are read before the request, so a wrong file costs no request. */
static int verb_usage_usage(struct api_call *a, const struct usage_fields *f, enum by by,
			    struct err *e)
{
	OWN_JSON *answer = NULL;
	json_t *rows, *total;
	struct prices prices;

	if (read_prices(f->prices, &prices, e) < 0 || usage_fetch(a, f, by, &answer, e) < 0)
		return -1;
	rows = json_object_get(answer, ways[by].list);
	total = json_object_get(answer, "total");
	for (size_t i = 0; i < json_array_size(rows); i++)
		add_cost(&prices, json_array_get(rows, i));
	add_cost(&prices, total);
	if (f->csv) {
		print_csv(by, &prices, rows);
	} else if (f->common.json) {
		show_json(answer, true, stdout);
	} else {
		print_table(by, &prices, rows, total);
	}
	return 0;
}

/* Options that exclude each other are refused here. The server checks the rest. */
static int usage_run(int argc, char **argv)
{
	static struct usage_fields f = { .since_ms = (uint64_t)USAGE_HOURS_DEFAULT * HOUR_MS };
	static struct args_words words;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	unsigned by = BY_LABEL;
	int code = args_read(&verb_usage, argc, argv, &f, &words, 0, 0);

	if (code != ARGS_GO)
		return code;
	while (f.by != NULL && by < COUNT(ways) && strcmp(f.by, ways[by].word) != 0)
		by++;
	if (by == COUNT(ways))
		return args_wrong(&verb_usage, "--by: '%.40s' is neither label, session nor tenant",
				  f.by);
	if (f.key != NULL && by != BY_LABEL)
		return args_wrong(&verb_usage, "--key: only with --by label");
	if (f.csv && f.common.json)
		return args_wrong(&verb_usage, "--csv: not with --json");
	if (api_call_open(&a, &f.common, API_CALL_ANSWER_MS, &e) < 0)
		return args_refused(&verb_usage, &e);
	return verb_usage_usage(&a, &f, (enum by)by, &e) < 0 ? args_refused(&verb_usage, &e)
							     : ARGS_OK;
}

const struct verb verb_usage = {
	.name = "usage",
	.usage = "[options]",
	.summary =
		"Shows what sessions used, and what it costs: processors, memory, disk, network.",
	.text = "One row for each value of the metadata `label` of sessions (cordon create "
		"--metadata\n"
		"label=NAME), for each session or for each tenant, and the sum. What live sessions "
		"used in the last\n"
		"five minutes may be missing. Prices: {\"currency\": \"EUR\", \"session\": 0, "
		"\"cpu_second\": 0.00002,\n"
		"\"memory_gib_second\": 0.000003, \"disk_gib_second\": 0, \"network_gib_in\": 0, "
		"\"network_gib_out\": 0.08,\n"
		"\"model_million_in\": 1.25, \"model_million_out\": 10}. Members that are "
		"missing cost\n"
		"nothing.\n",
	.examples = "cordon usage --since 7d\n"
		    "cordon usage --by session --prices prices.json --csv > usage.csv\n",
	.options = options,
	.noptions = COUNT(options),
	.run = usage_run,
};
