/* Goal: orders to cordon-egress (egress_orders.h). A session has one order that waits, whatever
 * changes meanwhile; a change of secrets sends no policy; a tenant's bytes are paced, and hold no
 * other tenant; those that wait are called for their own order; a lost channel loses none of
 * them.
 *
 * The test holds the other ends of the channels, and plays PID 1. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bed.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "daemon/session/session.h"
#include "daemon/egressctl/egress_link.h"
#include "daemon/egressctl/session_egress.h"
#include "daemon/egressctl/net_access.h"
#include "daemon/egressctl/net_state.h"
#include "lib/policy/policy_select.h"
#include "daemon/secrets/secret.h"
#include "daemon/egressctl/session_policy.h"
#include "daemon/tenant/tenant.h"

static int ends[BED_EGRESS]; /* the test's */
static struct buf in;
static unsigned got[EGRESS_REQUESTS_END];
static size_t got_bytes; /* of CHANGE */
static char last[EGRESS_TEXT_MAX + 1], last_id[STORE_ID_MAX];
static unsigned asked; /* PID 1s for their sockets */

static struct egress_link *link_of(void)
{
	return session_egress_link(bed.session);
}

static void connect_all(void)
{
	struct err e;

	for (unsigned slot = 0; slot < BED_EGRESS; slot++) {
		int both[2];

		CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) == 0);
		ends[slot] = both[0];
		CHECK(net_access_set_egress(bed.core, slot, both[1], &e) == 0);
	}
}

static void answer(const char *text)
{
	uint8_t bytes[EGRESS_HEAD + 64];
	size_t len = strlen(text);

	egress_msg_head(bytes, EGRESS_TAKEN, session_row(bed.session)->id, len);
	memcpy(bytes + EGRESS_HEAD, text, len);
	CHECK(write(ends[link_of()->slot], bytes, EGRESS_HEAD + len) ==
	      (ssize_t)(EGRESS_HEAD + len));
}

static char awaited[STORE_ID_MAX]; /* the session whose order a test waits for */
static bool awaited_came;

/* Reads what the session's process was sent so far. */
static void read_frames(void)
{
	struct egress_msg m;
	struct frame f;
	struct err e;
	ssize_t n;
	int used;

	for (;;) {
		uint8_t *room = buf_reserve(&in, 65536, &e);

		CHECK(room != NULL);
		n = recv(ends[link_of()->slot], room, 65536, MSG_DONTWAIT);
		if (n <= 0)
			break;
		buf_commit(&in, (size_t)n);
	}
	while ((used = frame_read(in.data, in.len, EGRESS_ID_MAX + EGRESS_TEXT_MAX, &f, &e)) > 0) {
		CHECK(egress_msg_read(&f, &m, &e) == 0);
		got[m.type]++;
		str_copy(last_id, m.id);
		awaited_came = awaited_came || strcmp(m.id, awaited) == 0;
		if (m.len > 0) {
			memcpy(last, m.text, m.len);
			last[m.len] = '\0';
		}
		got_bytes += m.type == EGRESS_CHANGE ? m.len : 0;
		buf_consume(&in, (size_t)used);
	}
	CHECK(used == 0);
}

static unsigned orders(void)
{
	read_frames();
	return got[EGRESS_ATTACH] + got[EGRESS_ATTACH_OWNERS] + got[EGRESS_CHANGE] +
	       got[EGRESS_SECRETS];
}

static unsigned want;

static bool has_orders(void)
{
	return orders() >= want;
}

static bool awaited_is_there(void)
{
	read_frames();
	return awaited_came;
}

static void until_orders(unsigned n)
{
	want = n;
	bed_until(has_orders);
	CHECK(orders() == n);
}

static bool is_asked(void)
{
	return bed.ordered[AGENT_LISTEN_EGRESS] >= want;
}

static bool is_open(void)
{
	return strcmp(session_egress_state_name(bed.session), "open") == 0;
}

/* PID 1 passes its sockets; they reach egress, which has not answered yet. */
static void pass_sockets(unsigned times)
{
	int fds[2] = { socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
		       socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) };

	CHECK(fds[0] >= 0 && fds[1] >= 0 && listen(fds[0], 1) == 0);
	want = times;
	bed_until(is_asked);
	bed_says_with(AGENT_EGRESS_LISTENS, &(struct agent_event){ 0 }, fds, 2);
	CHECK(close(fds[0]) == 0 && close(fds[1]) == 0);
}

