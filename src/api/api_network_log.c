/* api_network_log.c - lists and follows the network records of a session; see table_follow.h. A
 * record is shown as it was stored, with its number and its time in front. A follower continues
 * after the last record that it has read, also if the filter hid that record. */
#include <stdio.h>

#include "api_handlers.h"
#include "table_follow.h"
#include "json.h"
#include "json_view.h"
#include "net_log.h"
#include "reply.h"
#include "store_net.h"

struct records {
	struct net_log_listener listener;
	char kind[16], name[256], execution[STORE_ID_MAX];
	enum store_net_verdict verdict;
};

static int on_row(const struct store_net *row, void *cookie)
{
	return table_follow_add(cookie, row->seq, row->kind, row);
}

static int read_rows(struct request *r, const void *own, uint64_t after, unsigned limit,
		     struct table_follow_sink *to, struct store_looked *ret, struct err *e)
{
	const struct records *v = own;
	const struct store_net_filter filter = {
		.session = r->session_id,
		.after_seq = after,
		.kind = table_follow_given(v->kind),
		.name = table_follow_given(v->name),
		.execution = table_follow_given(v->execution),
		.verdict = v->verdict,
		.limit = limit,
	};

	return store_net_list(core_store(r->core), &filter, on_row, to, ret, e);
}

static void on_more(struct net_log_listener *l)
{
	table_follow_wake(l->arg);
}

static void listen_for(struct request *r, void *own)
{
	struct net_log_listener *l = &((struct records *)own)->listener;

	(void)snprintf(l->session, STORE_ID_MAX, "%.*s", STORE_ID_MAX - 1, r->session_id);
	l->on_records = on_more;
	l->arg = r;
	net_log_listen(r->core, l);
}

static void unlisten(void *own)
{
	net_log_unlisten(&((struct records *)own)->listener);
}

static void show(struct json *j, const void *row)
{
	json_view_net(j, NULL, row);
}

static const struct table_follow_kind records = {
	.list = "records",
	.batch = 64,
	.record_max = 2U << 20,
	.own_size = sizeof(struct records),
	.read_rows = read_rows,
	.read_last = store_net_last,
	.listen = listen_for,
	.unlisten = unlisten,
	.show = show,
};

static int read_filter(struct request *r, struct records *ret, struct err *e)
{
	static const char *const kinds[] = { "",	"dns",	   "connect",
					     "request", "package", "datagram" };
	unsigned kind = 0;
	bool allowed = false;
	char given[8];

	if (request_choice(r, "kind", kinds, COUNT(kinds), &kind, e) < 0 ||
	    request_text(r, "name", ret->name, sizeof(ret->name), e) < 0 ||
	    request_text(r, "execution", ret->execution, sizeof(ret->execution), e) < 0 ||
	    request_bool(r, "allowed", &allowed, e) < 0 ||
	    request_text(r, "allowed", given, sizeof(given), e) < 0)
		return -1;
	(void)snprintf(ret->kind, sizeof(ret->kind), "%s", kinds[kind]);
	ret->verdict = STORE_NET_ANY;
	if (given[0] != '\0')
		ret->verdict = allowed ? STORE_NET_ALLOWED : STORE_NET_REFUSED;
	return 0;
}

void api_network_log(struct request *r)
{
	struct records own = { 0 };
	struct table_follow_query q;
	struct session *live;
	struct err e = { 0 };

	if (request_owns(r, &live, &e) < 0 || table_follow_read(r, &q, &e) < 0 ||
	    read_filter(r, &own, &e) < 0)
		reply_error(r, &e);
	else
		table_follow_start(r, &records, &q, &own);
}
