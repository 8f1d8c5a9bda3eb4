/* api_packages.c - lists the packages that a session asked registries for: one row for each name
 * and version of a registry, with the result that counts (package_record_text.h). In pages; rows
 * change while a session runs, so the list is not followed: its records are (api_network_log.c,
 * kind "package"). */
#include <string.h>

#include "api_handlers.h"
#include "json_view.h"
#include "package_record_text.h"
#include "reply.h"
#include "store_package.h"
#include "table_follow.h"

struct filter {
	char ecosystem[16], name[256], execution[STORE_ID_MAX];
	int result;
};

static int on_row(const struct store_package *row, void *cookie)
{
	return table_follow_add(cookie, row->seq, "package", row);
}

static int read_rows(struct request *r, const void *own, uint64_t after, unsigned limit,
		     struct table_follow_sink *to, struct store_looked *ret, struct err *e)
{
	const struct filter *f = own;
	const struct store_package_filter filter = {
		.session = r->session_id,
		.after_seq = after,
		.ecosystem = table_follow_given(f->ecosystem),
		.name = table_follow_given(f->name),
		.execution = table_follow_given(f->execution),
		.result = f->result,
		.limit = limit,
	};

	return store_package_list(core_store(r->core), &filter, on_row, to, ret, e);
}

static void show(struct json *j, const void *row)
{
	json_view_package(j, NULL, row);
}

static const struct table_follow_kind packages = {
	.list = "packages",
	.batch = 64,
	.record_max = 64U << 10,
	.own_size = sizeof(struct filter),
	.read_rows = read_rows,
	.read_last = store_package_last,
	.show = show,
};

static int read_filter(struct request *r, struct filter *ret, struct err *e)
{
	enum package_result result;
	enum ecosystem eco;
	char word[PACKAGE_RECORD_WORD_MAX];

	ret->result = -1;
	if (request_text(r, "ecosystem", ret->ecosystem, sizeof(ret->ecosystem), e) < 0 ||
	    request_text(r, "name", ret->name, sizeof(ret->name), e) < 0 ||
	    request_text(r, "execution", ret->execution, sizeof(ret->execution), e) < 0 ||
	    request_text(r, "result", word, sizeof(word), e) < 0)
		return -1;
	if (ret->ecosystem[0] != '\0' &&
	    !ecosystem_read(ret->ecosystem, strlen(ret->ecosystem), &eco))
		return err_set(e, ERR_INVALID,
			       "ecosystem: not one of pypi, npm, apt, cargo, go, "
			       "git, oci, maven, gem");
	if (word[0] == '\0')
		return 0;
	if (!package_result_read(word, &result))
		return err_set(e, ERR_INVALID,
			       "result: not one of downloaded, refused, hidden, "
			       "hash_mismatch, cut, failed");
	ret->result = (int)result;
	return 0;
}

void api_packages_list(struct request *r)
{
	struct filter own = { .result = -1 };
	struct table_follow_query q;
	struct session *live;
	struct err e = { 0 };

	if (request_owns(r, &live, &e) < 0 || table_follow_read(r, &q, &e) < 0 ||
	    read_filter(r, &own, &e) < 0)
		reply_error(r, &e);
	else
		table_follow_start(r, &packages, &q, &own);
}