static void begin(void)
{
	buf_init(&in, 16U << 20);
	bed_make(5000);
	bed_session();
	connect_all();
	asked = 1;
	pass_sockets(asked);
	until_orders(1);
}

static void end(void)
{
	bed_delete();
	for (unsigned slot = 0; slot < BED_EGRESS; slot++)
		CHECK(close(ends[slot]) == 0);
	buf_release(&in);
	bed_end();
}

static void newest_replaces(void)
{
	begin();
	for (unsigned i = 0; i < 500; i++) {
		session_egress_changed(bed.session, SESSION_EGRESS_POLICY, NULL);
		if (i % 100 == 0)
			bed_turn(5);
	}
	bed_turn(50);
	CHECK(orders() == 1 && link_of()->channel.queued == 0);
	answer("");
	until_orders(2);
	CHECK(got[EGRESS_CHANGE] == 1 && !is_open());
	answer("");
	bed_until(is_open);
	bed_turn(50);
	CHECK(orders() == 2);
	end();
}

static unsigned ended[3];

static void on_ended(struct completion *w, const struct err *e)
{
	CHECK(e == NULL);
	(*(unsigned *)w->arg)++;
}

static struct completion waits[3] = {
	{ .on_done = on_ended, .arg = &ended[0] },
	{ .on_done = on_ended, .arg = &ended[1] },
	{ .on_done = on_ended, .arg = &ended[2] },
};

static bool first_ended(void)
{
	return ended[0] == 1;
}

static bool all_ended(void)
{
	return ended[0] == 1 && ended[1] == 1 && ended[2] == 1;
}

static void own_order(void)
{
	begin();
	answer("");
	bed_until(is_open);
	session_egress_changed(bed.session, SESSION_EGRESS_SECRETS, &waits[0]);
	until_orders(2);
	session_egress_changed(bed.session, SESSION_EGRESS_SECRETS, &waits[1]);
	session_egress_changed(bed.session, SESSION_EGRESS_POLICY, &waits[2]);
	answer("");
	bed_until(first_ended);
	until_orders(3);
	CHECK(got[EGRESS_CHANGE] == 1 && ended[1] == 0 && ended[2] == 0);
	answer("");
	bed_until(all_ended);
	CHECK(is_open());
	end();
}

static void lost_channel(void)
{
	struct err e;
	int both[2];

	begin();
	answer("");
	bed_until(is_open);
	session_egress_changed(bed.session, SESSION_EGRESS_SECRETS, &waits[0]);
	until_orders(2);
	session_egress_changed(bed.session, SESSION_EGRESS_SECRETS, &waits[1]);
	session_egress_changed(bed.session, SESSION_EGRESS_POLICY, &waits[2]);
	CHECK(close(ends[link_of()->slot]) == 0);
	bed_turn(20);
	CHECK(!egress_link_up(link_of()) && ended[0] + ended[1] + ended[2] == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) == 0);
	ends[link_of()->slot] = both[0];
	CHECK(net_access_set_egress(bed.core, link_of()->slot, both[1], &e) == 0);
	pass_sockets(2);
	until_orders(3);
	CHECK(got[EGRESS_ATTACH] + got[EGRESS_ATTACH_OWNERS] == 2);
	answer("");
	bed_until(all_ended);
	CHECK(is_open());
	end();
}

static void set_policy(const char *text)
{
	char *document = NULL;
	struct err e;

	if (policy_select_read(text, strlen(text), POLICY_SESSION, &document, &e) < 0 ||
	    session_policy_set(bed.session, document, NULL, &waits[0], &e) < 0)
		fail_at(__FILE__, __LINE__, e.msg);
	free(document);
}

static void secrets_alone(void)
{
	struct secret_fields w = { .value = "first-value", .value_len = 11 };
	struct store_secret row;
	struct err e;

	begin();
	answer("");
	set_policy("{\"rules\":[{\"host\":\"a.example\",\"set_headers\":{\"X-T\":"
		   "\"${secret.tok}\"}}]}");
	until_orders(2);
	answer("");
	bed_until(is_open);
	CHECK(secret_create(bed.core, bed.tenant, "tok", &w, NULL, &row, &e) == 0);
	store_secret_release(&row);
	until_orders(3);
	CHECK(got[EGRESS_SECRETS] == 1);
	CHECK(strstr(last, "first-value") != NULL && strstr(last, "policy") == NULL &&
	      strstr(last, "a.example") == NULL);
	answer("");
	bed_until(is_open);
	end();
}

/* A document of some 80 KB. */
static void write_long(struct buf *b)
{
	buf_printf(b, "{\"rules\":[");
	for (unsigned i = 0; i < 400; i++)
		buf_printf(b, "%s{\"name\":\"%060u\",\"host\":\"a%u.%0*u.%0*u.example\"}",
			   i == 0 ? "" : ",", i, i, 60, i, 60, i);
	buf_printf(b, "]}");
}

static void bytes_are_paced(void)
{
	struct buf b = BUF_INIT(1U << 20);
	uint64_t since;
	size_t most;

	begin();
	answer("");
	write_long(&b);
	since = clock_now_ns();
	set_policy(buf_text(&b));
	for (unsigned i = 0; i < 40; i++) {
		until_orders(2 + i);
		session_egress_changed(bed.session, SESSION_EGRESS_POLICY, NULL);
		answer("");
	}
	/* Of 4 MiB at once and a second, the part of one of the processes. */
	most = (size_t)((4U << 20) / BED_EGRESS *
			(1 + (double)(clock_now_ns() - since) / (1000 * CLOCK_MS)));
	CHECK(got_bytes > 20 * b.len && got_bytes <= most + 2 * b.len);
	buf_release(&b);
	end();
}

/* ---- two tenants */

static struct tenant *a_tenant(void)
{
	const struct store_actor who = { 0 };
	struct store_tenant row = { .name = "another" };
	struct err e;

	CHECK(tenant_create(bed.core, &row, &who, &e) == 0);
	return tenant_find(bed.core, row.id);
}

/* A further session of the process that the first one belongs to. It becomes bed.session. */
static struct session *one_more(struct tenant *t)
{
	unsigned slot = link_of()->slot;

	bed.many = true;
	bed.tenant = t;
	do {
		bed_session();
		pass_sockets(++asked);
	} while (link_of()->slot != slot);
	return bed.session;
}

/* A tenant changes a long policy until its bytes are used up. Another tenant's change is the next
 * order even so, and at once. */
static void another_tenant_is_not_held(void)
{
	struct buf b = BUF_INIT(1U << 20);
	struct session *greedy, *other;
	struct tenant *one;
	uint64_t since;

	begin();
	answer("");
	bed_until(is_open);
	greedy = bed.session;
	one = bed.tenant;
	other = one_more(a_tenant());
	until_orders(2);
	CHECK_STR(last_id, session_row(other)->id);
	answer("");
	bed_until(is_open);
	bed.session = greedy;
	bed.tenant = one;
	write_long(&b);
	set_policy(buf_text(&b));
	for (unsigned n = 3; has_orders(); n++) {
		until_orders(n);
		answer("");
		session_egress_changed(greedy, SESSION_EGRESS_POLICY, NULL);
		bed_turn(20);
		want = n + 1;
	}
	CHECK(got_bytes > (1U << 20)); /* it waits for its bytes now */
	str_copy(awaited, session_row(other)->id);
	awaited_came = false;
	since = clock_now_ns();
	session_egress_changed(other, SESSION_EGRESS_POLICY, NULL);
	bed_until(awaited_is_there); /* on a slow machine the greedy one may have an order, too */
	CHECK(clock_now_ns() - since < 1000 * CLOCK_MS);
	buf_release(&b);
	end();
}

/* Many sessions of a tenant are resumed or forked: each has an order for its sockets. That of
 * another tenant does not wait for their answers. */
static void many_sessions_of_one_tenant(void)
{
	struct session *other;
	struct tenant *one;

	begin();
	one = bed.tenant;
	for (unsigned i = 0; i < 5; i++)
		(void)one_more(one);
	bed_turn(50);
	CHECK(orders() == 1); /* the first one is not answered */
	other = one_more(a_tenant());
	until_orders(2);
	CHECK_STR(last_id, session_row(other)->id);
	answer("");
	bed_until(is_open);
	bed_turn(50);
	CHECK(orders() == 2);
	end();
}

TEST_MAIN({ "the newest order of a session replaces the one that waits", newest_replaces },
	  { "each that waits is called for its own order", own_order },
	  { "a lost channel loses no order", lost_channel },
	  { "a change of a secret sends no policy", secrets_alone },
	  { "the bytes of a tenant are paced", bytes_are_paced },
	  { "another tenant is not held", another_tenant_is_not_held },
	  { "many sessions of one tenant hold no other's", many_sessions_of_one_tenant })
